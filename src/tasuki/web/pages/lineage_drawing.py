"""A chain of threads as a drawing: what was measured becomes lines, words and links with a place.

    100 % ┊      ◆        ◆
          ┊ ╱╱╱╱╱│  ╱╱╱╱╱╱│ ╱╱╱╱•        height: context use, 160 px for 100 %
      0 % ┊╱     │╱       │╱             width: entries of the thread; at least 144 px
            thread 1  thread 2 ┊ now
                               └╱╱╱•      a fork hangs below the handoff that it came from

Nothing here reads or guesses. Everything is numbers for attributes, rounded to 0.1 px.
"""

from collections.abc import Sequence
from unicodedata import east_asian_width

from msgspec import Struct

from tasuki.web.pages.lineage_words import counted

LEFT, TOP, BASE = 44.0, 48.0, 208.0
PLOT = 1104.0
"""Width of the threads of a short chain; a longer one is wider, and scrolls."""
NARROWEST = 144.0
"""Width of a thread: what its three lines of words take."""
BELOW = 60.0
"""Height of the words below the threads."""
ROW, LOW = 116.0, 64.0
"""Height of the row of a fork, and of 100 % in it."""
FORK_NARROWEST, FORK_WIDEST, FORK_WORDS = 76.0, 400.0, 220.0
NODE = 6.0
MOST_POINTS = 48
"""Places of a thread at which its use is drawn; at each its lowest and highest."""
LETTER = 6.9
"""Width of a letter at 12 px, of those that take one column."""

Point = tuple[float, float]


class Cut(Struct, frozen=True):
    """The handoff at the end of a thread."""

    href: str
    name: str
    """What a screen reader says of it."""
    used: float | None
    """Context use in percent; None where nobody told."""
    past: bool
    why: str


class Stretch(Struct, frozen=True):
    """One thread. `points` are (part of the thread from 0 to 1, percent of the context), in order."""

    href: str
    name: str
    words: tuple[str, str, str]
    """Harness, id, and when."""
    entries: int | None = None
    seconds: float = 0.0
    points: tuple[Point, ...] = ()
    compactions: tuple[float, ...] = ()
    works: bool = False
    """Its agent is there now."""
    used: float | None = None
    """Context use in percent at its end, or now."""
    cut: Cut | None = None


class Fork(Struct, frozen=True):
    """Threads that came from a handoff of the chain, and did not become the chain."""

    after: int
    """Index of the thread of the chain at whose end it hangs."""
    stretches: tuple[Stretch, ...]
    words: tuple[str, str]


class Strand(Struct, frozen=True):
    """A chain as it is to be drawn."""

    name: str
    stretches: tuple[Stretch, ...]
    forks: tuple[Fork, ...] = ()
    threshold: float | None = None


# -- the drawing -----------------------------------------------------------------------


class Words(Struct, frozen=True):
    """A text at a place. `look` are classes of the style sheet."""

    x: float
    y: float
    text: str
    look: str = "m"
    anchor: str = "start"


class Node(Struct, frozen=True):
    """A handoff: a diamond, the line down from it, and the square that can be pressed."""

    cut: Cut
    x: float
    y: float
    base: float
    words: tuple[Words, ...]


class Shape(Struct, frozen=True):
    """A thread: the ground below its line, its line, and the rectangle that can be pressed."""

    stretch: Stretch
    area: str
    use: str
    hit: tuple[float, float, float, float]
    words: tuple[Words, ...]
    dot: Point | None
    node: Node | None


class Branch(Struct, frozen=True):
    """A fork: the line by which it hangs on its handoff, its ground, its threads."""

    way: str
    base: str
    words: tuple[Words, ...]
    shapes: tuple[Shape, ...]


class Drawing(Struct, frozen=True):
    """Everything of a drawing with its place in `width` times `height` px."""

    name: str
    width: float
    height: float
    right: float
    long: bool
    grid: tuple[tuple[float, str], ...]
    shapes: tuple[Shape, ...]
    branches: tuple[Branch, ...]
    threshold: tuple[float, str] | None
    legend: tuple[Point, Point, Point] | None


def drawing(strand: Strand) -> Drawing:
    """The drawing of a chain with at least one thread."""
    widths, per_weight = _widths(strand.stretches)
    edges = [LEFT]
    for width in widths:
        edges.append(edges[-1] + width)
    right = edges[-1]
    shapes = tuple(
        _shape(stretch, edges[i], widths[i], BASE, BASE - TOP)
        for i, stretch in enumerate(strand.stretches)
    )
    branches, bottom = _branches(strand, edges, per_weight)
    words = [word for branch in branches for word in branch.words if word.anchor == "start"]
    ends = [word.x + FORK_WORDS for word in words]
    ends += [shape.hit[0] + shape.hit[2] for branch in branches for shape in branch.shapes]
    is_long = max([right, *ends]) > LEFT + PLOT + 13
    return Drawing(
        name=_name(strand),
        width=_r(max([right + (44.0 if is_long else 12.0), *(end + 12.0 for end in ends)])),
        height=_r(bottom + 60),
        right=_r(right),
        long=is_long,
        grid=tuple((_r(_y(of, BASE, BASE - TOP)), f"{of} %") for of in (0, 50, 100)),
        shapes=shapes,
        branches=branches,
        threshold=_threshold(strand.threshold),
        legend=_legend(max(LEFT + 8, right - PLOT + 8), bottom + 32),
    )


def _name(strand: Strand) -> str:
    threads = len(strand.stretches)
    handoffs = sum(stretch.cut is not None for stretch in strand.stretches)
    said = [counted(threads, "thread"), counted(handoffs, "handoff")]
    if strand.forks:
        said.append(counted(len(strand.forks), "fork"))
    return f"Chain of {strand.name}: {', '.join(said)}. The table below says the same."


def _threshold(of: float | None) -> tuple[float, str] | None:
    return None if of is None else (_r(_y(of, BASE, BASE - TOP)), f"threshold {of:.0f} %")


def _legend(x: float, y: float) -> tuple[Point, Point, Point]:
    return (_r(x), _r(y)), (_r(x + 196), _r(y)), (_r(x + 332), _r(y))


# -- widths ----------------------------------------------------------------------------


def _widths(stretches: Sequence[Stretch]) -> tuple[list[float], float]:
    """The width of each thread, and that of one entry; threads of few entries get the narrowest."""
    weights = _weights(stretches)
    left, wide = max(PLOT, NARROWEST * len(stretches)), set(range(len(stretches)))
    while True:
        scale = left / max(sum(weights[i] for i in wide), 1e-9)
        small = {i for i in wide if weights[i] * scale < NARROWEST}
        if not small or small == wide:
            break
        wide -= small
        left -= NARROWEST * len(small)
    return [max(weights[i] * scale, NARROWEST) if i in wide else NARROWEST for i in range(len(stretches))], scale  # fmt: skip


def _weights(stretches: Sequence[Stretch]) -> list[float]:
    """Entries; where they are not known, what other threads had in the same time."""
    known = [of for of in stretches if of.entries is not None]
    seconds = sum(max(of.seconds, 1.0) for of in known)
    rate = sum(of.entries or 0 for of in known) / seconds if known else 1.0
    return [
        max(max(of.seconds, 1.0) * rate if of.entries is None else float(of.entries), 1.0)
        for of in stretches
    ]


# -- one thread ------------------------------------------------------------------------


def _shape(
    of: Stretch, x: float, width: float, base: float, height: float, *, low: bool = False
) -> Shape:
    places = [
        (_r(x + part * width), _r(_y(used, base, height))) for part, used in thinned(of.points)
    ]
    end = x + width
    line = " ".join(f"{px} {py}" for px, py in places)
    if len(places) == 1:  # measured once: a dash, no slope
        (px, py) = places[0]
        line = f"{_r(max(px - 6, x))} {py} {px} {py}"
    now = _y(of.used, base, height) if of.used is not None else base
    words = [] if low else _below(of, x, width)
    if not places:
        words.append(Words(_r(x + width / 2), _r(base - 12), cut_to("context not known", width), anchor="middle"))  # fmt: skip
    if of.works and of.used is not None:
        words.append(Words(_r(end - 4), _r(now - 10), f"now {of.used:.0f} %", "b", "end"))
    if not low:
        words += _compactions(of, places, x, width)
    gap = min(2 * NODE, width / 4)
    return Shape(
        stretch=of,
        area=f"M{places[0][0]} {base}L{line} {places[-1][0]} {base}z" if len(places) > 1 else "",
        use=f"M{line}" if places else "",
        hit=(_r(x + gap), _r(base - height), _r(width - 2 * gap), height),
        words=tuple(words),
        dot=(_r(end), _r(now)) if of.works else None,
        node=_node(of.cut, end, width, base, height, low=low) if of.cut else None,
    )


def _below(of: Stretch, x: float, width: float) -> list[Words]:
    looks = ("b", "k m", "m")
    return [
        Words(_r(x + 8), BASE + 20 + 16 * i, cut_to(text, width - 12), look)
        for i, (text, look) in enumerate(zip(of.words, looks, strict=True))
        if text
    ]


def _compactions(of: Stretch, places: Sequence[Point], x: float, width: float) -> list[Words]:
    made, last = [], x - 200
    for part in of.compactions:
        at = x + part * width
        if at - last < 76 or at + 76 > x + width:  # its word would run into another
            continue
        before = [py for px, py in places if px <= at + 1]
        made.append(Words(_r(at + 6), _r(min(before[-3:], default=BASE - 12) + 10), "compacted"))
        last = at
    return made


def _node(cut: Cut, x: float, width: float, base: float, height: float, *, low: bool) -> Node:
    used = "not known" if cut.used is None else f"{cut.used:.0f} %"
    above = () if low else (
        Words(_r(x), 20.0, used, "b", "end"),
        Words(_r(x), 36.0, cut_to(cut.why, width - 8), "m", "end"),
    )  # fmt: skip
    y = base if cut.used is None else _y(cut.used, base, height)
    return Node(cut, _r(x), _r(y), base, above)


def thinned(points: Sequence[Point]) -> list[Point]:
    """At most 2 points for each of `MOST_POINTS` places, the lowest and the highest, and both ends."""
    if len(points) <= 2 * MOST_POINTS:
        return list(points)
    places: dict[int, list[int]] = {}
    for i, (part, _) in enumerate(points):
        places.setdefault(int(part * MOST_POINTS), []).append(i)
    kept = {0, len(points) - 1}
    for those in places.values():
        kept |= {min(those, key=lambda i: points[i][1]), max(those, key=lambda i: points[i][1])}
    return [points[i] for i in sorted(kept)]


# -- forks -----------------------------------------------------------------------------


def _branches(
    strand: Strand, edges: Sequence[float], per_weight: float
) -> tuple[tuple[Branch, ...], float]:
    """The forks, the newest on top, so that no line crosses one; and where they end."""
    made = []
    bottom = BASE + BELOW
    places = [edges[fork.after + 1] for fork in strand.forks]
    for fork in sorted(strand.forks, key=lambda of: -of.after):
        bottom += ROW
        x = edges[fork.after + 1]
        room = x - max((other for other in places if other < x), default=LEFT)
        on_left = x + 24 + FORK_WORDS > edges[-1] + 12 and room > FORK_WORDS + 24
        made.append(_branch(fork, x, bottom, per_weight, on_left=on_left))
    return tuple(made), bottom


def _branch(fork: Fork, x: float, base: float, per_weight: float, *, on_left: bool) -> Branch:
    begin = x + 24
    shapes, left = [], begin
    for stretch, weight in zip(fork.stretches, _weights(fork.stretches), strict=True):
        width = min(max(weight * per_weight, FORK_NARROWEST), FORK_WIDEST)
        shapes.append(_shape(stretch, left, width, base, LOW, low=True))
        left += width
    at, y, anchor = (x - 12, base - 30, "end") if on_left else (begin, base - LOW - 26, "start")
    return Branch(
        way=f"M{_r(x)} {BASE}V{_r(base - 16)}q0 16 16 16h8",
        base=f"M{_r(begin)} {base}H{_r(left)}",
        words=tuple(
            Words(_r(at), y + 16 * i, cut_to(text, FORK_WORDS), look, anchor)
            for i, (text, look) in enumerate(zip(fork.words, ("b", "m"), strict=True))
        ),
        shapes=tuple(shapes),
    )


# -- what they share -------------------------------------------------------------------


def _y(used: float, base: float, height: float) -> float:
    """The height of a context use; more than the window is drawn as all of it."""
    return base - height * min(max(used, 0.0), 100.0) / 100


def cut_to(text: str, width: float) -> str:
    """The beginning of a text that fits into `width` px at 12 px; letters of two columns count twice."""
    room, kept = int(max(width, 0) / LETTER), 0
    for i, letter in enumerate(text):
        kept += 2 if east_asian_width(letter) in "WF" else 1
        if kept > room:
            return text[: max(i - 1, 0)].rstrip() + "…"
    return text


def _r(number: float) -> float:
    return round(number, 1)
