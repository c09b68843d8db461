"""The commits of one thread: which were made, on which branch, which were rewritten or pushed."""

import re
from collections.abc import Callable

from msgspec.structs import replace

from tasuki.model import Commit

_LOG_LINE = re.compile(r"^(?:[*|\\/ ]+ )?([0-9a-f]{7,40}) (?:\([^)\n]*\) )?(\S.*)$", re.MULTILINE)
_MESSAGE = re.compile(
    r"""\s-\w*m\s*(?:"(?:\$\(cat <<-?\s*['"]?\w+['"]?\s*\n)?\s*([^"\n]+)|'([^'\n]+))"""
)
HASH = re.compile(r"^[0-9a-f]{7,40}$")


def is_same_hash(one: str, other: str) -> bool:
    """Whether two hashes, of which either may be cut short, are of one commit."""
    return bool(one and other) and (one.startswith(other) or other.startswith(one))


def find_subject(command: str) -> str:
    """The first line of the message that a command was given with `-m`; empty without one."""
    match = _MESSAGE.search(command)
    return ((match[1] or match[2]) if match else "").strip()


class CommitLog:
    """Commits in the order in which they were made. None is taken out: what is gone is marked so."""

    def __init__(self) -> None:
        self.commits: list[Commit] = []
        self._places: dict[str, list[int]] = {}
        """Where commits are whose hash begins with some seven characters."""

    def add(self, ref: int, hash: str, subject: str, branch: str) -> None:
        """Take in a commit that was just made; one that is known by its hash is left as it is."""
        if all(c.gone for c in self._find(hash)):
            self.commits.append(Commit("", subject.strip(), branch, ref, pushed=False))
            self._set_hash(len(self.commits) - 1, hash)

    def has(self, hash: str) -> bool:
        """Whether a commit of that hash was made here, even if it is gone."""
        return bool(self._find(hash))

    def _find(self, hash: str) -> list[Commit]:
        places = self._places.get(hash[:7], ())
        return [self.commits[n] for n in places if is_same_hash(self.commits[n].hash, hash)]

    def _set_hash(self, at: int, hash: str) -> None:
        self.commits[at] = replace(self.commits[at], hash=hash)
        if hash:
            self._places.setdefault(hash[:7], []).append(at)

    def drop_newest(self, branch: str, count: int) -> None:
        """Mark the newest commits of a branch as gone."""
        for at in range(len(self.commits) - 1, -1, -1):
            commit = self.commits[at]
            if count and not commit.gone and commit.branch == branch:
                self.commits[at] = replace(commit, gone=True)
                count -= 1

    def drop_after(self, hash: str) -> None:
        """Mark what its branch got after a commit as gone, if the commit is known."""
        at = next((n for n, c in enumerate(self.commits) if is_same_hash(c.hash, hash)), None)
        if at is not None:
            for later in range(at + 1, len(self.commits)):
                if self.commits[later].branch == self.commits[at].branch:
                    self.commits[later] = replace(self.commits[later], gone=True)

    def drop_subject(self, subject: str) -> None:
        """Mark commits with a subject as gone: jj gave their change another hash."""
        self._change(lambda c: c.subject == subject, gone=True)

    def mark_rebased(self, branch: str, before: int, *, keep_pushed: bool) -> None:
        """Mark the commits of a branch from before an entry as gone: a rebase gave them new hashes.

        `git pull --rebase` leaves those alone that were pushed.
        """
        self._change(
            lambda c: c.branch == branch and c.ref < before and not (keep_pushed and c.pushed),
            gone=True,
            pushed=None,
        )

    def mark_pushed(self, branch: str) -> None:
        """Mark the commits of a branch as pushed."""
        self._change(lambda c: c.branch == branch and not c.gone, pushed=True)

    def push_bookmark(self, bookmark: str, hash: str) -> None:
        """Mark a commit of jj as pushed under a bookmark."""
        self._change(lambda c: is_same_hash(c.hash, hash), pushed=True, branch=bookmark)

    def rename_branch(self, old: str, new: str) -> None:
        """Move the commits of a branch to its new name."""
        self._change(lambda c: c.branch == old, branch=new)

    def _change(self, chosen: Callable[[Commit], bool], **fields: object) -> None:
        self.commits = [replace(c, **fields) if chosen(c) else c for c in self.commits]

    def read_log(self, output: str, branch: str) -> None:
        """Take hashes from a log for commits whose own was not printed or was rewritten since.

        `branch` is the one that the log is of, empty where that is not certain: then only commits
        are looked for that have no hash or are gone.
        """
        wanted = {c.subject for c in self.commits}
        shown = [(m[1], s) for m in _LOG_LINE.finditer(output) if (s := m[2].strip()) in wanted]
        for hash, subject in shown:
            if all(c.gone for c in self._find(hash)):
                self._rename_commit(hash, subject, branch, [h for h, _ in shown])

    def _rename_commit(self, hash: str, subject: str, branch: str, shown: list[str]) -> None:
        """Give the newest commit of a subject the hash that a log shows for it."""
        same = [(n, c) for n, c in enumerate(self.commits) if c.subject == subject]
        live = [(n, c) for n, c in same if not c.gone and c.hash]
        lost = [(n, c) for n, c in same if c.gone or not c.hash]
        if live:
            at, commit = live[-1]
            rewritten = branch == commit.branch and not any(
                is_same_hash(c.hash, h) for _, c in live for h in shown
            )
            if rewritten:
                self._set_hash(at, hash)
                self.commits[at] = replace(self.commits[at], pushed=None)
        elif lost:
            at, _ = lost[-1]
            self._set_hash(at, hash)
            self.commits[at] = replace(self.commits[at], gone=False)
