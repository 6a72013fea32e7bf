# New content for a name, in one step for everybody who looks.
# how: where it comes from (r text, b base64, f a file of ours, c another
# file), data: the text or the file's path; W: which path of the request it is
# for; mode: to be given, "": the old one's or 644; expected: start of the time
# that the file must have; x: must not be there.

content() {
  case $how in
  r) printf %s "$data" ;;
  b) printf %s "$data" | base64 -d ;;
  *) cat "$data" ;;
  esac
}

# The same into a file, or why not: E. A shell's own words for a full disk are
# poor, so cat is asked then.
content_into() {
  { content >"$1"; } 2>/dev/null && return 0
  E=$({ content | cat >"$1"; } 2>&1)
  [ "$E" ] || E='Input/output error'
  return 1
}

# What FACTS say of $1.
facts_of() {
  facts=$(stat -c "$FACTS" "$1" 2>/dev/null) || return 1
  bits=$((0x${facts%% *} & 07777))
  size=${facts#* }
  size=${size%%|*}
  time=${facts#*|}
  time=${time%%|*}
  owner=${facts##*|}
  count=${owner#* * }
  owner=${owner%" $count"}
  count=${count%% *}
}

# 420 -> 644
octal() {
  O=$((($1 >> 9) * 1000 + ($1 >> 6 & 7) * 100 + ($1 >> 3 & 7) * 10 + ($1 & 7)))
}

check_time() {
  [ "$expected" ] || return 0
  case $time in "$expected"*) return 0 ;; esac
  fail $W t STALE "$time"
}

check_target() {
  if [ "$x" ] && { [ -e "./$n" ] || [ "$linked" ]; }; then
    [ "$expected" ] && [ -f "./$n" ] && facts_of "./$n" && check_time
    fail $W t EEXIST
  fi
  [ -d "./$n" ] && fail $W t EISDIR
  [ ! -e "./$n" ] || [ -f "./$n" ] || fail_special $W
}

# The file's facts as the answer, unless the caller has another.
tell() {
  [ "$silent" ] && return
  printf S
  stat -c "$FACTS" "./$n" 2>/dev/null
}

# Asked again for its words only where it fails: a command substitution is a
# process more.
rename_temp() {
  mv -f "$temp" "./$n" 2>/dev/null || E=$(mv -f "$temp" "./$n" 2>&1) ||
    say $W t "$E"
  temp=
}

# A later time than before, for the time is how others notice a write.
move_time() {
  tries=0
  while [ ! "$time" \> "$old_time" ] && [ $tries -lt 25 ]; do
    tries=$((tries + 1))
    sleep 0.02 2>/dev/null || sleep 1
    touch "./$n"
    facts_of "./$n" || return
  done
}

rename_new() {
  E=$(ln "$temp" "./$n" 2>&1) && return
  if [ -e "./$n" ] || [ -h "./$n" ]; then fail $W t EEXIST; fi
  set -C # no hard links here
  { cat "$temp" >"./$n"; } 2>/dev/null || say $W t "$E"
  set +C
}

put_new() {
  [ "$mode" ] || mode=644
  temp=./.sbx-$N
  content_into "$temp" || say $W t "$E"
  if [ "$mode" != 644 ]; then
    E=$(chmod "$mode" "$temp" 2>&1) || say $W t "$E"
  fi
  if [ "$x" ]; then
    rename_new
  else
    rename_temp
  fi
  tell
}

cut_at() {
  dd if=/dev/null of="./$n" bs=1 seek="$1" 2>/dev/null
}

# For files with other names, an owner that we cannot give, or in a folder that
# takes no new names. What lies behind the old end goes first: if that fails,
# the old content is whole.
put_over() {
  old_size=$size old_bits=$bits
  facts_of "$temp" || say $W t 'Input/output error'
  new_size=$size
  if [ "$new_size" -gt "$old_size" ]; then
    E=$({ tail -c +$((old_size + 1)) "$temp" >>"./$n"; } 2>&1) || {
      cut_at "$old_size"
      say $W t "$E"
    }
  fi
  E=$(dd if="$temp" of="./$n" bs=65536 conv=notrunc 2>&1) || say $W t "$E"
  [ "$new_size" -lt "$old_size" ] && cut_at "$new_size"
  [ "$mode" = "$old_mode" ] && [ "$old_bits" -lt 1024 ] ||
    chmod "$mode" "./$n" 2>/dev/null
}

# The temporary file is made with the bits that it will have, as far as umask
# can do that; nobody else may read it before it has its owner.
temp_like_old() {
  temp=./.sbx-$N
  wanted=$((0$mode))
  if [ -O "./$n" ] && [ -G "./$n" ] && [ ! -g . ]; then
    octal $((0666 & ~wanted))
    umask $O
    made=$((0666 & wanted))
  else
    umask 077
    made=-1
  fi
  content_into "$temp" || say $W t "$E"
  umask 022
  [ $made -ge 0 ] || chown "${owner% *}:${owner#* }" "$temp" 2>/dev/null ||
    return 1
  [ $made = $wanted ] || chmod "$mode" "$temp" 2>/dev/null
}

put_old() {
  [ -w "./$n" ] || fail $W t EACCES
  old_time=$time
  octal $((bits & 01777))
  old_mode=$O
  [ "$mode" ] || mode=$O
  if [ "$count" = 1 ] && [ -w . ] && temp_like_old; then
    newer=
    [ "$temp" -nt "./$n" ] && newer=1
    rename_temp
    [ "$newer" ] && { tell; return; }
  else
    temp=$F/w.$N
    umask 077
    content_into "$temp" || say $W t "$E"
    umask 022
    rm -f "./.sbx-$N"
    put_over
  fi
  facts_of "./$n" || fail $W t ENOENT
  move_time
  tell
}

replace() {
  check_target
  if [ -e "./$n" ]; then
    take_lock
    if facts_of "./$n"; then
      check_time
      put_old
      return
    fi
  fi
  put_new
}
