"""What the git commands of one line did in one checkout, by what git printed and by exit codes."""

import re
from collections.abc import Sequence

from tasuki.draft.repository.checkouts import (
    USUAL_BRANCHES,
    Checkout,
    RepositoryCommand,
    RepositoryLine,
    find_own_output,
    is_proven,
    is_shown,
)
from tasuki.draft.repository.commits import HASH, CommitLog, find_subject
from tasuki.paths import is_on_drive
from tasuki.patterns import compile_pattern

COMMIT = compile_pattern(
    r"^\[(?P<branch>[^\]\n]+?)(?: \(root-commit\))? (?P<hash>[0-9a-f]{7,40})\] (?P<subject>.+)$",
    re.MULTILINE,
)
COUNTED = compile_pattern(r"(?m)^ \d+ files? changed")
_COUNTS_NOTHING = frozenset("add push status branch checkout switch rev-parse fetch tag".split())
_SWITCHED = compile_pattern(
    r"(?m)^(?:Switched to (?:a new |and reset )?branch|Already on) '([^'\n]+)'"
)
_ON_BRANCH = compile_pattern(r"(?m)^(?:# )?On branch (\S+)$")
_SHORT_STATUS = compile_pattern(
    r"(?m)^## (?:No commits yet on )?([^\s.]+(?:\.[^\s.]+)*?)(?:\.\.\.\S+)?(?: \[.*\])?$"
)
_STARRED = compile_pattern(r"(?m)^\* ([^\s(]\S*)")
_SHOWN_BRANCH = compile_pattern(r"(?m)^(\w[\w./-]*)$")
_REBASED = compile_pattern(r"(?m)^Successfully rebased and updated refs/heads/(\S+?)\.?$")
_REBASING = compile_pattern(r"Rebasing \(\d+/(\d+)\)")
_HEAD_NOW = compile_pattern(r"(?m)^HEAD is now at ([0-9a-f]{7,40})")
_LOG_HEAD = compile_pattern(r"(?:[*|] )?(?:commit )?([0-9a-f]{7,40})\b")
_PUSHED = compile_pattern(
    r"(?m)^ ?[ +*=] (?:\[new branch\]|[0-9a-f]{7,40}\.{2,3}([0-9a-f]{7,40})|\[up to date\])"
    r"\s+(\S+)\s+-> \S+"
)
_UP_TO_DATE = compile_pattern(r"(?m)^Everything up-to-date")
_PUSH_FAILED = compile_pattern(r"(?m)^ ! \[|^error: failed to push|^fatal: |^ERROR: ")
_TRACKING = compile_pattern(
    r"(?m)^Your branch (?:(is up to date with)|is ahead of|is behind|and) '[^/'\n]+/(\S+)'"
)
"""How a branch stands to the one that it follows: the first group where it is the same."""
_CLEAN = compile_pattern(r"(?m)^nothing to commit,? \(?working (?:tree|directory) clean")
_NOTHING = compile_pattern(
    r"(?i)nothing to commit|no changes added to commit|nothing added to commit|Aborting commit"
)
_CHANGED = compile_pattern(
    r"(?m)^(?:(?!  )[ MADRCUT?]{2} |\t(?:(?:modified|new file|deleted|renamed|copied|typechange"
    r"|both \w+|added by \w+|deleted by \w+):\s+)?)(\S.*)$"
)
"""A file, or a folder of new files, in the short and in the long form of `git status`."""
_SHORT_HEAD = compile_pattern(r"(?m)^## ")
_FAILED = compile_pattern(r"(?m)^(?:fatal|error): ")
_MERGES = compile_pattern(
    r"(?m)^(?:CONFLICT \(|Automatic merge |(?:error: )?[Cc]ould not apply |You have unmerged paths|All conflicts fixed)"
)
_MERGERS = frozenset("merge pull rebase cherry-pick revert am status".split())
_LEAVES = {
    **dict.fromkeys(_MERGERS, frozenset(("--abort", "--quit"))),
    "reset": frozenset(("--hard", "--merge")),
}
"""Options with which a command of git gives up what it merged."""
_NONE = frozenset[str]()
_ENDS_MERGE = compile_pattern(
    r"(?m)^(?:Successfully rebased|Fast-forward$|Already up to date|Merge made by|nothing to commit)"
)
_NOT_ADDED = compile_pattern(r"(?m)^The following paths are ignored by|^fatal: pathspec")
_RESTORED = compile_pattern(r"(?m)^Updated \d+ paths? from ")
_BACK = compile_pattern(r"HEAD(?:~(\d+)|\^|~)$")
_WORKTREE = compile_pattern(r"(?m)^(/\S+|[A-Za-z]:/\S+)\s+[0-9a-f]{7,40} \[([^\]\n]+)\]")
_SHORT = compile_pattern(r"-(?!-)\w*s\w*|--short|--porcelain\S*")
_NAMES_BRANCH = compile_pattern(r"-(?!-)\w*b\w*|--branch")
_QUIET = compile_pattern(r"-(?!-)\w*q\w*|--quiet")
_ALL = compile_pattern(r"-(?!-)\w*a\w*|--all|--include")
MAKERS = frozenset("commit cherry-pick revert merge rebase am pull".split())
_MOVE_HEAD = MAKERS | {"checkout", "switch", "reset"}
_RESET_MODES = frozenset("--hard --soft --mixed --keep --merge".split())
_FORCED = compile_pattern(
    r"(?m)^ \+ [0-9a-f]{7,40}\.{3}([0-9a-f]{7,40})\s+(\S+)\s+-> \S+ \(forced update\)"
)
_CREATES = frozenset(("-b", "-B", "-c", "-C", "--create", "--force-create", "--orphan"))
_LOG_SKIPS = ("--", "--skip", "--grep", "--author", "--reverse", "--all", "-S", "-G", "--follow")


_PRINTS = {
    "commit": COMMIT,
    "push": _PUSHED,
    "log": compile_pattern(r"(?m)^(?:[*|] )?(?:commit )?[0-9a-f]{7,40}\b"),
    "status": compile_pattern(r"(?m)^(?:On branch |## )"),
    "worktree": compile_pattern(r"(?m)^Preparing worktree "),
}


class GitReading:
    """Reads the git commands of one line in one checkout."""

    def __init__(
        self,
        checkout: Checkout,
        log: CommitLog,
        ref: int,
        line: RepositoryLine,
        output: str,
        commands: Sequence[RepositoryCommand],
    ) -> None:
        self.checkout, self.log, self.ref = checkout, log, ref
        self.line, self.output, self.commands = line, output, commands
        self.worktrees: list[tuple[str, str]] = []
        """Checkouts that git made or listed: the path, and the branch."""
        self.gone_worktrees: list[str] = []
        printed = ((c.number, _PRINTS.get(c.verb)) for c in commands)
        self.shown = [n for n, pattern in printed if pattern and pattern.search(output)]
        """Steps of which git shows by its output that they ran to their end."""

    def read(self, commits: Sequence[re.Match[str]]) -> None:
        """Read what the commands did; `commits` are those that git printed for them."""
        verbs = [c.verb for c in self.commands]
        for command in self.commands:
            self._read_verb(command)
        self._read_branch(verbs)
        here = self.checkout
        is_left = any(not _LEAVES.get(c.verb, _NONE).isdisjoint(c.words) for c in self.commands)
        if is_left or _ENDS_MERGE.search(self.output):
            here.merges = 0
        if _MERGES.search(self.output) and (found := _MERGERS.intersection(verbs)):
            here.merges = here.merges if here.merges and found == {"status"} else self.ref
        if "status" in verbs or "stash" in verbs:
            self._read_listing()
        if "status" in verbs:
            self._read_status()
        self._read_commits(commits)
        self._read_rewrites(pulled="pull" in verbs)
        self._read_logs()
        for command in self.commands:
            if command.verb == "push":
                self._read_push(command)
        behind = self.output[max((match.end() for match in commits), default=0) :]
        newest = {branch: is_same for is_same, branch in _TRACKING.findall(behind)}
        for branch in (branch for branch, is_same in newest.items() if is_same):
            self.log.mark_pushed(self._key(branch))

    def _key(self, branch: str) -> str:
        return self.checkout.name_branch(branch)

    def _is_proven(self, command: RepositoryCommand) -> bool:
        shown = command.number in self.shown
        return shown or is_proven(self.line, command.number, self.shown)

    def _read_verb(self, command: RepositoryCommand) -> None:
        verb, words, names = command.verb, command.words, command.names
        here = self.checkout
        if verb == "add" and not _NOT_ADDED.search(self.output):
            everything = not names or "." in names or ":/" in names
            here.added += ["."] if everything else names
        elif verb in ("checkout", "switch") and names and _RESTORED.search(self.output):
            here.settle(self.ref, names)
        elif verb == "reset":
            self._read_reset(command)
        elif verb in ("filter-branch", "filter-repo") or (
            verb == "rebase" and "--abort" not in words and not _REBASED.search(self.output)
        ):
            self.log.drop_branches([self._key(here.branch)])
        elif verb in ("checkout", "switch"):
            self._read_switch(command)
        elif not self._is_proven(command):
            return
        elif verb == "branch" and names:
            self._read_branch_command(words, names)
        elif verb == "worktree" and names[1:]:
            self._read_worktree(words, names)
        elif (verb == "branch" and "--show-current" in words) or "--abbrev-ref" in words:
            match = _SHOWN_BRANCH.search(self.output)
            if match and not HASH.match(match[1]):
                here.set_branch(match[1], self.ref)

    def _read_switch(self, command: RepositoryCommand) -> None:
        """Read a switch to what is surely a branch, which git did not print."""
        words, names = command.words, command.names
        step = self.line.steps[command.number].command
        is_first = all(s.command.text.startswith("cd ") for s in self.line.steps[: command.number])
        is_silent = (  # It surely ran, and showed no error, which git prints in any case.
            (is_first or step.operator in (";", "\n"))
            and not (step.in_block or step.errors_to or _FAILED.search(self.output))
            and self.line.ended.is_whole
        )
        if not (self._is_proven(command) or is_silent):
            return
        creates = not _CREATES.isdisjoint(words)
        is_plain = names == names[:1] and "--" not in words and "--detach" not in words
        known = {c.branch for c in self.log.commits} | USUAL_BRANCHES
        is_branch = creates or command.verb == "switch" or (bool(names) and names[0] in known)
        if (creates or is_plain) and names and is_branch:
            self.checkout.set_branch(names[0], self.ref, begins_here=self._begins_here())

    def _read_reset(self, command: RepositoryCommand) -> None:
        """Read which commits a reset dropped: all of the branch where nobody can tell."""
        branch = self._key(self.checkout.branch)
        target = command.names[-1] if command.names else ""
        back, is_proven = _BACK.match(target), self._is_proven(command)
        if "--hard" not in command.words and (is_proven or not target):
            self.checkout.added = []
        if target == "HEAD" or _HEAD_NOW.search(self.output):
            return
        if is_proven and back:
            self.log.drop_newest(branch, int(back[1] or 1))
        elif is_proven and HASH.match(target) and self.log.has_commit(target):
            self.log.drop_after(target)
        elif back or HASH.match(target) or not _RESET_MODES.isdisjoint(command.words):
            self.log.drop_branches([branch])

    def _read_branch_command(self, words: Sequence[str], names: Sequence[str]) -> None:
        if any(word in ("-m", "-M", "--move") for word in words):
            old = names[-2] if len(names) > 1 else self.checkout.branch
            self.log.rename_branch(self._key(old), self._key(names[-1]))
            if old == self.checkout.branch:
                self.checkout.set_branch(names[-1], self.ref, begins_here=True)
        elif any(word in ("-D", "-d", "--delete") for word in words):
            self.log.drop_branches([self._key(name) for name in names])

    def _read_worktree(self, words: Sequence[str], names: Sequence[str]) -> None:
        if names[0] == "remove":
            self.gone_worktrees.append(names[1])
        elif names[0] == "add":
            new = next((words[n + 1] for n, w in enumerate(words[:-1]) if w in ("-b", "-B")), "")
            rest = [name for name in names[1:] if name != new]
            branch = new or (rest[1] if len(rest) > 1 else "".join(rest).rpartition("/")[2])
            if rest:
                self.worktrees.append((rest[0], branch.removeprefix("origin/")))

    def _read_branch(self, verbs: Sequence[str]) -> None:
        """Read the branch that git names in its output."""
        found: list[str] = []
        if any(c.verb == "push" and len(c.names) < 2 for c in self.commands):
            pushed = {local for _, local in _PUSHED.findall(self.output)} - {"HEAD"}
            found += pushed if len(pushed) == 1 else ()
        if "checkout" in verbs or "switch" in verbs:
            tracked = [branch for _, branch in _TRACKING.findall(self.output)]
            found += _SWITCHED.findall(self.output) or tracked
        if "status" in verbs:
            found += _ON_BRANCH.findall(self.output)
            asked = [word for c in self.commands if c.verb == "status" for word in c.words]
            if any(map(_NAMES_BRANCH.fullmatch, asked)):
                found += _SHORT_STATUS.findall(self.output)[:1]  # Later ones may be headings.
        if "branch" in verbs:
            found += _STARRED.findall(self.output)
        if "rebase" in verbs or "pull" in verbs:
            found += _REBASED.findall(self.output)
        if "worktree" in verbs:
            self.worktrees += _WORKTREE.findall(self.output)
        if found:
            self.checkout.set_branch(found[-1], self.ref, begins_here=self._begins_here())

    def _begins_here(self) -> bool | None:
        """Return whether a switch only made a new branch of what was there; None where none was seen."""
        switches = [c for c in self.commands if c.verb in ("checkout", "switch")]
        creates = (len(c.names) == 1 and not _CREATES.isdisjoint(c.words) for c in switches)
        return all(creates) if switches else None

    def _read_listing(self) -> None:
        """Read the changes that git lists, which no commit holds then."""
        listed = _list_changes(self.output)
        is_whole = any(
            is_shown(self.line, c.number)
            for c in self.commands
            if c.verb == "stash" or (c.verb == "status" and not c.names)
        )
        if listed and is_whole and not any(c.verb in MAKERS for c in self.commands):
            self.checkout.listed.append((self.ref, tuple(listed)))

    def _read_status(self) -> None:
        """Read a clean tree, or a list of all changes: what is not listed was committed, or is ignored."""
        command = [c for c in self.commands if c.verb == "status"][-1]
        later = [c.verb for c in self.commands if c.number > command.number]
        if command.names or not MAKERS.isdisjoint(later):
            return  # It tells of a part, or of the time before a commit.
        own = find_own_output(self.line, command.number)
        listed = _list_changes(self.output if own is None else own)
        if any(map(_SHORT.fullmatch, command.words)):
            if self.output.startswith("## ") and not listed and is_shown(self.line, command.number):
                own = self.output  # Whoever prints behind it.
            is_clean = own is not None and not listed and self._has_ended(command, own)
            is_part = own is None or not (listed or is_clean)
        else:
            is_clean = bool(_CLEAN.search(self.output))
            is_part = not (is_shown(self.line, command.number) and listed)
        if is_clean:
            self.checkout.clean_ref = self.ref
        if is_clean or not (is_part or "-uno" in command.words):
            self._note_complete([] if is_clean else listed)

    def _has_ended(self, command: RepositoryCommand, own: str) -> bool:
        """Return whether a status that lists nothing ran to its end: it names the branch, or is proven to have."""
        if _FAILED.search(own):
            return False
        is_followed = command.number < len(self.line.steps) - 1 and bool(self.output.strip())
        is_followed = is_followed and not self.line.steps[command.number].command.errors_to
        return bool(_SHORT_HEAD.search(own)) or self._is_proven(command) or is_followed

    def _note_complete(self, listed: Sequence[str]) -> None:
        """Note a list of all changes: other files were committed, or put back."""
        here = self.checkout
        here.listed = [(ref, paths) for ref, paths in here.listed if ref != self.ref]
        here.listed.append((self.ref, tuple(listed)))
        here.complete.append(self.ref)
        left = {p: r for p, r in here.edited.items() if any(is_covered(p, by) for by in listed)}
        if left != here.edited:
            here.edited, here.maybe_ref = left, self.ref

    def _read_commits(self, printed: Sequence[re.Match[str]]) -> None:
        """Read commits that git named, and those that it did not print."""
        makers = [c for c in self.commands if c.verb in MAKERS]
        if not makers:
            return
        here = self.checkout
        after = self.commands[self.commands.index(makers[-1]) + 1 :]
        is_left = any(c.verb in ("checkout", "switch") for c in after)
        own = [c for c in makers if c.verb == "commit"]
        if any("--amend" in c.words for c in own) and not _NOTHING.search(self.output):
            self.log.drop_newest(self._key(here.branch), 1)
        rebases = any(c.verb == "rebase" for c in makers)
        for match in printed:
            is_detached = match["branch"].startswith("detached HEAD")
            if is_detached and rebases:
                continue  # A copy of a commit, whoever made it.
            branch = here.branch if is_detached else match["branch"]
            self.log.add_commit(self.ref, match["hash"], match["subject"], self._key(branch))
            if all(c.verb != "rebase" for c in makers) and not is_left:
                here.set_branch(branch, self.ref)
        for command in own:
            self._settle_commit(command, () if is_quiet(command) and len(own) > 1 else printed)
        if not own and (printed or _REBASED.search(self.output)):
            here.settle(self.ref)

    def _settle_commit(self, command: RepositoryCommand, printed: Sequence[re.Match[str]]) -> None:
        """Note what is committed behind `git commit`; where nobody knows, all that may be."""
        here = self.checkout
        fails = bool(_NOTHING.search(self.output)) and not printed
        is_silent = is_quiet(command) or not is_shown(self.line, command.number)
        others = {c.verb for c in self.commands if c is not command}
        is_counted = others <= _COUNTS_NOTHING and bool(COUNTED.search(self.output))
        is_done = bool(printed) or (self._is_proven(command) and not fails) or is_counted
        subject = "" if printed else find_subject(command.words)
        if subject and is_done:
            last = self.output.strip().rpartition("\n")[2].strip()
            hash = last if HASH.match(last) else ""
            self.log.add_commit(self.ref, hash, subject, self._key(here.branch))
        elif subject and is_silent and not fails:
            self.log.add_unproven(self.ref, subject, self._key(here.branch))
            here.settle(self.ref, by_others=True)
            return
        elif not is_done and (fails or not is_silent):
            return  # It prints what it did, and did not.
        everything = here.merges or any(map(_ALL.fullmatch, command.words)) or not here.added
        pairs = zip(("", *command.words), command.words, strict=False)
        own = [word for option, word in pairs if word[:1] != "-" and not _VALUED.fullmatch(option)]
        names = [] if everything else own
        added = () if everything or "." in here.added else (*here.added, *names)
        here.settle(self.ref, added, by_others=not is_done)
        here.added, here.merges = [], 0

    def _read_rewrites(self, *, pulled: bool) -> None:
        """Read rebases and resets. A rebase gives every commit of its branch another hash; a reset drops later ones."""
        is_onto = any("--onto" in c.words for c in self.commands)  # It leaves commits out.
        steps = [] if is_onto else _REBASING.findall(self.output)
        for branch in _REBASED.findall(self.output):
            count = int(steps[-1]) if steps else None
            self.log.mark_rebased(self._key(branch), self.ref, keep_pushed=pulled, count=count)
        if match := _HEAD_NOW.search(self.output):
            self.log.drop_after(match[1])

    def _read_logs(self) -> None:
        """Take hashes from a log, and notice a newest commit that the thread did not make.

        Such a commit is the user's or a sub-agent's. What was edited before may be in it.
        """
        here = self.checkout
        if any(c.verb in _MOVE_HEAD for c in self.commands):
            here.head = ""
        logs = [c for c in self.commands if c.verb == "log"]
        if not logs:
            return
        is_own = True  # For the branch in use, or for the end of it.
        for command in logs:
            until = command.words.index("--") if "--" in command.words else None
            plain = [w for w in command.words[:until] if w and w[0] not in "-0123456789"]
            is_own = is_own and all(w == "HEAD" or w.endswith(("..HEAD", "..")) for w in plain)
        self.log.read_log(self.output, self._key(here.branch) if is_own else "")
        skips = any(w == s or w.startswith(f"{s}=") for w in logs[0].words for s in _LOG_SKIPS)
        if skips or not (is_own and len(self.line.steps) == 1):
            return  # Its first commit need not be the newest of the branch.
        if match := _LOG_HEAD.match(self.output):
            is_new = here.head and not match[1].startswith(here.head)
            if is_new and not self.log.has_commit(match[1]):
                here.settle(self.ref, by_others=True)
            here.head = match[1][:7]

    def _read_push(self, command: RepositoryCommand) -> None:
        """Read a push that git reported, or that was quiet; of one that nobody can tell, say nothing."""
        here = self.checkout
        for head, branch in _FORCED.findall(self.output):
            if not self.log.has_newest(self._key(branch), head):
                self.log.drop_branches([self._key(branch)])
        ends = {local: hash for hash, local in _PUSHED.findall(self.output)}
        for local, hash in ends.items():
            branch = self._key(here.branch if local == "HEAD" else local)
            self.log.name_newest(self.ref, branch, hash)
            self.log.mark_pushed(branch)
        if ends or _PUSH_FAILED.search(self.output):
            return
        if _UP_TO_DATE.search(self.output) or self._is_proven(command):
            self.log.mark_pushed(self._key(here.branch))
        elif not is_shown(self.line, command.number):
            self.log.mark_pushed(self._key(here.branch), None)


_VALUED = compile_pattern(
    r"-(?!-)\w*[mFCct]|--(?:message|file|author|date|template|fixup|squash|trailer)"
)


def _list_changes(output: str) -> list[str]:
    """List the files that a status names as changed; of a renamed one both names."""
    return [p for m in _CHANGED.finditer(output) for p in m[1].strip('"').split(" -> ")]


def find_shown_branch(output: str) -> str:
    """Find the branch that a status names; empty for none, and where a line switched."""
    match = _ON_BRANCH.search(output) or _SHORT_STATUS.match(output)
    return match[1] if match and not _SWITCHED.search(output) else ""


def is_quiet(command: RepositoryCommand) -> bool:
    """Return whether a command was told to print nothing."""
    return any(map(_QUIET.fullmatch, command.words))


def is_covered(path: str, listed: str) -> bool:
    """Return whether `git status` listed a path, or a folder above it."""
    while listed.startswith("../"):
        listed = listed[3:]
    if is_on_drive(path):
        path, listed = path.lower(), listed.lower()
    return f"/{listed.rstrip('/')}/" in f"{path}/" or path.endswith(f"/{listed}")
