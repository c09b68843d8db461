"""Commits and pull requests of a thread, as git, Jujutsu and gh printed them."""

import re
from collections.abc import Callable

from msgspec.structs import replace

from tasuki.model import Commit, PullRequest
from tasuki.patterns import compile_pattern

_LOG_LINE = compile_pattern(
    r"^(?:[*|\\/ ]+ )?([0-9a-f]{7,40}) (?:\([^)\n]*\) )?(\S.*)$", re.MULTILINE
)
_MESSAGE = compile_pattern(
    r"""\s-\w*m\s*(?:"(?:\$\(cat <<-?\s*['"]?\w+['"]?\s*\n)?\s*([^"\n]+)|'([^'\n]+))"""
)
HASH = compile_pattern(r"^[0-9a-f]{7,40}$")


def is_same_hash(one: str, other: str) -> bool:
    """Return whether two hashes, either of which may be cut short, are of one commit."""
    return bool(one and other) and (one.startswith(other) or other.startswith(one))


def find_subject(command: str) -> str:
    """Return the first line of the message passed with `-m`, or an empty string without one."""
    match = _MESSAGE.search(command)
    return ((match[1] or match[2]) if match else "").strip()


class CommitLog:
    """Commits in the order in which they were made. Lost ones are not removed but marked as gone."""

    def __init__(self) -> None:
        self.commits: list[Commit] = []
        self._places: dict[str, list[int]] = {}
        """Where commits are whose hash begins with some seven characters."""

    def add_commit(self, ref: int, hash: str, subject: str, branch: str) -> None:
        """Add a commit that was just made; one that is known by its hash is left as it is."""
        if all(c.gone for c in self._find_commits(hash)):
            self.commits.append(Commit("", subject.strip(), branch, ref, pushed=False))
            self._set_hash(len(self.commits) - 1, hash)

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

    def mark_rebased(self, branch: str, before: int, *, keep_pushed: bool) -> None:
        """Mark the commits of a branch from before an entry as gone: a rebase gave them new hashes.

        With `keep_pushed`, as for `git pull --rebase`, pushed commits are left alone.
        """
        self._change_commits(
            lambda c: c.branch == branch and c.ref < before and not (keep_pushed and c.pushed),
            gone=True,
            pushed=None,
        )

    def mark_pushed(self, branch: str) -> None:
        """Mark the commits of a branch as pushed."""
        self._change_commits(lambda c: c.branch == branch and not c.gone, pushed=True)

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
        wanted = {c.subject for c in self.commits}
        shown = [(m[1], s) for m in _LOG_LINE.finditer(output) if (s := m[2].strip()) in wanted]
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
            index, _ = lost[-1]
            self._set_hash(index, hash)
            self.commits[index] = replace(self.commits[index], gone=False)


_DESCRIBES = compile_pattern(r"\bjj (?:-\S+ )*(?:commit|ci|describe|desc)\b")
_WORKING = compile_pattern(
    r"^(?:Working copy|Parent commit)\s{0,9}(?:\(@-?\))?\s{0,9}(?:now at)?\s{0,9}:\s+\S+ ([0-9a-f]{7,40}) (.*)$",
    re.MULTILINE,
)
_PUSHED = compile_pattern(
    r"^[^\S\n]+(?:Add|Move(?: forward)?|Update) bookmark (\S+) (?:from \S+ )?to ([0-9a-f]{7,40})",
    re.MULTILINE,
)


def read_jujutsu(log: CommitLog, ref: int, line: str, output: str, branch: str) -> None:
    """Read what one command line did: the commit that holds the work, pushed bookmarks."""
    subject = find_subject(line) if _DESCRIBES.search(line) else ""
    shown = _WORKING.findall(output) if subject else ()
    hash = next((hash for hash, text in shown if subject in text), "")
    if hash:
        log.drop_subject(subject)
        log.add_commit(ref, hash, subject, branch)
    for bookmark, hash in _PUSHED.findall(output):
        log.push_bookmark(bookmark, hash)


_ADDRESS = compile_pattern(r"https?://[^\s/]+/[^\s/]+/[^\s/]+/pull/(\d+)\b(?!/new)")
_MERGED = compile_pattern(
    r"(?:Merged|Squashed and merged|Rebased and merged|already merged)[^\n#]*#(\d+)"
    r"|#(\d+)[^\n]{0,80}was already merged"
)
_CLOSED = compile_pattern(r"Closed pull request [^\n#]*#(\d+)")
_LISTED = compile_pattern(
    r"^#?(\d+)\t[^\t\n]*\t([^\t\n]+)\t(OPEN|MERGED|CLOSED|DRAFT)\b", re.MULTILINE
)
_FIELD = compile_pattern(r"^(state|number|url):\t(\S+)", re.MULTILINE)
_JSON = compile_pattern(
    r'(?:"isDraft":\s*(?P<draft>true|false),[^{}\[\]]{0,400}?)?"number":\s*(?P<number>\d+)'
    r'(?:,[^{}\[\]]{0,400}?"state":\s*"(?P<state>OPEN|MERGED|CLOSED)")?'
)
"""The output of `gh pr … --json`, whose keys are in alphabetical order."""
_STATE_OPTION = compile_pattern(r"--state[ =](open|merged|closed)")
_NAMED = compile_pattern(
    r"gh pr (?:view|checks|diff|merge|ready|edit|comment|checkout) (?:-\S+ )*#?(\d+)\b"
)
_MERGE_COMMIT = compile_pattern(r"Merge pull request #(\d+) from")
_STATES = ("open", "draft", "merged", "closed")


class PullRequestLog:
    """Follows the commands and outputs of one thread that mention pull requests."""

    def __init__(self) -> None:
        self.pulls: dict[int, PullRequest] = {}

    def read_command(self, ref: int, line: str, output: str, *, ok: bool, branch: str) -> None:
        """Read what one command line printed. `branch` is the one in use."""
        if "gh " in line and " pr " in f"{line} ":
            self._read_gh(ref, line, output, ok, branch)
        if "git" in line and "Merge pull request" in output:
            for number in _MERGE_COMMIT.findall(output):
                if int(number) in self.pulls:
                    self._note_state(int(number), "merged", ref)

    def _read_gh(self, ref: int, line: str, output: str, ok: bool, branch: str) -> None:
        if "pr create" in line and ok and (addresses := _ADDRESS.findall(output)):
            state = "draft" if re.search(r"--draft|\s-d\b", line) else "open"
            self._note_state(int(addresses[-1]), state, ref, created=True, branch=branch)
            return
        for one, other in _MERGED.findall(output):
            self._note_state(int(one or other), "merged", ref)
        for number in _CLOSED.findall(output):
            self._note_state(int(number), "closed", ref)
        self._read_lists(ref, line, output, ok)
        if ok and (named := _NAMED.search(line)):
            self._note_state(int(named[1]), "open" if " ready " in line else "", ref)

    def _read_lists(self, ref: int, line: str, output: str, ok: bool) -> None:
        """Read the tables, fields and JSON that `gh pr list` and `gh pr view` print."""
        for number, branch, state in _LISTED.findall(output):
            self._note_state(int(number), state.lower(), ref, branch=branch)
        fields = dict(_FIELD.findall(output))
        if "state" in fields and fields.get("number", "").isdigit():
            self._note_state(int(fields["number"]), fields["state"].lower(), ref)
        for found in _JSON.finditer(output) if "gh pr" in line else ():
            state = (found["state"] or "").lower()
            is_draft = state == "open" and found["draft"] == "true"
            self._note_state(int(found["number"]), "draft" if is_draft else state, ref)
        if "gh pr list" in line and ok:
            asked = _STATE_OPTION.search(line)
            state = asked[1] if asked else "" if "--state" in line else "open"
            for number in _ADDRESS.findall(output):
                self._note_state(int(number), state, ref)

    def _note_state(
        self, number: int, state: str, ref: int, *, created: bool = False, branch: str = ""
    ) -> None:
        """Keep a pull request's newest state; an unknown state leaves the old one."""
        old = self.pulls.get(number)
        self.pulls[number] = PullRequest(
            number,
            state if state in _STATES else old.state if old else "",  # type: ignore[arg-type]
            ref,
            created or bool(old and old.created),
            branch or (old.branch if old else ""),
        )
