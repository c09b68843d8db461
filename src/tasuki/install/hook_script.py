"""The script by which hooks of a fleet report to tasuki's server, small and quick.

The file `address` remains after a server was killed, and another program may use its port
by then. So its second line names the server's process (`web/security/single_server.py`): nothing is sent
unless that process lives, and an answer counts only with status 200 and the proof of the
third line in its header `X-Tasuki`. A server in another PID namespace (a container) cannot
be looked up: there the event is sent, and the proof alone decides whether it was accepted.
Every other event is kept in the spool.

Where a server does not answer in time, the next hooks keep their events without asking it.
One of them asks again after `REST_SECONDS`, and a server that works removes the file that
marks it hung.

Of a status line, which is sent every few seconds, the spool keeps the newest of each
session. The last tenth of the spool is for starts, ends of turns and ends of sessions: the
loss of other events is not worth that of these.
"""

import os
import shlex
import subprocess
from contextlib import suppress
from pathlib import Path

NAME = "hook.sh"
MOST_FILES = 10_000
"""Events that are kept while no server answers; later ones are counted and dropped."""
MOST_SPOOLED = 64 << 20
"""Bytes that they take on the disk."""
MOST_BYTES = 1 << 20
"""Bytes of a payload; a larger one (a whole file in a tool's result) is not sent."""
REST_SECONDS = 5
"""How long hooks keep their events without asking after a request timed out.

Then one of them tries again.
"""
HUNG = "hung"
"""The file that marks a hung server.

It holds the server's process, when that began, and the time in seconds.
"""

SCRIPT = r"""#!/bin/sh
# Written by tasuki install --fleet. Usage: hook.sh HARNESS [status], the payload on standard input.
# Sends an event of an agent to tasuki's server within a second and prints its answer; keeps it in a
# file where no server answers. Always ends with 0.
F=@FOLDER@
trap '' XFSZ
exec 2>/dev/null
umask 077
unset CURL_HOME
LC_ALL=C
P=$(head -c @OVER@)
[ -n "$P" ] || exit 0
if [ "${#P}" -gt @MOST@ ]; then
  cat >/dev/null
  exit 0
fi
clean() {
  case $C in *[!A-Za-z0-9%/._,:@+=~-]*) C=$(printf %s "$C" | tr -cd 'A-Za-z0-9%/._,:@+=~-') ;; esac
}
C=$TASUKI_AGENT_TOKEN; clean; W=$C
C=$TMUX_PANE; clean; V=$C
C=${TMUX%%,*}; clean; U=$C
there() {
  case $D in ''|*[!0-9]*) return 1 ;; esac
  [ -r /proc/self/stat ] || { kill -0 "$D"; return; }
  read -r X < /proc/sys/kernel/random/boot_id && [ "$X" = "$B" ] || return 1
  if read -r X < "/proc/$D/stat"; then
    set -- ${X##*) }
    [ "$1" = Z ] || [ "${20}" != "$Y" ] || return 0
  fi
  X=$(readlink /proc/self/ns/pid) && [ -n "$X" ] && [ "${G:--}" != - ] && [ "$X" != "$G" ]
}
rests() {
  [ -e "$F/hung" ] && read -r X I J < "$F/hung" || return 1
  case $J in ''|*[!0-9]*) return 1 ;; esac
  [ "$X $I" = "$D $Y" ] && [ "$E" -ge "$J" ] || return 1
  [ $((E - J)) -ge @REST@ ] || return 0
  mv "$F/hung" "$F/hung-$N" || return 0
  hangs; rm -f "$F/hung-$N"
  return 1
}
hangs() {
  printf '%s %s %s\n' "$D" "$Y" "$E" > "$F/hung"
}
N= A= D= Y= B= G= Q= K=
read -r N < /proc/sys/kernel/random/uuid || N=$(uuidgen) || N=$$-$(date +%s)
T=$(date +%s.%N)
case $T in *N*|'') T=$(date +%s) ;; esac
E=${T%%.*}
[ -r "$F/address" ] && { read -r A; read -r D Y B G; read -r Q; } < "$F/address"
[ -r "$F/hook-token" ] && read -r K < "$F/hook-token"
L='
'
if [ -n "$A" ] && [ -n "$K" ] && [ -n "$Q" ] && there && ! rests; then
  S=$(printf %s "$P" | curl -q -s -f -i -m 1 --noproxy '*' -K /dev/fd/3 --data-binary @- "http://$A/api/hooks/$1" 3<<EOF
header = "Authorization: Bearer $K"
header = "X-Tasuki-Agent: $W"
header = "X-Tasuki-Event: $N"
header = "X-Tasuki-Time: $T"
header = "X-Tasuki-Pane: $V"
header = "X-Tasuki-Socket: $U"
header = "X-Tasuki-Pid: $PPID"
header = "Content-Type: application/json"
header = "Expect:"
EOF
  )
  X=$?
  [ "$X" != 28 ] || hangs
  [ "$X" = 0 ] && case ${S%%"$L"?"$L"*} in
    HTTP/1.[01]\ 200[!0-9]*"$L"[Xx]-[Tt]asuki:\ "$Q"*)
      [ ! -e "$F/hung" ] || rm -f "$F/hung"
      case $S in *"$L"?"$L"*) printf '%s\n' "${S#*"$L"?"$L"}" ;; esac
      exit 0 ;;
  esac
fi
{
  mkdir -p "$F/spool" || exit 0
  O=$T-$N.json
  if [ "$2" = status ]; then
    [ "${#P}" -le 16384 ] || exit 0
    X=${P#*\"session_id\"}; X=${X#*\"}; X=${X%%\"*}
    case $X in ''|*[!A-Za-z0-9_-]*) X=- ;; esac
    [ "${#X}" -le 64 ] || X=-
    O=status-$X.json
  fi
  M=$(($(ls -f "$F/spool" | wc -l) - 2)); Z=0
  [ "$M" -lt @FEW@ ] || { Z=$(du -sk "$F/spool"); Z=${Z%%[!0-9]*}; }
  if [ "$M" -ge @MANY@ ] || [ "${Z:-0}" -ge @LARGE@ ]; then
    case $P in
      *\"SessionStart\"*|*\"SessionEnd\"*|*\"Stop\"*|*\"AfterAgent\"*|*\"started\"*|*\"idle\"*|*\"ended\"*)
        [ "$M" -ge @FILES@ ] || [ "${Z:-0}" -ge @LARGEST@ ] ;;
    esac && if [ "$2" = status ]; then
      [ -e "$F/spool/$O" ] || exit 0
    else
      printf '%s\n' "$N" >> "$F/spool-dropped"
      exit 0
    fi
  fi
  {
    printf 'harness: %s\nx-tasuki-agent: %s\nx-tasuki-event: %s\nx-tasuki-time: %s\n' \
      "$1" "$W" "$N" "$T"
    printf 'x-tasuki-pane: %s\nx-tasuki-socket: %s\nx-tasuki-pid: %s\n\n' \
      "$V" "$U" "$PPID"
    printf %s "$P"
  } > "$F/spool/.$N" && mv "$F/spool/.$N" "$F/spool/$O" || rm -f "$F/spool/.$N"
} >/dev/null
exit 0
"""


def build_hook_script(folder: Path) -> str:
    """Return the text of the script for one folder of a server's own files."""
    most, many = MOST_SPOOLED >> 10, MOST_SPOOLED * 9 // 10
    bounds = {
        "@FILES@": MOST_FILES, "@MANY@": MOST_FILES * 9 // 10, "@LARGEST@": most, "@LARGE@": many >> 10,
        "@REST@": REST_SECONDS, "@FEW@": many // MOST_BYTES, "@MOST@": MOST_BYTES, "@OVER@": MOST_BYTES + 1,
    }  # fmt: skip
    text = SCRIPT
    for name, bound in bounds.items():
        text = text.replace(name, str(bound))
    return text.replace("@FOLDER@", shlex.quote(str(folder)))


def get_script_path(folder: Path) -> Path:
    """Return the path of the script."""
    return folder / NAME


def write_hook_script(folder: Path) -> Path:
    """Write the script, or update it, and return its path. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path, text = get_script_path(folder), build_hook_script(folder)
    if path.exists() and path.read_text("utf-8") == text:
        return path
    new = path.with_suffix(".new")
    new.write_text(text, "utf-8")
    new.chmod(0o700)
    os.replace(new, path)
    return path


def remove_hook_script(folder: Path) -> None:
    """Remove the script and its folder, where no server ever used that."""
    with suppress(OSError):
        if os.listdir(folder) == [NAME]:
            get_script_path(folder).unlink()
            folder.rmdir()


def send_status(folder: Path, harness: str, payload: bytes) -> None:
    """Pass a status line's payload to the script in its own process, without waiting."""
    path = get_script_path(folder)
    if not path.exists():
        return
    try:
        script = subprocess.Popen(
            ("sh", str(path), harness, "status"),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert script.stdin
        script.stdin.write(payload)  # the script reads it before it does anything else
        script.stdin.close()
    except OSError:
        pass
