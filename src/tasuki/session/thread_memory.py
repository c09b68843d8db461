"""What hooks and status lines note of a thread, as files in tasuki's data folder.

`harness/turn.sh` reads and writes them too: it starts tasuki only where they do not answer.
"""

import hashlib
import json
import math
import os
import re
import time
from contextlib import suppress
from pathlib import Path

from tasuki.config import settings as config
from tasuki.config.settings import Settings
from tasuki.files import find_home_folder, get_data_folder, replace_file
from tasuki.harness.integration import TURN_SCRIPT, HarnessIntegration
from tasuki.session.turn_end import has_work

KEPT_SECONDS = 60 * 86400
"""How long suggestions for a thread are remembered."""
UNSEEN_SECONDS = 2.0
"""A file that changed so shortly before may change again within one tick of its time."""
START_PERCENT = 40
"""The most of a context that a session begins with, as the script has it."""


class ThreadMemory:
    """The notes on a thread. Two processes at once are safe."""

    def __init__(self, harness: str, thread: str) -> None:
        key = f"{harness}-{thread}"
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,100}", key):
            key = hashlib.sha256(f"{harness}:{thread}".encode()).hexdigest()[:24]
        self.folder = get_data_folder() / "suggested" / key

    def is_first(self, name: str) -> bool:
        """Whether this is the first time for a suggestion; later calls return False."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            os.close(os.open(self.folder / name, os.O_CREAT | os.O_EXCL, 0o600))
        except OSError:  # It is there; or repeating it would be worse than leaving it out.
            return False
        _forget_old(self.folder.parent)
        return True

    def read_window(self) -> int:
        """Read the size of the context that a status line reported, 0 if none did."""
        try:
            return int((self.folder / "window").read_text())
        except (OSError, ValueError):
            return 0

    def note_window(self, tokens: int) -> None:
        """Remember the size of the context."""
        if tokens > 0 and tokens != self.read_window():
            self._write("window", f"{tokens}\n")

    def note_most(self, used: float, window: int, size: int) -> None:
        """Note that the thread, when its file had so many bytes, filled at most so many percent.

        The note: percent, tokens of the window, bytes, and the bytes that are surely counted.
        """
        self._write("most", f"{math.ceil(used)} {window} {size} {size}\n")

    def note_settings(self, cwd: str, settings: Settings, integration: HarnessIntegration) -> None:
        """Note what the settings say for a folder, and the environment and files it depends on.

        It holds as long as each file exists (`+`) or not (`-`), and none is newer. Nothing is noted
        of a folder whose name a payload would not hold as it is.
        """
        if json.dumps(cwd, ensure_ascii=False) != f'"{cwd}"' or not os.path.isdir(cwd):
            return
        places = config.list_places(Path(cwd))
        places += [place.parent for place in places[:1]]  # another file may be moved there
        folders = integration.list_command_folders(find_home_folder())
        places += [folder / name for folder in folders for name in integration.own_commands]
        lines = [
            "|".join(os.environ.get(name, "") for name in _list_variables()),
            cwd,
            f"{settings.suggest_at} {settings.auto_handoff_at} {has_work(settings):d} {integration.command}",
            *(f"{'+' if os.path.exists(place) else '-'}{place}" for place in places),
            "end\n",
        ]
        if not any("\n" in line for line in lines[:-1]):
            self._write("settings", "\n".join(lines), age=UNSEEN_SECONDS)

    def _write(self, name: str, text: str, *, age: float = 0.0) -> None:
        """Write a note, whole; nothing is noted where that fails."""
        path, is_new = self.folder / name, not self.folder.exists()
        with suppress(OSError):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(path, os.fsencode(text), synced=False)
            os.utime(path, (time.time() - age,) * 2)
            if is_new:
                _forget_old(self.folder.parent)


def _list_variables() -> list[str]:
    """List what the noted settings depend on in the environment, in the order of the script."""
    (line,) = re.findall(r'"\$X" = "(\$HOME\|.*?)"', TURN_SCRIPT.read_text())
    return re.findall(r"\w+", line)


def _forget_old(folder: Path) -> None:
    """Remove the notes on threads of long ago."""
    oldest = time.time() - KEPT_SECONDS
    with suppress(OSError):
        for entry in list(os.scandir(folder)):
            if entry.stat().st_mtime < oldest:
                for file in os.scandir(entry.path):
                    os.unlink(file.path)
                os.rmdir(entry.path)
