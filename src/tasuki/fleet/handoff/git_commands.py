"""git, run on repositories of others: no hooks, no monitors, no questions, in a clean environment."""

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Iterable, Sequence
from threading import Timer

from tasuki.draft.redact.redactor import Redactor
from tasuki.errors import TasukiError
from tasuki.patterns import compile_pattern

READ_SECONDS = 60.0
"""How long git may take to read the state of a repository."""
WRITE_SECONDS = 600.0
"""How long git may take to write files or objects."""
_KEPT = frozenset({
    "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_CEILING_DIRECTORIES",
    "GIT_DISCOVERY_ACROSS_FILESYSTEM", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH",
})  # fmt: skip
"""Variables of git that say who the user is, not which repository is meant."""
_VARIABLES = {
    "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "true",
    "SSH_ASKPASS_REQUIRE": "never", "GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1", "GIT_LITERAL_PATHSPECS": "1", "LC_ALL": "C",
}  # fmt: skip
_SETTINGS = (
    ("core.fsmonitor", "false"), ("core.hooksPath", "/dev/null"), ("core.alternateRefsCommand", ""),
    ("gc.auto", "0"), ("maintenance.auto", "false"), ("submodule.recurse", "false"),
)  # fmt: skip
"""Each overrides one with which a repository could name a program to run."""
NETWORK = "file:git:http:https:ssh"
"""Transports with which commits may be fetched; a repository could name others, which are programs."""
_ESCAPED = compile_pattern(rb"\\([0-7]{3}|.)", re.DOTALL)
_LETTERS = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}  # fmt: skip
_FILTER_KEYS = {"clean": "", "smudge": "", "process": "", "required": "false"}


class GitFailed(TasukiError):
    """git ended with an error, could not be run or took too long; the message has its words."""


class Git:
    """Runs git in a folder: `run` gives bytes, `read` a line of text, `succeeds` yes or no.

    No hook and no monitor of the repository runs, and no transport: `GIT_ALLOW_PROTOCOL` is
    `none` unless a caller says otherwise. Filters that only the repository's own configuration
    names do not run (`mute_filters`); those of the user or the system do, as for any git command.
    """

    def __init__(
        self,
        cwd: str,
        *,
        settings: Iterable[tuple[str, str]] = (),
        inherited: Sequence[int] = (),
        seconds: float = READ_SECONDS,
        **variables: str,
    ) -> None:
        self.cwd = cwd
        self.seconds = seconds
        self.settings = tuple(settings)
        self.inherited = tuple(inherited)
        self.variables = variables

    def change(self, *settings: tuple[str, str], **variables: str) -> "Git":
        """Return one with more settings and variables of the environment."""
        return Git(
            self.cwd, settings=(*self.settings, *settings), inherited=self.inherited,
            seconds=self.seconds, **{**self.variables, **variables},
        )  # fmt: skip

    def run(
        self, *arguments: str, input: bytes = b"", seconds: float = 0.0, most: int = -1
    ) -> bytes:
        """Return the standard output, at most `most` bytes if that is given. Raises GitFailed.

        It may take `seconds`, or as long as is set for every command.
        """
        seconds = seconds or self.seconds
        try:
            process = subprocess.Popen(
                ("git", "-C", self.cwd, *arguments),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE if most < 0 else subprocess.DEVNULL,
                env=self._build_environment(), start_new_session=True, pass_fds=self.inherited,
            )  # fmt: skip
        except (OSError, ValueError) as error:
            raise GitFailed(f"git could not be run in {self.cwd}: {error}") from error
        try:
            if most >= 0:
                output, words = _read_beginning(process, most, seconds), b""
                if len(output) == most:
                    return output
            else:
                output, words = process.communicate(input, timeout=seconds)
        except subprocess.TimeoutExpired as error:
            raise GitFailed(
                f"git {arguments[0]} took longer than {seconds:.0f} seconds in {self.cwd}."
            ) from error
        finally:
            if process.poll() is None:
                _end_group(process)
            for pipe in filter(None, (process.stdin, process.stdout, process.stderr)):
                with contextlib.suppress(OSError):
                    pipe.close()  # still open where git took too long
        if process.returncode:
            said = Redactor().redact_line(words.decode("utf-8", "replace"), 400)
            raise GitFailed(f"git {arguments[0]} failed in {self.cwd}: {said}")
        return output

    def read(self, *arguments: str, input: bytes = b"") -> str:
        """Return the standard output as text without its last line break. Raises GitFailed."""
        return os.fsdecode(self.run(*arguments, input=input)).removesuffix("\n")

    def read_or_empty(self, *arguments: str) -> str:
        """Return the standard output as text, empty if git fails."""
        with contextlib.suppress(GitFailed):
            return self.read(*arguments)
        return ""

    def succeeds(self, *arguments: str) -> bool:
        """Return whether git ends without an error."""
        try:
            self.run(*arguments)
        except GitFailed:
            return False
        return True

    def _build_environment(self) -> dict[str, str]:
        environment = {
            k: v for k, v in os.environ.items() if not k.startswith("GIT_") or k in _KEPT
        }
        settings = number_settings((*_SETTINGS, *self.settings))
        return {**environment, **_VARIABLES, **settings, **self.variables}


def number_settings(settings: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return the variables by which git takes settings from its environment."""
    numbered = {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (key, value) in enumerate(settings):
        numbered |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return numbered


def unquote_path(path: bytes) -> bytes:
    """Return a path as it is that git quotes like a string of C."""
    if not (path.startswith(b'"') and path.endswith(b'"') and len(path) > 1):
        return path
    return _ESCAPED.sub(_unescape, path[1:-1])


def _unescape(match: re.Match[bytes]) -> bytes:
    code = match[1]
    return bytes([int(code, 8) & 255]) if len(code) == 3 else _LETTERS.get(code, code)


def _read_beginning(process: subprocess.Popen[bytes], most: int, seconds: float) -> bytes:
    """Return the first bytes of what a program says, which is ended then, or after a time."""
    assert process.stdin
    assert process.stdout
    process.stdin.close()
    timer = Timer(seconds, _end_group, (process,))
    timer.start()
    output = process.stdout.read(most)
    if len(output) == most:
        _end_group(process)
    process.wait()
    timer.cancel()
    process.stdout.close()
    return output


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End git with all that it started, which may hold its pipes open."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def mute_filters(git: Git) -> Git:
    """Return one for which filters are only what the user's or the system's configuration says.

    A filter (`clean`, `smudge`, `process`) is a program that git runs on contents of files.
    """
    output = git.read_or_empty("config", "--show-scope", "-z", "--get-regexp", r"^filter\..*\.")
    own: set[str] = set()
    trusted: dict[str, str] = {}
    fields = output.split("\0")
    for scope, text in zip(fields[::2], fields[1::2], strict=False):
        key, _, value = text.partition("\n")
        if scope in ("local", "worktree"):
            own.add(key.rpartition(".")[0])
        elif scope in ("global", "system"):
            trusted[key] = value
    pairs = ((f"{name}.{key}", x) for name in sorted(own) for key, x in _FILTER_KEYS.items())
    return git.change(*((key, trusted.get(key, default)) for key, default in pairs))
