"""The state of repositories as a thread shows it: what git, jj, gh and other programs printed.

Only what a program printed counts, or a command that is proven to have succeeded; each checkout
has a state of its own. Where nobody can know whether something was committed, it is neither
committed nor "not committed". Format: git 2.39–2.51, gh 2.x, jj 0.2x–0.4x.
"""

import re
import shlex
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from tasuki.draft.facts.files import is_noise
from tasuki.draft.repository.checkouts import (
    Checkout,
    RepositoryCommand,
    RepositoryLine,
    expand_home,
    find_checkout,
    list_repository_commands,
)
from tasuki.draft.repository.commits import CommitLog
from tasuki.draft.repository.git_output import (
    COMMIT,
    COUNTED,
    MAKERS,
    GitReading,
    find_shown_branch,
    is_quiet,
)
from tasuki.draft.repository.pull_requests import PullRequestLog, read_published
from tasuki.draft.runs.scopes import join_folder, locate
from tasuki.model import CheckoutState, Entry, Quote, RepositoryState, ToolCall
from tasuki.patterns import compile_pattern

_AIDER_COMMIT = compile_pattern(r"Commit (?P<hash>[0-9a-f]{7,40}) (?P<subject>.+)")
"""How aider, which commits automatically, reports a commit."""
_TELLS = compile_pattern(
    r"\bgit(?:\.exe)?\s(?s:.{0,200}?)\b(?:commit|cherry-pick|revert|merge|rebase|am|pull|checkout|switch|reset|add|branch|rev-parse|status"
    r"|log|push|stash|worktree|init|clone|tag|ci)\b|\bgh\s(?:pr|run|repo)\b|\bjj\s"
)
"""Command lines that tell something of the state of a repository."""
_OTHER_MAKERS = compile_pattern(
    r"\b(?:(?:npm|pnpm|yarn) version|lerna|changeset|standard-version|release-it|semantic-release"
    r"|(?:gt|sl|hg|svn|yadm|git-town|bumpversion|bump2version|cz|commitizen)(?= )|cargo release)\b"
)
"""Programs that may commit without the words of git."""
_USER_COMMITTED = compile_pattern(
    r"(?i)\b(?:i|we)(?:'ve| have| just| already)* (?:committed|commited|merged|pushed|shipped)\b"
    r"|^(?:committed|merged|pushed)\b"
)
_AGENT_COMMITTED = compile_pattern(
    r"(?i)\b(?:git commit|committed|merged)\b|\bcommits?\W{1,3}[0-9a-f]{7,40}\b|/pull/\d"
)
_OTHER_PUSH = compile_pattern(
    r"(?m)^\W{0,4}(?:Successfully )?[Pp]ushed (?:branch |commits to )?[`'\"]?([\w./-]+?)[`'\"]? to (?:origin|https?:|git@)"
)
_ENTERED = compile_pattern(
    r"\A(?:(?:Created|Entered|Switched to) worktree at (?P<path>\S+) on branch (?P<branch>\S+?)\.(?:\s|$)"
    r"|Exited (?:and removed )?worktree\b(?s:.)*?Session is now back in (?P<back>\S+?)\.?$)"
)
"""How Claude Code tells that it works in another checkout from now on."""
_READS = frozenset("cat less more head tail grep rg sed awk nl bat find jq echo printf".split())
_ACTS = frozenset("add commit push merge rebase cherry-pick revert am pull stash reset tag".split())


def read_repository(entries: Iterable[Entry], branch: str = "", cwd: str = "") -> RepositoryState:
    """Return the state at the end of some entries. `branch` is the one the harness noted, valid until git prints one."""
    reader = _RepositoryReader(branch, cwd)
    for entry in entries:
        reader.read_entry(entry)
    return reader.build_state()


class _RepositoryReader:
    """Follows the repositories of one thread over its entries, in their order."""

    def __init__(self, branch: str, cwd: str) -> None:
        self.cwd = join_folder("", cwd) or ""
        self.main = Checkout(self.cwd, branch if branch != "HEAD" else "")  # It may be detached.
        self.main.is_known = bool(branch)
        self.checkouts = [self.main]
        self.current = self.main
        self.log = CommitLog()
        self.pulls = PullRequestLog()
        self.published: list[Quote] = []

    def build_state(self) -> RepositoryState:
        """Return what was read so far."""
        current = self.current
        commits = []
        for commit in self.log.commits:
            place, _, branch = commit.branch.rpartition("\0")
            commits.append(replace(commit, branch=branch, place=place) if place else commit)
        return RepositoryState(
            branch=current.branch,
            branch_ref=current.branch_ref,
            folder="" if current is self.main else current.root,
            commits=tuple(commits),
            pull_requests=self.pulls.list_pulls(),
            checks=self.pulls.checks,
            published=tuple(self.published),
            merging_ref=current.merges,
            maybe_ref=max(ref for c in self.checkouts for ref in (0, c.maybe_ref)),
            checkouts=tuple(
                CheckoutState(
                    root=c.root,
                    clean_ref=c.clean_ref,
                    settled=tuple(c.settled),
                    by_others=tuple(c.by_others),
                    listed=tuple(c.listed),
                    complete=tuple(c.complete),
                    merging_ref=c.merges,
                    branches=tuple(c.branches),
                )
                for c in self.checkouts
                if c.is_known
            ),
        )

    def read_entry(self, entry: Entry) -> None:
        """Read what one entry tells of repositories."""
        call, ref = entry.tool, entry.ref
        if call is None:
            if entry.kind == "user" and entry.is_prompt:
                if len(entry.text) < 600 and _USER_COMMITTED.search(entry.text):
                    self._settle_all(ref)
                self.pulls.read_words(ref, entry.text)
        elif call.changes:
            self._read_edits(ref, call)
        elif call.kind == "agent":
            if call.status != "running" and _tells_of_commits(call.output):
                self._settle_all(ref)
                self.pulls.read_report(ref, call.output)
        elif call.kind == "shell" and call.command and call.status != "refused":
            self._read_shell(ref, call)
        elif call.kind == "other" and call.name == "exec":
            # What the calls of a script printed together.
            self._read_others(ref, call, call.output)
        elif call.kind == "other" and (entered := _ENTERED.search(call.output)):
            self._enter_worktree(ref, entered["path"] or entered["back"], entered["branch"] or "")
        elif call.kind == "other" and call.status != "error":
            self.pulls.read_connector(ref, call)

    def _settle_all(self, ref: int) -> None:
        """Note that anything edited before may have been committed by somebody else."""
        for checkout in self.checkouts:
            checkout.settle(ref, by_others=True)

    def _enter_worktree(self, ref: int, path: str, branch: str) -> None:
        """Follow the program into a worktree, and back."""
        root = locate("", path)
        here = next((c for c in self.checkouts if c.root == root), None)
        if here is None:
            self.checkouts.append(here := Checkout(root))
        self.cwd, self.current, here.is_known = root, here, True
        here.set_branch(branch, ref)

    def _read_edits(self, ref: int, call: ToolCall) -> None:
        for change in call.changes:
            path = join_folder(self.cwd, change.path)
            if path and (checkout := find_checkout(self.checkouts, path)):
                checkout.edited[path] = ref
                if checkout.is_known and not _is_scratch(checkout):
                    self.current = checkout

    def _read_shell(self, ref: int, call: ToolCall) -> None:
        """Read what one command line did and printed."""
        text, output = call.command, call.output.replace("\r", "\n")
        if text.startswith("git commit") and (match := _AIDER_COMMIT.match(output)):
            self.main.is_known = True
            self.log.add_commit(ref, match["hash"], match["subject"], self.main.branch)
            self.main.settle(ref, shlex.split(text)[3:])
            return
        self.published += read_published(ref, call)
        for branch in _OTHER_PUSH.findall(output) if "ushed" in output else ():
            self.log.mark_pushed(self.current.name_branch(branch))
        if not _TELLS.search(text):
            self._read_others(ref, call, output)
            return
        line, commands = list_repository_commands(call, self.cwd)
        if call.status == "running" and not output.strip():
            if any(c.program == "git" and c.verb in _ACTS for c in commands):
                self.current.maybe_ref = ref
            return
        printed = list(COMMIT.finditer(output)) if "] " in output else []
        places = dict.fromkeys(c.place for c in commands if c.program != "gh")
        for place in places:
            group = [c for c in commands if c.place == place and c.program != "gh"]
            makers = [c for c in commands if c.verb in MAKERS and not is_quiet(c)]
            shown = printed
            if len(places) > 1 and len(makers) == len(printed):
                pairs = zip(printed, makers, strict=True)
                shown = [match for match, maker in pairs if maker.place == place]
            elif len(places) > 1 and {c.place for c in makers} != {place}:
                shown = []
            self._read_group(ref, line, group, output, shown)
        if any(c.verb == "repo" and "--push" in c.words for c in commands) and call.status == "ok":
            self.log.mark_pushed(self.current.name_branch(self.current.branch))
        if printed and not any(c.verb in MAKERS for c in commands):
            self._read_others(ref, call, output)
        self.pulls.read_line(ref, line, commands, output, self.current.branch)

    def _read_group(
        self,
        ref: int,
        line: RepositoryLine,
        group: Sequence[RepositoryCommand],
        output: str,
        printed: Sequence[re.Match[str]],
    ) -> None:
        """Read the commands of git and jj that one line ran in one place."""
        place = group[0].place
        checkout = self._enter_checkout(place, group, output)
        on = {match["branch"] for match in printed}
        same = [c for c in self.checkouts if {c.branch} == on and c is not checkout]
        is_other = bool(checkout.branch) and checkout.branch not in on
        checkout = same[0] if len(same) == 1 and is_other else checkout
        for command in group:
            if command.program != "jj":
                continue
            # With jj every edit is in a commit, which may have no description yet.
            checkout.is_known = checkout.uses_jujutsu = True
            branch = checkout.name_branch(checkout.branch)
            if self.log.read_jujutsu(ref, command.verb, command.words, output, branch):
                checkout.settle(ref)
        if found := [c for c in group if c.program == "git"]:
            reading = GitReading(checkout, self.log, ref, line, output, found)
            reading.read(printed)
            self._note_worktrees(ref, place, reading)

    def _read_others(self, ref: int, call: ToolCall, output: str) -> None:
        """Read what a program did that is not git, and may have called it."""
        if _OTHER_MAKERS.search(call.command) and call.status in ("ok", "unknown"):
            self._settle_all(ref)
        name = call.command.split(None, 1)[0] if call.command.strip() else ""
        is_new = "Initialized empty Git repository" in output  # Of another folder.
        if "] " in output and COUNTED.search(output) and name not in _READS and not is_new:
            for match in COMMIT.finditer(output):
                self.log.add_commit(ref, match["hash"], match["subject"], match["branch"])
                self.current.set_branch(match["branch"], ref)
                self.current.settle(ref)

    def _enter_checkout(
        self, place: str | None, group: Sequence[RepositoryCommand], output: str
    ) -> Checkout:
        """Return the checkout of a place, a new one if it is in none that is known."""
        if place is None:
            return Checkout("", is_foreign=True)
        makes = [c for c in group if c.verb in ("init", "clone")]
        found = find_checkout(self.checkouts, place, is_place=True)
        shown = find_shown_branch(output) if found and found.root != place else ""
        if found and shown and found.branch_ref and shown != found.branch:
            found = None  # A submodule, or another repository in a folder of this one.
        if found is None or (makes and makes[0].verb == "init" and found.root != place):
            found = Checkout(place, is_foreign=True)
            self.checkouts.append(found)
        if "fatal: not a git repository" not in output and len(makes) < len(group):
            found.is_known = True
        if any(c.verb in _ACTS for c in group) and not _is_scratch(found):
            self.current = found
        return found

    def _note_worktrees(self, ref: int, place: str | None, reading: GitReading) -> None:
        """Note checkouts that git added, listed or removed."""
        for path, branch in reading.worktrees:
            root = join_folder(place, expand_home(path, self.cwd))
            if root and all(c.root != root for c in self.checkouts):
                new = Checkout(root, branch, is_foreign=reading.checkout.is_foreign)
                new.is_known, new.branch_ref = True, ref
                self.checkouts.append(new)
        for path in reading.gone_worktrees:
            root = join_folder(place, expand_home(path, self.cwd))
            self.checkouts = [c for c in self.checkouts if c.root != root or c is self.main]
            if self.current not in self.checkouts:
                self.current = self.main


def _tells_of_commits(report: str) -> bool:
    """Return whether a sub-agent reports a commit or a merge; words are found faster than the pattern."""
    low = report.lower()
    is_likely = "commit" in low or "merged" in low or "/pull/" in low
    return is_likely and bool(_AGENT_COMMITTED.search(report))


def _is_scratch(checkout: Checkout) -> bool:
    """Return whether a checkout is one that a trial made, and not a worktree or a clone of the work."""
    return checkout.is_foreign and not checkout.branch and is_noise(f"{checkout.root}/")
