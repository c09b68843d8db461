# Read into the shell of a status line or of the hook at a turn's end, the payload on standard input:
#   set -- status|hook HARNESS DATA TASUKI...; . turn.sh
# It starts tasuki only where its notes (session/thread_memory.py) do not answer. Always ends with 0.
exec 2>/dev/null
umask 077
K=$1 H=$2 D=$3
shift 3
case $TASUKI_DATA in /*) D=$TASUKI_DATA ;; esac
ask() {
  printf %s "$P" | "$@" "$H"
  exit 0
}
# The settings: whether the note on them holds, for this folder, environment and these files.
know() {
  E=
  IFS= read -r X && [ "$X" = "$HOME|$XDG_CONFIG_HOME|$CLAUDE_CONFIG_DIR|$CLAUDE_PLUGIN_ROOT|$TASUKI_CONFIG|$TASUKI_SUGGEST_AT|$TASUKI_AUTO_HANDOFF_AT|$TASUKI_KEEP_THREADS" ] &&
    IFS= read -r X && [ "$X" = "$C" ] && read -r A B L G || return 1
  while IFS= read -r X; do
    case $X in
      +*) [ -e "${X#?}" ] && [ ! "${X#?}" -nt "$N/settings" ] ;;
      -*) [ ! -e "${X#?}" ] ;;
      *) E=$X ;;
    esac || return 1
  done
  [ "$E" = end ] && count "$A" "$B" "$L"
}
# Whether these are numbers that can be calculated with.
count() {
  for X in "$@"; do
    case $X in ''|*[!0-9]*|0?*|????????????????*) return 1 ;; esac
  done
}
if [ "$K" = status ]; then
  IFS= read -r P
  case $P in *'}') ;; *) P="$P
$(cat)" ;; esac
else
  case $H$CLAUDE_CODE_ENTRYPOINT in claudesdk*) exit 0 ;; esac
  P=$(cat)
fi
set -- "$@" "$K"
case $P in *'"agent_id":'*) ask "$@" ;; '{"session_id":"'*|'{"sessionId":"'*) ;; *) ask "$@" ;; esac
X=${P#*':"'} S=${X%%'"'*}
case $S in ''|*[!A-Za-z0-9_-]*) ask "$@" ;; esac
N=$D/suggested/$H-$S
[ -r "$N/settings" ] || ask "$@"
X=${P#*'"cwd":"'} C=${X%%'"'*}
X=${P#*'"transcript'*'ath":"'} F=${X%%'"'*}
[ -d "$C" ] && know < "$N/settings" || ask "$@"
M= W= Z= O=
if [ "$K" = status ]; then
  case $P in *'"context_window":{'*'"used_percentage":'*) ;; *) ask "$@" ;; esac
  X=${P#*'"context_window":{'} Y=${X%%'"used_percentage":'*}
  U=${X#*'"used_percentage":'} U=${U%%[!0-9a-z.]*}
  case $Y in *'{'*'}'*) Y=${Y%%'{'*}${Y#*'}'} ;; esac
  case $Y in *'{'*|*'}'*) ask "$@" ;; esac
  V=${Y#*'"context_window_size":'} V=${V%%[!0-9]*}
  [ "$U" = null ] || { count "$U" && [ "$U" -le 1000 ]; } && count "$V" && [ "$V" -gt 0 ] || ask "$@"
  X= && read -r X < "$N/window"; [ "$X" = "$V" ] || printf '%s\n' "$V" > "$N/window"
  # The most that is used: of a thread without a figure, what a session begins with. A figure counts
  # for what the thread held at the figure before it: by now it may hold more than was counted.
  [ ! -e "$N/most" ] || read -r M W Z O < "$N/most"
  if [ "$U" = null ]; then
    [ "$W" = "$V" ] || printf '40 %s 0 0\n' "$V" > "$N/most"
  elif [ "$M $W" != "$((U + 1)) $V" ]; then
    count "$Z" || Z=0
    printf '%s %s %s %s\n' "$((U + 1))" "$V" "$(($(wc -c < "$F") + 0))" "$Z" > "$N/most"
  fi
  if [ "$U" != null ]; then
    [ "$A" -gt 0 ] && [ "$U" -ge "$A" ] && G=" · $G" || G=
    printf 'context %s %%%s\n' "$U" "$G"
  fi
  [ ! -e "$D/fleet/hook.sh" ] ||
    (trap '' HUP; printf %s "$P" | sh "$D/fleet/hook.sh" "$H" status) > /dev/null &
  exit 0
fi
# The end of a turn: the least threshold that was not reached so far, 0 for none.
T=0
[ "$A" = 0 ] || [ -e "$N/suggested-$A" ] || T=$A
[ "$B" = 0 ] || [ -e "$N/automatic" ] || { [ "$T" -gt 0 ] && [ "$T" -le "$B" ]; } || T=$B
if [ "$T" -gt 0 ]; then
  # What was written since, and what the agent says last, is at least two bytes for each token.
  read -r M W Z O < "$N/most"
  count "$M" "$W" "$O" && [ -f "$F" ] || ask "$@"
  Z=$(($(wc -c < "$F") + 0))
  [ "$Z" -ge "$O" ] && [ "$(((T - M) * W / 50))" -gt "$((Z - O + 4 * ${#P}))" ] || ask "$@"
fi
[ "$L" = 0 ] || (trap '' HUP; printf %s "$P" | "$@" "$H" --later) > /dev/null &
exit 0
