# One command of the user. Arguments: nonce, PATH of the tools, private folder,
# flags (t terminal, s spool, i has input), where to start, seconds it may take,
# seconds of grace, its text for lists, where else to start if there is no such
# folder, how many of its variables follow, these (NAME to take away,
# NAME=value), then the command itself.
sbx_nonce=$1 sbx_path=$2 sbx_folder=$3 sbx_flags=$4 sbx_cwd=$5 sbx_limit=$6
sbx_grace=$7 sbx_text=$8
shift 8
sbx_else=$1
shift
IFS='
'
sbx_vars=$1
shift
set -f
while [ "$sbx_vars" -gt 0 ]; do
  case $1 in
  *=*) export "$1" ;;
  *) unset "$1" ;;
  esac
  shift
  sbx_vars=$((sbx_vars - 1))
done

# Of the shell that calls it: pid and start time.
sbx_here() {
  IFS=' '
  read -r sbx_line </proc/self/stat
  sbx_me=${sbx_line%% *}
  set -- ${sbx_line##*)}
  IFS='
'
  sbx_start=${20}
}

sbx_tool() {
  PATH=$sbx_path "$@"
}

exec 3>&1 4>&2 5<&0 2>/dev/null
sbx_here
sbx_top=$sbx_me sbx_id=$sbx_me.$sbx_start sbx_helpers=
if [ ! -d "$sbx_folder" ]; then sbx_tool mkdir -m 700 "$sbx_folder"; fi
if [ -d "$sbx_folder" ] && [ -O "$sbx_folder" ] && [ ! -h "$sbx_folder" ] &&
  [ -w "$sbx_folder" ] && [ -x "$sbx_folder" ]; then
  sbx_kept=1
else
  sbx_kept=
fi

# Keeps at most 16 MiB of what comes, in pieces that are named by the offset
# of their first byte.
sbx_pump() {
  sbx_at=0 sbx_from=0
  while :; do
    sbx_piece=$sbx_spool/$1.$sbx_at
    dd bs=16384 count=128 of="$sbx_piece" || break
    sbx_size=$(stat -c %s "$sbx_piece") || break
    [ "$sbx_size" -gt 0 ] || return
    sbx_at=$((sbx_at + sbx_size))
    while [ $((sbx_at - sbx_from)) -gt 14680064 ] &&
      [ -e "$sbx_spool/$1.$sbx_from" ]; do
      sbx_size=$(stat -c %s "$sbx_spool/$1.$sbx_from") || break
      [ $((sbx_from + sbx_size)) -lt "$sbx_at" ] || break
      rm -f "$sbx_spool/$1.$sbx_from"
      sbx_from=$((sbx_from + sbx_size))
    done
  done
  cat >/dev/null
}

# A copy of everything goes to a pump, and the rest goes on when the client is
# gone: a background child never meets a closed pipe.
sbx_branch() {
  (
    trap '' PIPE HUP TERM
    PATH=$sbx_path
    exec 3>&- 4>&- 5<&- 6>&-
    sbx_pump "$1" <"$sbx_spool/$1.pump" >/dev/null
  ) &
  sbx_helpers=$sbx_helpers:$!
  (
    trap '' PIPE HUP TERM
    PATH=$sbx_path
    exec 5<&- 6>&-
    exec tee "$sbx_spool/$1.pump" <"$sbx_spool/$1" >&$2 3>&- 4>&-
  ) &
  sbx_helpers=$sbx_helpers:$!
}

sbx_spool_open() {
  sbx_spool=$sbx_folder/s.$sbx_id
  sbx_tool mkdir -m 700 "$sbx_spool" || return
  sbx_tool mkfifo "$sbx_spool/out" "$sbx_spool/err" "$sbx_spool/out.pump" \
    "$sbx_spool/err.pump" || return
  sbx_branch out 3
  sbx_branch err 4
  exec 3>"$sbx_spool/out" 4>"$sbx_spool/err"
}

# Of many that have ended the older ones are forgotten, now and then.
sbx_forget() {
  set +f
  set -- "$sbx_folder"/e.*
  set -f
  [ $# -gt 256 ] && [ $(($# % 64)) = 0 ] || return
  IFS='
'
  for sbx_at in $(sbx_tool find "$sbx_folder" -maxdepth 1 -name 'e.[0-9]*.*' \
    -mmin +10); do
    sbx_at=${sbx_at##*/e.}
    sbx_tool rm -rf "$sbx_folder/e.$sbx_at" "$sbx_folder/p.$sbx_at" \
      "$sbx_folder/s.$sbx_at"
  done
}

# That a background command begins: once its record is there, and past the
# spool, which has nothing but the command's own bytes.
sbx_begin() {
  case $sbx_flags in
  *s*) printf 'SBX%s=b000.' "$sbx_nonce" >&6 ;;
  esac
  exec 6>&-
}

# How it ended: for a later host, then on both streams.
sbx_end() {
  trap '' PIPE
  [ "$sbx_kept" ] && printf '%s %s\n' "$1" "$2" >"$sbx_folder/e.$sbx_id"
  printf 'SBX%s=%s%03d.' "$sbx_nonce" "$1" "$2" >&3
  printf 'SBX%s=%s%03d.' "$sbx_nonce" "$1" "$2" >&4
  exec 3>&- 4>&- 1>&-
  [ "$sbx_kept" ] && sbx_forget
  exit "$2"
}

sbx_refuse() {
  sbx_begin
  printf 'sandbox: %.200s: %s\n' "$2" "$3" >&4
  if [ "$1" = 127 ]; then sbx_end n 127; else sbx_end e 126; fi
}

# Whether there is such a program, in Local's words if not.
sbx_look() {
  sbx_program=$1
  case $1 in
  */*)
    [ -e "$1" ] || sbx_refuse 127 "$1" 'no such file or directory'
    [ -f "$1" ] && [ -x "$1" ] || sbx_refuse 126 "$1" 'permission denied'
    return
    ;;
  esac
  sbx_seen=
  IFS=:
  for sbx_at in ${PATH-/usr/bin:/bin}; do
    sbx_at=${sbx_at:-.}/$1
    [ "$1" ] && [ -f "$sbx_at" ] || continue
    sbx_seen=1
    [ -x "$sbx_at" ] || continue
    sbx_program=$sbx_at
    IFS='
'
    return
  done
  [ "$sbx_seen" ] && sbx_refuse 126 "$1" 'permission denied'
  sbx_refuse 127 "$1" 'command not found'
}

# In the process that becomes the command: the leader of a session of its own
# under the pid that it has, so that its tree can be found. Another program than
# a shell is started by one, which knows what to do with a script.
sbx_lead() {
  IFS=:
  for sbx_at in $sbx_path; do
    [ -x "$sbx_at/setsid" ] || continue
    unset IFS
    case $1 in
    /bin/sh | /bin/bash | /usr/bin/bash) exec "$sbx_at/setsid" "$@" ;;
    esac
    [ -x /bin/sh ] || return
    exec "$sbx_at/setsid" /bin/sh -c "$sbx_exec" "$sbx_program" "$@"
  done
}
sbx_exec='case $1 in
-*) shift; exec "$0" "$@" ;;
esac
exec "$@"'

sbx_become() {
  sbx_here
  [ "$sbx_kept" ] && printf '%s %s %s %s %s\n%s' "$sbx_nonce" "$sbx_flags-" \
    "$sbx_me" "$sbx_start" "${sbx_helpers:-:}" "$sbx_text" \
    >"$sbx_folder/p.$sbx_id"
  sbx_begin
  exec 3>&- 4>&- 5<&-
  case $sbx_flags in
  *t*) ;;
  *) sbx_lead "$@" ;;
  esac
  unset IFS
  case $1 in
  -*)
    shift
    exec "$sbx_program" "$@"
    ;;
  esac
  exec "$@"
}

# TERM to everything when the time is over, KILL after the grace. The command
# need not wait for the latter.
sbx_watch() {
  (
    trap '' HUP
    PATH=$sbx_path
    exec 3>&- 4>&- 5<&- 6>&- 1>&-
    sbx_here
    sbx_whole= sbx_leader=
    sbx_spare=" $(printf %s "$sbx_helpers:$sbx_me" | tr : ' ') "
    sleep "$sbx_limit" &
    trap 'kill $!; exit' TERM
    wait $!
    : >"$sbx_folder/t.$sbx_id"
    sbx_end_tree TERM
    sleep "$sbx_grace"
    sbx_end_tree KILL
  ) &
  sbx_watcher=$!
  sbx_helpers=$sbx_helpers:$sbx_watcher
}

[ "$sbx_else" ] && [ ! -d "$sbx_cwd" ] && sbx_cwd=$sbx_else
if [ "$sbx_cwd" ] && ! cd "$sbx_cwd"; then
  [ -e "$sbx_cwd" ] || sbx_end c 127
  [ -d "$sbx_cwd" ] || sbx_end d 127
  sbx_end p 126
fi
exec 6>&4
case $sbx_flags in
*t*)
  sbx_look "$@"
  exec 2>&4
  sbx_become "$@"
  ;;
*s*) [ "$sbx_kept" ] && sbx_spool_open ;;
esac
sbx_look "$@"
sbx_watcher=
[ "$sbx_limit" = 0 ] || sbx_watch
(sbx_become "$@") <&5 >&3 2>&4
sbx_code=$?
if [ "$sbx_watcher" ]; then
  if [ -e "$sbx_folder/t.$sbx_id" ]; then
    sbx_tool rm -f "$sbx_folder/t.$sbx_id"
    sbx_end t 124
  fi
  kill "$sbx_watcher"
fi
sbx_end x "$sbx_code"
