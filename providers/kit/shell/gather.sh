# The contents of plain files in the order of the walk, up to a number of
# bytes. Arguments: path, the name after which to go on, bytes, bytes of the
# largest file, bytes to look for ("": any), i for any case, then find's own.
arg "$1"
top=$A
arg "$2"
after=$A
most=$3 largest=$4
arg "$5"
want=$A fold=$6
shift 6
walk "$top" f || fail p d $err
[ -e "./$n" ] || fail p d ENOENT
printf G

emit() {
  printf 'F%s\n%s' "${#1}" "$1"
  head -c "$3" "$2"
  printf '\nSBX%s;' "$N"
}

if [ -f "./$n" ]; then
  size=$(stat -c %s "./$n") && [ "$size" -le "$largest" ] &&
    [ -r "./$n" ] && emit "${top##*/}" "./$n" "$size"
  exit 0
fi
[ -d "./$n" ] || exit 0
cd -P "./$n" 2>/dev/null || fail p d EACCES

# A link is searched as the file that it leads to.
files='for p; do [ -f "$p" ] && printf "%s\0" "$p"; done'
names() {
  find . "$@" -type f -print0
  find . "$@" -type l -exec sh -c "$files" sbx {} +
}

# One name a line (a line end in one is byte 2) with byte 1 for slashes, so that
# a folder's content sorts right behind its name.
in_order() {
  tr '\n\0/\001' '\002\n\001/' | LC_ALL=C sort | if [ "$after" ]; then
    AFTER=$(printf ./%s "$after" | tr '\n/\001' '\002\001/') \
      awk '($0 "") > (ENVIRON["AFTER"] "")'
  else cat
  fi | tr '\002\n\001/' '\n\0/\001'
}

holding() {
  if [ -z "$want" ]; then cat
  elif grep -Z x /dev/null 2>/dev/null || [ $? = 1 ]; then
    xargs -0 grep -lFZ$fold -e "$want" --
  else
    xargs -0 grep -lF$fold -e "$want" -- | tr '\n' '\0'
  fi
}

# Without --printf: all at once, unless one of them is gone.
measure='if s=$(stat -L -c %s "$@"); then
  for s in $s; do
    printf "%s %s\0" "$s" "$1"
    shift
  done
else
  for p; do s=$(stat -L -c %s "$p") && printf "%s %s\0" "$s" "$p"; done
fi'
sizes() {
  if stat --printf '' . 2>/dev/null; then
    xargs -0 stat -L --printf '%s %n\0'
  else
    xargs -0 sh -c "$measure" sbx
  fi
}

# Where the file is, if it is inside. For a shell of its own.
real_file() {
  walk "$top/$1" f && [ -f "./$n" ] && printf '%s/%s.' "$PWD" "$n"
}

total=0
two=$(printf '\002')
names "$@" 2>/dev/null | in_order | holding 2>/dev/null | sizes 2>/dev/null |
  tr '\n\0' '\002\n' | while IFS= read -r line; do
  size=${line%% *} p=${line#* }
  case $p in
  *"$two"*)
    p=$(printf '%s.' "$p" | tr '\002' '\n')
    p=${p%.}
    ;;
  esac
  p=${p#./}
  at=./$p
  if [ -h "$at" ]; then
    at=$(real_file "$p") || continue
    at=${at%.}
  fi
  [ -f "$at" ] && [ -r "$at" ] && [ "$size" -le "$largest" ] || continue
  if [ $total -gt 0 ] && [ $((total + size)) -gt "$most" ]; then
    printf M
    break
  fi
  emit "$p" "$at" "$size"
  total=$((total + size + 1))
done
exit 0
