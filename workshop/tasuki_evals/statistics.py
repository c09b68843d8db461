"""Means over threads and shares of cases, with their uncertainty."""

import math
import random
from array import array
from collections.abc import Mapping, Sequence
from functools import lru_cache

from msgspec import Struct

RESAMPLES = 10_000
SEED = 7
ENOUGH_THREADS = 60
"""With fewer threads, a difference is printed and judged by a person."""


class Estimate(Struct, frozen=True):
    """A mean over threads with its 95 % interval."""

    mean: float
    low: float
    high: float
    threads: int


def compute_thread_means(values: Mapping[str, Sequence[float]]) -> list[float]:
    """Return the mean of each thread's cases, in the order of the threads' names."""
    return [sum(values[name]) / len(values[name]) for name in sorted(values) if values[name]]


def estimate_mean(means: Sequence[float]) -> Estimate | None:
    """Return the mean of threads and its interval, or None without threads."""
    if not means:
        return None
    count = len(means)
    drawn = sorted(sum(map(means.__getitem__, draw)) for draw in _draw_resamples(count))
    cut = round(RESAMPLES * 0.025)
    return Estimate(
        mean=sum(means) / count, low=drawn[cut] / count, high=drawn[RESAMPLES - 1 - cut] / count,
        threads=count,
    )  # fmt: skip


@lru_cache(maxsize=12)
def _draw_resamples(count: int) -> list["array[int]"]:
    """Return the same resamples for all measurements on this number of threads."""
    draw = random.Random(SEED)  # noqa: S311
    every = range(count)
    return [array("I", draw.choices(every, k=count)) for _ in range(RESAMPLES)]


Z = 1.959964
"""Standard deviations of a 95 % interval."""


class Proportion(Struct, frozen=True):
    """How many of how many, with the bounds of the 95 % interval of the share."""

    hits: int
    of: int
    low: float
    high: float

    @property
    def share(self) -> float | None:
        """Between 0 and 1; None if nothing was counted."""
        return self.hits / self.of if self.of else None


def compute_wilson_bounds(hits: int, total: int) -> tuple[float, float]:
    """Return the bounds of the 95 % interval of a share, between 0 and 1.

    They are (0, 1) if nothing was counted. Raises ValueError if `hits` is not between 0 and
    `total`.
    """
    if not 0 <= hits <= total:
        raise ValueError(f"{hits} of {total} is no share")
    if not total:
        return 0.0, 1.0
    share, square = hits / total, Z * Z
    middle = share + square / (2 * total)
    reach = Z * math.sqrt(share * (1 - share) / total + square / (4 * total * total))
    bottom = 1 + square / total
    low = 0.0 if hits == 0 else (middle - reach) / bottom
    high = 1.0 if hits == total else (middle + reach) / bottom
    return low, high


def build_proportion(hits: int, total: int) -> Proportion:
    """Return a share with its interval. Raises ValueError as `compute_wilson_bounds`."""
    low, high = compute_wilson_bounds(hits, total)
    return Proportion(hits, total, round(low, 4), round(high, 4))
