# Ends the tree of a command. Arguments: pid, start (0: any), tenths of a
# second between TERM and KILL (0: KILL at once).
is_pid "$1" || { printf N; exit 0; }
sbx_top=$1 sbx_spare=" $$ " sbx_leader=
if record_find "$1" "$2" && record_read "$id"; then
  start_of "$child"
  case $S in 0 | "$child_start") sbx_leader=$child ;; esac
  start_of "$1"
  sbx_spare="$sbx_spare$(printf %s "$helpers" | tr : ' ') "
  [ "$S" != 0 ] && [ "$S" != "${id##*.}" ] && S=other
else
  start_of "$1"
  [ "$2" != 0 ] && [ "$S" != "$2" ] && S=other
fi
# Another process has the pid now.
[ "$S" = other ] && { printf 'N'; exit 0; }
sbx_whole=
case $flags in '' | *t*) [ "$S" = 0 ] || sbx_whole=1 ;; esac

sbx_scan
case $sbx_tree in
*[0-9]*) ;;
*)
  printf N
  exit 0
  ;;
esac
if [ "$3" != 0 ]; then
  sbx_end_tree TERM
  count=$3
  while [ "$count" -gt 0 ]; do
    sbx_scan
    case $sbx_tree in *[0-9]*) ;; *) break ;; esac
    sleep 0.1 2>/dev/null || { sleep 1; count=$((count - 9)); }
    count=$((count - 1))
  done
fi
rounds=0
while [ $rounds -lt 20 ]; do
  rounds=$((rounds + 1))
  sbx_scan
  case $sbx_tree in *[0-9]*) ;; *) break ;; esac
  sbx_end_tree KILL
done
printf K
