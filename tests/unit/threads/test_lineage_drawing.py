"""Chains as drawings: where everything is, and what can be pressed."""

import re
from collections.abc import Iterator

import pytest
from jinja2 import Environment, PackageLoader, StrictUndefined

from tasuki.web.pages.lineage.diagram import (
    BASE,
    LEFT,
    MOST_POINTS,
    NARROWEST_THREAD,
    PLOT_WIDTH,
    TOP,
    ChainDrawing,
    ChainFork,
    ChainStrand,
    HandoffCut,
    ThreadShape,
    ThreadStretch,
    cut_text,
    draw_chain,
    thin_points,
)

SAW = tuple((i / 40, 5.0 + 2 * i) for i in range(41))
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
HOSTILE = (
    "<script>alert(1)</script>", '" onload="alert(1)', "\u202egnp.exe", "x" * 200, "漢字" * 100,
    "'></title><a href=javascript:alert(1)>", "e\u0301" * 100,
)  # fmt: skip


def stretch(number: int = 1, **values: object) -> ThreadStretch:
    given = {
        "href": f"/agents/{number}/thread", "name": f"Thread {number}", "entries": 40 * number,
        "words": ("Claude Code", f"{number:08x}", f"today, {40 * number} entries"), "points": SAW,
        "used": 85.0,
        "cut": HandoffCut(f"/handoffs/{number}", f"Handoff {number}", 85.0, True, "past threshold"),
    }  # fmt: skip
    return ThreadStretch(**{**given, **values})  # type: ignore[arg-type]


def chain(count: int, **values: object) -> ChainStrand:
    stretches = [stretch(n, **values) for n in range(1, count)]
    last = stretch(count, cut=None, works=True)
    return ChainStrand("developer-con-1", (*stretches, last), threshold=80.0)


def shapes(of: ChainDrawing) -> Iterator[ThreadShape]:
    yield from of.shapes
    for branch in of.branches:
        yield from branch.shapes


def svg(of: ChainDrawing) -> str:
    environment = Environment(
        loader=PackageLoader("tasuki.web"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    return str(environment.get_template("lineage_drawing.html").module.draw(of))  # type: ignore[attr-defined]


@pytest.mark.parametrize("count", [1, 2, 5, 200])
def test_everything_lies_within_the_drawing(count: int) -> None:
    """Every thread, node, dot and word begins within the view box, of short and of long chains."""
    made = draw_chain(chain(count))

    xs = [x for shape in shapes(made) for x in (shape.hit[0], shape.hit[0] + shape.hit[2])]
    xs += [word.x for shape in shapes(made) for word in shape.words]
    ys = [y for shape in shapes(made) for y in (shape.hit[1], shape.hit[1] + shape.hit[3])]
    ys += [word.y for shape in shapes(made) for word in shape.words]
    for shape in shapes(made):
        lines = [float(n) for n in NUMBER.findall(shape.use)]
        xs, ys = xs + lines[::2], ys + lines[1::2]
    assert (min(xs) >= 0, max(xs) <= made.width) == (True, True)
    assert (min(ys) >= 0, max(ys) <= made.height) == (True, True)


def test_a_line_never_goes_back() -> None:
    """Along a thread and along a chain, what came later is drawn further right."""
    made = draw_chain(chain(5))

    xs = [float(n) for shape in made.shapes for n in NUMBER.findall(shape.use)[::2]]
    assert sorted(xs) == xs


def test_the_height_is_the_use() -> None:
    """An empty context is drawn at the base, a full one at the top, and more than full there too."""
    made = draw_chain(ChainStrand("p", (stretch(points=((0.0, 0.0), (0.5, 100.0), (1.0, 140.0))),)))

    numbers = [float(n) for n in NUMBER.findall(made.shapes[0].use)]
    assert [BASE, TOP, TOP] == numbers[1::2]


def test_the_width_is_the_entries() -> None:
    """A thread of three times the entries is three times as wide, as long as both have room."""
    made = draw_chain(ChainStrand("p", (stretch(entries=100), stretch(2, entries=300))))

    ends = [shape.node.x for shape in made.shapes if shape.node]
    assert [LEFT + PLOT_WIDTH / 4, LEFT + PLOT_WIDTH] == ends


def test_a_thread_of_few_entries_has_room_for_its_words() -> None:
    """Each thread is at least as wide as its words; the others share what is left."""
    made = draw_chain(ChainStrand("p", (stretch(entries=1), stretch(2, entries=10_000), stretch(3, entries=1))))  # fmt: skip

    ends = [shape.node.x for shape in made.shapes if shape.node]
    assert [
        LEFT + NARROWEST_THREAD,
        LEFT + PLOT_WIDTH - NARROWEST_THREAD,
        LEFT + PLOT_WIDTH,
    ] == ends


def test_where_entries_are_not_known_the_width_is_time() -> None:
    """A thread that cannot be read is as wide as one that took as long."""
    stretches = (stretch(entries=100, seconds=60.0), stretch(2, entries=None, seconds=60.0))

    ends = [shape.node.x for shape in draw_chain(ChainStrand("p", stretches)).shapes if shape.node]
    assert [LEFT + PLOT_WIDTH / 2, LEFT + PLOT_WIDTH] == ends


def test_each_thread_and_each_handoff_is_one_named_link_in_the_order_of_the_chain() -> None:
    """The keyboard goes thread 1, handoff 1, thread 2 …; each link has a name and a title that says the same."""
    html = svg(draw_chain(chain(3)))

    names = re.findall(r'<a href="([^"]*)" aria-label="([^"]*)"><title>([^<]*)</title>', html)
    expected = [
        ("/agents/1/thread", "Thread 1"), ("/handoffs/1", "Handoff 1"),
        ("/agents/2/thread", "Thread 2"), ("/handoffs/2", "Handoff 2"), ("/agents/3/thread", "Thread 3"),
    ]  # fmt: skip
    assert [(href, name, name) for href, name in expected] == names
    assert len(expected) == html.count("<a ")


def test_no_thread_can_be_pressed_where_a_handoff_is() -> None:
    """The squares of handoffs and the rectangles of threads do not overlap."""
    made = draw_chain(chain(4))

    for before, after in zip(made.shapes, made.shapes[1:], strict=False):
        assert before.node
        assert before.hit[0] + before.hit[2] <= before.node.x - 12
        assert before.node.x + 12 <= after.hit[0]


def test_the_drawing_names_what_it_shows() -> None:
    """Its name counts threads, handoffs and forks, and points to the table."""
    strand = chain(3)
    fork = ChainFork(0, (stretch(9, cut=None),), ("Agent 9", "from handoff 1"))

    made = draw_chain(ChainStrand(strand.name, strand.stretches, (fork,)))
    said = "Chain of developer-con-1: 3 threads, 2 handoffs, 1 fork. The table below says the same."
    assert said == made.name


def test_nothing_measured_is_said_and_not_drawn() -> None:
    """Without a measurement there is no line; the thread says so, and its handoff lies at the base."""
    cut = HandoffCut("/handoffs/1", "Handoff 1", None, False, "done")
    made = draw_chain(ChainStrand("p", (stretch(points=(), used=None, cut=cut),)))

    (shape,) = made.shapes
    assert ("", "") == (shape.area, shape.use)
    assert "context not known" in [word.text for word in shape.words]
    assert shape.node
    assert (BASE, "not known") == (shape.node.y, shape.node.words[0].text)


def test_one_measurement_is_a_dash() -> None:
    """What was measured once has no slope."""
    (shape,) = draw_chain(ChainStrand("p", (stretch(points=((1.0, 50.0),)),))).shapes

    assert ("", f"M{LEFT + PLOT_WIDTH - 6} 128.0 {LEFT + PLOT_WIDTH} 128.0") == (
        shape.area,
        shape.use,
    )


def test_a_handoff_past_the_threshold_is_filled() -> None:
    """The diamond tells whether the threshold was passed."""
    below = HandoffCut("/handoffs/2", "Handoff 2", 40.0, False, "goal reached")
    html = svg(draw_chain(ChainStrand("p", (stretch(), stretch(2, cut=below)), threshold=80.0)))

    assert ['"node over"', '"node"'] == re.findall(r'class=("node[^"]*")', html)[:2]


def test_the_drawing_of_a_long_chain_scrolls_and_has_its_scale_at_both_ends() -> None:
    """200 agents: no thread is narrower than its words, and the newest end has numbers too."""
    made = draw_chain(chain(200))

    assert made.long
    assert made.right >= LEFT + 200 * NARROWEST_THREAD - 0.1
    assert 2 == svg(made).count(">50 %<")
    assert 'class="draw long"' in svg(made)


def test_forks_hang_below_and_no_line_crosses_them() -> None:
    """Each fork has a row of its own, the newest on top: the lines of older ones pass on its left."""
    strand = chain(4)
    forks = tuple(
        ChainFork(n, (stretch(90 + n, cut=None),), (f"Agent {n}", "from it")) for n in range(3)
    )
    made = draw_chain(ChainStrand(strand.name, strand.stretches, forks))

    tops = [shape.hit[1] for branch in made.branches for shape in branch.shapes]
    lefts = [shape.hit[0] for branch in made.branches for shape in branch.shapes]
    assert sorted(tops) == tops
    assert sorted(lefts, reverse=True) == lefts
    assert min(tops) > BASE + 60


def test_a_thread_with_many_measurements_keeps_its_peaks() -> None:
    """However many there are, some hundred are drawn: both ends, the lowest and the highest among them."""
    points = [(i / 9999, 97.0 if i == 5000 else 3.0 if i == 7001 else 50.0) for i in range(10_000)]

    kept = thin_points(points)
    assert len(kept) <= 2 * MOST_POINTS + 4
    assert {points[0], points[5000], points[7001], points[-1]} <= set(kept)
    assert sorted(kept) == kept


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_words_stay_words(text: str) -> None:
    """Markup in any word is text, and nothing that is not a word has it in it."""
    cut = HandoffCut("/handoffs/1", text, 85.0, True, text)
    one = stretch(name=text, words=(text, text, text), cut=cut)
    html = svg(
        draw_chain(
            ChainStrand(text, (one, stretch(2)), (ChainFork(0, (one,), (text, text)),), 80.0)
        )
    )

    assert "<script" not in html
    assert {"svg", "div", "path", "rect", "text", "a", "title", "circle"} >= set(re.findall(r"<(\w+)", html))  # fmt: skip
    assert not re.search(r'<[^>]*"[^">]*"\s*onload', html)
    assert "style=" not in html


@pytest.mark.parametrize("text", HOSTILE)
def test_words_are_cut_to_the_room_there_is(text: str) -> None:
    """A long word ends in an ellipsis; letters of double width take two columns."""
    cut = cut_text(text, 70)

    assert cut == text or cut.endswith("…")
    assert len(cut) <= 10
    assert "" == cut_text("", 70)
    assert "…" == cut_text("漢字", 7)
