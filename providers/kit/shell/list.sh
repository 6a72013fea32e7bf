# Everything below a folder: one find where it knows -printf (records of two
# strings: types, size, path; what a link says), else names, links and facts
# one after another. Arguments: path, then find's own.
arg "$1"
shift
walk "$A" f || fail p d $err
if [ ! -d "./$n" ]; then
  [ -e "./$n" ] && fail p d ENOTDIR
  fail p d ENOENT
fi
cd -P "./$n" 2>/dev/null || fail p d EACCES
[ -r . ] || fail p d EACCES

# Which links lead to a folder that is inside.
probe='top=$PWD
for p; do
  cd -P "$p" 2>/dev/null || continue
  case $PWD/ in "$0"/*) printf "+%s\0\0" "${p#./}" ;; esac
  cd "$top" || exit
done'

printf L
exec 3>&1
E=$(find . "$@" -printf '%y%Y%s/%P\0%l\0' -type l -xtype d \
  -exec sh -c "$probe" "$R" {} + 2>&1 >&3)
case $E in *printf*) ;; *) exit 0 ;; esac

# Names first, so that no name can be taken for something else. What a link says
# comes as readlink says it, with a line end: two shells less for each.
describe='top=$PWD
for p; do
  [ -h "$p" ] || continue
  kind=f
  if [ -d "$p" ]; then
    cd -P "$p" 2>/dev/null && case $PWD/ in "$0"/*) kind=d ;; esac
    cd "$top" || exit
  fi
  printf "%s\0" "$p"
  readlink "$p"
  printf "\0%s\0" "$kind"
done'
folder
temp=$F/t.$N
find . "$@" -print0 >"$temp" 2>/dev/null
printf 'R\0\0'
cat "$temp"
printf '\0'
[ -s "$temp" ] && xargs -0 sh -c "$describe" "$R" <"$temp"
printf '\0'
[ -s "$temp" ] && xargs -0 stat -c '%f %s %n' <"$temp" 2>/dev/null
exit 0
