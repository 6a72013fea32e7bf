# Verbs that make and remove names. Arguments: verb, path, flags (m makes
# folders, f forces, r the whole tree), mode.
arg "$2"
p=$A flags=$3

# What a link leads to in the end, without failing for one to nothing.
look_through() {
  seen=
  walk "$p" f || case $err in
  ENOENT | ENOTDIR | ELOOP) return 0 ;;
  *) return 1 ;;
  esac
  [ -d "./$n" ] && seen=d && return 0
  [ -e "./$n" ] && seen=f
  return 0
}

back() {
  walk "$p" '' || fail p t $err
}

make_it() {
  walk_to p "$p" "$flags"
  if [ -h "./$n" ]; then
    look_through || fail p t $err
    case $seen in
    d) return ;;
    f) fail p t EEXIST ;;
    *) fail p d ENOENT ;;
    esac
  fi
  [ -d "./$n" ] && return
  [ -e "./$n" ] && fail p t EEXIST
  E=$(mkdir -m "$1" "./$n" 2>&1) || [ -d "./$n" ] || say p t "$E"
}

# Without force a link is judged by what it leads to.
delete_link() {
  look_through || {
    [ $err = EXDEV ] && has "$flags" f && { back; return; }
    fail p t $err
  }
  [ "$seen" = d ] && fail p t EISDIR
  [ "$seen" ] || has "$flags" f || fail p s ENOENT
  back
}

delete_it() {
  walk "$p" '' || {
    [ $err = ENOENT ] && has "$flags" f && return
    [ $err = ENOENT ] && fail p s ENOENT
    fail p t $err
  }
  if [ -h "./$n" ]; then delete_link
  elif [ -d "./$n" ]; then fail p t EISDIR
  elif [ ! -e "./$n" ]; then
    has "$flags" f && return
    fail p s ENOENT
  fi
  E=$(rm -f "./$n" 2>&1) || say p t "$E"
}

# Whether the folder that we are in has nothing.
is_empty() {
  [ "$(find . ! -name . -print 2>/dev/null | head -c 1)" = '' ]
}

remove_link() {
  look_through || fail p d $err
  if [ -z "$seen" ]; then
    has "$flags" f && done_well
    fail p d ENOENT
  fi
  [ $seen = f ] && fail p d ENOTDIR
  if ! has "$flags" r; then
    cd -P "./$n" || fail p d EACCES
    is_empty || fail p d ENOTEMPTY
  fi
  back
  E=$(rm -f "./$n" 2>&1) || say p d "$E"
}

remove_tree() {
  E=$(rm -rf "./$n" 2>&1) && return
  chmod -R u+rwx "./$n" 2>/dev/null
  E=$(rm -rf "./$n" 2>&1) || say p d "$E"
}

remove_it() {
  walk "$p" '' || {
    [ $err = ENOENT ] && has "$flags" f && return
    fail p d $err
  }
  [ "$n" = . ] && fail p d ROOT
  if [ -h "./$n" ]; then remove_link && return; fi
  if [ ! -e "./$n" ]; then
    has "$flags" f && return
    fail p d ENOENT
  fi
  [ -d "./$n" ] || fail p d ENOTDIR
  if has "$flags" r; then remove_tree
  else
    E=$(rmdir "./$n" 2>&1) || say p d "$E"
  fi
}

case $1 in
mkdir) make_it "$4" ;;
delete) delete_it ;;
rmdir) remove_it ;;
esac
done_well
