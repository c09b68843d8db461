"""The state of a repository as a thread shows it: what git, jj and the pull-request commands printed.

Only what a program printed counts, or a command that it was given and that succeeded: the branch that
git names beside a commit, not the one the harness noted when the thread began. What was amended,
rebased or reset away is marked as gone. Formats: git 2.39–2.51, jj 0.20–0.35, gh 2.40–2.80.
"""

import re
from collections.abc import Iterable, Sequence
from msgspec.structs import replace

from tasuki.model import Commit, Entry, PullRequest, RepositoryState, ToolCall
from tasuki.shell import split_commands

_COMMIT = re.compile(
    r"^\[(?P<branch>[^\]\n]+?)(?: \(root-commit\))? (?P<hash>[0-9a-f]{7,40})\] (?P<subject>.+)$", re.MULTILINE
)
_AIDER_COMMIT = re.compile(r"^Commit (?P<hash>[0-9a-f]{7,40}) (?P<subject>.+)$", re.MULTILINE)
_SWITCHED = re.compile(r"^(?:Switched to (?:a new |and reset )?branch|Already on) '([^'\n]+)'", re.MULTILINE)
_ON_BRANCH = re.compile(r"^(?:On branch |# On branch )(\S+)$", re.MULTILINE)
_SHORT_STATUS = re.compile(r"^## (?:No commits yet on )?([^\s.]+(?:\.[^\s.]+)*?)(?:\.\.\.\S+)?(?: \[.*\])?$", re.MULTILINE)
_STARRED = re.compile(r"^\* ([^\s(]\S*)", re.MULTILINE)
_REBASED = re.compile(r"^Successfully rebased and updated refs/heads/(\S+?)\.?$", re.MULTILINE)
_HEAD_NOW = re.compile(r"^HEAD is now at ([0-9a-f]{7,40})", re.MULTILINE)
_PUSHED = re.compile(
    r"^ ?[ +*=] (?:\[new branch\]|[0-9a-f]{7,40}\.{2,3}[0-9a-f]{7,40}|\[up to date\])\s+(\S+)\s+-> (\S+)", re.MULTILINE
)
_PUSH_FAILED = re.compile(r"^ ! \[|^error: failed to push|^fatal: ", re.MULTILINE)
_UP_TO_DATE = re.compile(r"^Everything up-to-date", re.MULTILINE)
_IN_STEP = re.compile(r"^Your branch is up to date with '[^/'\n]+/(\S+)'", re.MULTILINE)
_LOG_LINE = re.compile(r"^(?:[*|\\/ ]+ )?([0-9a-f]{7,40}) (?:\([^)\n]*\) )?(\S.*)$", re.MULTILINE)
_CLEAN = re.compile(r"^nothing to commit, working tree clean|^nothing to commit \(working directory clean\)", re.MULTILINE)
_NOTHING = re.compile(r"nothing to commit|no changes added to commit|nothing added to commit|Aborting commit", re.IGNORECASE)
_MESSAGE = re.compile(r"""\s-\w*m\s*(?:"(?:\$\(cat <<-?\s*['"]?\w+['"]?\s*\n)?\s*([^"\n]+)|'([^'\n]+))""")
_HEX = re.compile(r"^[0-9a-f]{7,40}$")

_PULL_ADDRESS = re.compile(r"https?://[^\s/]+/[^\s/]+/[^\s/]+/pull/(\d+)\b(?!/new)")
_PULL_MERGED = re.compile(r"(?:Merged|Squashed and merged|Rebased and merged|already merged)[^\n#]*#(\d+)|#(\d+)[^\n]{0,80}was already merged")
_PULL_CLOSED = re.compile(r"Closed pull request [^\n#]*#(\d+)")
_PULL_LISTED = re.compile(r"^#?(\d+)\t[^\t\n]*\t([^\t\n]+)\t(OPEN|MERGED|CLOSED|DRAFT)\b", re.MULTILINE)
_PULL_FIELD = re.compile(r"^(state|number|url):\t(\S+)", re.MULTILINE)
_PULL_JSON = re.compile(
    r'(?:"isDraft":\s*(?P<draft>true|false),[^{}\[\]]{0,400}?)?"number":\s*(?P<number>\d+)(?:,[^{}\[\]]{0,400}?"state":\s*"(?P<state>OPEN|MERGED|CLOSED)")?'
)
"""Of `gh pr … --json`, whose keys stand in the order of the alphabet."""
_PULL_ASKED = re.compile(r"--state[ =](open|merged|closed)")
_MERGE_COMMIT = re.compile(r"Merge pull request #(\d+) from")

_JJ_WORKING = re.compile(r"^(?:Working copy|Parent commit)\s*(?:\(@-?\))?\s*(?:now at)?\s*:\s+\S+ ([0-9a-f]{7,40}) (.*)$", re.MULTILINE)
_JJ_PUSHED = re.compile(r"^\s+(?:Add|Move(?: forward)?|Update) bookmark (\S+) (?:from \S+ )?to ([0-9a-f]{7,40})", re.MULTILINE)


def read_repository(entries: Iterable[Entry], branch: str = "", cwd: str = "") -> RepositoryState:
    """The state at the end of some entries. `branch` is what the harness noted, until git says more."""
    reader = _RepositoryReader(branch, cwd)
    for entry in entries:
        call = entry.tool
        if call is not None and call.kind == "shell" and call.command and call.status not in ("refused", "running"):
            reader.read(entry.ref, call)
    return reader.state()


class _RepositoryReader:
    """Follows the git, jj and gh commands of one thread in their order."""

    def __init__(self, branch: str, cwd: str) -> None:
        self.cwd = cwd.rstrip("/")
        self.branch, self.branch_ref = (branch if branch != "HEAD" else ""), 0
        self.commits: list[Commit] = []
        self.pulls: dict[int, PullRequest] = {}
        self.clean_ref = 0
        self.added: list[str] = []
        self.staged: list[tuple[int, tuple[str, ...]]] = []

    def state(self) -> RepositoryState:
        """What was read so far."""
        return RepositoryState(
            branch=self.branch,
            branch_ref=self.branch_ref,
            commits=tuple(self.commits),
            pull_requests=tuple(sorted(self.pulls.values(), key=lambda p: p.ref)),
            clean_ref=self.clean_ref,
            staged=tuple(self.staged),
        )

    def read(self, ref: int, call: ToolCall) -> None:
        """Take in what one command line did and printed."""
        if "\r" in call.output:
            call = replace(call, output=call.output.replace("\r", "\n"))
        line, output = call.command, call.output
        if "git" in line:
            self._read_git(ref, call)
        elif match := _AIDER_COMMIT.search(output):
            self._commit(ref, match["hash"], match["subject"], self.branch)
        if "gh " in line or "/pull/" in output or "Merge pull request" in output:
            self._read_pulls(ref, line, output, ok=call.status in ("ok", "unknown"))
        if "jj " in line:
            self._read_jj(ref, line, output)

    # -- git ---------------------------------------------------------------------------

    def _read_git(self, ref: int, call: ToolCall) -> None:
        output, ok = call.output, call.status in ("ok", "unknown")
        folder = call.workdir
        here = True
        verbs: list[str] = []
        pushes: list[list[str]] = []
        for simple in split_commands(call.command):
            words = simple.text.split()
            if words[:1] == ["cd"] and len(words) > 1:
                folder = words[1].strip("\"'")
            if "git" not in words[:6]:
                continue
            words = words[words.index("git") + 1 :]
            place = folder
            while words and words[0].startswith("-"):
                if words[0] == "-C" and len(words) > 1:
                    place = words[1].strip("\"'")
                words = words[2 if words[0] in ("-C", "-c") else 1 :]
            here = self._is_here(place)
            if words:
                verbs.append(words[0])
                self._read_verb(ref, words, simple.text, call, here)
                pushes += [words[1:]] if words[0] == "push" and ok else []
        if here:
            self._read_branch(ref, output, verbs)
        self._read_commits(ref, call, verbs, ok)
        self._read_rewrites(ref, output, pulled="pull" in verbs)
        for words in pushes:
            self._push(ref, output, words)
        self._read_log(output)

    def _is_here(self, place: str) -> bool:
        """Whether a command ran in the thread's own folder, or below it."""
        if not place or not place.startswith("/") or not self.cwd:
            return not place.startswith(("..", "~", "$"))
        return place.rstrip("/") == self.cwd or (
            place.startswith(f"{self.cwd}/") and "worktree" not in place[len(self.cwd) :]
        )

    def _read_verb(self, ref: int, words: list[str], text: str, call: ToolCall, here: bool) -> None:
        """What a git command was told to do, where it succeeded."""
        ok, verb, rest = call.status in ("ok", "unknown"), words[0], words[1:]
        names = [w for w in rest if not w.startswith("-")]
        if verb == "add":
            everything = not names or any(w in ("-A", "--all", "-u", ".", ":/") for w in rest)
            self.added += ["."] if everything else [n.strip("\"'") for n in names]
        if not ok:
            return
        if verb in ("checkout", "switch") and here:
            if any(w in ("-b", "-B", "-c", "-C", "--create", "--orphan") for w in rest) and names:
                self._on(names[0].strip("\"'"), ref)
            elif verb == "switch" and len(names) == 1 and "--detach" not in rest:
                self._on(names[0].strip("\"'"), ref)
        elif verb == "reset" and (back := re.search(r"HEAD(?:~(\d+)|\^)", text)):
            self._drop_newest(int(back[1] or 1))
        elif verb == "status" and here and not call.output.strip() and re.search(r"-s\b|--short|--porcelain", text):
            self.clean_ref = ref
        elif verb == "branch" and "--show-current" in rest or (verb == "rev-parse" and "--abbrev-ref" in rest):
            if here and (match := re.search(r"(?m)^([\w][\w./-]*)$", call.output)) and not _HEX.match(match[1]):
                self._on(match[1], ref)
        elif verb == "branch" and "-m" in rest and names and here:
            self._rename(names[-1], ref)

    def _on(self, branch: str, ref: int) -> None:
        if branch and branch != "HEAD" and not branch.startswith("-"):
            self.branch, self.branch_ref = branch, ref

    def _rename(self, new: str, ref: int) -> None:
        self.commits = [replace(c, branch=new) if c.branch == self.branch else c for c in self.commits]
        self._on(new, ref)

    def _read_branch(self, ref: int, output: str, verbs: Sequence[str]) -> None:
        """The branch that git names in what it printed."""
        found: list[str] = []
        if "checkout" in verbs or "switch" in verbs:
            found += _SWITCHED.findall(output)
        if "status" in verbs:
            found += _ON_BRANCH.findall(output) + _SHORT_STATUS.findall(output)
            if _CLEAN.search(output):
                self.clean_ref = ref
        if "branch" in verbs:
            found += _STARRED.findall(output)
        found += _REBASED.findall(output)
        if found:
            self._on(found[-1], ref)

    def _read_commits(self, ref: int, call: ToolCall, verbs: Sequence[str], ok: bool) -> None:
        """Commits that git named, and one that it was quiet about."""
        makes = {"commit", "cherry-pick", "revert", "merge", "rebase", "am", "pull"}.intersection(verbs)
        if not makes:
            return
        printed = list(_COMMIT.finditer(call.output))
        if "commit" in verbs and "--amend" in call.command and (printed or ok):
            self._drop_newest(1)
        for match in printed:
            branch = match["branch"]
            if branch.startswith("detached HEAD"):
                branch = self.branch
            self._commit(ref, match["hash"], match["subject"], branch)
            if "rebase" not in verbs:
                self._on(branch, ref) if self._is_here(call.workdir) and "-C" not in call.command and " cd " not in f" {call.command}" else None
        if "commit" not in verbs and ok and (printed or _REBASED.search(call.output)):
            self.staged.append((ref, ()))
            self.added = []
        if "commit" in verbs:
            if not printed and ok and not _NOTHING.search(call.output):
                self._quiet_commit(ref, call)
            if printed or ok:
                whole = bool(re.search(r"\scommit\s[^\n]*?(?:\s-\w*a\w*\b|--all\b)", call.command)) or not self.added or "." in self.added
                self.staged.append((ref, () if whole else tuple(self.added)))
                self.added = []

    def _quiet_commit(self, ref: int, call: ToolCall) -> None:
        message = _MESSAGE.search(call.command[call.command.find("commit") :])
        subject = ((message[1] or message[2]) if message else "").strip()
        if not subject:
            return
        logged = next((m[1] for m in _LOG_LINE.finditer(call.output) if m[2].strip() == subject), "")
        if not logged:
            last = call.output.strip().split("\n")[-1].strip()
            logged = last if _HEX.match(last) else ""
        self._commit(ref, logged, subject, self.branch)

    def _commit(self, ref: int, hash: str, subject: str, branch: str) -> None:
        if hash and any(c.hash.startswith(hash) or (c.hash and hash.startswith(c.hash)) for c in self.commits if not c.gone):
            return
        self.commits.append(Commit(hash, subject.strip(), branch, ref, pushed=False))

    def _drop_newest(self, count: int) -> None:
        """Mark the newest commits of the branch as gone."""
        for at in range(len(self.commits) - 1, -1, -1):
            commit = self.commits[at]
            if count and not commit.gone and commit.branch == self.branch:
                self.commits[at] = replace(commit, gone=True)
                count -= 1

    def _read_rewrites(self, ref: int, output: str, *, pulled: bool) -> None:
        """A rebase gives every commit of its branch another hash; a reset drops those after a commit."""
        for branch in _REBASED.findall(output):
            self.commits = [
                replace(c, gone=True, pushed=None)
                if c.branch == branch and c.ref < ref and not (pulled and c.pushed)
                else c
                for c in self.commits
            ]
        if match := _HEAD_NOW.search(output):
            at = next((n for n, c in enumerate(self.commits) if c.hash and (c.hash.startswith(match[1]) or match[1].startswith(c.hash))), None)
            if at is not None:
                self.commits = [
                    replace(c, gone=True) if n > at and c.branch == self.commits[at].branch else c for n, c in enumerate(self.commits)
                ]
        for branch in _IN_STEP.findall(output):
            self._mark_pushed(branch)

    def _read_log(self, output: str) -> None:
        """Hashes that a log shows now for commits whose own was not printed, or was rewritten."""
        unknown = {c.subject: n for n, c in enumerate(self.commits) if c.gone or not c.hash}
        if not unknown:
            return
        live = {c.subject for c in self.commits if not c.gone and c.hash}
        for match in _LOG_LINE.finditer(output):
            at = unknown.get(match[2].strip())
            if at is None or match[2].strip() in live:
                continue
            known = self.commits[at]
            if not known.hash.startswith(match[1]) or not known.hash:
                self.commits[at] = replace(known, hash=match[1], gone=False)

    def _push(self, ref: int, output: str, words: Sequence[str]) -> None:
        """A push that git reported, or was told to be quiet about."""
        pushed = [local for local, _ in _PUSHED.findall(output)]
        if pushed:
            for branch in pushed:
                self._mark_pushed(self.branch if branch == "HEAD" else branch)
            plain = [w for w in words if not w.startswith("-")]
            if len(plain) < 2 and len(pushed) == 1 and pushed[0] != "HEAD" and not self.branch_ref:
                self._on(pushed[0], ref)
        elif _UP_TO_DATE.search(output) or (not _PUSH_FAILED.search(output) and any(w in ("-q", "--quiet") for w in words)):
            self._mark_pushed(self.branch)

    def _mark_pushed(self, branch: str) -> None:
        self.commits = [replace(c, pushed=True) if c.branch == branch and not c.gone else c for c in self.commits]

    # -- pull requests -----------------------------------------------------------------

    def _read_pulls(self, ref: int, line: str, output: str, *, ok: bool) -> None:
        if "gh " in line and " pr " in f"{line} ":
            self._read_gh(ref, line, output, ok)
        for number in _MERGE_COMMIT.findall(output):
            if "git" in line and int(number) in self.pulls:
                self._pull(int(number), "merged", ref)

    def _read_gh(self, ref: int, line: str, output: str, ok: bool) -> None:
        if "pr create" in line and ok and (addresses := _PULL_ADDRESS.findall(output)):
            state = "draft" if re.search(r"--draft|\s-d\b", line) else "open"
            self._pull(int(addresses[-1]), state, ref, created=True, branch=self.branch)
            return
        for pair in _PULL_MERGED.findall(output):
            self._pull(int(pair[0] or pair[1]), "merged", ref)
        for number in _PULL_CLOSED.findall(output):
            self._pull(int(number), "closed", ref)
        for number, branch, state_name in _PULL_LISTED.findall(output):
            self._pull(int(number), state_name.lower(), ref, branch=branch)
        fields = dict(_PULL_FIELD.findall(output))
        if "number" in fields and "state" in fields and fields["number"].isdigit():
            self._pull(int(fields["number"]), fields["state"].lower(), ref)
        for found in _PULL_JSON.finditer(output) if "gh pr" in line else ():
            state = (found["state"] or "").lower()
            self._pull(int(found["number"]), "draft" if state == "open" and found["draft"] == "true" else state, ref)
        if "gh pr list" in line and ok:
            asked = _PULL_ASKED.search(line)
            state = asked[1] if asked else "" if "--state" in line else "open"
            for number in _PULL_ADDRESS.findall(output):
                self._pull(int(number), state, ref)
        if ok and (named := re.search(r"gh pr (?:view|checks|diff|merge|ready|edit|comment|checkout) (?:-\S+ )*#?(\d+)\b", line)):
            self._pull(int(named[1]), "open" if " ready " in line else "", ref)

    def _pull(self, number: int, state: str, ref: int, *, created: bool = False, branch: str = "") -> None:
        old = self.pulls.get(number)
        known = state if state in ("open", "draft", "merged", "closed") else (old.state if old else "")
        self.pulls[number] = PullRequest(
            number, known, ref, created or bool(old and old.created), branch or (old.branch if old else "")  # type: ignore[arg-type]
        )

    # -- jj ----------------------------------------------------------------------------

    def _read_jj(self, ref: int, line: str, output: str) -> None:
        """`jj commit` and `jj describe` name the commit that holds the work; bookmarks are what is pushed."""
        if re.search(r"\bjj (?:-\S+ )*(?:commit|ci|describe|desc)\b", line):
            message = _MESSAGE.search(line)
            subject = ((message[1] or message[2]) if message else "").strip()
            shown = next((m for m in _JJ_WORKING.finditer(output) if subject and subject in m[2]), None)
            if shown:
                self.commits = [replace(c, gone=True) if c.subject == subject else c for c in self.commits]
                self._commit(ref, shown[1], subject, self.branch)
        for bookmark, hash in _JJ_PUSHED.findall(output):
            self.commits = [
                replace(c, pushed=True, branch=bookmark) if c.hash and (c.hash.startswith(hash) or hash.startswith(c.hash)) else c
                for c in self.commits
            ]
