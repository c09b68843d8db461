"""Shell commands of a thread: what ran, how it ended, which were checks, what was learnt."""

from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache, reduce

from msgspec.structs import replace

from tasuki.draft.runs.command_kinds import (
    NAVIGATION,
    find_change,
    identify_started,
    list_simple_commands,
    may_hold_tests,
    strip_variables,
)
from tasuki.draft.runs.command_kinds import find_check_kind as find_check_kind
from tasuki.draft.runs.command_kinds import find_formatter as find_formatter
from tasuki.draft.runs.command_kinds import is_bookkeeping as is_bookkeeping
from tasuki.draft.runs.command_kinds import is_exit_code_hidden as is_exit_code_hidden
from tasuki.draft.runs.command_kinds import is_help_or_version as is_help_or_version
from tasuki.draft.runs.command_kinds import is_navigation as is_navigation
from tasuki.draft.runs.command_kinds import list_check_kinds as list_check_kinds
from tasuki.draft.runs.ended_line import find_exit_code, sum_up_suites
from tasuki.draft.runs.outcomes import (
    NEVER_STARTED,
    NOT_SHOWN,
    TIMED_OUT,
    Judgement,
    combine_judgements,
    find_blocker,
    judge_checks,
)
from tasuki.draft.runs.runners import JUDGED, CheckKind
from tasuki.draft.runs.scopes import (
    CheckScope,
    RunPlaces,
    is_selection,
    is_whole_suite,
    join_folder,
    list_scopes,
    may_cover,
)
from tasuki.draft.runs.summaries import (
    find_reason,
    is_good_line,
    list_failed_files,
    list_failed_tests,
    prints_passed_tests,
)
from tasuki.draft.text.split import fold_whitespace, shorten
from tasuki.model import CommandFact, Entry, Quote, RunResult, Suite, ToolCall
from tasuki.patterns import compile_pattern

_SCRATCH = compile_pattern(r"(?:/private)?/(?:tmp|var/folders)/")
_LINE_NUMBER = compile_pattern(r"(?m)^ *\d+(?:\t|→)")
"""What a tool puts before each line of a file."""
LEADING_CD = compile_pattern(r"^\s*cd\s+(\S+)[ \t]*(?:\|\|[ \t]*exit\b[ \t\d]*)?(?:&&|;|\n)\s*")
_HEREDOC = compile_pattern(r"<<-?\s*['\"]?(\w+)['\"]?")


class CommandRun:
    """One run of one command line; `command` is without a leading `cd` into a folder.

    How a check ended is read from its output, and only on demand.
    """

    __slots__ = (
        "_call", "_cwd", "_folders", "_judged", "_judgement", "by_user", "check", "command",
        "folder", "navigation", "of_other_files", "ref", "trees", "without_stashed",
    )  # fmt: skip

    def __init__(
        self, entry: Entry, call: ToolCall, folders: tuple[str | None, str | None], cwd: str
    ) -> None:
        self.ref = entry.ref
        command = call.command.strip()
        if (cd := LEADING_CD.match(command)) and join_folder(cwd, cd[1].strip("\"'")) == cwd:
            command = command[cd.end() :]
        self.command = command
        self._call, self._cwd = call, cwd
        self._folders = folders
        is_elsewhere = call.workdir and folders[0] != cwd
        self.folder = (folders[0] or "").removeprefix(f"{cwd}/") if is_elsewhere else ""
        """Where it began, by the call and not by the command, if not in the thread's own folder."""
        self.check = find_check_kind(command)
        self.of_other_files = False
        """The files on which it ran were put back at once: it says nothing of those that are there."""
        self.without_stashed = False
        """It ran without changes that were stashed, and are so still."""
        self.trees: Collection[str] = ()
        """Worktrees that the thread added to look at another state."""
        self._judged: dict[CheckKind, Judgement] | None = None
        self._judgement: Judgement | None = None
        self.navigation = not self.check and is_navigation(command)
        self.by_user = entry.origin == "command"

    @property
    def output(self) -> str:
        """What it printed."""
        return self._call.output

    @property
    def is_in_folder(self) -> bool:
        """Whether it began in the thread's own folder for sure."""
        return set(self._folders) == {self._cwd}

    def list_scopes(self, kind: CheckKind) -> list[tuple[CheckScope, ...]]:
        """List what the checks of a kind in it look at: if no `cd` before lasts, and if each does."""
        both = (list_scopes(self._call.command, folder) for folder in self._folders)
        return [tuple(one for one in scopes if one.kind == kind) for scopes in both]

    def is_of_scratch(self, kind: CheckKind, edited: Collection[str]) -> bool:
        """Return whether the checks of a kind look at a scratch folder, in which no tool edited a file."""
        folders = {one.folder for one in self.list_scopes(kind)[0]} - {self._cwd}
        return bool(folders) and all(
            folder
            and (_SCRATCH.match(f"{folder}/") or folder in self.trees)
            and not self._cwd.startswith(folder)
            and not any(path.startswith(folder) for path in edited)
            for folder in folders
        )

    @property
    def judged(self) -> dict[CheckKind, Judgement]:
        """How each kind of check in it ended."""
        if self._judged is None:
            is_check = self.check not in ("", "commit") and not self.of_other_files
            self._judged = judge_checks(self._call.command, self._call) if is_check else {}
        return self._judged

    @property
    def judgement(self) -> Judgement:
        """How all of it ended: as the worst of its checks, or else by its exit code."""
        if self._judgement is None:
            self._judgement = self._judge()
        return self._judgement

    def _judge(self) -> Judgement:
        if self.judged:
            return reduce(combine_judgements, self.judged.values())
        if self.of_other_files:
            return NOT_SHOWN
        code = find_exit_code(self._call)
        if self.was_blocked:
            return Judgement("did not run")
        if code is None or code in TIMED_OUT or (code == 0 and is_exit_code_hidden(self.command)):
            return NOT_SHOWN
        return Judgement("did not run" if code in NEVER_STARTED else "failed" if code else "passed")

    @property
    def result(self) -> RunResult:
        """How all of it ended."""
        return self.judgement.result

    @property
    def ok(self) -> bool:
        """Whether it is proven to have passed."""
        return self.result == "passed"

    @property
    def known(self) -> bool:
        """Whether the thread proves how it ended."""
        return self.result in ("passed", "failed")

    @property
    def went_wrong(self) -> bool:
        """Whether it failed or did not run, so that it changed nothing that can be relied on."""
        return self.result in ("failed", "did not run")

    @property
    def was_blocked(self) -> bool:
        """Whether a hook, a rule or its program did not let it begin."""
        return bool(find_blocker(self._call))

    def build_look(self, line: str, look: ToolCall) -> ToolCall:
        """Build the call that its own would be as this line, with what a look at its log shows."""
        shown = _LINE_NUMBER.sub("", look.output) if look.kind == "read" else look.output
        made, is_whole = self._call, len(look.output) >= look.output_size
        size = len(shown) if is_whole else look.output_size
        ended = (shown, size, made.status, made.exit_code)
        return ToolCall(made.id, made.name, "shell", line, "", (), (), None, *ended)

    def retake(self, call: ToolCall) -> None:
        """Judge it by another call, which shows more of it."""
        self._call, self._judged, self._judgement = call, None, None


def list_runs(entries: Iterable[Entry], cwd: str = "") -> list[CommandRun]:
    """Return all shell commands that were run in a thread of a folder; one that the user refused is none."""
    found: list[CommandRun] = []
    places = RunPlaces(cwd)
    for entry in entries:
        call = entry.tool
        if call is None or call.status == "refused":
            continue
        if call.changes and not all(_SCRATCH.match(change.path) for change in call.changes):
            places.take_edit()
        if call.kind == "shell" and call.command:
            places.take_run(len(found), call.command)
            found.append(CommandRun(entry, call, places.find_folders(call), places.cwd))
            found[-1].trees = places.trees
    for number in places.left:
        found[number].of_other_files = bool(found[number].check)
    for number in places.list_stashed():
        found[number].without_stashed = True
    return found


_PACKAGE = compile_pattern(
    r"(?m)^(?:\[[\w:.-]+\] )?ok\s+\S+\s+(?:\(cached\)|[\d.]+s)(?!.*\[no tests? )"
)


def find_outcome(run: CommandRun, kind: CheckKind = "") -> str:
    """Return the line of a check's output that says how it went, or an empty string.

    Go's packages are counted, the tests of several suites added up.
    """
    judged = run.judged.get(kind or run.check, NOT_SHOWN)
    if judged.result == "passed" and judged.line.startswith("ok"):
        packages = len(_PACKAGE.findall(run.output))
        if packages > 1:
            return f"ok in {packages} packages"
    if judged.result == "passed" and (total := sum_up_suites(judged.line, run.output)):
        return total
    return shorten(fold_whitespace(judged.line).strip("= "), 140)


def find_error(run: CommandRun) -> str:
    """Return the line that says why a run failed or did not run; empty for any other."""
    if not run.went_wrong:
        return ""
    judgement = run.judgement
    error = find_reason(run.command, run.check, run.output, judgement.line)
    if judgement.line and (judgement.result == "did not run" or is_good_line(error)):
        return shorten(judgement.line, 240)
    return "" if is_good_line(error) else error


_ECHOED = compile_pattern(r"(?m)^(?:\[[\w:.-]+\] )?[$>] (\S.*(?:test|spec|check|verify).*)$")
"""A command that a runner of tasks prints before it runs it."""


def find_suite(run: CommandRun) -> Suite:
    """Find which tests a run of a command runs, by the command or by those that it prints."""
    if is_selection(run.command):
        return "selection"
    if is_whole_suite(run.command):
        return "whole"
    if "test" in list_check_kinds(run.command):
        return "part"
    if "test" in run.judged and any(map(is_whole_suite, _ECHOED.findall(run.output))):
        return "whole"
    return "unknown" if "test" in run.judged or may_hold_tests(run.command) else ""


def build_command_facts(
    all_runs: Sequence[CommandRun], entries: Sequence[Entry] = ()
) -> tuple[CommandFact, ...]:
    """One fact per distinct command, newest first, without commands that only look around."""
    seen: dict[str, list[CommandRun]] = {}
    for run in all_runs:
        if not run.navigation and run.check != "commit":
            seen.setdefault(run.command, []).append(run)
    newest = sorted(seen.values(), key=lambda group: -group[-1].ref)
    facts = [build_fact(group) for group in newest]
    whole = next((n for n, one in enumerate(facts) if one.suite == "whole"), -1)
    if whole >= 0:
        changed_by = find_change_since(entries, facts[whole].refs[-1])
        facts[whole] = replace(facts[whole], changed_by=changed_by)
    return tuple(facts)


def build_fact(group: Sequence[CommandRun], kind: CheckKind = "") -> CommandFact:
    """Build the fact of a command from its runs, the newest last."""
    last = group[-1]
    check = kind or last.check
    result = last.judged[check].result if check in last.judged else last.result
    return CommandFact(
        command=last.command,
        refs=tuple(r.ref for r in group),
        result=result,
        error=find_error(last) if result in ("failed", "did not run") else "",
        outcome=find_outcome(last, check) if check else "",
        check=check,  # type: ignore[arg-type]
        by_user=last.by_user,
        folder=last.folder,
        without_stashed=last.without_stashed,
        suite=find_suite(last),
        failed_tests=list_failed_tests(last.output)
        if check == "test" and result == "failed"
        else (),
    )


def makes_up_for(
    later: CommandRun, failed: CommandRun, kind: CheckKind, *, surely: bool = False
) -> bool:
    """Return whether a later run may have looked at all that failed in an earlier one, of one kind of check.

    `surely`: it cannot have left out anything.
    """
    ways = later.list_scopes(kind)
    if not ways[0]:
        passes = kind == "test" and not later.navigation and prints_passed_tests(later.output)
        return passes and not surely
    names = (list_failed_tests if kind == "test" else list_failed_files)(failed.output)
    covered = [
        all(may_cover(scopes, one, names, surely=surely) for one in wanted)
        for scopes, wanted in zip(ways, failed.list_scopes(kind), strict=True)
    ]
    return all(covered) if surely else any(covered)


_READING = frozenset("read search todo plan background ask skill web edit write".split())
"""Kinds of tools that change no file without saying so."""


_CHANGES_AS_A_WHOLE = compile_pattern(
    r"\s*git\s+(?:checkout|switch|restore|reset|submodule|clean|mv|rm)\b[^;&|\n]*$"
)
"""Commands that change nothing where they fail."""


def find_change_since(entries: Sequence[Entry], ref: int) -> str | None:
    """Return the last command behind an entry that changes files, beside the edits of tools.

    None where none is known, and something ran of which nobody knows what it changed.
    """
    changed: str | None = ""
    for entry in reversed(entries):
        call = entry.tool
        if entry.ref <= ref:
            break
        if call is None or call.status == "refused" or call.kind in _READING:
            continue
        is_undone = call.status == "error" and _CHANGES_AS_A_WHOLE.match(call.command)
        if find_blocker(call) or is_undone:
            continue
        found = find_change(call.command) if call.kind == "shell" and call.command else None
        if found and call.status == "running":
            found = None  # Nobody knows what it has done.
        if found and not call.changes:
            return found
        changed = None if found is None else changed
    return changed


def find_last_checks(
    all_runs: Sequence[CommandRun], entries: Sequence[Entry] = ()
) -> tuple[CommandFact, ...]:
    """Return for each kind of check the last run whose result is known, the newest first.

    It is the last run, whose result says why, where none is known, or where that one failed and
    nobody can judge a newer one of the same: it may have passed.
    """
    known: dict[CheckKind, CommandRun] = {}
    unseen: dict[CheckKind, CommandRun] = {}
    stopped: dict[CheckKind, CommandRun] = {}
    edited = {c.path for e in entries if e.tool for c in e.tool.changes}
    for run in reversed(all_runs):
        if len(known) == len(JUDGED):
            break
        for kind, judged in run.judged.items():
            if run.is_of_scratch(kind, edited):
                continue
            if kind not in known:
                by_result = {"not shown": unseen, "did not run": stopped}
                by_result.get(judged.result, known).setdefault(kind, run)
    for kind, run in unseen.items():
        failed = known.get(kind)
        is_failed = failed and failed.judged[kind].result == "failed"
        if failed and is_failed and makes_up_for(run, failed, kind, surely=True):
            del known[kind]
    last = {**stopped, **unseen, **known}
    kinds = sorted(last, key=lambda kind: (-last[kind].ref, JUDGED.index(kind)))
    return tuple(
        replace(
            build_fact([last[kind]], kind),
            unseen=unseen[kind].ref if kind in known and kind in unseen else 0,
            changed_by=find_change_since(entries, last[kind].ref),
        )
        for kind in kinds
    )


_MESSAGE = compile_pattern(r"""\s-\w*m\s*(?:"([^"\n]+)"|'([^'\n]+)')""")


def list_commit_subjects(all_runs: Iterable[CommandRun]) -> tuple[Quote, ...]:
    """Return the subjects of commits, from the message in the command."""
    return tuple(
        Quote(text=match[1] or match[2], ref=run.ref)
        for run in all_runs
        if "commit" in list_check_kinds(run.command)
        and not run.went_wrong
        and (match := _MESSAGE.search(run.command))
    )


def shorten_check(command: str, kinds: Collection[CheckKind], limit: int = 140) -> str:
    """Return the steps of a command line that run checks of some kinds, behind the `cd` before them.

    It is all of the line, without the filters at its end, where one of them is in a loop or none is there.
    """
    shown, folder = "", ""
    is_task = not set(kinds) <= set(list_check_kinds(command))
    for part in list_simple_commands(command):
        started = None if part.is_piped else identify_started(part)
        if part.text.startswith("cd "):
            folder = f"{part.text} && "
        elif started and (started.runner.kind in kinds or (is_task and started.runner.is_wrapper)):
            if part.in_block:
                shown = ""
                break
            joint = f" {part.operator} " if part.operator in ("&&", "||") else "; "
            shown += f"{joint if shown else ''}{folder}{part.text}"
            limit, folder = limit + len(folder), ""
    return shorten_command(shown or strip_filter(command), limit)


def shorten_command(command: str, limit: int = 260) -> str:
    """Return a command on one line; a heredoc or a long tail is cut and marked with `…`."""
    if "<<" in command and (match := _HEREDOC.search(command)):
        command = command[: match.start()].rstrip().removesuffix('"$(cat') + " …"
    return shorten(fold_whitespace(command), limit)


_PLUMBING = compile_pattern(
    r" ?(?:2>&1|2>/dev/null|> ?/dev/null|\| ?(?:tail|head|grep|cat|less|wc|sed|awk|sort)\b.*)"
)


_FILTER_AT_END = compile_pattern(
    r"(?: ?2>&1| ?2>/dev/null| ?> ?/dev/null| ?\| ?(?:tail|head|grep|cat|less|wc|sed|awk|sort)\b[^&;|\n]*)+$"
)


def strip_filter(command: str) -> str:
    """Return a command line on one line without the redirections and filters at its end."""
    return _FILTER_AT_END.sub("", fold_whitespace(command))


@lru_cache(maxsize=1_024)
def normalize_command(command: str) -> str:
    """A command without redirections and pipe tails, to tell whether two runs are the same."""
    return fold_whitespace(_PLUMBING.sub("", fold_whitespace(command)))


MAX_STEP, MOST_STEPS = 400, 60
"""Characters of a step, and steps from which a command is a script, which people do not run line by line."""
_PROGRAM = compile_pattern(r"[\w./~@+-]*[A-Za-z][\w./~@+-]*$")
_ONE_OFF = compile_pattern(
    r"(?:rm|cp|mv|mkdir|touch|kill|pkill|wait|export|set|unset|source|\.|exit|return|read|tee|diff|chmod|tr|cut|xargs|for|sleep)\b(?!\.)"
)


@lru_cache(maxsize=50_000)
def split_steps(command: str) -> tuple[str, ...]:
    """Return the parts of a command line that do something.

    Pipe tails and parts that only look around are left out.
    """
    found = []
    for part in list_simple_commands(command):
        text = part.text
        bare = strip_variables(text)
        if part.is_piped or not 4 <= len(text) <= MAX_STEP or not bare:
            continue
        if NAVIGATION.match(bare) or _ONE_OFF.match(bare) or text.endswith((" -", " \\")):
            continue
        if not _PROGRAM.match(bare.split(None, 1)[0]):
            continue
        found.append(shorten_command(text, MAX_STEP) if "<<" in text else text)
    return tuple(found) if len(found) <= MOST_STEPS else ()


def is_runnable(command: str, limit: int = 260) -> bool:
    """Return whether `shorten_command` keeps the whole command."""
    return not command.count("\n") and "<<" not in command and len(command) <= limit
