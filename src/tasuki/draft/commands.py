"""Shell commands of a thread: what ran, how it ended, which were checks, what was learnt."""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from tasuki.draft.text import error_line, one_line, shorten
from tasuki.model import CommandFact, Entry, Quote

Check = str

_CHECKS: tuple[tuple[Check, re.Pattern[str]], ...] = (
    ("commit", re.compile(r"\bgit\s+(?:-\S+\s+)*commit\b")),
    (
        "test",
        re.compile(
            r"\b(?:pytest|go\s+test|cargo\s+(?:test|nextest)|(?:npm|pnpm|yarn|bun)\s+(?:-\S+\s+)*(?:run\s+)?test\S*|npx\s+(?:vitest|jest|"
            r"playwright)|vitest|jest|tox|nox|make\s+\S*test\S*|mise\s+(?:run\s+)?\S*test\S*|just\s+test\S*|ctest|rspec|phpunit|"
            r"mvn\s+\S*test|gradlew?\s+\S*test|deno\s+test|unittest|mix\s+test|dotnet\s+test|swift\s+test|\S{0,200}/test\S{0,200}\.sh|"
            r"scripts/test|run_tests?\S*|node\s+--test|bats)\b"
        ),
    ),
    (
        "lint",
        re.compile(
            r"\b(?:golangci-lint|ruff|eslint|biome|clippy|mypy|pyright|tsc|flake8|rubocop|shellcheck|prettier\s+(?:-c|--check)|black\s+--check|gofmt\s+-[ld]|"
            r"(?:npm|pnpm|yarn|bun)\s+(?:-\S+\s+)*run\s+(?:check|lint|typecheck)\S*|(?:mise|make|just)\s+(?:run\s+)?\S*"
            r"(?:lint|check|typecheck)\S*|go\s+vet|scripts/check)\b"
        ),
    ),
    (
        "build",
        re.compile(
            r"\b(?:go\s+build|cargo\s+(?:build|check)|(?:npm|pnpm|yarn|bun)\s+(?:-\S+\s+)*run\s+build|make(?:\s+(?:all|build))?$|cmake|"
            r"(?:mise|just)\s+(?:run\s+)?build|docker\s+build|mvn\s+(?:package|compile)|gradlew?\s+build|vite\s+build|webpack)\b"
        ),
    ),
)
_NAVIGATION = re.compile(
    r"^(?:ls|ll|cd|pwd|cat|head|tail|sed\s+-n|nl|grep|rg|ag|find|fd|tree|wc|which|file|stat|echo|printf|awk|jq|sort|uniq|"
    r"less|more|du|df|env|whoami|date|sleep|true|type|command\s+-v|test\s|\[|mkdir|git\s+(?:-C\s+\S+\s+|--no-pager\s+)*(?:status|log|diff|show|branch|"
    r"remote|stash\s+list|rev-parse|ls-files|blame|add|fetch|grep|reflog|describe|config\s+--get|check-ignore|merge-base|"
    r"cat-file|ls-tree|ls-remote|rev-list|checkout|switch))\b"
)
_FAILED_OUTPUT = re.compile(
    r"(?m)^(?:FAIL\b|--- FAIL|not ok \d|E\s{3,}|panic: |Traceback \(most recent|npm ERR!|npm error|make: \*\*\*|"
    r"error(?:\[E\d+\])?: )|\berror TS\d"
)
_OUTCOME = re.compile(
    r"(?i)^(?:FAIL|ok\s|PASS|---\s+FAIL|OK\b|Success|test result|Tests?:|=+ .*(?:passed|failed|error).* =+|Found \d+|"
    r"all checks passed|.*\b\d+ (?:passed|failed|passing|failing|errors?|issues?|problems?|failures?)\b)"
)
_VERDICT = re.compile(r"\b(?:pass(?:ed|ing)?|fail(?:ed|ing|ures?)?|ok)\b", re.IGNORECASE)
_CD = re.compile(r"^\s*cd\s+(\S+)\s*(?:&&|;)\s*")
_HEREDOC = re.compile(r"<<-?\s*['\"]?(\w+)['\"]?")
_COMMIT_LINE = re.compile(
    r"^(?:\[[^\]\s]+(?: \([^)]*\))? ([0-9a-f]{7,40})\]|Commit ([0-9a-f]{7,40})) (.+)$", re.MULTILINE
)
"""As git writes it, or as aider does."""
_FILTERED = re.compile(
    r"\s-(?:run|k|t)[ =]|::|\s--(?:filter|grep|testNamePattern|test-name-pattern)[ =]|_test\.\w+|\.(?:test|spec)\."
)
_SPLIT = re.compile(r"&&|\|\||;|\n")


class Run:
    """One run of one command; `command` is without a leading `cd` into a folder.

    Whether a check failed behind a pipe is read from its output only when somebody asks.
    """

    __slots__ = ("_ok", "by_user", "check", "command", "known", "navigation", "output", "ref")

    def __init__(
        self,
        ref: int,
        command: str,
        ok: bool,
        output: str,
        check: Check,
        by_user: bool,
        known: bool,
    ) -> None:
        self.ref = ref
        self.command = command
        self.output = output
        self.check = check
        self.navigation = not check and is_navigation(command)
        self.by_user = by_user
        self.known = known or bool(check and output)
        """Whether the thread tells how it ended; some harnesses do not record that."""
        self._ok: bool | None = False if not ok else None if check in _TOLD_BY_OUTPUT else True

    @property
    def ok(self) -> bool:
        """Whether it passed."""
        if self._ok is None:
            self._ok = not says_failed(self.output)
        return self._ok


_TOLD_BY_OUTPUT = ("test", "lint", "build")
_TRIGGERS = frozenset(
    "commit pytest test tests nextest vitest jest playwright tox nox ctest rspec phpunit unittest bats lint golangci ruff "
    "eslint biome clippy mypy pyright tsc prettier black gofmt flake rubocop shellcheck check typecheck format fmt vet build "
    "make cmake package compile webpack".split()
)
_LETTERS = re.compile(r"[a-z]+")
_SAID_ONLY = re.compile(r"\"[^\"\n]{0,2000}\"|'[^'\n]{0,2000}'|https?://\S+")
"""What a command is given as a text or an address: `echo "build"` builds nothing."""
_RUNS_A_STRING = re.compile(r"\b(?:bash|sh|zsh|eval|exec|ssh|docker|xargs|tmux|nix|su|timeout)\b")


@lru_cache(maxsize=50_000)
def check_kind(command: str) -> Check:
    """`test`, `lint`, `build` or `commit`, empty for any other command."""
    head = _HEREDOC.split(command)[0] if "<<" in command else command
    if _TRIGGERS.isdisjoint(_LETTERS.findall(head)):
        return ""
    if not _RUNS_A_STRING.search(head):
        head = _SAID_ONLY.sub(" ", head)
    return next((kind for kind, pattern in _CHECKS if pattern.search(head)), "")


@lru_cache(maxsize=50_000)
def is_navigation(command: str) -> bool:
    """Whether a command only looks around: nothing a successor would have to be told."""
    head = _HEREDOC.split(command)[0]
    parts = [p for part in _SPLIT.split(head) if (p := part.strip())]
    return all(_NAVIGATION.match(p.lstrip("( ")) for p in parts)


_HINTS = ("ail", "AIL", "rror", "not ok ", "E  ", "panic: ", "Traceback", "ERR!", "***")
_COUNTED = (" failed", " failing", " error", " failure")


def says_failed(output: str) -> bool:
    """Whether the output of a check tells of a failure, whatever the exit code was.

    Plain searches first: outputs are long, and most of them hold none of the words.
    """
    for hint in _HINTS:
        if hint in output:
            break
    else:
        return False
    return bool(_FAILED_OUTPUT.search(output)) or any(_counts(output, word) for word in _COUNTED)


def _counts(output: str, word: str) -> bool:
    """Whether a number other than 0 stands before a word."""
    at = output.find(word)
    while at > 0:
        start = at
        while start and output[start - 1].isdigit():
            start -= 1
        number = output[start:at]
        if number.strip("0") and not (start and output[start - 1] in "._-"):
            return True
        at = output.find(word, at + 1)
    return False


def runs(entries: Iterable[Entry]) -> list[Run]:
    """All shell commands that have ended, in order."""
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
        command = _CD.sub("", call.command.strip())
        ok = call.status in ("ok", "unknown", "running")
        by_user = entry.origin == "command"
        check, known = check_kind(command), call.status not in ("unknown", "aborted")
        found.append(Run(entry.ref, command, ok, call.output, check, by_user, known))
    return found


def outcome(run: Run) -> str:
    """The line of a check's output that says how it went; empty if there is none."""
    best, weight = "", 0
    for line in run.output.split("\n"):
        if len(line) >= 400 or not _OUTCOME.match(line.strip("= \t\r")):
            continue
        says = 2 if _VERDICT.search(line) else 1
        if says >= weight:
            best, weight = line, says
        if not run.ok and says_failed(line):
            best = line
            break
    return shorten(one_line(best).strip("= "), 140)


def error_of(run: Run) -> str:
    """The line that says why a run failed; empty for one that passed."""
    return "" if run.ok else error_line(run.output)


def facts(all_runs: Sequence[Run]) -> tuple[CommandFact, ...]:
    """One fact per distinct command, newest first; commands that only look around are left out."""
    seen: dict[str, list[Run]] = {}
    for run in all_runs:
        if not run.navigation and run.check != "commit":
            seen.setdefault(run.command, []).append(run)
    newest = sorted(seen.values(), key=lambda group: -group[-1].ref)
    return tuple(_fact(group) for group in newest)


def _fact(group: list[Run]) -> CommandFact:
    last = group[-1]
    return CommandFact(
        command=last.command,
        refs=tuple(r.ref for r in group),
        ok=last.ok,
        error=error_of(last),
        outcome=outcome(last) if last.check else "",
        check=last.check,  # type: ignore[arg-type]
        by_user=last.by_user,
        known=last.known,
    )


def last_checks(all_runs: Sequence[Run]) -> tuple[CommandFact, ...]:
    """The last run of each kind of check that says how things stand."""
    last: dict[Check, Run] = {}
    for run in all_runs:
        if run.check in ("test", "lint", "build") and run.known:
            last[run.check] = run
    return tuple(_fact([run]) for run in sorted(last.values(), key=lambda r: -r.ref))


def is_selection(command: str) -> bool:
    """Whether a test command runs only a part of the suite."""
    return bool(_FILTERED.search(command))


def commits(all_runs: Iterable[Run]) -> tuple[Quote, ...]:
    """Commits the thread made, as `hash subject`, oldest first."""
    found = []
    for run in all_runs:
        if run.check == "commit" or "git" in run.command:
            for match in _COMMIT_LINE.finditer(run.output):
                commit = f"{match[1] or match[2]} {match[3].strip()}"
                found.append(Quote(text=commit, ref=run.ref))
    return tuple(found)


_MESSAGE = re.compile(r"""\s-\w*m\s*(?:"([^"\n]+)"|'([^'\n]+)')""")


def subjects(all_runs: Iterable[Run]) -> tuple[Quote, ...]:
    """What commits were said to be, by the message that the command was given."""
    return tuple(
        Quote(text=match[1] or match[2], ref=run.ref)
        for run in all_runs
        if run.check == "commit" and run.ok and (match := _MESSAGE.search(run.command))
    )


def short_command(command: str, limit: int = 260) -> str:
    """A command on one line; a heredoc or a long tail is left off and marked with `…`."""
    if "<<" in command and (match := _HEREDOC.search(command)):
        command = command[: match.start()].rstrip().removesuffix('"$(cat') + " …"
    return shorten(one_line(command), limit)


_PLUMBING = re.compile(
    r" ?(?:2>&1|2>/dev/null|> ?/dev/null|\| ?(?:tail|head|grep|cat|less|wc|sed|awk|sort)\b.*)"
)


def base_command(command: str) -> str:
    """A command without redirections and pipe tails: what makes two runs the same command."""
    return one_line(_PLUMBING.sub("", one_line(command)))


_TELLS_ABOUT_ITSELF = re.compile(r"(?:^|\s)(?:--help|--version|version|help|-h)(?:\s|$)")


def asks_about_itself(command: str) -> bool:
    """Whether a command only asks a program for its help or version."""
    return len(command) < 200 and bool(_TELLS_ABOUT_ITSELF.search(command))


def _is_whole(step: str) -> bool:
    """Whether a step can be run by itself: no open quote, no rest of a script, no mere assignment."""
    balanced = not (step.count('"') % 2 or step.count("'") % 2) and step.count("(") == step.count(
        ")"
    )
    return balanced and not step.endswith(("\\", " -")) and not _NO_COMMAND.match(step)


_NO_COMMAND = re.compile(r"#|[A-Za-z_]\w*=\S*$")
MAX_STEPS = 4_000
"""Characters from which a command is a script, whose steps nobody runs one by one."""


def steps(command: str) -> list[str]:
    """The parts of a command that do something, without pipe tails and what only looks around."""
    if len(command) > MAX_STEPS:
        return []
    head = _HEREDOC.split(command)[0]
    parts = (base_command(part) for part in _SPLIT.split(head))
    return [p for p in parts if len(p) > 3 and not is_navigation(p) and _is_whole(p)]


def runnable(command: str, limit: int = 260) -> bool:
    """Whether `short_command` keeps the whole command."""
    return not command.count("\n") and "<<" not in command and len(command) <= limit
