# Arguments: path, mode of a new file, how the content comes, the content.
arg "$1"
p=$A mode=$2 how=$3 W=p
case $how in
r) arg "$4" ; data=$A ;;
f) data=$F/$4 ;;
*) data=$4 ;;
esac
walk_to p "$p" fm
take_lock
[ -d "./$n" ] && fail p t EISDIR
[ ! -e "./$n" ] || [ -f "./$n" ] || fail_special p
fresh=1 size=0
[ -e "./$n" ] && fresh= && { facts_of "./$n" || size=0; }
before=$size
{ content >>"./$n"; } 2>/dev/null || {
  [ -e "./$n" ] && cut_at "$before"
  E=$({ content | cat >>"./$n"; } 2>&1) || E=${E:-Input/output error}
  if [ "$E" ]; then
    [ -e "./$n" ] && cut_at "$before"
    [ "$fresh" ] && rm -f "./$n"
    say p t "$E"
  fi
}
if [ "$fresh" ]; then
  [ -z "$mode" ] || [ "$mode" = 644 ] || chmod "$mode" "./$n" 2>/dev/null
fi
facts_of "./$n"
[ $how = f ] && rm -f "$data"
clean
printf 'S%s' "$facts"
