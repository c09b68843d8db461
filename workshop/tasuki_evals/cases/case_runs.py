"""Run cases: write each thread, make the handoff from the file, and judge the brief.

A judgement is yes or no. The expressions of the case decide, line by line, what a brief
contains; `tasuki_evals.cases.fidelity` decides whether it invents anything.
"""

import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from tasuki.config.settings import LoadedSettings
from tasuki.draft import brief as briefs
from tasuki.harness import registry as harnesses
from tasuki.model import Authorship, Thread
from tasuki_evals import runs
from tasuki_evals.cases import fidelity, scenario
from tasuki_evals.cases.fidelity import COMMANDS, FILES, InventedClaim
from tasuki_evals.cases.scenario import CATEGORIES, ScenarioCase
from tasuki_evals.statistics import Proportion, build_proportion

BUDGET = 1500
MAX_CHARACTERS = BUDGET * 4
"""Characters of a brief without its goal."""
DEPTHS = (1, 2, 3, 5)
"""Numbers of handoffs after which a chain is checked."""
_PLUMBING = ("|", ">", "2>", "&>")


class HeldFact(Struct, frozen=True):
    """A fact, and the line of the brief that contains it; empty if none does."""

    kind: str
    needs: tuple[str, ...]
    line: str = ""


class ForbiddenLine(Struct, frozen=True):
    """Something forbidden, and the line that says it."""

    kind: str
    line: str


class BriefVerdict(Struct, frozen=True, kw_only=True):
    """The result for one thread in one brief; its fields are keys of the JSON document."""

    entries: int
    size: int
    author: str = "offline"
    model: str = ""
    fell: tuple[str, ...] = ()
    """Why an author that should have written it did not."""
    missing_files: tuple[str, ...]
    missing_commands: tuple[str, ...]
    context: tuple[HeldFact, ...]
    forbidden: tuple[ForbiddenLine, ...]
    invented: tuple[InventedClaim, ...]

    @property
    def held_count(self) -> int:
        """How many facts are in the brief."""
        return sum(bool(fact.line) for fact in self.context)

    @property
    def is_clean(self) -> bool:
        """Within the size, nothing forbidden, nothing invented."""
        return self.size <= MAX_CHARACTERS and not self.forbidden and not self.invented

    @property
    def is_complete(self) -> bool:
        """Everything that was expected is in it."""
        missing = self.missing_files or self.missing_commands
        return not missing and self.held_count == len(self.context)


class CaseResult(Struct, frozen=True):
    """One case with the verdict on its brief; of a chain, on each brief."""

    case: ScenarioCase
    verdicts: tuple[BriefVerdict, ...]

    @property
    def first(self) -> BriefVerdict:
        """The verdict on the brief of the first thread."""
        return self.verdicts[0]

    @property
    def survivor_counts(self) -> tuple[int, ...]:
        """How many of the facts that a chain is about are in each brief."""
        kinds = _find_chain_kinds(self.case)
        return tuple(sum(bool(f.line) for f in v.context if f.kind in kinds) for v in self.verdicts)

    @property
    def sought_count(self) -> int:
        """How many facts a chain is about."""
        return sum(f.kind in _find_chain_kinds(self.case) for f in self.case.expected_context)

    @property
    def has_passed(self) -> bool:
        """Complete and clean; a chain: all clean, and no fewer facts at the end than at the start."""
        if not all(verdict.is_clean for verdict in self.verdicts):
            return False
        if not self.case.chain:
            return self.first.is_complete
        depths = [depth for depth in DEPTHS if depth <= len(self.verdicts)]
        counts = [self.survivor_counts[depth - 1] for depth in depths]
        return counts[-1] >= counts[0] > 0


def _find_chain_kinds(case: ScenarioCase) -> frozenset[str]:
    """Return the kinds of facts a chain is about: constraints, or all if it has none."""
    kinds = frozenset(fact.kind for fact in case.expected_context)
    return kinds & {"constraint"} or kinds


def run_cases(
    cases: Iterable[ScenarioCase], loaded: LoadedSettings, *, keep_folder: Path | None = None,
    on_start: Callable[[ScenarioCase], None] = lambda case: None,
) -> list[CaseResult]:  # fmt: skip
    """Run cases one after the other; `on_start` is called with each case as it begins.

    `keep_folder` is a folder in which threads and briefs are left, one folder per case. The
    folders that cases name are not read, even if they exist. Raises what the author raises.
    """
    results = []
    for case in cases:
        on_start(case)
        with TemporaryDirectory(prefix="tasuki-case-") as temporary:
            results.append(_run_case(case, loaded, Path(temporary)))
            if keep_folder:
                shutil.copytree(temporary, keep_folder / case.id, dirs_exist_ok=True)
    return results


def _run_case(case: ScenarioCase, loaded: LoadedSettings, folder: Path) -> CaseResult:
    verdicts: list[BriefVerdict] = []
    context = ""
    for link, goal in enumerate(case.goals):
        place = folder / f"thread-{link + 1}" if case.chain else folder
        place.mkdir(exist_ok=True)
        path = scenario.build_thread(case, link, context).write(place)
        harness = harnesses.detect_harness(path)
        result = runs.draft_handoff(harness, path, goal, loaded, name=f"{case.id}/{link}")
        context, by = result.context, result.handoff.draft.authorship
        verdicts.append(judge_brief(case, context, result.thread, goal, by))
        (place / "brief.md").write_text(briefs.join_brief(context, goal), encoding="utf-8")
    return CaseResult(case, tuple(verdicts))


def judge_brief(
    case: ScenarioCase, context: str, thread: Thread, goal: str, by: Authorship | None = None
) -> BriefVerdict:
    """Return the verdict on a brief without its goal."""
    by = by or Authorship()
    lines: list[tuple[str, str]] = []
    heading = ""
    for line in context.split("\n"):
        if line.startswith("#"):
            heading = line
        elif line.strip():
            lines.append((heading, line))
    items = list(fidelity.parse_lines(context))
    files = {path for i in items if i.section == FILES for path in fidelity.extract_paths(i)}
    commands = [c for i in items if i.section == COMMANDS for c in fidelity.extract_commands(i)]
    held = (
        HeldFact(f.kind, f.needs, next((line for _, line in lines if f.matches_line(line)), ""))
        for f in case.expected_context
    )
    forbidden = (
        ForbiddenLine(f.kind, found[0])
        for f in case.forbidden
        if (found := [line for heading, line in lines if f.matches_line(line, heading)])
    )
    return BriefVerdict(
        entries=len(thread.entries), size=len(context), author=by.author, model=by.model,
        fell=by.fell, missing_files=tuple(f for f in case.expected_files if f not in files),
        missing_commands=tuple(c for c in case.expected_commands if not _is_shown(c, commands)),
        context=tuple(held), forbidden=tuple(forbidden),
        invented=tuple(fidelity.find_invented(context, thread, goal)),
    )  # fmt: skip


def _is_shown(command: str, commands: Iterable[str]) -> bool:
    """Whether a command is among some: whole, cut short with ` …`, or followed by its pipe."""
    wanted = fidelity.fold_line(command)
    for candidate in commands:
        if candidate == wanted or (candidate.endswith(" …") and wanted.startswith(candidate[:-2])):
            return True
        begins = candidate.startswith(f"{wanted} ")
        if begins and candidate[len(wanted) + 1 :].startswith(_PLUMBING):
            return True
    return False


class CaseFigures(Struct, frozen=True):
    """Shares with their intervals, by default of cases; each over the cases it is about."""

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
    """How many of the first thread's constraints are in the briefs after so many handoffs."""

    depth: int
    survived: Proportion


def compute_figures(results: Sequence[CaseResult]) -> CaseFigures:
    """Return the figures of some cases; those on files, commands and facts are of first briefs."""

    def compute_share(flags: Iterable[bool]) -> Proportion:
        values = list(flags)
        return build_proportion(sum(values), len(values))

    firsts = [(r.case, r.first) for r in results]
    briefs = [(r.case, r.verdicts) for r in results]
    return CaseFigures(
        passed=compute_share(r.has_passed for r in results),
        files=compute_share(not v.missing_files for c, v in firsts if c.expected_files),
        commands=compute_share(not v.missing_commands for c, v in firsts if c.expected_commands),
        context=compute_share(
            v.held_count == len(v.context) for c, v in firsts if c.expected_context
        ),
        facts=compute_share(bool(fact.line) for _, v in firsts for fact in v.context),
        nothing_forbidden=compute_share(
            not any(v.forbidden for v in verdicts) for c, verdicts in briefs if c.forbidden
        ),
        nothing_invented=compute_share(not any(v.invented for v in vs) for _, vs in briefs),
        in_size=compute_share(all(v.size <= MAX_CHARACTERS for v in vs) for _, vs in briefs),
    )


def compute_by_category(results: Sequence[CaseResult]) -> dict[str, CaseFigures]:
    """Return the figures of each category that occurs."""
    parts = {name: [r for r in results if r.case.category == name] for name in CATEGORIES}
    return {name: compute_figures(part) for name, part in parts.items() if part}


def compute_chain_figures(results: Sequence[CaseResult]) -> list[ChainFigure]:
    """Return what survives in all chains together, by depth, without those that are too short."""
    found = []
    for depth in DEPTHS:
        long = [r for r in results if r.case.chain and len(r.verdicts) >= depth]
        if long:
            survived = sum(r.survivor_counts[depth - 1] for r in long)
            sought = sum(r.sought_count for r in long)
            found.append(ChainFigure(depth, build_proportion(survived, sought)))
    return found
