"""How measured runs are made: the author of the briefs, and work in separate processes."""

import hashlib
import os
import signal
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from multiprocessing import active_children
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from tasuki.config.settings import LoadedSettings, Settings
from tasuki.draft import pipeline
from tasuki.harness.protocol import Harness
from tasuki.model import Goal
from tasuki.text_safety import shorten_to_line

_USER_SETTINGS = ("author", "agent_format", "author_seconds", "strict", "use_current_model", "model",
        "model_window", "providers")  # fmt: skip
"""Settings taken from the user; all others have their defaults, so figures can be compared."""


def build_settings(loaded: LoadedSettings, budget: int) -> LoadedSettings:
    """Return the settings to measure with: the user's author and model, and defaults."""
    own = {name: getattr(loaded.settings, name) for name in _USER_SETTINGS}
    return replace(loaded, settings=Settings(**own, budget=budget, cache=False))


def draft_handoff(
    harness: Harness, path: Path, goal: str, loaded: LoadedSettings,
    *, budget: int | None = None, name: str = "", to: str = "",
) -> pipeline.HandoffResult:  # fmt: skip
    """Return the handoff of a thread file, which is not stored and looks at nothing but the file.

    `budget` in tokens is by default that of the settings. `name` decides the id, so that it is
    the same at every run.
    """
    if budget is not None:
        loaded = replace(loaded, settings=replace(loaded.settings, budget=budget))
    id = hashlib.sha256(name.encode()).hexdigest()[:32] if name else "0" * 32
    return pipeline.make_handoff(
        harness, path, Goal(goal, forced=True), loaded, handoff_id=id, to=to, replay=True
    )


def explain_failure(
    problem: Exception | str, expected: tuple[type[Exception], ...], *paths: str
) -> str:
    """Return why something was not measured: one sentence, without these paths of this machine.

    An exception other than the `expected` ones is a defect of tasuki, and called one.
    """
    reason = str(problem)
    if isinstance(problem, OSError):
        reason = problem.strerror or reason
    elif isinstance(problem, Exception) and not isinstance(problem, expected):
        reason = f"a bug in tasuki, please report it: {type(problem).__name__}: {problem}"
    for path in paths:
        reason = reason.replace(path, "it").removeprefix("it: ")
    return shorten_to_line(reason.partition(". ")[0].rstrip("."), 200)


T = TypeVar("T")
R = TypeVar("R")


def run_measurements(
    measure: Callable[..., R], items: Sequence[T], workers: int, *, on_lost: Callable[[T], R],
    on_progress: Callable[[int, int], None],
) -> list[R]:  # fmt: skip
    """Return the measurement of every item; each gets a folder `scratch` for its copies.

    As `run_each`, with 0 workers for one a core. `on_progress` is called with the number of
    finished items and of all.
    """
    count = len(items)
    with tempfile.TemporaryDirectory(prefix="tasuki-eval-") as scratch:
        return run_each(
            partial(measure, scratch=scratch), items, min(workers or os.cpu_count() or 1, count),
            on_lost=on_lost, on_done=lambda done: on_progress(done, count),
        )  # fmt: skip


def run_each(
    work: Callable[[T], R], items: Sequence[T], workers: int, *, on_lost: Callable[[T], R],
    on_done: Callable[[int], None] = lambda count: None,
) -> list[R]:  # fmt: skip
    """Return the result of `work` for every item, in the order of the items.

    `on_lost` gives the result of an item whose process was killed from outside, by the kernel
    for lack of memory; `on_done` is called with the number of finished items. If interrupted,
    for example by Ctrl-C, the processes are ended at once. Raises what `work` raises.
    """
    found: dict[int, R] = {}

    def run_together(numbers: Iterable[int], count: int) -> None:
        with _open_pool(count) as pool:
            under_way = {pool.submit(work, items[n]): n for n in numbers}
            for future in as_completed(under_way):
                try:
                    found[under_way[future]] = future.result()
                except BrokenProcessPool:
                    continue
                on_done(len(found))

    if workers > 1:
        run_together(range(len(items)), workers)
    for number, item in enumerate(items):
        if workers == 1:
            found[number] = work(item)
            on_done(len(found))
        elif number not in found:  # One of these killed its process, and the others with it.
            run_together((number,), 1)
            if number not in found:
                found[number] = on_lost(item)
                on_done(len(found))
    return [found[number] for number in range(len(items))]


@contextmanager
def _open_pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    before = set(active_children())
    pool = ProcessPoolExecutor(workers, initializer=_ignore_interrupts)
    try:
        yield pool
    except BaseException:
        for process in active_children():
            if process not in before:
                process.kill()
        pool.shutdown(cancel_futures=True)  # Waits, since Python reports a manager that ends later.
        raise
    pool.shutdown()


def _ignore_interrupts() -> None:
    """Ignore Ctrl-C: it reaches every process of the terminal; only the first one reacts."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
