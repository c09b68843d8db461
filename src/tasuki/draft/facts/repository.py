"""The state of a repository as a thread shows it: what git, jj and gh printed.

Only what a program printed counts, or a command that succeeded: the branch that git names
with a commit, not the one the harness noted when the thread began. Commits lost by amend,
rebase or reset are marked as gone. Format: git 2.39–2.51.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from tasuki.draft.facts.repository_log import (
    HASH,
    CommitLog,
    PullRequestLog,
    find_subject,
    read_jujutsu,
)
from tasuki.draft.runs.command_kinds import drop_here_documents, list_simple_commands
from tasuki.model import Entry, RepositoryState, ToolCall
from tasuki.paths import fold_path, make_relative
from tasuki.patterns import compile_pattern

_COMMIT = compile_pattern(
    r"^\[(?P<branch>[^\]\n]+?)(?: \(root-commit\))? (?P<hash>[0-9a-f]{7,40})\] (?P<subject>.+)$",
    re.MULTILINE,
)
_AIDER_COMMIT = compile_pattern(r"Commit (?P<hash>[0-9a-f]{7,40}) (?P<subject>.+)")
"""How aider, which commits automatically, reports a commit."""
_SWITCHED = compile_pattern(
    r"^(?:Switched to (?:a new |and reset )?branch|Already on) '([^'\n]+)'", re.MULTILINE
)
_ON_BRANCH = compile_pattern(r"^(?:On branch |# On branch )(\S+)$", re.MULTILINE)
_SHORT_STATUS = compile_pattern(
    r"^## (?:No commits yet on )?([^\s.]+(?:\.[^\s.]+)*?)(?:\.\.\.\S+)?(?: \[.*\])?$", re.MULTILINE
)
_STARRED = compile_pattern(r"^\* ([^\s(]\S*)", re.MULTILINE)
_SHOWN_BRANCH = compile_pattern(r"^(\w[\w./-]*)$", re.MULTILINE)
_REBASED = compile_pattern(r"^Successfully rebased and updated refs/heads/(\S+?)\.?$", re.MULTILINE)
_HEAD_NOW = compile_pattern(r"^HEAD is now at ([0-9a-f]{7,40})", re.MULTILINE)
_LOG_HEAD = compile_pattern(r"(?:[*|] )?(?:commit )?([0-9a-f]{7,40})\b")
_PUSHED = compile_pattern(
    r"^ ?[ +*=] (?:\[new branch\]|[0-9a-f]{7,40}\.{2,3}[0-9a-f]{7,40}|\[up to date\])"
    r"\s+(\S+)\s+-> (\S+)",
    re.MULTILINE,
)
_PUSH_FAILED = compile_pattern(r"^ ! \[|^error: failed to push|^fatal: ", re.MULTILINE)
_UP_TO_DATE = compile_pattern(r"^Everything up-to-date", re.MULTILINE)
_IN_STEP = compile_pattern(r"^Your branch is up to date with '[^/'\n]+/(\S+)'", re.MULTILINE)
_CLEAN = compile_pattern(
    r"^nothing to commit, working tree clean|^nothing to commit \(working directory clean\)",
    re.MULTILINE,
)
_NOTHING = compile_pattern(
    r"nothing to commit|no changes added to commit|nothing added to commit|Aborting commit",
    re.IGNORECASE,
)
_CHANGED = compile_pattern(
    r"^(?:[ MADRCUT?!]{2} |\t(?:(?:modified|new file|deleted|renamed|copied|typechange"
    r"|both \w+|added by \w+|deleted by \w+):\s+)?)(\S.*)$",
    re.MULTILINE,
)
"""A file, or a folder of new files, in the short and in the long form of `git status`."""
_NOT_ADDED = compile_pattern(r"^The following paths are ignored by|^fatal: pathspec", re.MULTILINE)
_IGNORED = compile_pattern(
    r"^The following paths are ignored by one of your \.gitignore files:\n((?:(?!hint:).+\n?)+)",
    re.MULTILINE,
)
_MATCHED_IGNORE = compile_pattern(r"^[^\s:]*:\d+:([^\t\n!][^\t\n]*)\t(\S.*)$", re.MULTILINE)
"""What `git check-ignore -v` prints for a path: the file, line and pattern that ignore it."""
_RESTORED = compile_pattern(r"^Updated \d+ paths? from ", re.MULTILINE)
_BACK = compile_pattern(r"HEAD(?:~(\d+)|\^)")
_WHOLE_TREE = compile_pattern(r"\scommit\b[^\n]*?(?:\s-\w*a\w*\b|--all\b)")
_SHORT = compile_pattern(r"-s\b|--short|--porcelain")
_MAKE_COMMITS = frozenset(("commit", "cherry-pick", "revert", "merge", "rebase", "am", "pull"))
_MOVE_HEAD = _MAKE_COMMITS | {"checkout", "switch", "reset"}
_STATE_COMMANDS = compile_pattern(
    rf"\b(?:{'|'.join(sorted(_MOVE_HEAD))}|add|mv|branch|rev-parse|status|log|push|stash)\b"
)
"""The git commands that are read; the others change nothing and show nothing of the state."""


def read_repository(entries: Iterable[Entry], branch: str = "", cwd: str = "") -> RepositoryState:
    """Return the state at the end of some entries.

    `branch` is the one the harness noted, valid until git prints one.
    """
    reader = _RepositoryReader(branch, cwd)
    for entry in entries:
        call = entry.tool
        if call is None:
            continue
        if call.changes:
            reader.edited.update((make_relative(c.path, cwd), entry.ref) for c in call.changes)
        elif call.kind == "shell" and call.command and call.status not in ("refused", "running"):
            reader.read_call(entry.ref, call)
    return reader.build_state()


def find_ignored(entries: Iterable[Entry]) -> tuple[str, ...]:
    """Return paths, and names of files and folders, that git says it ignores."""
    found: dict[str, None] = {}
    for entry in entries:
        call = entry.tool
        if call is None or call.kind != "shell" or "git " not in call.command:
            continue
        if "are ignored by" in call.output and (match := _IGNORED.search(call.output)):
            found |= dict.fromkeys(match[1].split("\n"))
        if "check-ignore" in call.command:
            for pattern, path in _MATCHED_IGNORE.findall(call.output):
                found |= dict.fromkeys((pattern, path))
    return tuple(name for path in found if (name := path.strip().strip("/")))


class _GitCommand(NamedTuple):
    """One git command of a line, and whether it ran in the thread's own repository."""

    verb: str
    words: list[str]
    text: str
    is_here: bool
    is_piped_on: bool


class _RepositoryReader:
    """Follows the git, jj and gh commands of one thread in their order."""

    def __init__(self, branch: str, cwd: str) -> None:
        self.cwd = cwd
        self.branch, self.branch_ref = (branch if branch != "HEAD" else ""), 0
        self.log = CommitLog()
        self.pulls = PullRequestLog()
        self.clean_ref = 0
        self.head = ""
        """The newest commit as git last showed it, empty where that is not known."""
        self.added: list[str] = []
        self.staged: list[tuple[int, tuple[str, ...]]] = []
        self.edited: dict[str, int] = {}

    def build_state(self) -> RepositoryState:
        """Return what was read so far."""
        return RepositoryState(
            branch=self.branch,
            branch_ref=self.branch_ref,
            commits=tuple(self.log.commits),
            pull_requests=tuple(sorted(self.pulls.pulls.values(), key=lambda p: p.ref)),
            clean_ref=self.clean_ref,
            staged=tuple(self.staged),
        )

    def read_call(self, ref: int, call: ToolCall) -> None:
        """Read what one command line did and printed."""
        line, ok = call.command, call.status in ("ok", "unknown")
        if not ("git " in line or "gh " in line or "jj " in line):
            return
        output = call.output
        if "\r" in output:
            output = output.replace("\r", "\n")
            call = replace(call, output=output)
        if line == "git commit" and (match := _AIDER_COMMIT.match(output)):
            self.log.add_commit(ref, match["hash"], match["subject"], self.branch)
        if "git " in line and _STATE_COMMANDS.search(line):
            self._read_git(ref, call, ok)
        if "gh " in line or "git " in line:
            self.pulls.read_command(ref, line, output, ok=ok, branch=self.branch)
        if "jj " in line:
            read_jujutsu(self.log, ref, line, output, self.branch)

    # -- git ---------------------------------------------------------------------------

    def _read_git(self, ref: int, call: ToolCall, ok: bool) -> None:
        commands = list(self._find_git_commands(call))
        here = [c for c in commands if c.is_here]
        for command in commands:
            self._read_verb(ref, command, call, ok)
        verbs = [c.verb for c in commands]
        if here:
            self._read_branch(ref, call.output, [c.verb for c in here])
            self._read_status(ref, call, here)
        self._read_commits(ref, call, commands, ok)
        self._read_rewrites(ref, call.output, pulled="pull" in verbs)
        self._read_log(ref, call.output, commands)
        for command in commands:
            if command.verb == "push" and ok:
                self._record_push(ref, call.output, command.words)
        if "Your branch is up to date" in call.output:
            for branch in _IN_STEP.findall(call.output):
                self.log.mark_pushed(branch)

    def _find_git_commands(self, call: ToolCall) -> Iterable[_GitCommand]:
        folder = call.workdir
        line = call.command
        simple = list_simple_commands(drop_here_documents(line) if "<<" in line else line)
        for n, part in enumerate(simple):
            words = part.text.split()
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
            if words:
                piped_on = n + 1 < len(simple) and simple[n + 1].is_piped
                yield _GitCommand(words[0], words[1:], part.text, self._is_here(place), piped_on)

    def _is_here(self, place: str) -> bool:
        """Return whether a command ran in the thread's own folder, below it, or above it."""
        place, own = fold_path(place).rstrip("/"), fold_path(self.cwd).rstrip("/")
        if not ((own and place.startswith("/")) or place[1:2] == ":"):
            return not place.startswith(("..", "~", "$"))
        longer, shorter = sorted((place, own), key=len, reverse=True)
        return longer == shorter or (
            longer.startswith(f"{shorter}/") and "worktree" not in longer[len(shorter) :]
        )

    def _read_verb(self, ref: int, command: _GitCommand, call: ToolCall, ok: bool) -> None:
        """Read what a git command was called to do, if it succeeded."""
        verb, rest, here = command.verb, command.words, command.is_here
        words = [w.strip("\"'") for w in rest if not w.startswith("-")]
        names = [make_relative(word, self.cwd) for word in words] if here else words
        if verb == "add" and here and not _NOT_ADDED.search(call.output):
            everything = not names or "." in names or ":/" in names
            self.added += ["."] if everything else names
        if verb == "mv" and here:
            self.edited.update(dict.fromkeys(names, ref))
        if not ok:
            return
        if verb == "reset" and (back := _BACK.search(command.text)):
            self.log.drop_newest(self.branch, int(back[1] or 1))
        elif not here:
            return
        elif verb in ("checkout", "switch") and names:
            if "Updated " in call.output and _RESTORED.search(call.output):
                self.staged.append((ref, tuple(names)))
            creates = any(w in ("-b", "-B", "-c", "-C", "--create", "--orphan") for w in rest)
            if creates or (verb == "switch" and len(names) == 1 and "--detach" not in rest):
                self._set_branch(names[0], ref)
        elif verb == "branch" and "-m" in rest and names:
            self.log.rename_branch(self.branch, names[-1])
            self._set_branch(names[-1], ref)
        elif (verb == "branch" and "--show-current" in rest) or "--abbrev-ref" in rest:
            match = _SHOWN_BRANCH.search(call.output)
            if match and not HASH.match(match[1]):
                self._set_branch(match[1], ref)

    def _set_branch(self, branch: str, ref: int) -> None:
        if branch and branch != "HEAD" and not branch.startswith("-"):
            self.branch, self.branch_ref = branch, ref

    def _read_branch(self, ref: int, output: str, verbs: Sequence[str]) -> None:
        """Read the branch that git names in its output."""
        found: list[str] = []
        if "checkout" in verbs or "switch" in verbs:
            found += _SWITCHED.findall(output)
        if "status" in verbs:
            found += _ON_BRANCH.findall(output) + _SHORT_STATUS.findall(output)
        if "branch" in verbs:
            found += _STARRED.findall(output)
        if "Successfully rebased" in output:
            found += _REBASED.findall(output)
        if found:
            self._set_branch(found[-1], ref)

    def _read_status(self, ref: int, call: ToolCall, commands: Sequence[_GitCommand]) -> None:
        """Read a clean tree, or a list of all changes: what is not listed was committed."""
        command = next((c for c in commands if c.verb == "status"), None)
        if command is None:
            return
        output = call.output
        if _CLEAN.search(output) or (not output.strip() and _SHORT.search(command.text)):
            self.clean_ref = ref
            return
        is_part = command.is_piped_on or any(not w.startswith("-") for w in command.words)
        if is_part or call.output_size > len(output) or call.status == "error":
            return
        listed = [p for m in _CHANGED.finditer(output) for p in m[1].strip('"').split(" -> ")]
        unlisted = tuple(p for p in self.edited if not any(_is_covered(p, by) for by in listed))
        if listed and unlisted:
            self.staged.append((ref, unlisted))
            self.edited = {p: r for p, r in self.edited.items() if p not in unlisted}

    def _read_commits(
        self, ref: int, call: ToolCall, commands: Sequence[_GitCommand], ok: bool
    ) -> None:
        """Read commits that git named, and one that it did not print."""
        makers = [c for c in commands if c.verb in _MAKE_COMMITS]
        verbs = {c.verb for c in makers}
        if not makers:
            return
        here = all(c.is_here for c in makers)
        after = commands[commands.index(makers[-1]) + 1 :]
        is_left = any(c.verb in ("checkout", "switch") for c in after)
        printed = list(_COMMIT.finditer(call.output))
        if "commit" in verbs and "--amend" in call.command and (printed or ok):
            self.log.drop_newest(self.branch, 1)
        for match in printed:
            is_detached = match["branch"].startswith("detached HEAD")
            branch = self.branch if is_detached else match["branch"]
            self.log.add_commit(ref, match["hash"], match["subject"], branch)
            if "rebase" not in verbs and here and not is_left:
                self._set_branch(branch, ref)
        if "commit" not in verbs:
            if here and ok and (printed or _REBASED.search(call.output)):
                self._record_staged(ref, everything=True)
            return
        if not printed and ok and not _NOTHING.search(call.output):
            self._add_quiet_commit(ref, call)
        if here and (printed or ok):
            everything = bool(_WHOLE_TREE.search(call.command)) or not self.added
            self._record_staged(ref, everything=everything or "." in self.added)

    def _record_staged(self, ref: int, *, everything: bool) -> None:
        """Record that a commit includes what was added before, or everything."""
        self.staged.append((ref, () if everything else tuple(self.added)))
        self.added = []

    def _add_quiet_commit(self, ref: int, call: ToolCall) -> None:
        """Add a commit that git did not print; its subject is taken from the command."""
        if subject := find_subject(call.command[call.command.find("commit") :]):
            last = call.output.strip().rpartition("\n")[2].strip()
            self.log.add_commit(ref, last if HASH.match(last) else "", subject, self.branch)

    def _read_rewrites(self, ref: int, output: str, *, pulled: bool) -> None:
        """Read rebases and resets.

        A rebase gives every commit of its branch another hash; a reset drops later ones.
        """
        if "Successfully rebased" in output:
            for branch in _REBASED.findall(output):
                self.log.mark_rebased(branch, ref, keep_pushed=pulled)
        if "HEAD is now" in output and (match := _HEAD_NOW.search(output)):
            self.log.drop_after(match[1])

    def _read_log(self, ref: int, output: str, commands: Sequence[_GitCommand]) -> None:
        """Take hashes from a log, and notice a newest commit that the thread did not make.

        Such a commit is the user's or a sub-agent's. What was edited before may be in it.
        """
        if any(c.verb in _MOVE_HEAD for c in commands):
            self.head = ""
        logs = [c for c in commands if c.verb == "log"]
        if not logs:
            return
        is_own = all(c.is_here and _is_head_log(c.words) for c in logs)
        self.log.read_log(output, self.branch if is_own else "")
        if not (is_own and len(commands) == 1 and _starts_at_head(logs[0].words)):
            return
        if match := _LOG_HEAD.match(output):
            if (
                self.head
                and not match[1].startswith(self.head)
                and not self.log.has_commit(match[1])
            ):
                self._record_staged(ref, everything=True)
            self.head = match[1][:7]

    def _record_push(self, ref: int, output: str, words: Sequence[str]) -> None:
        """Record a push that git reported, or that was quiet by option."""
        pushed = [local for local, _ in _PUSHED.findall(output)]
        is_quiet = "-q" in words or "--quiet" in words
        for branch in pushed:
            self.log.mark_pushed(self.branch if branch == "HEAD" else branch)
        if pushed:
            plain = [w for w in words if not w.startswith("-")]
            if len(plain) < 2 and len(pushed) == 1 and pushed[0] != "HEAD" and not self.branch_ref:
                self._set_branch(pushed[0], ref)
        elif _UP_TO_DATE.search(output) or (is_quiet and not _PUSH_FAILED.search(output)):
            self.log.mark_pushed(self.branch)


def _is_covered(path: str, listed: str) -> bool:
    """Return whether `git status` listed a path, or a folder above it."""
    while listed.startswith("../"):
        listed = listed[3:]
    if listed.endswith("/"):
        return path.startswith(listed) or f"/{listed}" in path
    return path == listed or path.endswith(f"/{listed}") or listed.startswith(f"{path}/")


def _is_head_log(words: Sequence[str]) -> bool:
    """Return whether `git log` was run for the branch in use, or for the end of it."""
    plain = [
        w
        for w in words[: words.index("--") if "--" in words else None]
        if w[0] not in "-0123456789"
    ]
    return all(w == "HEAD" or w.endswith(("..HEAD", "..")) for w in plain)


def _starts_at_head(words: Sequence[str]) -> bool:
    """Return whether the first commit that such a log prints is the newest of the branch."""
    skips = (
        "--",
        "--skip",
        "--grep",
        "--author",
        "--reverse",
        "--all",
        "-S",
        "-G",
        "--follow",
        "--stat",
    )
    return not any(w == s or w.startswith(f"{s}=") for w in words for s in skips)
