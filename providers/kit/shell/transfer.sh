# Copy and move. Arguments: verb, path, to, flags (x must be new, r the whole
# tree).
verb=$1
arg "$2"
p=$A
arg "$3"
q=$A flags=$4 W=q mode= expected= x= silent=1
has "$flags" x && x=1

# --- copy

copy_file() {
  [ -f "./$n" ] || fail_special p
  [ -r "./$n" ] || fail p s EACCES
  src=$PWD/$n
  facts_of "$src" || fail p s ENOENT
  octal $((bits & 01777))
  mode=$O how=c data=$src
  walk_to q "$q" fm
  [ -z "$x" ] && [ "./$n" -ef "$src" ] && done_well
  replace
}

# Folders of the copy that are links, or no folders, stop it; other names make
# room, so that nothing is written through them.
make_room='for p; do
  if [ -h "$p" ] || { [ -e "$p" ] && [ ! -d "$p" ]; }; then
    printf "%s" "$p"
    exit 255
  fi
done'

# busybox's cp -n leaves out folders that are there.
add_missing='for p; do
  [ -e "$p" ] || [ -h "$p" ] || cp -R -P "$0/$p" "$p" || exit 255
done'

merge_tree() {
  at=$PWD/$n
  E=$(cd -P "$src" && find . -type d -print0 |
    { cd -P "$at" && xargs -0 sh -c "$make_room" sbx; } 2>/dev/null)
  [ -z "$E" ] || fail q t ENOTDIR
  if [ "$x" ]; then
    E=$(cd -P "$src" && find . -print0 |
      { cd -P "$at" && xargs -0 sh -c "$add_missing" "$src"; } 2>&1) ||
      say q t "$E"
    return
  fi
  (cd -P "$src" && find . ! -type d -print0 |
    { cd -P "$at" && xargs -0 rm -f; }) 2>/dev/null
  E=$(cp -R -P "$src/." "$at/" 2>&1) || say q t "$E"
}

copy_tree() {
  has "$flags" r || fail p s RECURSE
  cd -P "./$n" 2>/dev/null || fail p s EACCES
  src=$PWD
  nest=$src
  walk "$q" fm || {
    [ $err = ENOENT ] && fail q t PARENT
    [ $err = TEXT ] && say q t "$E"
    fail q t $err
  }
  nest=
  # Bits as they are; what is made belongs to us.
  umask 0
  if [ -d "./$n" ]; then
    case $(cd -P "./$n" && printf '%s/' "$PWD") in "$src"/*) fail q t NEST ;; esac
    merge_tree
  elif [ -e "./$n" ]; then
    [ "$x" ] && fail q t EEXIST
    fail q t ENOTDIR
  else
    tree=./.sbx-$N
    E=$(cp -R -P "$src" "$tree" 2>&1) && E=$(mv "$tree" "./$n" 2>&1) || {
      chmod -R u+rwx "$tree" 2>/dev/null
      rm -rf "$tree"
      say q t "$E"
    }
  fi
}

copy() {
  walk "$p" f || fail p s $err
  if [ -d "./$n" ]; then copy_tree
  elif [ -e "./$n" ]; then copy_file
  else fail p s ENOENT
  fi
}

# --- move

# A link itself is moved or replaced, but not one that leads outside.
check_link() {
  [ -h "./$n" ] || return 0
  walk "$1" f || [ $err != EXDEV ] || fail $2 $3 EXDEV
  walk "$1" ''
}

rename_it() {
  if E=$(mv -fT "$src" "./$n" 2>&1); then return; fi
  case $E in
  *nvalid\ option* | *nrecognized\ option* | *sage:*) ;;
  *\ is\ a\ directory) [ -h "./$n" ] || say q t "$E" ;;
  *) say q t "$E" ;;
  esac
  [ -h "./$n" ] && rm -f "./$n"
  [ -d "./$n" ] && { E=$(rmdir "./$n" 2>&1) || say q t "$E"; }
  E=$(mv -f "$src" "./$n" 2>&1) || say q t "$E"
}

move_it() {
  walk "$p" '' || fail p s $err
  [ "$n" = . ] && fail q t ROOT
  [ -e "./$n" ] || [ -h "./$n" ] || fail p s ENOENT
  check_link "$p" p s
  src=$PWD/$n is=f
  if [ ! -h "./$n" ] && [ -d "./$n" ]; then
    is=d
    nest=$src
  fi
  walk_to q "$q" m
  nest=
  [ "$n" = . ] && fail q t ROOT
  check_link "$q" q t
  take_lock
  there=
  if [ -e "./$n" ] || [ -h "./$n" ]; then there=1; fi
  [ "$there" ] && [ "$x" ] && fail q t EEXIST
  if [ ! -h "./$n" ] && [ -d "./$n" ]; then
    [ $is = f ] && fail q t EISDIR
    [ "$src" = "$PWD/$n" ] && done_well
    [ "$(find "./$n" ! -path "./$n" -print 2>/dev/null | head -c 1)" ] &&
      fail q t ENOTEMPTY
  elif [ "$there" ]; then
    [ "$src" = "$PWD/$n" ] && done_well
    [ $is = d ] && fail q t ENOTDIR
    if [ ! -h "./$n" ] && [ ! -h "$src" ] && [ "./$n" -ef "$src" ]; then
      # Two names of one file: the rename would do nothing.
      E=$(rm -f "$src" 2>&1) || say p s "$E"
      done_well
    fi
  fi
  rename_it
}

if [ "$verb" = copy ]; then copy; else move_it; fi
done_well
