"""The briefs that are judged: of cases, and of real threads cut as the continuation benchmark cuts.

Made one at a time, since a thread may be large.
"""

import hashlib
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from tasuki import harness as harnesses
from tasuki.config import Loaded
from tasuki.draft import brief as briefs
from tasuki.draft import pipeline
from tasuki.draft.pipeline import Made
from tasuki.errors import NothingToHandOff, ThreadNotFound, ThreadUnreadable, UsageError
from tasuki.evals import case_runs, metric, scenario
from tasuki.evals.continuation import BUDGET
from tasuki.evals.cuts import Cut, cuts, predecessor_copy
from tasuki.evals.places import sources, unpacked
from tasuki.evals.scenario import Case
from tasuki.harness.protocol import Harness
from tasuki.model import Authorship, Entry, Facts, Goal, Thread
from tasuki.threads.safe import Cleaner


class Subject:
    """A brief with the thread it was made of, and what tells how good it is: a case, or the future.

    `folder` is where the file of a case's thread lay. Formats that name no folder take it for the
    thread's own, and aider makes the thread's id of it; what is shown has the case's instead.
    """

    def __init__(
        self,
        name: str,
        goal: str,
        made: Made,
        *,
        case: Case | None = None,
        future: Sequence[Entry] = (),
        folder: str = "",
    ) -> None:
        self.name = name
        self.thread: Thread = made.thread
        self.facts: Facts = made.facts
        self.by: Authorship = made.handoff.draft.authorship
        self.case = case
        self.future = future
        self._instead: dict[str, str] = {}
        if case and folder and self.thread.cwd == folder:
            own_id = f"{self.thread.harness}-{case.id}"
            self._instead = {folder: case.cwd, self.thread.id: own_id}
        self._cleaner = Cleaner()
        self.goal_to_the_letter = goal
        self.brief = self.clean(briefs.join(made.context, goal))
        self.goal = self.clean(goal)

    def clean(self, text: str) -> str:
        """A text without secrets, control characters and the folder of a moment, as it is shown."""
        for passing, own in self._instead.items():
            text = text.replace(passing, own)
        return self._cleaner.text(text)

    @cached_property
    def targets(self) -> metric.Targets:
        """What the future used and the thread knew; nothing of a case, which has no future."""
        return metric.targets(self.thread, self.future, self.goal_to_the_letter)

    @property
    def sha256(self) -> str:
        """Of the brief with its goal, as it is put before the model."""
        return hashlib.sha256(self.brief.encode()).hexdigest()


class LeftOut(Struct, frozen=True):
    """A thread, cut or probe that is not judged, and why."""

    name: str
    reason: str


class Source:
    """Where briefs come from. `left_out` fills while they are made."""

    def __init__(self, paths: Sequence[Path], loaded: Loaded, only: Sequence[str] = ()) -> None:
        self.paths = paths
        self.loaded = loaded
        self.only = only
        self.left_out: list[LeftOut] = []
        self._seen: list[str] = []

    def __iter__(self) -> Iterator[Subject]:
        """The briefs of all paths, in their order; the project's own cases without one.

        Raises UsageError and ThreadNotFound for a path that holds nothing, UsageError if `only`
        names none of what there is, and what the author raises.
        """
        of_cases = [path for path in self.paths if _holds_cases(path)]
        of_threads = [path for path in self.paths if path not in of_cases]
        for path in of_threads:
            if not path.exists():
                raise ThreadNotFound(f"No file or folder {path}.")
        if of_cases or not of_threads:
            yield from self._of_cases(of_cases)
        if of_threads:
            yield from self._of_threads(of_threads)
        if missing := [id for id in self.only if id not in self._seen]:
            if len(missing) == len(self.only):
                names = ", ".join(self._seen[:60]) or "nothing"
                raise UsageError(f"Nothing is called {missing[0]!r}. There is: {names}.")
            self.left_out += [LeftOut(id, "nothing is called that") for id in missing]

    def _wanted(self, name: str) -> bool:
        self._seen.append(name)
        return not self.only or name in self.only

    def _of_cases(self, paths: Iterable[Path]) -> Iterator[Subject]:
        settings = case_runs.settings(self.loaded)
        for case in scenario.load(paths):
            if self._wanted(case.id):
                with tempfile.TemporaryDirectory(prefix="tasuki-judge-") as folder:
                    path = scenario.build(case).write(Path(folder))
                    harness = harnesses.of_file(path)
                    goal = case.goal
                    made = _made(harness, path, goal, settings, f"{case.id}/0")
                yield Subject(case.id, goal, made, case=case, folder=folder)

    def _of_threads(self, paths: Iterable[Path]) -> Iterator[Subject]:
        settings = case_runs.settings(self.loaded)
        for source in sources(paths):
            with tempfile.TemporaryDirectory(prefix="tasuki-judge-") as folder:
                try:
                    path = unpacked(source, Path(folder))
                    harness = harnesses.of_file(path)
                    thread = harness.read(path)
                except (ThreadUnreadable, ThreadNotFound, OSError) as error:
                    reason = str(error).replace(folder, "")
                    self.left_out.append(LeftOut(source.path.name, reason))
                    continue
                yield from self._of_thread(harness, thread, source.path.name, settings)

    def _of_thread(
        self, harness: Harness, thread: Thread, name: str, settings: Loaded
    ) -> Iterator[Subject]:
        found = cuts(thread)
        if not found:
            reason = "no message of the user with enough work before and after"
            self.left_out.append(LeftOut(name, reason))
        for cut in found:
            if not self._wanted(cut.name):
                continue
            try:
                made = _of_cut(harness, cut, settings)
            except (ValueError, NothingToHandOff) as error:
                self.left_out.append(LeftOut(cut.name, str(error)))
            else:
                yield Subject(cut.name, cut.goal, made, future=cut.future)


def _holds_cases(path: Path) -> bool:
    if path.is_dir():
        return any(p.name[0] != "." for p in path.glob("*.toml"))
    return path.suffix == ".toml"


def _of_cut(harness: Harness, cut: Cut, loaded: Loaded) -> Made:
    """The handoff at a cut, with the room that the continuation benchmark gives it."""
    budget = metric.tokens(cut.summary) if cut.kind == "compaction" else BUDGET
    settings = replace(loaded, settings=replace(loaded.settings, budget=budget))
    with tempfile.TemporaryDirectory(prefix="tasuki-judge-") as folder:
        copy = predecessor_copy(harness, cut, Path(folder))
        return _made(harness, copy, cut.goal, settings, cut.name)


def _made(harness: Harness, path: Path, goal: str, loaded: Loaded, name: str) -> Made:
    return pipeline.make(
        harness,
        path,
        Goal(text=goal, forced=True),
        loaded,
        handoff_id=hashlib.sha256(name.encode()).hexdigest()[:32],
        to="",
        replay=True,
    )
