# Short jobs about commands. Arguments: nonce, PATH, private folder, root, then
# the job's own. The answer goes to stdout between two marks.
N=$1 PATH=$2 F=$3 root=$4
shift 4
LC_ALL=C TZ=UTC IFS='
'
export PATH LC_ALL TZ
unset CDPATH ENV BASH_ENV POSIXLY_CORRECT LD_PRELOAD LD_LIBRARY_PATH
umask 077
trap 'printf ")SBX%s" "$N"' EXIT
printf 'SBX%s(' "$N"

is_number() {
  case $1 in '' | *[!0-9]* | ??????????????????*) return 1 ;; esac
  return 0
}

# Other things in the folder would be read for ever.
is_file() {
  [ -f "$1" ] && [ ! -h "$1" ]
}

# S: the start time of process $1, 0 if it is gone or a zombie.
start_of() {
  S=0
  { read -r stat_line <"/proc/$1/stat"; } 2>/dev/null || return 0
  stat_line=${stat_line##*)}
  IFS=' '
  set -- $stat_line
  IFS='
'
  [ "$1" = Z ] || S=${20}
}

# The record $F/p.<pid>.<start> of a command, after its name: nonce, flags,
# pid and start of the command's own process, helpers ("1:2"). All of it are
# claims of a folder in the sandbox.
record_read() {
  nonce= flags= child= child_start= helpers=
  is_file "$F/p.$1" || return
  IFS=' '
  { read -r nonce flags child child_start helpers <"$F/p.$1"; } 2>/dev/null
  IFS='
'
  is_number "$child" && is_number "$child_start" && [ "$child" -gt 1 ] &&
    [ "$child_start" -gt 0 ]
}

# id: pid.start of the newest command that had the pid $1, with the start $2 if
# that is not 0.
record_find() {
  id=
  set +f
  for at in "$F/p.$1".*; do
    start=${at##*.}
    is_number "$start" && [ "$start" -gt 0 ] || continue
    if [ "$2" = 0 ] || [ "$2" = "$start" ]; then
      if [ -z "$id" ] || [ "$start" -gt "${id##*.}" ]; then id=$1.$start; fi
    fi
  done
  set -f
  [ "$id" ]
}

# A pid that can be a command's. "-1" is everything, 1 is the machine.
is_pid() {
  is_number "$1" && [ "$1" -gt 1 ]
}
