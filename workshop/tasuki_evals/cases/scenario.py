"""A case: an invented thread, the goal of the next one, and what a brief must (not) contain.

The format is described in `cases/README.md`. A file is read strictly: an unknown key is an
error, and so is a step that the case's harness cannot record.
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
from tasuki_evals.cases import filler
from tasuki_testing.builder import ThreadBuilder
from tasuki_testing.thread_formats import FORMATS

CASES_FOLDER = Path(__file__).parent
"""The project's own cases, next to this file in the wheel too."""
Category = Literal["happy", "edge", "adversarial", "regression"]
CATEGORIES: tuple[Category, ...] = get_args(Category)
MAX_FILLER = 20_000
_STEP_KINDS = {
    "user": (), "assistant": (), "read": ("content",), "shell": ("output", "code"), "edit": ("old", "new"),
    "create": ("content",), "todos": (), "compaction": (), "interrupted": (), "filler": (), "handoff": (),
}  # fmt: skip
"""The kinds of steps, and the keys that belong to them."""
_ABSOLUTE_PATH_HARNESSES = (
    "claude", "gemini", "gemini-json", "copilot", "opencode", "opencode-export",
)  # fmt: skip
"""Harnesses whose file tools get whole paths."""
_SEPARATE_GOAL_HARNESSES = ("pi", "omp")
"""Harnesses that record a handoff's goal as a separate prompt after the brief."""
_AT = re.compile(r" - at `\$(.*?)`$")


class CaseFact(Struct, frozen=True, forbid_unknown_fields=True):
    """What a line of the brief must, or must not, contain: all of `needs` and none of `unless`."""

    kind: str
    needs: tuple[str, ...]
    unless: str = ""

    def matches_line(self, line: str, around: str = "") -> bool:
        """Return whether a line contains it; `around` is text in which `unless` counts too."""
        if not all(re.search(need, line, re.IGNORECASE) for need in self.needs):
            return False
        return not (self.unless and re.search(self.unless, f"{around}\n{line}", re.IGNORECASE))


class CaseStep(Struct, frozen=True, forbid_unknown_fields=True):
    """One event in a thread: one of the keys of `_STEP_KINDS`, and the keys that belong to it."""

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
        return next(kind for kind in _STEP_KINDS if getattr(self, kind) is not None)


class ChainLink(Struct, frozen=True, forbid_unknown_fields=True):
    """A further thread of a chain, and the goal of the one after it."""

    goal: str
    steps: tuple[CaseStep, ...]


class ScenarioCase(Struct, frozen=True, forbid_unknown_fields=True):
    """One case as its file says it; `[[thread]]` are the steps of its first thread."""

    id: str
    category: Category
    about: str
    harness: str
    goal: str
    thread: tuple[CaseStep, ...]
    cwd: str = "/home/dev/proj"
    smoke: bool = False
    expected_files: tuple[str, ...] = ()
    expected_commands: tuple[str, ...] = ()
    pass_criteria: str = ""
    expected_context: tuple[CaseFact, ...] = ()
    forbidden: tuple[CaseFact, ...] = ()
    chain: tuple[ChainLink, ...] = ()

    @property
    def goals(self) -> tuple[str, ...]:
        """The goals of the handoffs, one for each thread."""
        return (self.goal, *(link.goal for link in self.chain))

    @property
    def threads(self) -> tuple[tuple[CaseStep, ...], ...]:
        """The steps of each thread; the later ones begin with a brief."""
        return (self.thread, *(link.steps for link in self.chain))


def load_cases(paths: Iterable[Path] = ()) -> list[ScenarioCase]:
    """Return the cases of some files and folders, sorted by id; by default the project's own.

    Raises UsageError, naming file and key, for what is missing, broken or no case, and for an
    id that occurs twice.
    """
    found: dict[str, tuple[ScenarioCase, Path]] = {}
    for path in _list_files(tuple(paths) or (CASES_FOLDER,)):
        case = read_case(path)
        if (known := found.get(case.id)) and known[1].resolve() != path.resolve():
            raise UsageError(f"{path}: id: {case.id!r} is also the id of {known[1]}.")
        found[case.id] = case, path
    return [case for _, (case, _) in sorted(found.items())]


def _list_files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if not path.is_dir():
            yield path
        elif inside := sorted(p for p in path.glob("*.toml") if p.name[0] != "."):
            yield from inside
        else:
            raise UsageError(f"{path} contains no case: none of its files ends in .toml.")


def read_case(path: Path) -> ScenarioCase:
    """Return the case of a file. Raises UsageError, naming file and key."""
    try:
        text = path.read_text(encoding="utf-8")
        case = msgspec.convert(tomllib.loads(text), ScenarioCase)
    except FileNotFoundError as exc:
        raise UsageError(f"No case {path}: there is no such file.") from exc
    except OSError as exc:
        raise UsageError(f"Cannot read the case {path}: {exc.strerror}.") from exc
    except msgspec.ValidationError as exc:
        raise UsageError(f"{path}: {_format_problem(str(exc))}") from exc
    except (ValueError, RecursionError) as exc:
        raise UsageError(f"{path} is not valid TOML: {exc}.") from exc
    if problem := next(_find_problems(case, path), ""):
        raise UsageError(f"{path}: {problem}")
    return case


def _format_problem(message: str) -> str:
    """Return msgspec's message with the place in front: `thread[2].user: Expected …`."""
    place = match[1].lstrip(".") if (match := _AT.search(message)) else ""
    message = _AT.sub("", message).replace("`", "")
    return f"{place}: {message}." if place else f"{message}."


def _find_problems(case: ScenarioCase, path: Path) -> Iterator[str]:
    if case.id != path.stem:
        yield f"id: {case.id!r} should be {path.stem!r}, as the file is named."
    if case.harness not in FORMATS:
        yield f"harness: {case.harness!r} is not one of {', '.join(sorted(FORMATS))}."
    if not case.cwd.startswith("/"):
        yield f"cwd: {case.cwd!r} must be an absolute path."
    for name in case.__struct_fields__:
        if getattr(case, name) in ("", ()) and name in ("id", "about", "goal", "thread"):
            yield f"{name}: empty."
    for name in ("expected_context", "forbidden"):
        for number, fact in enumerate(getattr(case, name)):
            yield from (f"{name}[{number}].{said}" for said in _find_fact_problems(fact))
    places = ("thread", *(f"chain[{number}].steps" for number in range(len(case.chain))))
    for where, steps in zip(places, case.threads, strict=True):
        if not steps:
            yield f"{where}: contains no step."
        for number, step in enumerate(steps):
            for said in _find_step_problems(step, case.harness):
                yield f"{where}[{number}]{said}"


def _find_fact_problems(fact: CaseFact) -> Iterator[str]:
    if not fact.needs:
        yield "needs: at least one expression is needed."
    patterns = [(f"needs[{n}]", need) for n, need in enumerate(fact.needs)]
    matches_empty = False
    for key, pattern in [*patterns, ("unless", fact.unless)]:
        try:
            found = re.search(pattern, "", re.IGNORECASE)
        except re.error as error:
            yield f"{key}: {pattern!r} is not a regular expression: {error}."
        else:
            matches_empty = matches_empty or bool(found and key != "unless")
    if matches_empty:
        yield "needs: an expression that matches an empty line proves nothing."


def _find_step_problems(step: CaseStep, harness: str) -> Iterator[str]:
    present_keys = [name for name in step.__struct_fields__ if getattr(step, name) is not None]
    kinds = [name for name in present_keys if name in _STEP_KINDS]
    if len(kinds) != 1:
        what = " and ".join(kinds) or "none"
        yield f": a step has one of the keys {', '.join(_STEP_KINDS)}; here is {what}."
        return
    kind = kinds[0]
    for name in present_keys:
        if name != kind and name not in _STEP_KINDS[kind]:
            yield f".{name}: it does not belong to {kind!r}."
    if kind == "edit" and (step.old is None or step.new is None):
        yield ".edit: it needs `old` and `new`."
    if kind == "filler" and not 1 <= (step.filler or 0) <= MAX_FILLER:
        yield f".filler: {step.filler} must be between 1 and {MAX_FILLER}."
    if kind not in ("filler", "handoff") and harness in FORMATS and not _can_write(step, harness):
        yield f".{kind}: threads of {harness} do not support it."


def _can_write(step: CaseStep, harness: str) -> bool:
    builder = ThreadBuilder(harness)
    before = len(builder.records)
    _write_step(builder, step, harness, "/")
    return len(builder.records) > before


def build_thread(case: ScenarioCase, link: int = 0, earlier: str = "") -> ThreadBuilder:
    """Return the thread of a case, or of one link of its chain, which begins with `earlier`.

    `earlier` is the brief that was made of the thread before, without its goal.
    """
    builder = ThreadBuilder(case.harness, case.cwd, seed=link)
    if link:  # The first prompt of a successor, as its harness records it.
        goal = case.goals[link - 1]
        if case.harness in _SEPARATE_GOAL_HARNESSES:
            builder.handoff(earlier).user(goal)
        else:  # One prompt contains both; `handoff` writes the title itself.
            builder.handoff(briefs.join_brief(earlier.removeprefix(f"{briefs.TITLE}\n"), goal))
    project = filler.FillerProject(f"{case.id}/{link}", _list_paths(case), _build_avoid_test(case))
    for step in case.threads[link]:
        if step.filler is None:
            _write_step(builder, step, case.harness, case.cwd)
        for kind, (first, *more) in project.generate_work(step.filler or 0):
            if kind in ("read", "edit"):
                first = _format_tool_path(first, case.harness, case.cwd)
            getattr(builder, kind)(first, *more)
    return builder


def _write_step(builder: ThreadBuilder, step: CaseStep, harness: str, cwd: str) -> None:
    kind = step.kind
    value = getattr(step, kind)
    if kind in ("user", "assistant", "compaction"):
        getattr(builder, kind)(value.strip("\n"))
    elif kind == "shell":
        builder.shell(value, step.output or "", step.code or 0)
    elif kind == "edit":
        builder.edit(_format_tool_path(value, harness, cwd), step.old or "", step.new or "")
    elif kind in ("read", "create"):
        getattr(builder, kind)(_format_tool_path(value, harness, cwd), step.content or "")
    elif kind == "todos":
        builder.todos(*value)
    elif kind == "interrupted":
        builder.interruption()
    else:
        builder.handoff(value)


def _format_tool_path(path: str, harness: str, cwd: str) -> str:
    """Return a path as the tools of a harness get it."""
    absolute = harness in _ABSOLUTE_PATH_HARNESSES and not path.startswith(("/", "~"))
    return f"{cwd.rstrip('/')}/{path}" if absolute else path


def _list_paths(case: ScenarioCase) -> tuple[str, ...]:
    """Return the files that a case names, in order."""
    found = [*case.expected_files]
    for steps in case.threads:
        found += [p for s in steps if (p := s.read or s.edit or s.create)]
    return tuple(dict.fromkeys(found))


def _build_avoid_test(case: ScenarioCase) -> Callable[[str], bool]:
    """Return a test whether a line contains what a case looks for, so that no filler has it."""
    sought = [
        [re.compile(need, re.IGNORECASE) for need in fact.needs]
        for fact in (*case.expected_context, *case.forbidden)
    ]
    return lambda line: any(all(need.search(line) for need in needs) for needs in sought)
