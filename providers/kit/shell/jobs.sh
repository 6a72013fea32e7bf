# All commands that run, and those that ended lately: for each a line "pid
# start seconds flags child running end code" and its record, the text behind a
# line of its own, ended by NUL and the nonce.
printf J
set +f
set -- "$F"/p.*.*
set -f
[ -e "$1" ] || exit 0
times=$(stat -c '%Y %n' "$@" 2>/dev/null)
count=0
for line in $times; do
  at=${line#* }
  id=${at##*/p.}
  is_number "${id%%.*}" && is_number "${id#*.}" && record_read "$id" ||
    continue
  end=- code=0 running=0
  if is_file "$F/e.$id"; then
    IFS=' '
    read -r end code <"$F/e.$id"
    IFS='
'
    is_number "$code" || code=0
    case $end in [xcdpnet]) ;; *) end=- ;; esac
  else
    start_of "${id%%.*}"
    [ "$S" != 0 ] && [ "$S" = "${id#*.}" ] && running=1
    if [ $running = 0 ]; then
      start_of "$child"
      [ "$S" = "$child_start" ] && running=1
    fi
  fi
  printf '%s %s %s %s %s %s %s\n' "${id%%.*}" "${id#*.}" "${line%% *}" \
    "$flags" $running "${end:--}" "$code"
  head -c 4400 "$at" 2>/dev/null
  printf '\0%s' "$N"
done
# Ended ones are kept for an hour.
E=$(find "$F" -maxdepth 1 -name 'e.*' -mmin +60 2>/dev/null)
for at in $E; do
  id=${at##*/e.}
  is_number "${id%%.*}" && is_number "${id#*.}" || continue
  rm -rf "$F/e.$id" "$F/p.$id" "$F/s.$id"
done
