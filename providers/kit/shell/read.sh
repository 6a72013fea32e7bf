# A plain file's facts and content, or where to fetch it if that is too much.
# Arguments: path, bytes that are refused above (0: none), bytes given at once,
# one more, q if the facts are not wanted.
arg "$1"
walk "$A" f || fail p s $err
[ -d "./$n" ] && fail p s EISDIR
[ -e "./$n" ] || fail p s ENOENT
[ -f "./$n" ] || fail_special p
[ -r "./$n" ] || fail p s EACCES
# One more than wanted shows that there is more. It may be a file of /proc,
# which has no size.
content() {
  head -c "$1" "./$n" 2>/dev/null || cat "./$n"
}

if [ "$5" ]; then
  printf 'Q%s\0' "$PWD/$n"
  content "$4"
  exit
fi
facts=$(stat -c "$FACTS" "./$n" 2>/dev/null) || fail p s ENOENT
size=${facts#* }
size=${size%%|*}
[ "$2" != 0 ] && [ "$size" -gt "$2" ] && fail p s LARGE "$size"
if [ "$size" -gt "$3" ]; then
  printf 'S%s\nP%s' "$facts" "$PWD/$n"
else
  printf 'S%s\nD' "$facts"
  content "$4"
fi
