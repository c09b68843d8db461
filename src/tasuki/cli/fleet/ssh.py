"""Lets another host join over ssh: the token goes through standard input, never into a command."""

import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from tasuki import __version__
from tasuki.errors import NotPossible, UsageError
from tasuki.patterns import compile_pattern
from tasuki.text_safety import clean_for_display, shorten_to_line

CONNECT_SECONDS = 15
CHECK_SECONDS = 60.0
JOIN_SECONDS = 120.0
SSH_FAILED = 255
"""The exit code with which ssh reports a failure of its own."""
NOT_FOUND = 127
_TARGET = compile_pattern(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*(@[A-Za-z0-9\[][A-Za-z0-9_.:%\[\]-]*)?")
_VERSION = compile_pattern(r"\btasuki (\d\S*)")
_CAUSES = (
    ("host key verification failed", "Its key is not known here, or another one. Connect once yourself, and compare the key: ssh {target}"),
    ("permission denied", "ssh may not sign in there without asking. Try: ssh {target}"),
    ("could not resolve", "Is that its name?"),
    ("timed out", "Is it on, and does it answer ssh?"),
    ("refused", "Does a server of ssh run there? Another port: --ssh-option=-pPORT"),
)  # fmt: skip


class RemoteHost:
    """A host that ssh reaches: `USER@BOX`, or a name of the user's own configuration of ssh.

    Raises UsageError for what is none: it could be taken for an option.
    """

    def __init__(self, target: str, options: Sequence[str] = ()) -> None:
        if not _TARGET.fullmatch(target):
            raise UsageError(f"{shorten_to_line(target, 100)!r} is no USER@BOX.")
        for option in options:
            if not option.startswith("-") or option == "--":
                raise UsageError(f"{shorten_to_line(option, 100)!r} is no option of ssh, such as -p2222.")  # fmt: skip
        self.target = target
        self.options = tuple(options)

    def check(self) -> list[str]:
        """Check that tasuki is there; return what to know about its version.

        Raises NotPossible with what to do.
        """
        done = self._run("tasuki --version", "", CHECK_SECONDS)
        found = _VERSION.search(done.stdout)
        if done.returncode == NOT_FOUND or ("not found" in done.stderr.lower() and not found):
            raise NotPossible(
                f"tasuki was not found on {self.target}. Install it there, {__version__} with the extra `server`, where "
                f"a command over ssh finds it: ssh {self.target} tasuki --version"
            )
        if done.returncode or not found:
            raise NotPossible(f"tasuki does not work on {self.target}: {_shorten(done.stderr or done.stdout)}")  # fmt: skip
        if found[1] == __version__:
            return []
        return [
            f"{self.target} has tasuki {found[1]}, this host {__version__}. They work together while both know the "
            "same tables; use the same version."
        ]

    def join(self, token: dict[str, Any], *, allow_unverified: bool = False) -> str:
        """Let it join by a token of the server; return what it printed. Raises NotPossible."""
        words = ["tasuki", "host", "join", "-"]
        if allow_unverified:
            words.append("--allow-unverified-server")
        content = f"{token['url']}\n{token['certificates']}"
        done = self._run(shlex.join(words), content, JOIN_SECONDS)
        said = clean_for_display(f"{done.stdout}{done.stderr}".strip())
        if done.returncode:
            raise NotPossible(
                f"{self.target} did not join. It says: {said or 'nothing'}\n"
                "The token expires by itself. Fix that, then add it again: tasuki host add"
            )
        return said

    def _run(self, command: str, content: str, seconds: float) -> subprocess.CompletedProcess[str]:
        if not (program := shutil.which("ssh")):
            raise NotPossible("ssh is not installed here. Install it, or run tasuki host add without USER@BOX.")  # fmt: skip
        words = [program, "-o", f"ConnectTimeout={CONNECT_SECONDS}"]
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            words += ["-o", "BatchMode=yes"]
        words += [*self.options, "--", self.target, command]
        try:
            done = subprocess.run(
                words, input=content, capture_output=True, text=True, errors="replace", timeout=seconds, check=False
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise NotPossible(f"{self.target} did not answer over ssh within {seconds:.0f} s.") from error  # fmt: skip
        except OSError as error:
            raise NotPossible(f"ssh cannot be run: {error.strerror}.") from error
        if done.returncode == SSH_FAILED:
            lowered = done.stderr.lower()
            hint = next((hint for words_found, hint in _CAUSES if words_found in lowered), "")
            raise NotPossible(
                f"ssh did not reach {self.target}: {_shorten(done.stderr)} {hint.format(target=self.target)}".rstrip()
            )
        return done


def _shorten(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return shorten_to_line(lines[-1] if lines else "no reason was given", 300)
