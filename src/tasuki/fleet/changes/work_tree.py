"""A repository that is only read, and of which nothing is believed: its settings may name programs.

No hook, monitor, filter, text conversion, external diff, pager or signature check of the repository
runs; its index is not written; everything together ends within `READ_SECONDS`.
"""

import os
import time
from contextlib import suppress

from tasuki.errors import TasukiError
from tasuki.fleet.handoff.git_commands import Git, GitFailed, mute_filters
from tasuki.text_safety import clean_for_display

READ_SECONDS = 5.0
"""How long all that is read of one repository may take."""
LARGEST_TEXT_BYTES = 8 << 20
"""Larger files count as binary: git would hold them in memory."""
_SETTINGS = (
    ("core.bigFileThreshold", str(LARGEST_TEXT_BYTES)),
    ("core.quotePath", "false"),
    ("diff.autoRefreshIndex", "false"),  # its lock could fail a command of the agent
    ("log.showSignature", "false"),
)


class WorkUnknown(TasukiError):
    """What an agent changed cannot be said; the message says why and is for people."""


def show_text(text: str) -> str:
    """Return what git said as text that can be kept and sent, whatever bytes it had."""
    return clean_for_display(os.fsencode(text).decode("utf-8", "replace")).replace("\n", " ")


class WorkTree:
    """The work tree that a folder is in. Raises WorkUnknown where it is in none.

    `head` and `branch` are empty without a commit, and off every branch.
    """

    def __init__(self, cwd: str, seconds: float = READ_SECONDS) -> None:
        self.cwd = cwd
        self.seconds = seconds
        self.deadline = time.monotonic() + seconds
        if not os.path.isdir(cwd):
            raise WorkUnknown(f"The folder {cwd} is not there.")
        self.git = Git(cwd, settings=_SETTINGS, seconds=seconds)
        self.top = self._find_top()
        self.git = mute_filters(Git(self.top, settings=_SETTINGS, seconds=self.measure_rest()))
        self.head = self.read_or_empty("rev-parse", "--verify", "--quiet", "HEAD")
        if self.head and not self.has_commit(self.head):
            raise WorkUnknown(f"The repository {self.top} is damaged: git cannot read HEAD.")
        self.branch = show_text(self.read_or_empty("symbolic-ref", "--quiet", "--short", "HEAD"))

    def run(self, *arguments: str, input: bytes = b"", most: int = -1) -> bytes:
        """Return what git says, at most `most` bytes. Raises WorkUnknown."""
        try:
            return self.git.run(*arguments, input=input, seconds=self.measure_rest(), most=most)
        except GitFailed as error:
            if time.monotonic() >= self.deadline:
                raise self._build_timeout() from error
            raise WorkUnknown(f"git cannot read the repository. {error}") from error

    def read(self, *arguments: str, input: bytes = b"") -> str:
        """Return what git says, as one line of text. Raises WorkUnknown."""
        return os.fsdecode(self.run(*arguments, input=input)).strip("\n")

    def read_or_empty(self, *arguments: str) -> str:
        """Return what git says; empty where it fails. Raises WorkUnknown where time is up."""
        with suppress(GitFailed):
            return os.fsdecode(self.git.run(*arguments, seconds=self.measure_rest())).strip("\n")
        self.measure_rest()
        return ""

    def has_commit(self, name: str) -> bool:
        """Whether the repository has a commit."""
        found = name and self.read_or_empty(
            "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"
        )
        return bool(found)

    def find_empty_tree(self) -> str:
        """Return the name of the tree without files, in the repository's own kind of hash."""
        return self.read("hash-object", "-t", "tree", "--stdin")

    def _find_top(self) -> str:
        try:
            said = self.git.read("rev-parse", "--is-bare-repository", "--is-inside-work-tree")
        except GitFailed as error:
            raise self._explain_missing(error) from error
        is_bare, _, is_inside = said.partition("\n")
        if is_inside != "true":
            what = "a repository without a work tree" if is_bare == "true" else "no work tree"
            raise WorkUnknown(f"{self.cwd} is in {what}: there are no files to compare.")
        return self.read("rev-parse", "--show-toplevel")

    def _explain_missing(self, error: GitFailed) -> TasukiError:
        said = str(error)
        if time.monotonic() >= self.deadline:
            return self._build_timeout()
        if "not a git repository" in said:
            return WorkUnknown(f"{self.cwd} is in no git repository.")
        if "dubious ownership" in said:
            return WorkUnknown(
                f"The repository of {self.cwd} belongs to another user, so git does not read it. "
                "Trust it: git config --global --add safe.directory FOLDER"
            )
        return WorkUnknown(f"git cannot read the repository. {said}")

    def measure_rest(self) -> float:
        """Return the seconds that are left. Raises WorkUnknown where none are."""
        rest = self.deadline - time.monotonic()
        if rest <= 0:
            raise self._build_timeout()
        return rest

    def _build_timeout(self) -> WorkUnknown:
        return WorkUnknown(
            f"git took longer than {self.seconds:.0f} seconds in {self.cwd}: the repository is too large to be shown here."
        )
