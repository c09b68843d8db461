"""Shell commands of a thread: what ran, how it ended, which were checks, what was learnt."""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from msgspec.structs import replace

from tasuki.draft.facts.command_kinds import (
    NAVIGATION,
    CheckKind,
    identify_check_kind,
    list_simple_commands,
    strip_variables,
)
from tasuki.draft.facts.command_kinds import find_check_kind as find_check_kind
from tasuki.draft.facts.command_kinds import find_formatter as find_formatter
from tasuki.draft.facts.command_kinds import is_bookkeeping as is_bookkeeping
from tasuki.draft.facts.command_kinds import is_exit_code_hidden as is_exit_code_hidden
from tasuki.draft.facts.command_kinds import is_help_or_version as is_help_or_version
from tasuki.draft.facts.command_kinds import is_navigation as is_navigation
from tasuki.draft.facts.command_kinds import is_selection as is_selection
from tasuki.draft.facts.command_kinds import list_check_kinds as list_check_kinds
from tasuki.draft.facts.failed_tests import list_failed_tests
from tasuki.draft.text.split import find_error_line, fold_whitespace, shorten
from tasuki.model import CommandFact, Entry, Quote, ToolCall
from tasuki.patterns import compile_pattern

_FAILED_OUTPUT = compile_pattern(
    r"(?m)^(?:FAIL\b|--- FAIL|not ok \d|E\s{3,}|panic: |Traceback \(most recent|npm ERR!|npm error|make: \*\*\*|"
    r"error(?:\[E\d+\])?: )|\berror TS\d"
)
_COMPLAINT = compile_pattern(
    r"^(?:vet: )?[\w./@+-]+\.[a-z]{1,4}:\d+:\d+: (?!warning|note|info)\S", re.MULTILINE
)
"""What a compiler or linter says about a place: file, line, column, message."""
_FILTER = compile_pattern(r"(?:e?grep\s+(?!-\w*v)|rg\s|sort\b|uniq\b|wc\b|awk\b|cut\b|jq\b)")
"""Programs whose output omits how the check before the pipe ended."""
_OUTCOME = compile_pattern(
    r"(?i)^(?:FAIL|ok\s|PASS|---\s+FAIL|OK\b|Success|test result|Tests?:|=+ .*(?:passed|failed|error).* =+|Found \d+|"
    r"all checks passed|.*\b\d+ (?:passed|failed|passing|failing|errors?|issues?|problems?|failures?)\b)"
)
_VERDICT = compile_pattern(r"\b(?:pass(?:ed|ing)?|fail(?:ed|ing|ures?)?|ok)\b", re.IGNORECASE)
_CD = compile_pattern(r"^\s*cd\s+(\S+)\s*(?:&&|;)\s*")
_HEREDOC = compile_pattern(r"<<-?\s*['\"]?(\w+)['\"]?")


class CommandRun:
    """One run of one command; `command` is without a leading `cd` into a folder.

    Whether a check failed before a pipe is read from its output only on demand.
    """

    __slots__ = ("_call", "_ok", "by_user", "check", "command", "known", "navigation", "ref")

    def __init__(
        self,
        ref: int,
        command: str,
        ok: bool,
        call: ToolCall,
        check: CheckKind,
        by_user: bool,
        known: bool,
    ) -> None:
        self.ref = ref
        self.command = command
        self._call = call
        self.check = check
        self.navigation = not check and is_navigation(command)
        self.by_user = by_user
        self.known = known
        """Whether the thread tells how it ended; some harnesses do not record that."""
        self._ok: bool | None = False if not ok else None if check in _JUDGED_BY_OUTPUT else True

    @property
    def output(self) -> str:
        """What it printed."""
        return self._call.output

    @property
    def ok(self) -> bool:
        """Whether it passed."""
        if self._ok is None:
            is_compiled = self.check in ("lint", "build") and not self.has_exit_code
            self._ok = not (
                is_failure_output(self.output) or (is_compiled and _COMPLAINT.search(self.output))
            )
        return self._ok

    @property
    def has_exit_code(self) -> bool:
        """Whether its exit code is its own.

        Else it is that of a program that reads its output or follows it.
        """
        return not is_exit_code_hidden(self.command)


_JUDGED_BY_OUTPUT = ("test", "lint", "build")
_HINTS = (
    ("a", "ail"), ("r", "rror"), ("k", "not ok "), (":", "panic: "), ("A", "AIL"), ("E", "E  "),
    ("T", "Traceback"), ("!", "ERR!"), ("*", "***"),
)  # fmt: skip
"""A character, which is found fastest, and the word that it is part of."""
_COUNTED = (" failed", " failing", " error", " failure")


def is_failure_output(output: str) -> bool:
    """Return whether the output of a check reports a failure, whatever the exit code was.

    Plain searches come first: outputs are long, and most of them contain none of the words.
    """
    for character, hint in _HINTS:
        if character in output and hint in output:
            break
    else:
        return False
    return bool(_FAILED_OUTPUT.search(output)) or any(_has_count(output, word) for word in _COUNTED)


def _has_count(output: str, word: str) -> bool:
    """Return whether a number other than 0 is before a word."""
    index = output.find(word)
    while index > 0:
        start = index
        while start and output[start - 1].isdigit():
            start -= 1
        number = output[start:index]
        if number.strip("0") and not (start and output[start - 1] in "._-"):
            return True
        index = output.find(word, index + 1)
    return False


def list_runs(entries: Iterable[Entry]) -> list[CommandRun]:
    """Return all shell commands that have ended, in order."""
    found = []
    for entry in entries:
        call = entry.tool
        if (
            call is None
            or call.kind != "shell"
            or not call.command
            or call.status in ("refused", "running")
        ):
            continue
        command = call.command.strip()
        if command.startswith("cd"):
            command = _CD.sub("", command)
        ok = call.status in ("ok", "unknown", "running")
        by_user = entry.origin == "command"
        check = find_check_kind(command)
        known = call.status != "aborted" and (
            call.status != "unknown" or bool(check and call.output)
        )
        found.append(CommandRun(entry.ref, command, ok, call, check, by_user, known))
    return found


_COUNT = compile_pattern(
    r"\b(\d[\d,]*) (?:tests? )?(?:passed|passing|issues?|errors?|problems?|warnings?|tests?)\b|\b(?:passed|passing|total)\W{1,3}(\d[\d,]*)"
)
_PACKAGE = compile_pattern(r"(?m)^ok\s+\S+\s+(?:\(cached\)|[\d.]+s)(?!.*\[no tests? )")
_NOTHING_RUN = compile_pattern(
    r"(?m)\[no tests? to run\]|no tests ran|^No tests? (?:found|were)|\bcollected 0 items|testing: warning: no tests to run"
)


def find_outcome(run: CommandRun) -> str:
    """Return the line of a check's output that says how it went, or an empty string.

    Of several lines that count something, return the one that counts most. Go's packages are
    counted.
    """
    best, weight = "", (0, 0)
    is_empty = has_run_nothing(run)
    for line in run.output.split("\n"):
        if len(line) >= 400 or not _may_be_outcome(line):
            continue
        if not _OUTCOME.match(line.strip("= \t\r")):
            continue
        if not run.ok and is_failure_output(line):
            best = line
            break
        counted = max(
            (int((m[1] or m[2]).replace(",", "")) for m in _COUNT.finditer(line)), default=-1
        )
        says = (2 if counted >= 0 else 1 if _VERDICT.search(line) else 0, counted)
        if not is_empty and _NOTHING_RUN.search(line):
            says = (0, -2)
        if says >= weight:
            best, weight = line, says
    if run.ok and best.startswith("ok"):
        packages = len(_PACKAGE.findall(run.output))
        if packages > 1:
            return f"ok in {packages} packages"
    return shorten(fold_whitespace(best).strip("= "), 140)


_OUTCOME_WORDS = ("ok", "fail", "pass", "success", "test", "found ", "error", "issue", "problem")


def _may_be_outcome(line: str) -> bool:
    """Return whether a line holds a word that an outcome needs; outputs have many lines."""
    low = line.lower()
    return any(word in low for word in _OUTCOME_WORDS)


def has_run_nothing(run: CommandRun) -> bool:
    """Return whether a test run says that it ran no test at all."""
    output = run.output
    may_say_so = "no test" in output or "No test" in output or "collected 0 items" in output
    if run.check != "test" or not may_say_so or not _NOTHING_RUN.search(output):
        return False
    return not (
        _PACKAGE.search(output) or re.search(r"\b[1-9]\d* passed|^--- PASS", output, re.MULTILINE)
    )


def find_error(run: CommandRun) -> str:
    """Return the line that says why a run failed, or an empty string if it passed."""
    return "" if run.ok else find_error_line(run.output)


def build_command_facts(all_runs: Sequence[CommandRun]) -> tuple[CommandFact, ...]:
    """One fact per distinct command, newest first, without commands that only look around."""
    seen: dict[str, list[CommandRun]] = {}
    for run in all_runs:
        if not run.navigation and run.check != "commit":
            seen.setdefault(run.command, []).append(run)
    newest = sorted(seen.values(), key=lambda group: -group[-1].ref)
    return tuple(_build_fact(group) for group in newest)


def _build_fact(group: list[CommandRun]) -> CommandFact:
    last = group[-1]
    return CommandFact(
        command=last.command,
        refs=tuple(r.ref for r in group),
        ok=last.ok,
        error=find_error(last),
        outcome=find_outcome(last) if last.check else "",
        check=last.check,  # type: ignore[arg-type]
        by_user=last.by_user,
        known=last.known,
        failed_tests=list_failed_tests(last.output) if last.check == "test" and not last.ok else (),
    )


def find_last_checks(all_runs: Sequence[CommandRun]) -> tuple[CommandFact, ...]:
    """Return the last run of each kind of check that gives the current state."""
    last: dict[CheckKind, CommandRun] = {}
    for run in reversed(all_runs):
        if not all(kind in last for kind in _list_judged_kinds(run)):
            for kind in _list_shown_kinds(run):
                last.setdefault(kind, run)
    if len(set(last.values())) < len(last):  # One run gives several: the kind that came first.
        order = dict.fromkeys(kind for run in all_runs for kind in _list_shown_kinds(run))
        last = {kind: last[kind] for kind in order}
    newest = sorted(last.items(), key=lambda pair: -pair[1].ref)
    return tuple(replace(_build_fact([run]), check=kind) for kind, run in newest)


def _list_shown_kinds(run: CommandRun) -> list[CheckKind]:
    """Return the kinds of checks of which a run shows how they ended."""
    if not (run.known and run.check) or _is_hidden(run):
        return []
    return _list_ended_kinds(run)


def _list_judged_kinds(run: CommandRun) -> list[CheckKind]:
    return [kind for kind in list_check_kinds(run.command) if kind in _JUDGED_BY_OUTPUT]


def _is_hidden(run: CommandRun) -> bool:
    """Return whether a filter reads the check's output and hides how it ended."""
    filtered = any(c.is_piped and _FILTER.match(c.text) for c in list_simple_commands(run.command))
    return filtered and not (find_outcome(run) or is_failure_output(run.output))


def _list_ended_kinds(run: CommandRun) -> list[CheckKind]:
    """Return the kinds of checks whose result a run gives.

    In `lint && test` the second did not run if the first failed. The output says whether the
    tests failed; else it was the first.
    """
    kinds = _list_judged_kinds(run)
    if len(kinds) < 2 or run.ok:
        return kinds
    parts = [c for c in list_simple_commands(run.command) if not c.is_piped]
    ordered = list(dict.fromkeys(k for c in parts if (k := identify_check_kind(c.text)) in kinds))
    if any(c.operator not in ("", "&&") for c in parts):
        return kinds
    has_failed_test = "test" in kinds and _FAILED_TEST.search(run.output)
    return ["test"] if has_failed_test else ordered[:1]


_FAILED_TEST = compile_pattern(
    r"^(?:--- FAIL|FAIL\b|not ok \d|E\s{3,})|\b[1-9]\d* (?:failed|failing)\b", re.MULTILINE
)


_MESSAGE = compile_pattern(r"""\s-\w*m\s*(?:"([^"\n]+)"|'([^'\n]+)')""")


def list_commit_subjects(all_runs: Iterable[CommandRun]) -> tuple[Quote, ...]:
    """Return the subjects of commits, from the message in the command."""
    return tuple(
        Quote(text=match[1] or match[2], ref=run.ref)
        for run in all_runs
        if run.check == "commit" and run.ok and (match := _MESSAGE.search(run.command))
    )


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
"""Characters of a step, and steps from which a command is a script, which people do not
run line by line.
"""
_PROGRAM = compile_pattern(r"[\w./~@+-]*[A-Za-z][\w./~@+-]*$")
_ONE_OFF = compile_pattern(
    r"(?:rm|cp|mv|mkdir|touch|kill|pkill|wait|export|set|unset|source|\.|exit|return|read|tee|diff|chmod|tr|cut|xargs|for|sleep)\b(?!\.)"
)


@lru_cache(maxsize=50_000)
def _split_steps(command: str) -> tuple[str, ...]:
    found = []
    for part in list_simple_commands(command):
        text = part.text
        bare = strip_variables(text)
        if part.is_piped or not 4 <= len(text) <= MAX_STEP or not bare or NAVIGATION.match(bare):
            continue
        if (
            _ONE_OFF.match(bare)
            or text.endswith((" -", " \\"))
            or not _PROGRAM.match(bare.split(None, 1)[0])
        ):
            continue
        found.append(text)
    return tuple(found) if len(found) <= MOST_STEPS else ()


def split_steps(command: str) -> list[str]:
    """Return the parts of a command line that do something.

    Pipe tails and parts that only look around are left out.
    """
    return list(_split_steps(command))


def is_runnable(command: str, limit: int = 260) -> bool:
    """Return whether `shorten_command` keeps the whole command."""
    return not command.count("\n") and "<<" not in command and len(command) <= limit
