# Every file call starts with this. Arguments: nonce, PATH, private folder,
# root, then the verb's own. The answer goes to stdout between two marks.
N=$1 PATH=$2 F=$3 root=$4
shift 4
trap 'clean; printf ")SBX%s" "$N"' EXIT
trap 'exit 1' HUP INT TERM PIPE
printf 'SBX%s(' "$N"
LC_ALL=C TZ=UTC IFS='
'
export PATH LC_ALL TZ
unset CDPATH ENV BASH_ENV POSIXLY_CORRECT GREP_OPTIONS GREP_COLORS \
  LD_PRELOAD LD_LIBRARY_PATH TMPDIR LANG LANGUAGE
unset -f base64 cat chmod chown cp dd find grep head ln mkdir mv readlink rm \
  rmdir sleep sort stat tail touch tr xargs printf cd read
umask 022
set -f
FACTS='%f %s|%y|%z|%x|%w|%u %g %h %i'
lock= temp=

# Leaves nothing of ours behind.
clean() {
  [ "$temp" ] && rm -f "$temp"
  [ "$lock" ] && echo done 1<>"$lock"
  lock= temp=
}

# which path (p, q), its role (s, t, d), what, detail.
fail() {
  printf 'E%s%s %s %s' "$1" "$2" "$3" "$4"
  exit 0
}

# What a tool said, in words.
say() {
  fail "$1" "$2" TEXT "$3"
}

# The call is done, and there is nothing more to tell.
done_well() {
  printf K
  exit 0
}

fail_special() {
  if [ -p "./$n" ]; then fail "$1" s SPECIAL fifo
  elif [ -S "./$n" ]; then fail "$1" s SPECIAL socket
  else fail "$1" s SPECIAL device
  fi
}

# Arguments are "=text", or "%escaped" where bytes could not be sent as they
# are.
arg() {
  case $1 in
  =*) A=${1#=} ;;
  *)
    A=$(printf '%b.' "${1#?}")
    A=${A%.}
    ;;
  esac
}

inside() {
  case $PWD/ in "$R"/*) return 0 ;; esac
  return 1
}

has() {
  case $1 in *$2*) return 0 ;; esac
  return 1
}

# What the link ./$1 says, into T.
link_text() {
  T=$(readlink "./$1" && echo .) || return 1
  T=${T%??}
}

# For a walk that makes folders: whether $nest would go into itself.
nested() {
  [ "$nest" ] || return 1
  case $PWD/ in "$nest"/*) return 0 ;; esac
  return 1
}

cut_slashes() {
  while :; do
    case $rest in
    /*) rest=${rest#/} ;;
    *) return ;;
    esac
  done
}

make_folder() {
  inside || { err=EXDEV; return 1; }
  nested && { err=NEST; return 1; }
  E=$(mkdir "./$1" 2>&1) || [ -d "./$1" ] || { err=TEXT; return 1; }
}

# The name $c on the way to $rest.
enter() {
  if [ -d "./$c" ]; then
    cd -P "./$c" 2>/dev/null && return 0
    err=EACCES
  elif [ -e "./$c" ]; then err=ENOTDIR
  elif [ ! -x . ]; then err=EACCES
  elif has "$1" m; then
    make_folder "$c" || return 1
    cd -P "./$c" 2>/dev/null && return 0
    err=EACCES
  else err=ENOENT
  fi
  inside || err=EXDEV
  return 1
}

follow() {
  links=$((links + 1))
  [ $links -le 40 ] || { err=ELOOP; return 1; }
  [ "$rest" ] || linked=1
  link_text "$c" || { err=ENOENT; return 1; }
  case $T in /*) cd / ;; esac
  rest=$T/$rest
}

# Goes to the folder that holds what the path $1 names, as a command would
# find it; n is the name there, "." for that folder itself. $2: f goes through
# a link that the last name is, m makes missing folders. On failure: err.
walk() {
  rest=$1 links=0 linked=
  cd -P "${R:-/}" || { err=EACCES; return 1; }
  while :; do
    cut_slashes
    c=${rest%%/*}
    case $rest in */*) rest=${rest#*/} ;; *) rest= ;; esac
    cut_slashes
    n=$c
    case $c in
    '' | .) n=. ;;
    ..) cd -P .. && n=. || { err=EACCES; return 1; } ;;
    *)
      if [ -h "./$c" ] && { [ "$rest" ] || has "$2" f; }; then
        follow || { inside || err=EXDEV; return 1; }
        continue
      elif [ "$rest" ]; then
        enter "$2" || return 1
      fi
      ;;
    esac
    [ "$rest" ] || break
  done
  # The way in may end at the root itself.
  if ! inside && has "$2" f && [ -d "./$n" ]; then
    cd -P "./$n" 2>/dev/null && n=.
  fi
  inside || { err=EXDEV; return 1; }
  [ -x . ] || { err=EACCES; return 1; }
  nested && { err=NEST; return 1; }
  return 0
}

# The same for what is to be made or changed: ends the call where it fails. $1:
# which of its paths that is, $2: the path.
walk_to() {
  walk "$2" "$3" || {
    [ $err = ENOENT ] && fail "$1" t PARENT
    [ $err = TEXT ] && say "$1" t "$E"
    fail "$1" t $err
  }
}

nest=
cd -P "$root" 2>/dev/null || fail p d NOROOT
R=$PWD
[ "$R" = / ] && R=
