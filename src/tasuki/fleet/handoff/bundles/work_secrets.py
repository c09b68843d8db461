"""What looks like a secret in work that is about to travel: file, line and kind, never the value."""

import os
import re
import stat
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from msgspec import Struct

from tasuki.draft.redact.redactor import Redactor, redact
from tasuki.errors import NotPossible
from tasuki.fleet.handoff.bundles import repositories
from tasuki.fleet.handoff.git_commands import GitFailed, unquote_path
from tasuki.patterns import compile_pattern

MOST_SECONDS = 20.0
"""How long is looked for secrets."""
MOST_BYTES = 20_000_000
"""How much of the differences, and of untracked files, is looked through."""
MOST_FILE_BYTES = 1_000_000
"""How much of one file is looked through."""
MOST_SENTENCES = 50
_DIFF = (
    "--no-ext-diff", "--no-textconv", "--no-color", "--no-renames", "--unified=0",
    "--src-prefix=a/", "--dst-prefix=b/", "--ignore-submodules=dirty",
)  # fmt: skip
_BINARY = "is binary and was not looked through."
_TOO_MUCH = "and what follows was not looked through: it is too much."
_HUNK = compile_pattern(rb"@@ -\S+ \+(\d+)")


class _Added(Struct):
    """Added lines of a file with their numbers; a note where it was not looked through."""

    path: bytes
    lines: list[bytes]
    numbers: list[int]
    note: str = ""


class WorkSecrets(Struct, frozen=True):
    """What looks like a secret, a sentence each with file, line and kind; and what was not read."""

    found: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()


def find_secrets_in_work(cwd: str) -> WorkSecrets:
    """Find what looks like a secret in the uncommitted files and unpublished commits of a folder.

    Only added lines are looked through. Binary files, large ones, and what took too long are named
    as unread. Raises NotPossible.
    """
    repository = repositories.open_repository(cwd)
    until = time.monotonic() + MOST_SECONDS
    found: dict[str, None] = {}
    unread: dict[str, None] = {}
    try:
        for added in _list_added(repository):
            found.update(dict.fromkeys(_judge(added)))
            unread.update(dict.fromkeys(_describe_unread(added)))
            if time.monotonic() > until or len(found) + len(unread) >= MOST_SENTENCES:
                unread["Not all files were looked through: it took too long, or too much was found."] = None  # fmt: skip
                break
    except GitFailed as error:
        raise NotPossible(str(error)) from error
    return WorkSecrets(tuple(found), tuple(unread))


def _describe_unread(added: _Added) -> Iterator[str]:
    name = redact(repositories.show_path(added.path))[0]
    if added.note:
        yield f"{name} {added.note}"
    elif sum(len(line) + 1 for line in added.lines) > MOST_FILE_BYTES:
        yield f"{name} is large: only its first {MOST_FILE_BYTES // 1_000_000} MB was looked through."


def _judge(added: _Added) -> Iterator[str]:
    """Yield a sentence for each secret in added lines."""
    name = redact(repositories.show_path(added.path))[0]
    if added.note:
        return
    text = b"\n".join(added.lines)[:MOST_FILE_BYTES].decode("utf-8", "replace")
    starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
    for span in Redactor().find_secrets(text):
        number = added.numbers[bisect_right(starts, span.start) - 1]
        kind = re.sub(r"[-_]", " ", span.kind)
        yield f"{name} line {number} holds what looks like a secret ({kind})"


def _list_added(repository: repositories.Repository) -> Iterator[_Added]:
    """Yield what was added: in index and work tree, in untracked files, in unpublished commits."""
    entries = repositories.read_status(repository)
    if repository.head:
        if any(e.states != "??" for e in entries):
            yield from _read_diff(repository, "diff", *_DIFF, "HEAD")
            yield from _read_diff(repository, "diff", *_DIFF, "--cached", "HEAD")
        limits = [f"^{commit}" for commit in repository.list_published()]
        show = ("log", "-m", "--format=", "--no-show-signature", "-p", *_DIFF, "HEAD", *limits)
        yield from _read_diff(repository, *show)
    yield from _read_untracked(repository, [e.path for e in entries if e.states == "??"])


def _read_diff(repository: repositories.Repository, *arguments: str) -> Iterator[_Added]:
    output = repository.git.run(*arguments, most=MOST_BYTES)
    yield from _parse_diff(output)
    if len(output) >= MOST_BYTES:
        yield _Added(f"git {arguments[0]}".encode(), [], [], _TOO_MUCH)


def _read_untracked(
    repository: repositories.Repository, paths: Sequence[bytes]
) -> Iterator[_Added]:
    left = MOST_BYTES
    for path in paths:
        file = os.path.join(os.fsencode(repository.top), path)
        try:
            if not stat.S_ISREG(os.lstat(file).st_mode):
                continue
            if left <= 0:
                yield _Added(path, [], [], _TOO_MUCH)
                return
            with open(file, "rb") as opened:
                content = opened.read(MOST_FILE_BYTES + 2)
        except OSError:
            continue
        left -= len(content)
        lines = content.split(b"\n")
        note = _BINARY if b"\0" in content[:8000] else ""
        yield _Added(path, lines, list(range(1, len(lines) + 1)), note)


def _parse_diff(output: bytes) -> Iterator[_Added]:
    """Yield the added lines of each file in a diff without context."""
    added: _Added | None = None
    number = 0
    in_hunk = False
    for line in output.split(b"\n"):
        if line.startswith(b"diff --git "):
            if added and (added.lines or added.note):
                yield added
            added, in_hunk = _Added(b"", [], []), False
        elif added is None:
            continue
        elif line.startswith(b"@@ ") and (hunk := _HUNK.match(line)):
            number, in_hunk = int(hunk[1]), True
        elif not in_hunk and line.startswith(b"+++ "):
            added.path = _read_name(line[4:])
        elif not in_hunk and line.startswith(b"Binary files "):
            name = line.removesuffix(b" differ").rpartition(b" and ")[2]
            added.path = _read_name(name)
            added.note = "" if name == b"/dev/null" else _BINARY
        elif in_hunk and line.startswith(b"+"):
            added.lines.append(line[1:])
            added.numbers.append(number)
            number += 1
    if added and (added.lines or added.note):
        yield added


def _read_name(name: bytes) -> bytes:
    """Return the path in a diff's head: quoted where it holds bytes that are no plain ones."""
    return unquote_path(name.removesuffix(b"\t")).removeprefix(b"b/")
