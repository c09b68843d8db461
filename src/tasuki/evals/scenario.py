"""A case: a made-up thread, the goal of the next one, and what a brief must and must not hold.

The format is described in `cases/README.md`. A file is read strictly: a key that is not known is
an error, as is a step that the harness of the case has no way to write down.
"""

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, get_args

import msgspec
from msgspec import Struct

from tasuki.draft import brief as briefs
from tasuki.errors import UsageError
from tasuki.evals import filler
from tasuki.testing.thread_formats import FORMATS
from tasuki.testing.threads import ThreadBuilder

CASES = Path(__file__).with_name("cases")
"""The project's own cases, beside this file in the wheel too."""
Category = Literal["happy", "edge", "adversarial", "regression"]
CATEGORIES: tuple[Category, ...] = get_args(Category)
MOST_FILLER = 20_000
_KINDS = {
    "user": (), "assistant": (), "read": ("content",), "shell": ("output", "code"), "edit": ("old", "new"),
    "create": ("content",), "todos": (), "compaction": (), "interrupted": (), "filler": (), "handoff": (),
}  # fmt: skip
"""What a step may be, and the keys that belong to it."""
_ABSOLUTE = ("claude", "gemini", "gemini-json", "copilot", "opencode", "opencode-export")
"""Harnesses whose file tools are given whole paths."""
_GOAL_APART = ("pi", "omp")
"""Harnesses that record the goal of a handoff as a prompt of its own behind the brief."""
_AT = re.compile(r" - at `\$(.*?)`$")


class Fact(Struct, frozen=True, forbid_unknown_fields=True):
    """What a line of the brief must, or must not, hold: all of `needs` and nothing of `unless`."""

    kind: str
    needs: tuple[str, ...]
    unless: str = ""

    def told(self, line: str, around: str = "") -> bool:
        """Whether a line holds it; `around` is text in which `unless` counts too."""
        if not all(re.search(need, line, re.IGNORECASE) for need in self.needs):
            return False
        return not (self.unless and re.search(self.unless, f"{around}\n{line}", re.IGNORECASE))


class Step(Struct, frozen=True, forbid_unknown_fields=True):
    """One thing that happens in a thread: one of the keys of `_KINDS`, and what belongs to it."""

    user: str | None = None
    assistant: str | None = None
    read: str | None = None
    shell: str | None = None
    edit: str | None = None
    create: str | None = None
    todos: tuple[tuple[str, Literal["pending", "in_progress", "completed"]], ...] | None = None
    compaction: str | None = None
    interrupted: Literal[True] | None = None
    filler: int | None = None
    handoff: str | None = None
    content: str | None = None
    output: str | None = None
    code: int | None = None
    old: str | None = None
    new: str | None = None

    @property
    def kind(self) -> str:
        """The key that says what happens."""
        return next(kind for kind in _KINDS if getattr(self, kind) is not None)


class Link(Struct, frozen=True, forbid_unknown_fields=True):
    """A further thread of a chain, and the goal of the one after it."""

    goal: str
    steps: tuple[Step, ...]


class Case(Struct, frozen=True, forbid_unknown_fields=True):
    """One case as its file says it; `[[thread]]` are the steps of its first thread."""

    id: str
    category: Category
    about: str
    harness: str
    goal: str
    thread: tuple[Step, ...]
    cwd: str = "/home/dev/proj"
    smoke: bool = False
    expected_files: tuple[str, ...] = ()
    expected_commands: tuple[str, ...] = ()
    pass_criteria: str = ""
    expected_context: tuple[Fact, ...] = ()
    forbidden: tuple[Fact, ...] = ()
    chain: tuple[Link, ...] = ()

    @property
    def goals(self) -> tuple[str, ...]:
        """The goals of the handoffs, one for each thread."""
        return (self.goal, *(link.goal for link in self.chain))

    @property
    def threads(self) -> tuple[tuple[Step, ...], ...]:
        """The steps of each thread; the later ones begin with a brief."""
        return (self.thread, *(link.steps for link in self.chain))


# -- reading -------------------------------------------------------------------------------


def load(paths: Iterable[Path] = ()) -> list[Case]:
    """The cases of some files and folders, sorted by id; the project's own if none are named.

    Raises UsageError, naming file and key, for what is missing, broken or no case, and for an id
    that comes twice.
    """
    found: dict[str, tuple[Case, Path]] = {}
    for path in _files(tuple(paths) or (CASES,)):
        case = read(path)
        if (known := found.get(case.id)) and known[1].resolve() != path.resolve():
            raise UsageError(f"{path}: id: {case.id!r} is the id of {known[1]} too.")
        found[case.id] = case, path
    return [case for _, (case, _) in sorted(found.items())]


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if not path.is_dir():
            yield path
        elif inside := sorted(p for p in path.glob("*.toml") if p.name[0] != "."):
            yield from inside
        else:
            raise UsageError(f"{path} holds no case: no file in it ends in .toml.")


def read(path: Path) -> Case:
    """The case of a file. Raises UsageError, naming file and key."""
    try:
        text = path.read_text(encoding="utf-8")
        case = msgspec.convert(tomllib.loads(text), Case)
    except FileNotFoundError as exc:
        raise UsageError(f"No case {path}: there is no such file.") from exc
    except OSError as exc:
        raise UsageError(f"Cannot read the case {path}: {exc.strerror}.") from exc
    except msgspec.ValidationError as exc:
        raise UsageError(f"{path}: {_in_words(str(exc))}") from exc
    except (ValueError, RecursionError) as exc:
        raise UsageError(f"{path} is not valid TOML: {exc}.") from exc
    if problem := next(_problems(case, path), ""):
        raise UsageError(f"{path}: {problem}")
    return case


def _in_words(said: str) -> str:
    """What msgspec says of a file, with the place in front: `thread[2].user: Expected …`."""
    place = match[1].lstrip(".") if (match := _AT.search(said)) else ""
    said = _AT.sub("", said).replace("`", "")
    return f"{place}: {said}." if place else f"{said}."


def _problems(case: Case, path: Path) -> Iterator[str]:
    if case.id != path.stem:
        yield f"id: {case.id!r} should be {path.stem!r}, as the file is named."
    if case.harness not in FORMATS:
        yield f"harness: {case.harness!r} is not one of {', '.join(sorted(FORMATS))}."
    if not case.cwd.startswith("/"):
        yield f"cwd: {case.cwd!r} must be a whole path."
    for name in case.__struct_fields__:
        if getattr(case, name) in ("", ()) and name in ("id", "about", "goal", "thread"):
            yield f"{name}: it is empty."
    for name in ("expected_context", "forbidden"):
        for number, fact in enumerate(getattr(case, name)):
            yield from (f"{name}[{number}].{said}" for said in _fact_problems(fact))
    for where, steps in _places(case):
        if not steps:
            yield f"{where}: it holds no step."
        for number, step in enumerate(steps):
            yield from (f"{where}[{number}]{said}" for said in _step_problems(step, case.harness))


def _places(case: Case) -> Iterator[tuple[str, tuple[Step, ...]]]:
    yield "thread", case.thread
    for number, link in enumerate(case.chain):
        yield f"chain[{number}].steps", link.steps


def _fact_problems(fact: Fact) -> Iterator[str]:
    if not fact.needs:
        yield "needs: at least one expression is needed."
    patterns = [(f"needs[{n}]", need) for n, need in enumerate(fact.needs)]
    for key, pattern in [*patterns, ("unless", fact.unless)]:
        try:
            re.compile(pattern, re.IGNORECASE)
        except re.error as error:
            yield f"{key}: {pattern!r} is no regular expression: {error}."
    if any(re.search(need, "", re.IGNORECASE) for need in fact.needs if _compiles(need)):
        yield "needs: an expression that an empty line satisfies says nothing."


def _compiles(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True


def _step_problems(step: Step, harness: str) -> Iterator[str]:
    given = [name for name in step.__struct_fields__ if getattr(step, name) is not None]
    kinds = [name for name in given if name in _KINDS]
    if len(kinds) != 1:
        what = " and ".join(kinds) or "none"
        yield f": a step has one of the keys {', '.join(_KINDS)}; here is {what}."
        return
    kind = kinds[0]
    for name in given:
        if name != kind and name not in _KINDS[kind]:
            yield f".{name}: it does not belong to {kind!r}."
    if kind == "edit" and (step.old is None or step.new is None):
        yield ".edit: it needs `old` and `new`."
    if kind == "filler" and not 1 <= (step.filler or 0) <= MOST_FILLER:
        yield f".filler: {step.filler} must be between 1 and {MOST_FILLER}."
    if kind not in ("filler", "handoff") and harness in FORMATS and not _can_write(step, harness):
        yield f".{kind}: threads of {harness} have no such thing."


def _can_write(step: Step, harness: str) -> bool:
    builder = ThreadBuilder(harness)
    before = len(builder.records)
    _write(builder, step, harness, "/")
    return len(builder.records) > before


# -- building ------------------------------------------------------------------------------


def build(case: Case, link: int = 0, earlier: str = "") -> ThreadBuilder:
    """The thread of a case, or of one link of its chain, which begins with an `earlier` brief.

    `earlier` is the brief that was made of the thread before, without its goal.
    """
    builder = ThreadBuilder(case.harness, case.cwd, seed=link)
    if link:
        _begin(builder, earlier, case.goals[link - 1], case.harness)
    project = filler.Project(f"{case.id}/{link}", _paths(case), _avoids(case))
    for step in case.threads[link]:
        if step.filler is None:
            _write(builder, step, case.harness, case.cwd)
        for kind, given in project.work(step.filler or 0):
            path = _path(given[0], case.harness, case.cwd) if kind in ("read", "edit") else given[0]
            getattr(builder, kind)(path, *given[1:])
    return builder


def _begin(builder: ThreadBuilder, earlier: str, goal: str, harness: str) -> None:
    """Write the first prompt of a successor, as its harness records it."""
    if harness in _GOAL_APART:
        builder.handoff(earlier).user(goal)
    else:  # One prompt holds both; `handoff` writes the title itself.
        builder.handoff(briefs.join(earlier.removeprefix(f"{briefs.TITLE}\n"), goal))


def _write(builder: ThreadBuilder, step: Step, harness: str, cwd: str) -> None:
    kind = step.kind
    given = getattr(step, kind)
    if kind in ("user", "assistant", "compaction"):
        getattr(builder, kind)(given.strip("\n"))
    elif kind == "shell":
        builder.shell(given, step.output or "", step.code or 0)
    elif kind == "edit":
        builder.edit(_path(given, harness, cwd), step.old or "", step.new or "")
    elif kind in ("read", "create"):
        getattr(builder, kind)(_path(given, harness, cwd), step.content or "")
    elif kind == "todos":
        builder.todos(*given)
    elif kind == "interrupted":
        builder.interrupted()
    else:
        builder.handoff(given)


def _path(path: str, harness: str, cwd: str) -> str:
    """A path as the tools of a harness are given it."""
    absolute = harness in _ABSOLUTE and not path.startswith(("/", "~"))
    return f"{cwd.rstrip('/')}/{path}" if absolute else path


def _paths(case: Case) -> tuple[str, ...]:
    """The files that a case speaks of, in order."""
    found = [*case.expected_files]
    for steps in case.threads:
        found += [p for s in steps if (p := s.read or s.edit or s.create)]
    return tuple(dict.fromkeys(found))


def _avoids(case: Case) -> Callable[[str], bool]:
    """Whether a line holds what a case looks for, so that no filler may have it."""
    sought = [
        [re.compile(need, re.IGNORECASE) for need in fact.needs]
        for fact in (*case.expected_context, *case.forbidden)
    ]
    return lambda line: any(all(need.search(line) for need in needs) for needs in sought)
