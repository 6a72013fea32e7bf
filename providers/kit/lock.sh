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

# Start time of process $1, 0 if it is gone.
start_of() {
  S=0 line=
  { read -r line <"/proc/$1/stat"; } 2>/dev/null || return 0
  line=${line##*)}
  IFS=' '
  set -- $line
  IFS='
'
  shift 19 2>/dev/null && S=$1
  return 0
}

# What is no file is not of ours, and opening it might never end.
lock_try() {
  if [ -h "$F/lock" ] || { [ -e "$F/lock" ] && [ ! -f "$F/lock" ]; }; then
    rm -rf "$F/lock"
  fi
  set -C
  { printf '%s\n' "$me" >"$F/lock"; } 2>/dev/null
  set -- $?
  set +C
  return $1
}

# A lock that nobody holds goes; what another caller has just taken in its
# place goes back.
lock_break() {
  holder=
  { read -r holder <"$F/lock"; } 2>/dev/null || return 0
  [ "$holder" ] || return 0
  start_of "${holder%% *}"
  [ "$S" = "${holder##* }" ] && return 0
  mv "$F/lock" "$F/lock.$N" 2>/dev/null || return 0
  now=
  { read -r now <"$F/lock.$N"; } 2>/dev/null
  [ "$now" = "$holder" ] || ln "$F/lock.$N" "$F/lock" 2>/dev/null
  rm -f "$F/lock.$N"
}

take_lock() {
  folder
  { read -r line </proc/self/stat; } 2>/dev/null
  pid=${line%% *}
  start_of "$pid"
  me="$pid $S" tries=0
  while ! lock_try; do
    tries=$((tries + 1))
    [ $tries -gt 1500 ] && fail p t LOCKED
    lock_break
    sleep 0.02 2>/dev/null || sleep 1
  done
  lock=$F/lock
}
