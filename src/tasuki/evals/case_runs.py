"""Runs cases: writes each thread, makes the handoff from the file, and judges the brief.

A judgement is yes or no. What a brief holds is told by the expressions of the case, line by line;
whether it invents anything by `tasuki.evals.fidelity`.
"""

import hashlib
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from tasuki import harness as harnesses
from tasuki.config import Loaded
from tasuki.draft import brief as briefs
from tasuki.draft import pipeline
from tasuki.evals import author, fidelity, scenario
from tasuki.evals.fidelity import COMMANDS, FILES, Invented
from tasuki.evals.proportion import Proportion, proportion
from tasuki.evals.scenario import CATEGORIES, Case, Fact
from tasuki.model import Authorship, Goal, Thread

BUDGET = 1500
CHARACTERS = BUDGET * 4
"""Of a brief without its goal."""
DEPTHS = (1, 2, 3, 5)
"""Handoffs after which a chain is looked at."""
_PLUMBING = ("|", ">", "2>", "&>")


class Held(Struct, frozen=True):
    """A fact, and the line of the brief that holds it; empty if none does."""

    kind: str
    needs: tuple[str, ...]
    line: str = ""


class Leak(Struct, frozen=True):
    """Something forbidden, and the line that says it."""

    kind: str
    line: str


class Verdict(Struct, frozen=True):
    """What became of one thread in one brief."""

    entries: int
    size: int
    missing_files: tuple[str, ...]
    missing_commands: tuple[str, ...]
    context: tuple[Held, ...]
    leaks: tuple[Leak, ...]
    invented: tuple[Invented, ...]
    author: str = "offline"
    model: str = ""
    fell: tuple[str, ...] = ()
    """Why an author that should have written it did not."""

    @property
    def kept(self) -> int:
        """How many facts stand in the brief."""
        return sum(bool(fact.line) for fact in self.context)

    @property
    def clean(self) -> bool:
        """Within the size, nothing forbidden, nothing invented."""
        return self.size <= CHARACTERS and not self.leaks and not self.invented

    @property
    def complete(self) -> bool:
        """Everything that was expected stands in it."""
        missing = self.missing_files or self.missing_commands
        return not missing and self.kept == len(self.context)


class Result(Struct, frozen=True):
    """One case with the verdict on its brief; of a chain, on each brief."""

    case: Case
    verdicts: tuple[Verdict, ...]

    @property
    def first(self) -> Verdict:
        """The verdict on the brief of the first thread."""
        return self.verdicts[0]

    @property
    def survivors(self) -> tuple[int, ...]:
        """How many of the facts that a chain is about stand in each brief."""
        kinds = _chain_kinds(self.case)
        return tuple(sum(bool(f.line) for f in v.context if f.kind in kinds) for v in self.verdicts)

    @property
    def sought(self) -> int:
        """How many facts a chain is about."""
        return sum(f.kind in _chain_kinds(self.case) for f in self.case.expected_context)

    @property
    def passed(self) -> bool:
        """Complete and clean; a chain: all clean, and no fewer facts at the end than at the start."""
        if not all(verdict.clean for verdict in self.verdicts):
            return False
        if not self.case.chain:
            return self.first.complete
        at = [self.survivors[depth - 1] for depth in DEPTHS if depth <= len(self.verdicts)]
        return at[-1] >= at[0] > 0


def _chain_kinds(case: Case) -> frozenset[str]:
    """Constraints are what a chain is about; of one that has none, all facts."""
    kinds = frozenset(fact.kind for fact in case.expected_context)
    return kinds & {"constraint"} or kinds


# -- running -------------------------------------------------------------------------------


def settings(usual: Loaded) -> Loaded:
    """The settings for cases: the user's choice of author and model, and defaults."""
    return author.settings(usual, BUDGET)


def run(
    cases: Iterable[Case],
    loaded: Loaded,
    *,
    keep: Path | None = None,
    tell: Callable[[Case], None] = lambda case: None,
) -> list[Result]:
    """Run cases one after the other; `tell` is told which one begins.

    `keep` is a folder in which threads and briefs are left, one folder a case. The folders that
    cases name are not looked at, should they exist. Raises what the author raises.
    """
    results = []
    for case in cases:
        tell(case)
        with TemporaryDirectory(prefix="tasuki-case-") as temporary:
            results.append(_run(case, loaded, Path(temporary)))
            if keep:
                shutil.copytree(temporary, keep / case.id, dirs_exist_ok=True)
    return results


def _run(case: Case, loaded: Loaded, folder: Path) -> Result:
    verdicts: list[Verdict] = []
    context = ""
    for link, goal in enumerate(case.goals):
        place = folder / f"thread-{link + 1}" if case.chain else folder
        place.mkdir(exist_ok=True)
        made = _made(case, link, context, loaded, place)
        context = made.context
        verdicts.append(judge(case, context, made.thread, goal, made.handoff.draft.authorship))
        (place / "brief.md").write_text(briefs.join(context, goal), encoding="utf-8")
    return Result(case, tuple(verdicts))


def _made(case: Case, link: int, earlier: str, loaded: Loaded, place: Path) -> pipeline.Made:
    path = scenario.build(case, link, earlier).write(place)
    return pipeline.make(
        harnesses.of_file(path),
        path,
        Goal(text=case.goals[link], forced=True),
        loaded,
        handoff_id=hashlib.sha256(f"{case.id}/{link}".encode()).hexdigest()[:32],
        to="",
        replay=True,
    )


# -- judging -------------------------------------------------------------------------------


def judge(
    case: Case, context: str, thread: Thread, goal: str, by: Authorship | None = None
) -> Verdict:
    """The verdict on a brief without its goal."""
    by = by or Authorship()
    said = list(_lines(context))
    items = list(fidelity.lines(context))
    files = {path for i in items if i.section == FILES for path in fidelity.paths_of(i)}
    commands = [c for i in items if i.section == COMMANDS for c in fidelity.commands_of(i)]
    return Verdict(
        entries=len(thread.entries),
        size=len(context),
        missing_files=tuple(f for f in case.expected_files if f not in files),
        missing_commands=tuple(c for c in case.expected_commands if not _shown(c, commands)),
        context=tuple(Held(f.kind, f.needs, _holding(f, said)) for f in case.expected_context),
        leaks=tuple(Leak(f.kind, line) for f in case.forbidden if (line := _leak(f, said))),
        invented=tuple(fidelity.invented(context, thread, goal)),
        author=by.author,
        model=by.model,
        fell=by.fell,
    )


def _lines(context: str) -> Iterator[tuple[str, str]]:
    """Heading and text of every line of a brief that says something."""
    heading = ""
    for line in context.split("\n"):
        if line.startswith("#"):
            heading = line
        elif line.strip():
            yield heading, line


def _holding(fact: Fact, said: Sequence[tuple[str, str]]) -> str:
    return next((line for _, line in said if fact.told(line)), "")


def _leak(fact: Fact, said: Sequence[tuple[str, str]]) -> str:
    return next((line for heading, line in said if fact.told(line, heading)), "")


def _shown(command: str, commands: Iterable[str]) -> bool:
    """Whether a command stands among some: whole, cut short with ` …`, or with its pipe behind it."""
    wanted = fidelity.folded(command)
    for shown in commands:
        if shown == wanted or (shown.endswith(" …") and wanted.startswith(shown[:-2])):
            return True
        if shown.startswith(f"{wanted} ") and shown[len(wanted) + 1 :].startswith(_PLUMBING):
            return True
    return False


# -- figures -------------------------------------------------------------------------------


class Figures(Struct, frozen=True):
    """Shares with their intervals, of cases if not said otherwise; each over the cases it is about."""

    passed: Proportion
    files: Proportion
    commands: Proportion
    context: Proportion
    facts: Proportion
    """Of facts, not cases."""
    nothing_forbidden: Proportion
    nothing_invented: Proportion
    in_size: Proportion


class ChainFigure(Struct, frozen=True):
    """How many of the first thread's constraints stand in the briefs after so many handoffs."""

    depth: int
    survived: Proportion


def figures(results: Sequence[Result]) -> Figures:
    """The figures of some cases; of chains, files, commands and facts are those of the first brief."""

    def share(flags: Iterable[bool]) -> Proportion:
        told = list(flags)
        return proportion(sum(told), len(told))

    facts = [fact for r in results for fact in r.first.context]
    return Figures(
        passed=share(r.passed for r in results),
        files=share(not r.first.missing_files for r in results if r.case.expected_files),
        commands=share(not r.first.missing_commands for r in results if r.case.expected_commands),
        context=share(
            r.first.kept == len(r.first.context) for r in results if r.case.expected_context
        ),
        facts=share(bool(fact.line) for fact in facts),
        nothing_forbidden=share(
            not any(v.leaks for v in r.verdicts) for r in results if r.case.forbidden
        ),
        nothing_invented=share(not any(v.invented for v in r.verdicts) for r in results),
        in_size=share(all(v.size <= CHARACTERS for v in r.verdicts) for r in results),
    )


def by_category(results: Sequence[Result]) -> dict[str, Figures]:
    """The figures of each category that occurs."""
    parts = {name: [r for r in results if r.case.category == name] for name in CATEGORIES}
    return {name: figures(part) for name, part in parts.items() if part}


def chain_figures(results: Sequence[Result]) -> list[ChainFigure]:
    """What survives in all chains together, by depth; chains that are too short are left out."""
    found = []
    for depth in DEPTHS:
        long = [r for r in results if r.case.chain and len(r.verdicts) >= depth]
        if long:
            survived = sum(r.survivors[depth - 1] for r in long)
            found.append(ChainFigure(depth, proportion(survived, sum(r.sought for r in long))))
    return found
