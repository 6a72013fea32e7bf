# Verbs that only look: stat, exists, realpath.
arg "$2"
p=$A
case $1 in
exists)
  walk "$p" f && [ -e "./$n" ] && printf X1 || printf X0
  ;;
stat)
  walk "$p" "$3" || fail p s $err
  [ -e "./$n" ] || [ -h "./$n" ] || fail p s ENOENT
  exec stat -c "S$FACTS)SBX$N" "./$n" 2>/dev/null
  ;;
realpath)
  walk "$p" f || fail p s $err
  [ -e "./$n" ] || fail p s ENOENT
  at=$PWD/$n
  [ "$n" = . ] && at=$PWD
  at=${at#"$R"}
  printf 'D%s' "${at#/}"
  ;;
esac
