"""Commits of a thread, as git and Jujutsu printed them."""

import re
from collections.abc import Callable, Collection, Sequence
from itertools import zip_longest

from msgspec.structs import replace

from tasuki.draft.runs.programs import unquote
from tasuki.model import Commit
from tasuki.patterns import compile_pattern

_LOG_LINE = compile_pattern(
    r"^(?:[*|\\/ ]+ )?([0-9a-f]{7,40}) (?:\([^)\n]*\) )?(\S.*)$", re.MULTILINE
)
_MESSAGE_OPTION = compile_pattern(r"-(?!-)\w*m|--message")
HASH = compile_pattern(r"^[0-9a-f]{7,40}$")


def is_same_hash(one: str, other: str) -> bool:
    """Return whether two hashes, either of which may be cut short, are of one commit."""
    return bool(one and other) and (one.startswith(other) or other.startswith(one))


def find_subject(words: Sequence[str]) -> str:
    """Return the first line of the message that `-m` passes, or an empty string without one."""
    for option, value in zip_longest(words, words[1:], fillvalue=""):
        name, _, joined = option.partition("=")
        if _MESSAGE_OPTION.fullmatch(name):
            text = unquote(joined or value).strip()
            return "" if text.startswith("$") else text.split("\n")[0].strip()
    return ""


class CommitLog:
    """Commits in the order in which they were made. Lost ones are not removed but marked as gone."""

    def __init__(self) -> None:
        self.commits: list[Commit] = []
        self._places: dict[str, list[int]] = {}
        """Where commits are whose hash begins with some seven characters."""
        self._held: dict[str, set[str]] = {}
        """Commits that the log of a branch showed, by seven characters, whichever branch they were made on."""
        self._unproven: dict[str, tuple[int, str]] = {}
        """Commits that may have been made: entry and branch by subject. A log that shows one proves it."""

    def add_commit(self, ref: int, hash: str, subject: str, branch: str) -> None:
        """Add a commit that was just made; one that is known by its hash is left as it is."""
        if all(c.gone for c in self._find_commits(hash)):
            self.commits.append(Commit("", subject.strip(), branch, ref, pushed=False))
            self._set_hash(len(self.commits) - 1, hash)

    def add_unproven(self, ref: int, subject: str, branch: str) -> None:
        """Add a commit that was called for; nobody knows yet whether it was made."""
        self._unproven[subject] = (ref, branch)

    def has_commit(self, hash: str) -> bool:
        """Return whether a commit of that hash was made here, even if it is gone."""
        return bool(self._find_commits(hash))

    def _find_commits(self, hash: str) -> list[Commit]:
        places = self._places.get(hash[:7], ())
        return [self.commits[n] for n in places if is_same_hash(self.commits[n].hash, hash)]

    def _set_hash(self, index: int, hash: str) -> None:
        self.commits[index] = replace(self.commits[index], hash=hash)
        if hash:
            self._places.setdefault(hash[:7], []).append(index)

    def name_newest(self, ref: int, branch: str, hash: str) -> None:
        """Give the newest commit of a branch the hash that its push printed, if both are of one entry."""
        on = [n for n, c in enumerate(self.commits) if c.branch == branch and not c.gone]
        if hash and on and self.commits[on[-1]].ref == ref and not self.commits[on[-1]].hash:
            self._set_hash(on[-1], hash)

    def drop_newest(self, branch: str, count: int) -> None:
        """Mark the newest commits of a branch as gone."""
        for index in range(len(self.commits) - 1, -1, -1):
            commit = self.commits[index]
            if count and not commit.gone and commit.branch == branch:
                self.commits[index] = replace(commit, gone=True)
                count -= 1

    def drop_after(self, hash: str) -> None:
        """Mark later commits of the same branch as gone, if the commit is known."""
        index = next((n for n, c in enumerate(self.commits) if is_same_hash(c.hash, hash)), None)
        if index is not None:
            for later in range(index + 1, len(self.commits)):
                if self.commits[later].branch == self.commits[index].branch:
                    self.commits[later] = replace(self.commits[later], gone=True)

    def drop_subject(self, subject: str) -> None:
        """Mark commits with a subject as gone, because jj gave their change another hash."""
        self._change_commits(lambda c: c.subject == subject, gone=True)

    def mark_rebased(
        self, branch: str, before: int, *, keep_pushed: bool, count: int | None = None
    ) -> None:
        """Mark the newest commits of a branch from before an entry as gone: a rebase gave them new hashes.

        With `keep_pushed`, as for `git pull --rebase`, pushed commits are left alone. `count` is how
        many were rebased, None where git did not say so.
        """
        on = [c for c in self.commits if c.branch == branch and c.ref < before and not c.gone]
        kept = on[:-count] if count else []
        self._change_commits(
            lambda c: (
                c.branch == branch
                and c.ref < before
                and c not in kept
                and not (keep_pushed and c.pushed)
            ),
            gone=True,
            pushed=None,
        )

    def mark_pushed(self, branch: str, pushed: bool | None = True) -> None:
        """Mark the commits of a branch as pushed; None: nobody can tell of those that were not."""
        held = self._held.get(branch, ()) if pushed else ()
        self._change_commits(
            lambda c: (
                (c.branch == branch or c.hash[:7] in held)
                and not c.gone
                and (pushed or c.pushed is False)
            ),
            pushed=pushed,
        )

    def has_newest(self, branch: str, hash: str) -> bool:
        """Return whether the newest known commit of a branch has a hash."""
        live = [c for c in self.commits if c.branch == branch and not c.gone]
        return bool(live) and is_same_hash(live[-1].hash, hash)

    def drop_branches(self, branches: Collection[str]) -> None:
        """Mark the commits of branches that were deleted or rewritten as gone, until a log shows one again."""
        self._change_commits(lambda c: c.branch in branches, gone=True)

    def push_bookmark(self, bookmark: str, hash: str) -> None:
        """Mark a commit of jj as pushed under a bookmark."""
        self._change_commits(lambda c: is_same_hash(c.hash, hash), pushed=True, branch=bookmark)

    def rename_branch(self, old: str, new: str) -> None:
        """Move the commits of a branch to its new name."""
        self._change_commits(lambda c: c.branch == old, branch=new)

    def _change_commits(self, predicate: Callable[[Commit], bool], **fields: object) -> None:
        self.commits = [replace(c, **fields) if predicate(c) else c for c in self.commits]

    def read_log(self, output: str, branch: str) -> None:
        """Take hashes from a log for commits whose hash was not printed or was rewritten since.

        `branch` is the branch of the log, or empty if that is not certain. Then only commits
        without a hash and commits that are gone are looked for.
        """
        wanted = {c.subject for c in self.commits} | self._unproven.keys()
        shown = [(m[1], s) for m in _LOG_LINE.finditer(output) if (s := m[2].strip()) in wanted]
        for hash, subject in reversed(shown):
            if made := self._unproven.pop(subject, None):
                self.add_commit(made[0], hash, subject, branch or made[1])
        if branch:
            self._held.setdefault(branch, set()).update(hash[:7] for hash, _ in shown)
        for hash, subject in shown:
            if all(c.gone for c in self._find_commits(hash)):
                self._rename_commit(hash, subject, branch, [h for h, _ in shown])

    def _rename_commit(self, hash: str, subject: str, branch: str, log_hashes: list[str]) -> None:
        """Give the newest commit of a subject the hash that a log shows for it."""
        same = [(n, c) for n, c in enumerate(self.commits) if c.subject == subject]
        live = [(n, c) for n, c in same if not c.gone and c.hash]
        lost = [(n, c) for n, c in same if c.gone or not c.hash]
        if live:
            index, commit = live[-1]
            rewritten = branch == commit.branch and not any(
                is_same_hash(c.hash, h) for _, c in live for h in log_hashes
            )
            if rewritten:
                self._set_hash(index, hash)
                self.commits[index] = replace(self.commits[index], pushed=None)
        elif lost:
            index, commit = lost[-1]
            self._set_hash(index, hash)
            self.commits[index] = replace(
                self.commits[index], gone=False, branch=branch or commit.branch
            )

    def read_jujutsu(
        self, ref: int, verb: str, words: Sequence[str], output: str, branch: str
    ) -> bool:
        """Read what a command of jj did; return whether the work so far is in a commit by it."""
        for bookmark, hash in _PUSHED.findall(output):
            self.push_bookmark(bookmark, hash)
        if verb in ("commit", "ci", "describe", "desc") and (subject := find_subject(words)):
            shown = _WORKING.findall(output)
            if hash := next((hash for hash, text in shown if subject in text), ""):
                self.drop_subject(subject)
                self.add_commit(ref, hash, subject, branch)
            return bool(hash)
        return verb in ("new", "squash", "absorb") and bool(_WORKING.search(output))


_WORKING = compile_pattern(
    r"^(?:Working copy|Parent commit)\s{0,9}(?:\(@-?\))?\s{0,9}(?:now at)?\s{0,9}:\s+\S+ ([0-9a-f]{7,40}) (.*)$",
    re.MULTILINE,
)
_PUSHED = compile_pattern(
    r"^[^\S\n]+(?:Add|Move(?: forward)?|Update) bookmark (\S+) (?:from \S+ )?to ([0-9a-f]{7,40})",
    re.MULTILINE,
)
