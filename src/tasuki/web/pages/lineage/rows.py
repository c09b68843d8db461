"""Rows of the lineage's table: a thread, its context use as a line, and the handoff at its end."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from tasuki.text_safety import format_plural
from tasuki.web.views.display import StateBadge

WIDTH, HEIGHT = 160.0, 32.0
MOST_POINTS = 40
"""Places of a thread at which its use is drawn; at each its lowest and highest."""
NEWEST, OLDEST, MORE = 20, 3, 40
"""Agents at both ends of a long chain that are shown at first, and how many one press adds."""

Point = tuple[float, float]


class Sparkline(Struct, frozen=True):
    """The context use over a thread, in `WIDTH` times `HEIGHT`; `words` say the same."""

    points: str
    """Those of an SVG polyline."""
    mark: float | None
    """The height of the threshold."""
    compactions: tuple[float, ...]
    is_cut: bool
    """The thread ends with a handoff."""
    words: str


class ChainRow(Struct, frozen=True):
    """A thread and the handoff at its end, as a line of the table. Times are seconds since 1970."""

    place: str
    """Its number in the chain; or what it is beside it, such as `fork`."""
    thread: str
    """The address of its thread."""
    title: str
    id: str
    began: float | None = None
    entries: int | None = None
    line: Sparkline | None = None
    used: float | None = None
    past: bool = False
    why: str = ""
    state: StateBadge | None = None
    """The state of the agent or its handoff, unless the chain has gone on."""
    handoff: str = ""
    handoff_id: str = ""
    cut_at: float | None = None
    acknowledged: str = ""
    """After how long, or why not."""
    is_fork: bool = False


class ChainStory(Struct, frozen=True):
    """One chain: its rows, the newest first, and when anything of it changed last."""

    key: str
    title: str
    summary: str
    since: float | None
    changed_at: float
    rows: tuple[ChainRow, ...]
    hidden: int = 0
    """Agents in the middle that are not shown."""
    hidden_after: int = 0
    """Rows before them."""


def choose_shown(count: int, newest: int) -> list[int]:
    """Choose the places of a chain that are shown, the newest first: its newest and its oldest."""
    places = list(range(count - 1, -1, -1))
    return places if count <= newest + OLDEST + 1 else [*places[:newest], *places[-OLDEST:]]


def arrange_rows(
    count: int,
    newest: int,
    build_rows: Callable[[int], Sequence[ChainRow]],
    first: Sequence[ChainRow] = (),
) -> tuple[tuple[ChainRow, ...], int, int]:
    """Arrange the rows of a chain of `count` threads, the newest first, after the `first` ones.

    Returns `rows`, `hidden` and `hidden_after` of its story. `build_rows` builds those of one place.
    """
    shown, rows, hidden_after = choose_shown(count, newest), list(first), 0
    for place, before in zip(shown, [count, *shown], strict=False):
        if before - place > 1:
            hidden_after = len(rows)
        rows += build_rows(place)
    return tuple(rows), count - len(shown), hidden_after


def build_sparkline(
    points: Sequence[Point], threshold: float | None, compactions: Sequence[float], *, is_cut: bool
) -> Sparkline | None:
    """Build a line of (part of the thread from 0 to 1, percent of the context); None without points."""
    if not points:
        return None
    uses = [used for _, used in points]
    words = [f"Context use {uses[0]:.0f} % to {uses[-1]:.0f} %, at most {max(uses):.0f} %"]
    words += [f"threshold {threshold:.0f} %"] if threshold is not None else []
    words += [format_plural(len(compactions), "compaction")] if compactions else []
    words += ["handed off at its end"] if is_cut else []
    drawn = thin_points(points)
    if len(drawn) == 1:  # measured once: a dash, no slope
        drawn = [(max(drawn[0][0] - 0.04, 0.0), drawn[0][1]), drawn[0]]
    return Sparkline(
        " ".join(f"{part * WIDTH:.1f},{_compute_y(used)}" for part, used in drawn),
        None if threshold is None else _compute_y(threshold),
        tuple(round(part * WIDTH, 1) for part in compactions), is_cut, ", ".join(words),
    )  # fmt: skip


def _compute_y(used: float) -> float:
    """Compute the height of a context use; more than the window is drawn as all of it."""
    return round(HEIGHT - 1 - (HEIGHT - 2) * min(max(used, 0.0), 100.0) / 100, 1)


def thin_points(points: Sequence[Point]) -> list[Point]:
    """Thin points to both ends, and the lowest and the highest of each of `MOST_POINTS` places."""
    if len(points) <= 2 * MOST_POINTS:
        return list(points)
    places: dict[int, list[int]] = {}
    for i, (part, _) in enumerate(points):
        places.setdefault(int(part * MOST_POINTS), []).append(i)
    kept = {0, len(points) - 1}
    for indexes in places.values():
        kept.add(min(indexes, key=lambda i: points[i][1]))
        kept.add(max(indexes, key=lambda i: points[i][1]))
    return [points[i] for i in sorted(kept)]
