"""Work done in processes of its own: one that dies takes only its own item with it."""

import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import active_children
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def each(
    work: Callable[[T], R],
    items: Sequence[T],
    workers: int,
    *,
    lost: Callable[[T], R],
    done: Callable[[int], None] = lambda count: None,
) -> list[R]:
    """What `work` gives for every item, in the order of the items.

    `lost` gives the result of an item whose process was ended from outside, by the kernel for
    want of memory; `done` is told how many are through. Broken off, say by Ctrl-C, the processes
    are ended at once. Raises what `work` raises.
    """
    found: dict[int, R] = {}

    def together(numbers: Iterable[int], count: int) -> None:
        with _pool(count) as pool:
            under_way = {pool.submit(work, items[n]): n for n in numbers}
            for future in as_completed(under_way):
                try:
                    found[under_way[future]] = future.result()
                except BrokenProcessPool:
                    continue
                done(len(found))

    if workers > 1:
        together(range(len(items)), workers)
    for number, item in enumerate(items):
        if workers == 1:
            found[number] = work(item)
            done(len(found))
        elif number not in found:  # One of these ended its process, and the others with it.
            together((number,), 1)
            if number not in found:
                found[number] = lost(item)
                done(len(found))
    return [found[number] for number in range(len(items))]


@contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    before = set(active_children())
    pool = ProcessPoolExecutor(workers, initializer=_uninterrupted)
    try:
        yield pool
    except BaseException:
        for process in active_children():
            if process not in before:
                process.kill()
        pool.shutdown(cancel_futures=True)  # Waits: a manager that ends later is told of by Python.
        raise
    pool.shutdown()


def _uninterrupted() -> None:
    """Ctrl-C reaches every process of the terminal; the first one alone answers it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
