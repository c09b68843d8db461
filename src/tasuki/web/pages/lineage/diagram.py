"""Draws a chain of threads: measurements become lines, words and links with a place.

    100 % ┊        ◆        ◆
          ┊ ╱╱╱╱╱│    ╱╱╱╱╱╱│ ╱╱╱╱•        height: context use, 160 px for 100 %
      0 % ┊╱     │╱         │╱             width: entries of the thread; at least 144 px
           thread 1   thread 2 ┊ now
                             └╱╱╱•        a fork begins below the handoff that it came from

Nothing here reads or guesses. All numbers are attributes, rounded to 0.1 px.
"""

from collections.abc import Sequence
from unicodedata import east_asian_width

from msgspec import Struct

from tasuki.web.views.templates import format_plural

LEFT, TOP, BASE = 44.0, 48.0, 208.0
PLOT_WIDTH = 1104.0
"""Width of the threads of a short chain; a longer one is wider, and scrolls."""
NARROWEST_THREAD = 144.0
"""Least width of a thread: that of its three lines of words."""
WORDS_HEIGHT = 60.0
"""Height of the words below the threads."""
FORK_ROW_HEIGHT, FORK_PLOT_HEIGHT = 116.0, 64.0
"""Height of the row of a fork, and of 100 % in it."""
FORK_NARROWEST, FORK_WIDEST, FORK_WORDS = 76.0, 400.0, 220.0
NODE_SIZE = 6.0
MOST_POINTS = 48
"""Places of a thread at which its use is drawn; at each its lowest and highest."""
LETTER_WIDTH = 6.9
"""Width of a letter of one column at 12 px."""

Point = tuple[float, float]


class HandoffCut(Struct, frozen=True):
    """The handoff at the end of a thread."""

    href: str
    name: str
    """The text for a screen reader."""
    used: float | None
    """Context use in percent; None where it is unknown."""
    past: bool
    why: str


class ThreadStretch(Struct, frozen=True):
    """One thread.

    `points` are (part of the thread from 0 to 1, percent of the context), in order.
    """

    href: str
    name: str
    words: tuple[str, str, str]
    """Harness, id, and when."""
    entries: int | None = None
    seconds: float = 0.0
    points: tuple[Point, ...] = ()
    compactions: tuple[float, ...] = ()
    works: bool = False
    """Its agent is running now."""
    used: float | None = None
    """Context use in percent at its end, or now."""
    cut: HandoffCut | None = None


class ChainFork(Struct, frozen=True):
    """Threads that came from a handoff of the chain, and did not become the chain."""

    after: int
    """Index of the thread of the chain at whose end it begins."""
    stretches: tuple[ThreadStretch, ...]
    words: tuple[str, str]


class ChainStrand(Struct, frozen=True):
    """A chain to be drawn."""

    name: str
    stretches: tuple[ThreadStretch, ...]
    forks: tuple[ChainFork, ...] = ()
    threshold: float | None = None


# -- the drawing -----------------------------------------------------------------------


class PlacedText(Struct, frozen=True):
    """A text at a place. `look` are classes of the style sheet."""

    x: float
    y: float
    text: str
    look: str = "m"
    anchor: str = "start"


class HandoffNode(Struct, frozen=True):
    """A handoff: a diamond, the line down from it, and the square that can be pressed."""

    cut: HandoffCut
    x: float
    y: float
    base: float
    words: tuple[PlacedText, ...]


class ThreadShape(Struct, frozen=True):
    """A thread: the area below its line, its line, and the rectangle that can be pressed."""

    stretch: ThreadStretch
    area: str
    use: str
    hit: tuple[float, float, float, float]
    words: tuple[PlacedText, ...]
    dot: Point | None
    node: HandoffNode | None


class ForkBranch(Struct, frozen=True):
    """A fork: the line that connects it with its handoff, its base line, its threads."""

    way: str
    base: str
    words: tuple[PlacedText, ...]
    shapes: tuple[ThreadShape, ...]


class ChainDrawing(Struct, frozen=True):
    """Everything of a drawing with its place in `width` times `height` px."""

    name: str
    width: float
    height: float
    right: float
    long: bool
    grid: tuple[tuple[float, str], ...]
    shapes: tuple[ThreadShape, ...]
    branches: tuple[ForkBranch, ...]
    threshold: tuple[float, str] | None
    legend: tuple[Point, Point, Point] | None


def draw_chain(strand: ChainStrand) -> ChainDrawing:
    """Draw a chain with at least one thread."""
    widths, per_weight = _compute_widths(strand.stretches)
    edges = [LEFT]
    for width in widths:
        edges.append(edges[-1] + width)
    right = edges[-1]
    shapes = tuple(
        _build_shape(stretch, edges[i], widths[i], BASE, BASE - TOP)
        for i, stretch in enumerate(strand.stretches)
    )
    branches, bottom = _build_branches(strand, edges, per_weight)
    words = [word for branch in branches for word in branch.words if word.anchor == "start"]
    ends = [word.x + FORK_WORDS for word in words]
    ends += [shape.hit[0] + shape.hit[2] for branch in branches for shape in branch.shapes]
    is_long = max([right, *ends]) > LEFT + PLOT_WIDTH + 13
    return ChainDrawing(
        name=_format_name(strand),
        width=_round(max([right + (44.0 if is_long else 12.0), *(end + 12.0 for end in ends)])),
        height=_round(bottom + 60),
        right=_round(right),
        long=is_long,
        grid=tuple(
            (_round(_compute_y(percent, BASE, BASE - TOP)), f"{percent} %")
            for percent in (0, 50, 100)
        ),
        shapes=shapes,
        branches=branches,
        threshold=None
        if strand.threshold is None
        else (
            _round(_compute_y(strand.threshold, BASE, BASE - TOP)),
            f"threshold {strand.threshold:.0f} %",
        ),
        legend=_build_legend(max(LEFT + 8, right - PLOT_WIDTH + 8), bottom + 32),
    )


def _format_name(strand: ChainStrand) -> str:
    threads = len(strand.stretches)
    handoffs = sum(stretch.cut is not None for stretch in strand.stretches)
    counts = [format_plural(threads, "thread"), format_plural(handoffs, "handoff")]
    if strand.forks:
        counts.append(format_plural(len(strand.forks), "fork"))
    return f"Chain of {strand.name}: {', '.join(counts)}. The table below says the same."


def _build_legend(x: float, y: float) -> tuple[Point, Point, Point]:
    return (_round(x), _round(y)), (_round(x + 196), _round(y)), (_round(x + 332), _round(y))


# -- widths ----------------------------------------------------------------------------


def _compute_widths(stretches: Sequence[ThreadStretch]) -> tuple[list[float], float]:
    """Compute the width of each thread, and that of one entry.

    Threads of few entries get the narrowest width.
    """
    weights = _compute_weights(stretches)
    remaining, wide_indexes = (
        max(PLOT_WIDTH, NARROWEST_THREAD * len(stretches)),
        set(range(len(stretches))),
    )
    while True:
        scale = remaining / max(sum(weights[i] for i in wide_indexes), 1e-9)
        small = {i for i in wide_indexes if weights[i] * scale < NARROWEST_THREAD}
        if not small or small == wide_indexes:
            break
        wide_indexes -= small
        remaining -= NARROWEST_THREAD * len(small)
    return [max(weights[i] * scale, NARROWEST_THREAD) if i in wide_indexes else NARROWEST_THREAD for i in range(len(stretches))], scale  # fmt: skip


def _compute_weights(stretches: Sequence[ThreadStretch]) -> list[float]:
    """Compute weights: entries; where unknown, what other threads had in the same time."""
    measured = [stretch for stretch in stretches if stretch.entries is not None]
    seconds = sum(max(of.seconds, 1.0) for of in measured)
    rate = sum(of.entries or 0 for of in measured) / seconds if measured else 1.0
    return [
        max(max(of.seconds, 1.0) * rate if of.entries is None else float(of.entries), 1.0)
        for of in stretches
    ]


# -- one thread ------------------------------------------------------------------------


def _build_shape(
    stretch: ThreadStretch, x: float, width: float, base: float, height: float, *, low: bool = False
) -> ThreadShape:
    places = [
        (_round(x + part * width), _round(_compute_y(used, base, height)))
        for part, used in thin_points(stretch.points)
    ]
    end = x + width
    line = " ".join(f"{px} {py}" for px, py in places)
    if len(places) == 1:  # measured once: a dash, no slope
        (px, py) = places[0]
        line = f"{_round(max(px - 6, x))} {py} {px} {py}"
    now = _compute_y(stretch.used, base, height) if stretch.used is not None else base
    words = (
        []
        if low
        else [
            PlacedText(_round(x + 8), BASE + 20 + 16 * i, cut_text(text, width - 12), look)
            for i, (text, look) in enumerate(zip(stretch.words, ("b", "k m", "m"), strict=True))
            if text
        ]
    )
    if not places:
        words.append(PlacedText(_round(x + width / 2), _round(base - 12), cut_text("context not known", width), anchor="middle"))  # fmt: skip
    if stretch.works and stretch.used is not None:
        words.append(
            PlacedText(_round(end - 4), _round(now - 10), f"now {stretch.used:.0f} %", "b", "end")
        )
    if not low:
        words += _build_compactions(stretch, places, x, width)
    gap = min(2 * NODE_SIZE, width / 4)
    return ThreadShape(
        stretch=stretch,
        area=f"M{places[0][0]} {base}L{line} {places[-1][0]} {base}z" if len(places) > 1 else "",
        use=f"M{line}" if places else "",
        hit=(_round(x + gap), _round(base - height), _round(width - 2 * gap), height),
        words=tuple(words),
        dot=(_round(end), _round(now)) if stretch.works else None,
        node=_build_node(stretch.cut, end, width, base, height, low=low) if stretch.cut else None,
    )


def _build_compactions(
    stretch: ThreadStretch, places: Sequence[Point], x: float, width: float
) -> list[PlacedText]:
    words, last_position = [], x - 200
    for part in stretch.compactions:
        position = x + part * width
        if (
            position - last_position < 76 or position + 76 > x + width
        ):  # its word would overlap another
            continue
        before = [py for px, py in places if px <= position + 1]
        words.append(
            PlacedText(
                _round(position + 6), _round(min(before[-3:], default=BASE - 12) + 10), "compacted"
            )
        )
        last_position = position
    return words


def _build_node(
    cut: HandoffCut, x: float, width: float, base: float, height: float, *, low: bool
) -> HandoffNode:
    used = "not known" if cut.used is None else f"{cut.used:.0f} %"
    above = () if low else (
        PlacedText(_round(x), 20.0, used, "b", "end"),
        PlacedText(_round(x), 36.0, cut_text(cut.why, width - 8), "m", "end"),
    )  # fmt: skip
    y = base if cut.used is None else _compute_y(cut.used, base, height)
    return HandoffNode(cut, _round(x), _round(y), base, above)


def thin_points(points: Sequence[Point]) -> list[Point]:
    """Thin points to the lowest and the highest of each place, and both ends.

    There are `MOST_POINTS` places, so 2 for each at the most.
    """
    if len(points) <= 2 * MOST_POINTS:
        return list(points)
    places: dict[int, list[int]] = {}
    for i, (part, _) in enumerate(points):
        places.setdefault(int(part * MOST_POINTS), []).append(i)
    kept_indexes = {0, len(points) - 1}
    for indexes in places.values():
        kept_indexes |= {
            min(indexes, key=lambda i: points[i][1]),
            max(indexes, key=lambda i: points[i][1]),
        }
    return [points[i] for i in sorted(kept_indexes)]


# -- forks -----------------------------------------------------------------------------


def _build_branches(
    strand: ChainStrand, edges: Sequence[float], per_weight: float
) -> tuple[tuple[ForkBranch, ...], float]:
    """Build the forks, the newest on top so that no lines cross; also return where they end."""
    branches = []
    bottom = BASE + WORDS_HEIGHT
    places = [edges[fork.after + 1] for fork in strand.forks]
    for fork in sorted(strand.forks, key=lambda of: -of.after):
        bottom += FORK_ROW_HEIGHT
        x = edges[fork.after + 1]
        room = x - max((other for other in places if other < x), default=LEFT)
        on_left = x + 24 + FORK_WORDS > edges[-1] + 12 and room > FORK_WORDS + 24
        branches.append(_build_branch(fork, x, bottom, per_weight, on_left=on_left))
    return tuple(branches), bottom


def _build_branch(
    fork: ChainFork, x: float, base: float, per_weight: float, *, on_left: bool
) -> ForkBranch:
    begin = x + 24
    shapes, position = [], begin
    for stretch, weight in zip(fork.stretches, _compute_weights(fork.stretches), strict=True):
        width = min(max(weight * per_weight, FORK_NARROWEST), FORK_WIDEST)
        shapes.append(_build_shape(stretch, position, width, base, FORK_PLOT_HEIGHT, low=True))
        position += width
    word_x, y, anchor = (
        (x - 12, base - 30, "end") if on_left else (begin, base - FORK_PLOT_HEIGHT - 26, "start")
    )
    return ForkBranch(
        way=f"M{_round(x)} {BASE}V{_round(base - 16)}q0 16 16 16h8",
        base=f"M{_round(begin)} {base}H{_round(position)}",
        words=tuple(
            PlacedText(_round(word_x), y + 16 * i, cut_text(text, FORK_WORDS), look, anchor)
            for i, (text, look) in enumerate(zip(fork.words, ("b", "m"), strict=True))
        ),
        shapes=tuple(shapes),
    )


# -- shared ----------------------------------------------------------------------------


def _compute_y(used: float, base: float, height: float) -> float:
    """Compute the height of a context use; more than the window is drawn as all of it."""
    return base - height * min(max(used, 0.0), 100.0) / 100


def cut_text(text: str, width: float) -> str:
    """Cut a text to `width` px at 12 px; letters of two columns count twice."""
    room, columns = int(max(width, 0) / LETTER_WIDTH), 0
    for i, letter in enumerate(text):
        columns += 2 if east_asian_width(letter) in "WF" else 1
        if columns > room:
            return text[: max(i - 1, 0)].rstrip() + "…"
    return text


def _round(number: float) -> float:
    return round(number, 1)
