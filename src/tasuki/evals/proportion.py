"""A share of cases with its uncertainty: the score interval of Wilson (1927)."""

import math

from msgspec import Struct

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
        """Between 0 and 1; None where nothing was counted."""
        return self.hits / self.of if self.of else None


def wilson(hits: int, of: int) -> tuple[float, float]:
    """Bounds of the 95 % interval of a share, between 0 and 1; (0, 1) where nothing was counted.

    Raises ValueError if `hits` is no part of `of`.
    """
    if not 0 <= hits <= of:
        raise ValueError(f"{hits} of {of} is no share")
    if not of:
        return 0.0, 1.0
    share, square = hits / of, Z * Z
    middle = share + square / (2 * of)
    reach = Z * math.sqrt(share * (1 - share) / of + square / (4 * of * of))
    bottom = 1 + square / of
    low = 0.0 if hits == 0 else (middle - reach) / bottom
    high = 1.0 if hits == of else (middle + reach) / bottom
    return low, high


def proportion(hits: int, of: int) -> Proportion:
    """A share with its interval. Raises ValueError as `wilson`."""
    low, high = wilson(hits, of)
    return Proportion(hits, of, round(low, 4), round(high, 4))
