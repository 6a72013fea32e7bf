# Runs the rest ($1) as the leader of a session of its own, under the pid that
# it has. A leader of a process group cannot make a session without another
# pid: it stays as it is, and its tree is found by parents. Every name here
# begins with sbx_, since an assignment to a variable that the command was given
# would change it.
sbx_main=$1
shift
sbx_here() {
  IFS=' '
  read -r sbx_line </proc/self/stat
  sbx_me=${sbx_line%% *}
  set -- ${sbx_line##*)}
  sbx_group=$3
}
set -f
sbx_here 2>/dev/null
case $4 in
*t*) ;;
*)
  if [ "$sbx_group" != "$sbx_me" ]; then
    IFS=:
    for sbx_at in $2; do
      [ -x "$sbx_at/setsid" ] && [ -x "$sbx_at/sh" ] || continue
      exec "$sbx_at/setsid" "$sbx_at/sh" -c "$sbx_main" sbx-run "$@"
    done
  fi
  ;;
esac
eval "$sbx_main"
