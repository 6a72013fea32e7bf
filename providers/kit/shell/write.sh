# Arguments: path, flags (m makes folders, x must be new, q wants no facts), the
# time expected, mode, how the content comes, the content.
arg "$1"
p=$A flags=$2 expected=$3 mode=$4 how=$5 W=p x= silent=
has "$flags" x && x=1
has "$flags" q && silent=1
case $how in
r) arg "$6" ; data=$A ;;
f) data=$F/$6 ;;
*) data=$6 ;;
esac
walk_to p "$p" "f$flags"
replace
[ $how = f ] && rm -f "$data"
[ "$silent" ] && printf K
exit 0
