"""Shell commands of a thread: what ran, how it ended, which were checks, what was learnt."""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from msgspec.structs import replace

from tasuki.draft.text import error_line, one_line, shorten
from tasuki.model import CommandFact, Entry, Quote
from tasuki.shell import SimpleCommand, split_commands, strip_assignments

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
_FILTERED = re.compile(
    r"\s-(?:run|k|t)[ =]|::|\s--(?:filter|grep|testNamePattern|test-name-pattern)[ =]|_test\.\w+|\.(?:test|spec)\."
)


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
    "eslint biome clippy mypy pyright tsc prettier black gofmt flake rubocop shellcheck check typecheck types format fmt vet build "
    "make cmake package compile webpack".split()
)
_LETTERS = re.compile(r"[a-z]+")
_SAID_ONLY = re.compile(r"\"[^\"\n]{0,2000}\"|'[^'\n]{0,2000}'|https?://\S+")
"""What a command is given as a text or an address: `./notify "make lint"` checks nothing."""
_RUNS_A_STRING = re.compile(r"(?:bash|sh|zsh|eval|exec|ssh|docker|podman|xargs|tmux|nix\S*|su|sudo|timeout|env|watch)\b")
_ACTS_ON_OTHERS = re.compile(
    r"(?:git|gh|jj|sed|perl|tee|cp|mv|rm|touch|chmod|kill|pkill|pip3?|brew|apt(?:-get)?|curl|wget|tar|ps|pgrep)\b(?!\s+(?:-\S+\s+)*commit\b)"
    r"|(?:npm|pnpm|yarn|bun)\s+(?:-\S+\s+)*(?:install|i|add|ci|uninstall|view|ls|list)\b|go\s+(?:install|get|env|list|mod)\b"
    r"|(?:cargo|uv|poetry|pipx)\s+(?:install|add|remove|update|tool)\b|mise\s+(?:install|use|ls|tasks|trust)\b|docker\s+(?:pull|images|ps|logs|inspect)\b"
)
"""Programs that do something to files or packages whose names may be those of a check."""
_BENCHMARK = re.compile(r"go test\b.*\s-run[= ]['\"]?(?:\^\$|x|XXX|NONE|none|\^#)['\"]?(?:\s|$)")
"""Go's way to run benchmarks and no test."""


@lru_cache(maxsize=50_000)
def simple_commands(command: str) -> tuple[SimpleCommand, ...]:
    """The simple commands of a command line; none of a script that nobody runs line by line."""
    return tuple(split_commands(command)) if len(command) <= MAX_SCRIPT else ()


@lru_cache(maxsize=50_000)
def check_kinds(command: str) -> tuple[Check, ...]:
    """Which of `test`, `lint`, `build` and `commit` a command line runs, in this order."""
    if _TRIGGERS.isdisjoint(_LETTERS.findall(command)):
        return ()
    found = {_kind_of(c.text) for c in simple_commands(command) if not c.piped}
    return tuple(kind for kind, _ in _CHECKS if kind in found)


def check_kind(command: str) -> Check:
    """The first of `check_kinds`, empty where a command runs no check."""
    return next(iter(check_kinds(command)), "")


def _kind_of(text: str) -> Check:
    """What one simple command checks, told by the program that it runs."""
    text = strip_assignments(text)
    if _ACTS_ON_OTHERS.match(text) or _NAVIGATION.match(text) or asks_about_itself(text):
        return ""
    if _BENCHMARK.search(text):
        return ""
    if not _RUNS_A_STRING.match(text):
        text = _SAID_ONLY.sub(" ", text)
    return next((kind for kind, pattern in _CHECKS if pattern.search(text)), "")


@lru_cache(maxsize=50_000)
def is_navigation(command: str) -> bool:
    """Whether a command only looks around: nothing a successor would have to be told."""
    found = simple_commands(command)
    return bool(found) and all(_NAVIGATION.match(strip_assignments(c.text)) for c in found)


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


_COUNT = re.compile(r"\b(\d[\d,]*) (?:tests? )?(?:passed|passing|issues?|errors?|problems?|warnings?|tests?)\b|\b(?:passed|passing|total)\W{1,3}(\d[\d,]*)")
_PACKAGE = re.compile(r"(?m)^ok\s+\S+\s+(?:\(cached\)|[\d.]+s)(?!.*\[no tests? )")
_NOTHING_RUN = re.compile(r"(?m)\[no tests? to run\]|no tests ran|^No tests? (?:found|were)|\bcollected 0 items|testing: warning: no tests to run")


def outcome(run: Run) -> str:
    """The line of a check's output that says how it went; empty if there is none.

    Of several that count something the one that counts most; Go's packages are counted.
    """
    best, weight = "", (0, 0)
    for line in run.output.split("\n"):
        if len(line) >= 400 or not _OUTCOME.match(line.strip("= \t\r")):
            continue
        if not run.ok and says_failed(line):
            best = line
            break
        counted = max((int((m[1] or m[2]).replace(",", "")) for m in _COUNT.finditer(line)), default=-1)
        says = (2 if counted >= 0 else 1 if _VERDICT.search(line) else 0, counted)
        if says >= weight:
            best, weight = line, says
    if run.ok and best.startswith("ok"):
        packages = len(_PACKAGE.findall(run.output))
        if packages > 1:
            return f"ok in {packages} packages"
    return shorten(one_line(best).strip("= "), 140)


def ran_nothing(run: Run) -> bool:
    """Whether a test run says that it ran no test at all."""
    if run.check != "test" or not _NOTHING_RUN.search(run.output):
        return False
    return not (_PACKAGE.search(run.output) or re.search(r"\b[1-9]\d* passed|^--- PASS", run.output, re.MULTILINE))


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
        if run.known:
            last |= {kind: run for kind in check_kinds(run.command) if kind in _TOLD_BY_OUTPUT}
    newest = sorted(last.items(), key=lambda pair: -pair[1].ref)
    return tuple(replace(_fact([run]), check=kind) for kind, run in newest)


def is_selection(command: str) -> bool:
    """Whether a test command runs only a part of the suite."""
    return bool(_FILTERED.search(command))


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


MAX_SCRIPT = 20_000
"""Characters from which a command is a script."""
MAX_STEP, MOST_STEPS = 400, 60
"""Characters of a step, and steps from which a command is a script, which nobody runs line by line."""
_PROGRAM = re.compile(r"[\w./~@+-]*[A-Za-z][\w./~@+-]*$")
_BOOKKEEPING = re.compile(
    r"git\s+(?:-\S+\s+(?:/\S+\s+)?)*(?:status|log|diff|show|branch|remote|rev-parse|ls-files|blame|add|fetch|grep|reflog|describe|config|stash|"
    r"checkout|switch|commit|push|pull|merge|rebase|reset|restore|tag|worktree|cherry-pick|merge-base|cat-file|ls-tree)\b"
)
_ONE_OFF = re.compile(r"(?:rm|cp|mv|mkdir|touch|kill|pkill|wait|export|set|unset|source|\.|exit|return|read|tee|diff|chmod|tr|cut|xargs|for|sleep)\b(?!\.)")


@lru_cache(maxsize=50_000)
def _steps(command: str) -> tuple[str, ...]:
    found = []
    for part in simple_commands(command):
        text = part.text
        bare = strip_assignments(text)
        if part.piped or not 4 <= len(text) <= MAX_STEP or not bare or _NAVIGATION.match(bare):
            continue
        if _ONE_OFF.match(bare) or text.endswith((" -", " \\")) or not _PROGRAM.match(bare.split(None, 1)[0]):
            continue
        found.append(text)
    return tuple(found) if len(found) <= MOST_STEPS else ()


def steps(command: str) -> list[str]:
    """The parts of a command line that do something, without pipe tails and what only looks around."""
    return list(_steps(command))


def is_bookkeeping(step: str) -> bool:
    """Whether a step is git's everyday work, which nobody has to be told to repeat."""
    return bool(_BOOKKEEPING.match(step))


def runnable(command: str, limit: int = 260) -> bool:
    """Whether `short_command` keeps the whole command."""
    return not command.count("\n") and "<<" not in command and len(command) <= limit
