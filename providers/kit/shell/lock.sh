# One lock for all kit calls that change a file: between a look at its time
# and the rename nobody of ours may write. Made with O_EXCL (noclobber), names
# its holder, and is broken when that process is gone.
folder() {
  folder_good && return 0
  if [ -h "$F" ] || [ ! -d "$F" ]; then rm -f "$F"; fi
  mkdir -m 700 "$F" 2>/dev/null || chmod 700 "$F" 2>/dev/null
  folder_good || fail p t FOLDER
}

folder_good() {
  [ -d "$F" ] && [ -O "$F" ] && [ ! -h "$F" ] && [ -w "$F" ] && [ -x "$F" ]
}

# Of a line of /proc/<pid>/stat: pid and start time, S.
start_in() {
  pid=${1%% *}
  IFS=' '
  set -- ${1##*)}
  IFS='
'
  S=${20:-0}
}

# Start time of process $1, 0 if it is gone.
start_of() {
  S=0 line=
  { read -r line <"/proc/$1/stat"; } 2>/dev/null && start_in "$line"
  return 0
}

# last: the newest one's number.
lock_newest() {
  set +f
  set -- "$F"/lock.[1-9]????????
  set -f
  locks=$#
  shift $(($# - 1))
  last=${1##*.}
  case $last in *[!0-9]*) last=100000000 ;; esac
}

# What is no file is not of ours, and opening it might never end.
lock_is_free() {
  [ $last = 100000000 ] && return 0
  if [ -h "$F/lock.$last" ] || [ ! -f "$F/lock.$last" ]; then
    rm -rf "$F/lock.$last"
    return 1
  fi
  holder=
  { read -r holder <"$F/lock.$last"; } 2>/dev/null || return 1
  case $holder in
  done) return 0 ;;
  '') return 1 ;;
  esac
  start_of "${holder%% *}"
  [ "$S" != "${holder##* }" ]
}

# Who was slow may make one that is no longer the newest.
lock_try() {
  lock_newest
  lock_is_free || return 1
  next=$((last + 1))
  set -C
  { printf '%s\n' "$me" >"$F/lock.$next"; } 2>/dev/null
  set -- $?
  set +C
  [ $1 = 0 ] || return 1
  lock_newest
  [ $last = $next ]
}

# Enough of them stay for one who reads the folder meanwhile.
lock_forget() {
  [ $locks -gt 96 ] || return 0
  set +f
  set -- "$F"/lock.[1-9]????????
  set -f
  old=
  while [ $# -gt 32 ]; do
    old="$old$1
"
    shift
  done
  rm -f $old
}

take_lock() {
  folder
  line=
  { read -r line </proc/self/stat; } 2>/dev/null
  start_in "$line"
  me="$pid $S" tries=0
  while ! lock_try; do
    tries=$((tries + 1))
    [ $tries -gt 1500 ] && fail p t LOCKED
    sleep 0.02 2>/dev/null || sleep 1
  done
  lock=$F/lock.$next
  lock_forget
}
