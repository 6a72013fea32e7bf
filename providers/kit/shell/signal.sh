# One signal to the command's own process. Arguments: pid, start (0: any),
# signal.
is_pid "$1" || { printf N; exit 0; }
if record_find "$1" "$2" && record_read "$id"; then
  start_of "$child"
  [ "$S" = "$child_start" ] || { printf N; exit 0; }
  at=$child
else
  start_of "$1"
  if [ "$S" = 0 ] || { [ "$2" != 0 ] && [ "$S" != "$2" ]; }; then
    printf N
    exit 0
  fi
  at=$1
fi
if E=$(kill -"$3" "$at" 2>&1); then printf K; else printf 'T%s' "$E"; fi
