"""The briefs that are judged: of cases, and of threads cut as in the continuation benchmark.

They are made one at a time, since a thread may be large.
"""

import hashlib
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

from msgspec import Struct

from tasuki.config.settings import LoadedSettings
from tasuki.draft import brief as briefs
from tasuki.draft.pipeline import HandoffResult
from tasuki.draft.text.split import count_tokens
from tasuki.errors import NothingToHandOff, ThreadNotFound, ThreadUnreadable, UsageError
from tasuki.harness import registry as harnesses
from tasuki.harness.protocol import Harness
from tasuki.model import Entry, Thread
from tasuki.threads.passages import EntryCleaner
from tasuki_evals import runs
from tasuki_evals.cases import case_runs, scenario
from tasuki_evals.cases.scenario import ScenarioCase
from tasuki_evals.continuation import cuts, metric
from tasuki_evals.continuation.benchmark import BUDGET
from tasuki_evals.continuation.cuts import ThreadCut


class JudgeSubject:
    """A brief with its thread, and what shows how good it is: a case, or the future.

    `folder` is where the file of a case's thread was. Formats that name no folder use it as the
    thread's own, and aider derives the thread's id from it; what is shown has the case's
    instead.
    """

    def __init__(
        self, name: str, goal: str, result: HandoffResult, *, case: ScenarioCase | None = None,
        future: Sequence[Entry] = (), folder: str = "",
    ) -> None:  # fmt: skip
        self.name, self.case, self.future = name, case, future
        self.thread, self.facts = result.thread, result.facts
        self.authorship = result.handoff.draft.authorship
        self._replacements: dict[str, str] = {}
        if case and folder and self.thread.cwd == folder:
            own_id = f"{self.thread.harness}-{case.id}"
            self._replacements = {folder: case.cwd, self.thread.id: own_id}
        self._cleaner = EntryCleaner()
        self.verbatim_goal = goal
        self.brief = self.clean_text(briefs.join_brief(result.context, goal))
        self.goal = self.clean_text(goal)

    def clean_text(self, text: str) -> str:
        """A text as it is shown: without secrets, control characters and temporary folders."""
        for passing, own in self._replacements.items():
            text = text.replace(passing, own)
        return self._cleaner.clean_text(text)

    @cached_property
    def targets(self) -> metric.HandoffTargets:
        """What the future used and the thread knew; empty for a case, which has no future."""
        return metric.find_targets(self.thread, self.future, self.verbatim_goal)

    @property
    def sha256(self) -> str:
        """Hash of the brief with its goal, as it is shown to the model."""
        return hashlib.sha256(self.brief.encode()).hexdigest()


class UnjudgedItem(Struct, frozen=True):
    """A thread, cut or probe that is not judged, and why."""

    name: str
    reason: str


class BriefSource:
    """Where briefs come from. `left_out` is filled while they are made."""

    def __init__(
        self, paths: Sequence[Path], loaded: LoadedSettings, only: Sequence[str] = ()
    ) -> None:
        self.paths, self.loaded, self.only = paths, loaded, only
        self.left_out: list[UnjudgedItem] = []
        self._seen: list[str] = []

    def __iter__(self) -> Iterator[JudgeSubject]:
        """Yield the briefs of all paths, in their order; the project's own cases without a path.

        Raises UsageError and ThreadNotFound for a path that holds nothing, UsageError if `only`
        names none of what there is, and what the author raises.
        """
        case_paths = [path for path in self.paths if _contains_cases(path)]
        thread_paths = [path for path in self.paths if path not in case_paths]
        for path in thread_paths:
            if not path.exists():
                raise ThreadNotFound(f"No file or folder {path}.")
        if case_paths or not thread_paths:
            yield from self._make_case_briefs(case_paths)
        if thread_paths:
            yield from self._make_thread_briefs(thread_paths)
        if missing := [id for id in self.only if id not in self._seen]:
            if len(missing) == len(self.only):
                names = ", ".join(self._seen[:60]) or "nothing"
                raise UsageError(f"Nothing is called {missing[0]!r}. Known names: {names}.")
            self.left_out += [UnjudgedItem(id, "nothing is called that") for id in missing]

    def _is_wanted(self, name: str) -> bool:
        self._seen.append(name)
        return not self.only or name in self.only

    def _make_case_briefs(self, paths: Iterable[Path]) -> Iterator[JudgeSubject]:
        settings = runs.build_settings(self.loaded, case_runs.BUDGET)
        for case in scenario.load_cases(paths):
            if self._is_wanted(case.id):
                with tempfile.TemporaryDirectory(prefix="tasuki-judge-") as folder:
                    path = scenario.build_thread(case).write(Path(folder))
                    harness = harnesses.detect_harness(path)
                    name = f"{case.id}/0"
                    result = runs.draft_handoff(harness, path, case.goal, settings, name=name)
                yield JudgeSubject(case.id, case.goal, result, case=case, folder=folder)

    def _make_thread_briefs(self, paths: Iterable[Path]) -> Iterator[JudgeSubject]:
        settings = runs.build_settings(self.loaded, case_runs.BUDGET)
        for source in cuts.list_sources(paths):
            with tempfile.TemporaryDirectory(prefix="tasuki-judge-") as folder:
                try:
                    path = cuts.unpack_source(source, Path(folder))
                    harness = harnesses.detect_harness(path)
                    thread = harness.read(path)
                except (ThreadUnreadable, ThreadNotFound, OSError) as error:
                    reason = str(error).replace(folder, "")
                    self.left_out.append(UnjudgedItem(source.path.name, reason))
                    continue
                yield from self._make_cut_briefs(harness, thread, source.path.name, settings)

    def _make_cut_briefs(
        self, harness: Harness, thread: Thread, name: str, settings: LoadedSettings
    ) -> Iterator[JudgeSubject]:
        found = cuts.find_cuts(thread)
        if not found:
            reason = "no message of the user with enough work before and after"
            self.left_out.append(UnjudgedItem(name, reason))
        for cut in found:
            if not self._is_wanted(cut.name):
                continue
            try:
                result = _make_cut_handoff(harness, cut, settings)
            except (ValueError, NothingToHandOff) as error:
                self.left_out.append(UnjudgedItem(cut.name, str(error)))
            else:
                yield JudgeSubject(cut.name, cut.goal, result, future=cut.future)


def _contains_cases(path: Path) -> bool:
    if path.is_dir():
        return any(p.name[0] != "." for p in path.glob("*.toml"))
    return path.suffix == ".toml"


def _make_cut_handoff(harness: Harness, cut: ThreadCut, loaded: LoadedSettings) -> HandoffResult:
    """Return the handoff at a cut, with the budget of the continuation benchmark."""
    budget = count_tokens(cut.summary) if cut.kind == "compaction" else BUDGET
    with tempfile.TemporaryDirectory(prefix="tasuki-judge-") as folder:
        copy = cuts.write_predecessor_copy(harness, cut, Path(folder))
        return runs.draft_handoff(harness, copy, cut.goal, loaded, budget=budget, name=cut.name)
