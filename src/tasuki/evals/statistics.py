"""Means over threads, with percentile bootstrap intervals. The thread is the unit, not the case."""

import random
from array import array
from collections.abc import Mapping, Sequence
from functools import lru_cache

from msgspec import Struct

DRAWS = 10_000
SEED = 7
ENOUGH_THREADS = 60
"""On fewer, a difference is printed and judged by a person."""


class Estimate(Struct, frozen=True):
    """A mean over threads with its 95 % interval."""

    mean: float
    low: float
    high: float
    threads: int


def by_thread(values: Mapping[str, Sequence[float]]) -> list[float]:
    """The mean of each thread's cases, in the order of the threads' names."""
    return [sum(values[name]) / len(values[name]) for name in sorted(values) if values[name]]


def estimate(means: Sequence[float]) -> Estimate | None:
    """The mean of threads and its interval; None where there is none."""
    if not means:
        return None
    count = len(means)
    drawn = sorted(sum(map(means.__getitem__, draw)) for draw in _draws(count))
    cut = round(DRAWS * 0.025)
    return Estimate(
        mean=sum(means) / count,
        low=drawn[cut] / count,
        high=drawn[DRAWS - 1 - cut] / count,
        threads=count,
    )


@lru_cache(maxsize=12)
def _draws(count: int) -> list["array[int]"]:
    """The same resamples for everything that is measured on as many threads."""
    draw = random.Random(SEED)  # noqa: S311
    every = range(count)
    return [array("I", draw.choices(every, k=count)) for _ in range(DRAWS)]
