"""Chains as rows: the line of each thread, and which rows of a long chain are shown."""

import re

import pytest

from tasuki.web.pages.lineage.rows import (
    HEIGHT,
    MOST_POINTS,
    NEWEST,
    OLDEST,
    WIDTH,
    Sparkline,
    build_sparkline,
    choose_shown,
    thin_points,
)

SAW = tuple((i / 40, 5.0 + 2 * i) for i in range(41))
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def draw(points: tuple[tuple[float, float], ...] = SAW, *, cut: bool = True) -> Sparkline:
    line = build_sparkline(points, 80.0, (0.5,), is_cut=cut)
    assert line is not None
    return line


def places(line: Sparkline) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in (one.split(",") for one in line.points.split())]


def test_everything_lies_within_the_line() -> None:
    """No point, mark or compaction is drawn outside, whatever was measured."""
    line = draw(((0.0, -5.0), (0.3, 140.0), (1.0, 100.0)))

    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in places(line))
    assert line.mark is not None
    assert 0 < line.mark < HEIGHT
    assert (WIDTH / 2,) == line.compactions


def test_a_line_never_goes_back() -> None:
    """What came later is drawn further right."""
    xs = [x for x, _ in places(draw())]

    assert sorted(xs) == xs
    assert (0.0, WIDTH) == (xs[0], xs[-1])


def test_the_height_is_the_use() -> None:
    """An empty context is drawn at the base, a full one at the top, and more than full there too."""
    ys = [y for _, y in places(draw(((0.0, 0.0), (0.5, 100.0), (1.0, 140.0))))]

    assert [HEIGHT - 1, 1.0, 1.0] == ys


def test_the_words_say_what_is_drawn() -> None:
    """A reader who does not see the line hears its ends, its peak, the threshold and the cut."""
    assert (
        "Context use 5 % to 85 %, at most 85 %, threshold 80 %, 1 compaction, handed off at its end"
        == draw().words
    )
    line = build_sparkline(SAW, None, (), is_cut=False)
    assert line
    assert ("Context use 5 % to 85 %, at most 85 %", None) == (line.words, line.mark)


def test_nothing_measured_is_no_line() -> None:
    """Without a measurement nothing is drawn, and nothing guessed."""
    assert build_sparkline((), 80.0, (0.5,), is_cut=True) is None


def test_one_measurement_is_a_dash() -> None:
    """What was measured once has no slope."""
    (begin, end) = places(draw(((1.0, 50.0),)))

    assert begin[0] < end[0]
    assert begin[1] == end[1]


def test_a_thread_with_many_measurements_keeps_its_peaks() -> None:
    """Ten thousand points become a few, with the lowest and the highest of each place and both ends."""
    points = [(i / 10_000, float(i % 97)) for i in range(10_001)]
    thinned = thin_points(points)

    assert len(thinned) <= 2 * (MOST_POINTS + 1) + 2
    assert (points[0], points[-1]) == (thinned[0], thinned[-1])
    assert {0.0, 96.0} <= {used for _, used in thinned}
    assert sorted(thinned) == thinned


@pytest.mark.parametrize("count", [0, 1, NEWEST + OLDEST + 1])
def test_a_chain_of_ordinary_length_is_shown_whole(count: int) -> None:
    """Nobody has to press for a single row."""
    assert list(range(count - 1, -1, -1)) == choose_shown(count, NEWEST)


def test_of_a_long_chain_both_ends_are_shown() -> None:
    """The newest come first; the oldest end the table."""
    shown = choose_shown(200, NEWEST)

    assert [199, 198] == shown[:2]
    assert [2, 1, 0] == shown[-3:]
    assert NEWEST + OLDEST == len(shown)
    assert 63 == len(choose_shown(200, 60))
    assert 200 == len(choose_shown(200, 500))
