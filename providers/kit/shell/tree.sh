# The processes of one command. sbx_top: pid of its wrapper; sbx_spare:
# " pid pid " that are ours; sbx_leader: of the command's session, "" until a
# look that sees it below the wrapper. Finds what descends from the wrapper or
# belongs to that session or to one that such a process leads, and what still
# writes to its stdout or stderr (the wrapper has them as 3 and 4) and is not
# older.

# One line of /proc/<pid>/stat.
sbx_add() {
  sbx_pid=${1%% *}
  sbx_line=${1##*) }
  [ "${sbx_line%% *}" = Z ] && return
  sbx_line=${sbx_line#* }
  sbx_parent=${sbx_line%% *}
  sbx_line=${sbx_line#* * }
  sbx_all="$sbx_all$sbx_pid $sbx_parent ${sbx_line%% *}
"
}

# All at once; a name with a line's end in it shows in a line that is too short
# or begins otherwise, and then each is read alone.
sbx_read() {
  sbx_all=
  IFS='
'
  for sbx_one in $(cat "$@" 2>/dev/null); do
    case $sbx_one in
    [0-9]*\ \(*\)\ [A-Z]\ ????????????????????????????????????????*)
      sbx_add "$sbx_one"
      ;;
    *)
      sbx_all=
      break
      ;;
    esac
  done
  [ "$sbx_all" ] && return
  for sbx_file; do
    sbx_one=
    while IFS= read -r sbx_line; do
      sbx_one="$sbx_one $sbx_line"
    done <"$sbx_file" 2>/dev/null
    [ "$sbx_one" ] && sbx_add "${sbx_one# }"
  done
}

# sbx_began: when process $1 did.
sbx_began_of() {
  sbx_began=0 sbx_line=
  { read -r sbx_line <"/proc/$1/stat"; } 2>/dev/null || return
  IFS=' '
  set -- ${sbx_line##*)}
  IFS='
'
  sbx_began=${20:-0}
}

sbx_holds() {
  for sbx_fd in 1 2; do
    [ "/proc/$1/fd/$sbx_fd" -ef "/proc/$sbx_top/fd/3" ] && return 0
    [ "/proc/$1/fd/$sbx_fd" -ef "/proc/$sbx_top/fd/4" ] && return 0
  done
  return 1
}

sbx_holders() {
  [ -p "/proc/$sbx_top/fd/3" ] && [ -p "/proc/$sbx_top/fd/4" ] || return
  sbx_began_of "$sbx_top"
  sbx_first=$sbx_began
  IFS='
'
  for sbx_one in $sbx_all; do
    sbx_pid=${sbx_one%% *}
    case $sbx_tree$sbx_spare in *" $sbx_pid "*) continue ;; esac
    sbx_holds "$sbx_pid" || continue
    sbx_began_of "$sbx_pid"
    [ "$sbx_began" -ge "$sbx_first" ] && sbx_tree="$sbx_tree$sbx_pid "
  done
}

sbx_scan() {
  set +f
  set -- /proc/[0-9]*/stat
  set -f
  sbx_read "$@"
  sbx_tree=" $sbx_top "
  sbx_holders
  sbx_more=1
  while [ "$sbx_more" ]; do
    sbx_more=
    IFS='
'
    for sbx_line in $sbx_all; do
      sbx_pid=${sbx_line%% *}
      sbx_session=${sbx_line##* }
      sbx_parent=${sbx_line#* }
      sbx_parent=${sbx_parent%% *}
      case $sbx_spare in *" $sbx_pid "* | *" $sbx_parent "*) continue ;; esac
      [ "$sbx_parent $sbx_session" = "$sbx_top $sbx_pid" ] &&
        sbx_leader=$sbx_pid
      case $sbx_tree in
      *" $sbx_pid "*) continue ;;
      *" $sbx_parent "* | *" $sbx_session "*)
        sbx_tree="$sbx_tree$sbx_pid " sbx_more=1
        continue
        ;;
      esac
      [ "$sbx_session" = "$sbx_leader" ] &&
        sbx_tree="$sbx_tree$sbx_pid " sbx_more=1
    done
  done
  [ "$sbx_whole" ] || sbx_tree=" ${sbx_tree#" $sbx_top "}"
}

sbx_send() {
  IFS=' '
  for sbx_pid in $2; do kill -"$1" "$sbx_pid" 2>/dev/null; done
}

# Stops them first, so that none can make another unseen, until there is no
# new one. Then the signal.
sbx_end_tree() {
  sbx_stopped=' ' sbx_rounds=0
  while [ $sbx_rounds -lt 50 ]; do
    sbx_rounds=$((sbx_rounds + 1))
    sbx_scan
    sbx_new=
    IFS=' '
    for sbx_pid in $sbx_tree; do
      case $sbx_stopped in *" $sbx_pid "*) continue ;; esac
      kill -STOP "$sbx_pid" 2>/dev/null && sbx_new=1
      sbx_stopped="$sbx_stopped$sbx_pid "
    done
    [ "$sbx_new" ] || break
  done
  sbx_send "$1" "$sbx_stopped"
  sbx_send CONT "$sbx_stopped"
}
