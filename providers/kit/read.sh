# A plain file's facts and content, or where to fetch it if that is too much.
# Arguments: path, bytes that are refused above (0: none), bytes given at once.
arg "$1"
walk "$A" f || fail p s $err
[ -d "./$n" ] && fail p s EISDIR
[ -e "./$n" ] || fail p s ENOENT
[ -f "./$n" ] || fail_special p
[ -r "./$n" ] || fail p s EACCES
facts=$(stat -c "$FACTS" "./$n" 2>/dev/null) || fail p s ENOENT
size=${facts#* }
size=${size%%|*}
[ "$2" != 0 ] && [ "$size" -gt "$2" ] && fail p s LARGE "$size"
if [ "$size" -gt "$3" ]; then
  printf 'S%s\nP%s' "$facts" "$PWD/$n"
elif [ "$size" = 0 ]; then
  printf 'S%s\nD' "$facts"
  # It may be a file of /proc.
  head -c "$4" "./$n" 2>/dev/null || cat "./$n"
else
  printf 'S%s\nD' "$facts"
  exec cat "./$n" - <<END
)SBX$N
END
fi
