# What a command has said since, and how it ended. Arguments: pid, start (0:
# any), offset of stdout, of stderr. On stderr a mark says first that there is
# such a command. Both streams are raw: "SBX<nonce>+<the command's
# nonce>,<offset>.", then its bytes, its own mark among them, in the end our
# mark.
exec 3>&1 4>&2 2>/dev/null

head_of() {
  printf 'SBX%s+%.32s,%s.' "$N" "${nonce:-none}" "$1" >&$2
}

tail_of() {
  printf 'SBX%s=%s%03d.' "$N" "$1" "$2" >&3
  printf 'SBX%s=%s%03d.' "$N" "$1" "$2" >&4
}

wait_bit() {
  sleep 0.1 2>/dev/null || sleep 1
}

is_known() {
  is_pid "$1" && record_find "$1" "$2" && record_read "$id"
}

# A wrapper has its pid for a moment before its record is there.
tries=0
until is_known "$1" "$2"; do
  start_of "$1"
  if [ "$S" != 0 ] && [ $tries -lt 30 ]; then
    tries=$((tries + 1))
    wait_bit
    continue
  fi
  is_known "$1" "$2" && break
  nonce=none
  head_of "$3" 3
  head_of "$4" 4
  tail_of l 0
  exit 0
done

printf 'SBX%s=b000.' "$N" >&4

# Over when it has left its end, or when it and its wrapper are gone.
is_over() {
  is_file "$F/e.$id" && return 0
  start_of "${id%%.*}"
  [ "$S" = "${id#*.}" ] && return 1
  start_of "$child"
  [ "$S" = "$child_start" ] && return 1
  return 0
}

# from: the start of the first piece after $2 (-1: the first there is).
next_piece() {
  from=
  set +f
  for at in "$F/s.$id/$1".[0-9]*; do
    at=${at##*.}
    is_number "$at" && [ "$at" -gt "$2" ] || continue
    [ -z "$from" ] && from=$at
    [ "$at" -lt "$from" ] && from=$at
  done
  set -f
  [ "$from" ]
}

# The piece that has the offset $2, or the first one after it.
first_piece() {
  piece= last=-1
  while next_piece "$1" "$last"; do
    if [ -z "$piece" ] || [ "$from" -le "$2" ]; then piece=$from; fi
    last=$from
  done
  [ "$piece" ]
}

# Whether the piece $1 has so many bytes; one that is gone had all of its own.
has_bytes() {
  size=$(stat -c %s "$F/s.$id/$1") || return 0
  [ "$size" -ge "$2" ]
}

# Stream $1 from offset $2 on to descriptor $3.
stream() {
  tries=0
  while ! first_piece "$1" "$2"; do
    # At least its mark comes, but a pump may be behind the end.
    if is_over; then
      tries=$((tries + 1))
      if [ $tries -gt 20 ] || [ ! -d "$F/s.$id" ]; then
        head_of "$2" "$3"
        return
      fi
    fi
    wait_bit
  done
  at=$2
  [ "$at" -lt "$piece" ] && at=$piece
  head_of "$at" "$3"
  exec 8<"$F/s.$id/$1.$piece"
  # An earlier host may have heard what the pump has not written yet.
  tries=0
  until has_bytes "$1.$piece" $((at - piece)) || [ $tries -gt 20 ]; do
    is_over && tries=$((tries + 1))
    wait_bit
  done
  tail -c +$((at - piece + 1)) <&8 >&$3
  tries=0
  while :; do
    # In this order: what was written before its end is there afterwards.
    over=
    is_over && over=1
    next_piece "$1" "$piece" && over=
    cat <&8 >&$3 || return
    if [ "$from" ]; then
      piece=$from
      exec 8<"$F/s.$id/$1.$piece"
      continue
    fi
    # Its mark is the last that it said; it may still be on its way.
    if [ "$over" ]; then
      tries=$((tries + 1))
      if [ $tries -gt 20 ] ||
        grep -qF "SBX$nonce=" "$F/s.$id/$1.$piece" 2>/dev/null; then
        cat <&8 >&$3
        return
      fi
    fi
    wait_bit
  done
}

case $flags in
*s*)
  (stream err "$4" 4) &
  stream out "$3" 3
  wait
  ;;
*)
  head_of "$3" 3
  head_of "$4" 4
  while ! is_over; do wait_bit; done
  ;;
esac
end=l code=0
if is_file "$F/e.$id"; then
  IFS=' '
  read -r end code <"$F/e.$id"
fi
case $end in [xcdpnet]) is_number "$code" || code=0 ;; *) end=l code=0 ;; esac
tail_of "$end" "$code"
