"""Run cases: write each thread, make the handoff from the file, and judge the brief.

A judgement is yes or no. The expressions of the case decide, line by line, what a brief
contains; `tasuki_evals.cases.fidelity` decides whether it invents anything.
"""

import hashlib
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from tasuki.config.settings import LoadedSettings
from tasuki.draft import brief as briefs
from tasuki.draft import pipeline
from tasuki.harness import registry as harnesses
from tasuki.model import Authorship, Goal, Thread
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


class BriefVerdict(Struct, frozen=True):
    """The result for one thread in one brief."""

    entries: int
    size: int
    missing_files: tuple[str, ...]
    missing_commands: tuple[str, ...]
    context: tuple[HeldFact, ...]
    leaks: tuple[ForbiddenLine, ...]
    invented: tuple[InventedClaim, ...]
    author: str = "offline"
    model: str = ""
    fell: tuple[str, ...] = ()
    """Why an author that should have written it did not."""

    @property
    def held_count(self) -> int:
        """How many facts are in the brief."""
        return sum(bool(fact.line) for fact in self.context)

    @property
    def is_clean(self) -> bool:
        """Within the size, nothing forbidden, nothing invented."""
        return self.size <= MAX_CHARACTERS and not self.leaks and not self.invented

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
        counts = [
            self.survivor_counts[depth - 1] for depth in DEPTHS if depth <= len(self.verdicts)
        ]
        return counts[-1] >= counts[0] > 0


def _find_chain_kinds(case: ScenarioCase) -> frozenset[str]:
    """Return the kinds of facts a chain is about: constraints, or all if it has none."""
    kinds = frozenset(fact.kind for fact in case.expected_context)
    return kinds & {"constraint"} or kinds


# -- running -------------------------------------------------------------------------------


def build_case_settings(loaded: LoadedSettings) -> LoadedSettings:
    """Return the settings for cases: the user's author and model, and defaults."""
    return runs.build_settings(loaded, BUDGET)


def run_cases(
    cases: Iterable[ScenarioCase],
    loaded: LoadedSettings,
    *,
    keep_folder: Path | None = None,
    on_start: Callable[[ScenarioCase], None] = lambda case: None,
) -> list[CaseResult]:
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
        result = pipeline.make_handoff(
            harnesses.detect_harness(path),
            path,
            Goal(text=case.goals[link], forced=True),
            loaded,
            handoff_id=hashlib.sha256(f"{case.id}/{link}".encode()).hexdigest()[:32],
            to="",
            replay=True,
        )
        context = result.context
        verdicts.append(
            judge_brief(case, context, result.thread, goal, result.handoff.draft.authorship)
        )
        (place / "brief.md").write_text(briefs.join_brief(context, goal), encoding="utf-8")
    return CaseResult(case, tuple(verdicts))


# -- judging -------------------------------------------------------------------------------


def judge_brief(
    case: ScenarioCase,
    context: str,
    thread: Thread,
    goal: str,
    authorship: Authorship | None = None,
) -> BriefVerdict:
    """Return the verdict on a brief without its goal."""
    authorship = authorship or Authorship()
    heading_lines = list(_list_lines(context))
    items = list(fidelity.parse_lines(context))
    files = {path for i in items if i.section == FILES for path in fidelity.extract_paths(i)}
    commands = [c for i in items if i.section == COMMANDS for c in fidelity.extract_commands(i)]
    return BriefVerdict(
        entries=len(thread.entries),
        size=len(context),
        missing_files=tuple(f for f in case.expected_files if f not in files),
        missing_commands=tuple(c for c in case.expected_commands if not _is_shown(c, commands)),
        context=tuple(
            HeldFact(
                f.kind,
                f.needs,
                next((line for _, line in heading_lines if f.matches_line(line)), ""),
            )
            for f in case.expected_context
        ),
        leaks=tuple(
            ForbiddenLine(f.kind, line)
            for f in case.forbidden
            if (
                line := next(
                    (line for heading, line in heading_lines if f.matches_line(line, heading)), ""
                )
            )
        ),
        invented=tuple(fidelity.find_invented(context, thread, goal)),
        author=authorship.author,
        model=authorship.model,
        fell=authorship.fell,
    )


def _list_lines(context: str) -> Iterator[tuple[str, str]]:
    """Yield heading and text of every line of a brief with content."""
    heading = ""
    for line in context.split("\n"):
        if line.startswith("#"):
            heading = line
        elif line.strip():
            yield heading, line


def _is_shown(command: str, commands: Iterable[str]) -> bool:
    """Whether a command is among some: whole, cut short with ` …`, or followed by its pipe."""
    wanted = fidelity.fold_line(command)
    for candidate in commands:
        if candidate == wanted or (candidate.endswith(" …") and wanted.startswith(candidate[:-2])):
            return True
        if candidate.startswith(f"{wanted} ") and candidate[len(wanted) + 1 :].startswith(
            _PLUMBING
        ):
            return True
    return False


# -- figures -------------------------------------------------------------------------------


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
    """Return the figures of some cases.

    For chains, files, commands and facts are those of the first brief.
    """

    def compute_share(flags: Iterable[bool]) -> Proportion:
        values = list(flags)
        return build_proportion(sum(values), len(values))

    facts = [fact for r in results for fact in r.first.context]
    return CaseFigures(
        passed=compute_share(r.has_passed for r in results),
        files=compute_share(not r.first.missing_files for r in results if r.case.expected_files),
        commands=compute_share(
            not r.first.missing_commands for r in results if r.case.expected_commands
        ),
        context=compute_share(
            r.first.held_count == len(r.first.context) for r in results if r.case.expected_context
        ),
        facts=compute_share(bool(fact.line) for fact in facts),
        nothing_forbidden=compute_share(
            not any(v.leaks for v in r.verdicts) for r in results if r.case.forbidden
        ),
        nothing_invented=compute_share(not any(v.invented for v in r.verdicts) for r in results),
        in_size=compute_share(all(v.size <= MAX_CHARACTERS for v in r.verdicts) for r in results),
    )


def compute_by_category(results: Sequence[CaseResult]) -> dict[str, CaseFigures]:
    """Return the figures of each category that occurs."""
    parts = {name: [r for r in results if r.case.category == name] for name in CATEGORIES}
    return {name: compute_figures(part) for name, part in parts.items() if part}


def compute_chain_figures(results: Sequence[CaseResult]) -> list[ChainFigure]:
    """Return what survives in all chains together, by depth.

    Chains that are too short are left out.
    """
    found = []
    for depth in DEPTHS:
        long = [r for r in results if r.case.chain and len(r.verdicts) >= depth]
        if long:
            survived = sum(r.survivor_counts[depth - 1] for r in long)
            found.append(
                ChainFigure(depth, build_proportion(survived, sum(r.sought_count for r in long)))
            )
    return found
