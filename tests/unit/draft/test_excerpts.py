"""Which blocks are quoted: what is new and dense first, nothing twice, with heading, introduction and gaps."""

from collections.abc import Callable

import pytest

from tasuki.draft.rank.blocks import MessageBlock, split_blocks
from tasuki.draft.rank.excerpts import (
    HEADING_COST,
    MAX_LEAD,
    MESSAGE_COST,
    NAME_WEIGHT,
    WORD_WEIGHT,
    ExcerptPicker,
    measure_block,
    quote_blocks,
    weigh_cue,
    weigh_telling_words,
)
from tasuki.draft.text import language_cues

ROOM = 10_000


def alike(block: MessageBlock) -> float:
    """The same worth for all."""
    return 1.0


def blocks_of(*messages: str) -> list[MessageBlock]:
    """The blocks of some messages, which count from 1."""
    return [block for ref, text in enumerate(messages, 1) for block in split_blocks(text, ref)]


def picked(
    blocks: list[MessageBlock],
    room: int = ROOM,
    worth: Callable[[MessageBlock], float] = alike,
) -> list[str]:
    """The texts that are picked, in the order of the thread."""
    chosen, _ = ExcerptPicker(blocks).pick_blocks(range(len(blocks)), room, worth)
    return [blocks[i].text for i in chosen]


def quoted(blocks: list[MessageBlock], *chosen: int) -> list[tuple[int, str]]:
    """Chosen blocks as the brief quotes them."""
    return list(quote_blocks(blocks, chosen))


# -- words -----------------------------------------------------------------------------


def test_names_weigh_more_than_words_and_filler_weighs_nothing() -> None:
    """Forms of a word are one word; names are kept whole, whatever their case."""
    found = weigh_telling_words("This needs the `SessionStore.flush` that flushed all connections")

    assert found["sessionstore.flush"] == NAME_WEIGHT > WORD_WEIGHT == found["connection"]
    assert found["flush"] == WORD_WEIGHT
    assert not {"this", "the", "that", "all"} & found.keys()
    assert weigh_telling_words("Connection") == weigh_telling_words("connections")
    assert weigh_telling_words("") == {}


# -- picking ---------------------------------------------------------------------------


def test_what_says_more_for_its_length_comes_first() -> None:
    """Where there is room for one of two, it is the denser one, wherever it stands."""
    dense = "`SessionStore.flush` drops rows when `max_rows` is 500 and Redis restarts."
    thin = (
        "In the beginning there was a house with a garden, and behind it stood a barn with two doors, and "
        "every morning somebody came by and looked at the windows, the chimney and at the birds upon it."
    )
    room = MESSAGE_COST + measure_block(thin)

    assert picked(blocks_of(thin, dense), room) == picked(blocks_of(dense, thin), room) == [dense]


def test_what_two_blocks_say_alike_is_told_once() -> None:
    """The second of two that share their words gives way to one that says something else."""
    one = "The importer drops duplicate rows because `merge_key` ignores the tenant."
    again = "So the importer drops duplicate rows because `merge_key` ignores the tenant, see."
    other = "Backups live in the region eu-west-1 and are removed after ninety days."
    blocks = blocks_of(one, again, other)
    room = 2 * MESSAGE_COST + measure_block(again) + measure_block(other)

    assert other in picked(blocks, room)
    assert sum(text in (one, again) for text in picked(blocks, room)) == 1


def test_what_was_told_elsewhere_is_worth_less() -> None:
    """A text that stands in another section makes the blocks that repeat it step back."""
    rows = "The importer drops duplicate rows because `merge_key` ignores the tenant."
    backups = "Backups live in the region eu-west-1, and are removed after ninety days."
    blocks = blocks_of(rows, backups)
    room = MESSAGE_COST + max(map(measure_block, (rows, backups)))

    for told, left in ((rows, backups), (backups, rows)):
        picker = ExcerptPicker(blocks)
        before = picker.measure_novelty(0), picker.measure_novelty(1)
        picker.note_text(told)
        assert (picker.measure_novelty(0), picker.measure_novelty(1)) < before
        (index,), _ = picker.pick_blocks(range(2), room, alike)
        assert blocks[index].text == left


def test_no_block_is_picked_twice() -> None:
    """Neither by a second section, nor where a section quoted it whatever it is worth."""
    blocks = blocks_of("alpha beta gamma", "delta epsilon zeta", "theta kappa lambda")
    picker = ExcerptPicker(blocks)
    picker.mark_taken([1])
    first, _ = picker.pick_blocks([0, 1], ROOM, alike)
    second, _ = picker.pick_blocks(range(3), ROOM, alike)

    assert (first, second) == ([0], [2])
    assert picker.taken == {0, 1, 2}


@pytest.mark.parametrize("room", [-5, 0, 40, 90, 200, 333, 700, 5_000])
def test_what_is_picked_fits_into_the_room(room: int) -> None:
    """Blocks with their headings, introductions, references and gaps are never longer, and the rest is returned."""
    item = "the cache of tenant {} keeps {} stale rows in `store_{}`"
    lists = "\n".join(f"- {item.format(n, n * 7, n)}" for n in range(9))
    blocks = blocks_of(
        f"## Found\n\nThese:\n{lists}\n\n## Then\nOther words here.\n\n{lists}", lists
    )
    chosen, left = ExcerptPicker(blocks).pick_blocks(range(len(blocks)), room, alike)
    texts = [text for _, text in quoted(blocks, *chosen)]

    assert sum(measure_block(text) for text in texts) <= max(room, 0)
    assert left == room if not chosen else 0 <= left < room
    assert chosen == sorted(set(chosen))


def test_worth_decides_between_equals_and_nothing_without_worth_is_picked() -> None:
    """Of two alike the one of more worth, and none of worth 0."""
    blocks = blocks_of("The importer drops some rows", "The importer drops other rows")
    room = MESSAGE_COST + measure_block(blocks[1].text)

    assert picked(blocks, room, lambda b: 2.0 if b.ref == 2 else 1.0) == [blocks[1].text]
    assert picked(blocks, room, lambda b: 2.0 if b.ref == 1 else 1.0) == [blocks[0].text]
    assert picked(blocks, ROOM, lambda b: 0.0) == []


def test_an_introduction_goes_with_its_list() -> None:
    """The paragraph in front of a list is quoted with the first of its items, if it is short."""
    blocks = blocks_of("Only these work:\n- `alpha_key`\n- `beta_key`", "Later.")
    worth = {"- `beta_key`": 9.0}

    assert picked(blocks, 80, lambda b: worth.get(b.text, 0.0)) == [
        "Only these work:",
        "- `beta_key`",
    ]
    long = blocks_of(f"Only these {'x ' * MAX_LEAD} work:\n- `alpha_key`\n- `beta_key`")
    assert picked(long, ROOM, lambda b: worth.get(b.text, 0.0)) == ["- `beta_key`"]


def test_an_item_goes_alone_where_its_introduction_finds_no_room() -> None:
    """What introduces a list is left out before the list is."""
    blocks = blocks_of("Only these are known to work:\n- `beta_key`")
    room = MESSAGE_COST + measure_block("- `beta_key`")

    assert picked(blocks, room) == ["- `beta_key`"]
    assert picked(blocks, room + measure_block(blocks[0].text)) == [b.text for b in blocks]


def test_a_heading_is_paid_once_a_message() -> None:
    """The second block below the same heading takes no room for it, one of another message does."""
    blocks = blocks_of("## Found\nalpha beta\n\ngamma delta", "## Found\nkappa lambda")
    lengths = [measure_block(b.text) for b in blocks]
    heading = len("Found") + HEADING_COST

    _, left = ExcerptPicker(blocks).pick_blocks([0, 1], ROOM, alike)
    assert ROOM - left == lengths[0] + lengths[1] + MESSAGE_COST + heading
    _, left = ExcerptPicker(blocks).pick_blocks([0, 2], ROOM, alike)
    assert ROOM - left == lengths[0] + lengths[2] + 2 * (MESSAGE_COST + heading)


# -- cues ------------------------------------------------------------------------------


def test_a_narration_loses_against_what_was_learnt() -> None:
    """An announcement counts least, then plain words; a cause counts most."""
    narration = "Let me check the queue first."
    plain = "The queue is a list of rows and the worker reads it."
    cause = "The root cause is that the worker never releases its lock, because `flush` is skipped."

    assert weigh_cue(narration) < weigh_cue(plain) < weigh_cue(cause)
    assert picked(blocks_of(narration, cause), MESSAGE_COST + measure_block(cause), lambda b: weigh_cue(b.text)) == [cause]  # fmt: skip


@pytest.mark.parametrize(
    "text", ["", "| a | b |", "```\nx = 1\n```", "Let me look. " * 40, "原因はキャッシュです。"]
)
def test_every_block_has_some_worth(text: str) -> None:
    """A table, code, a long message that begins with an announcement, and any script are no nothing."""
    assert 0.2 <= weigh_cue(text) <= 2.0


# -- lists -----------------------------------------------------------------------------


# -- quoting ---------------------------------------------------------------------------


def test_a_message_is_quoted_in_its_order_with_its_headings() -> None:
    """One text a message, oldest first; a heading stands before its first paragraph, once."""
    blocks = blocks_of("Before.\n## Cause\nalpha\n\nbeta\n## Fix\ngamma", "delta")

    assert quoted(blocks, 4, 3, 1, 0, 2) == [
        (1, "Before.\n**Cause:** alpha\nbeta\n**Fix:** gamma"),
        (2, "delta"),
    ]


def test_a_gap_stands_where_something_is_left_out() -> None:
    """Between blocks of a message, and before or behind them not at all."""
    blocks = blocks_of("one\n\ntwo\n\nthree\n\nfour\n\nfive")

    assert quoted(blocks, 0, 1, 3) == [(1, "one\ntwo\n[…]\nfour")]
    assert quoted(blocks, 2) == [(1, "three")]
    assert quoted(blocks) == []


def test_a_heading_left_behind_a_gap_stands_above_its_block() -> None:
    """Where the first block below a heading is left out, the next one still has it, behind a gap."""
    blocks = blocks_of("zero\n## Cause\nalpha\n\nbeta")

    assert quoted(blocks, 0, 2) == [(1, "zero\n**Cause:** […] beta")]
    assert quoted(blocks, 2) == [(1, "**Cause:** […] beta")]


# -- what is never quoted ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("The key ignores the tenant. Let me fix that:", "The key ignores the tenant."),
        ("The key ignores the tenant.\n\nNow let me run the tests.", "The key ignores the tenant."),
        ("Update the index to export SessionStats:", ""),
        ("Let me look. I'll start with the parser.", ""),
        ("Two findings. I need to know whether it is on. Let me verify.", "Two findings."),
        ("I found the socket. I’m checking how it is named now.", "I found the socket."),
        ("Implementing the layout: full width, no header.", ""),
        ("Now fix the `unparam` issue.", ""),
        ("The matcher is in place. I'm adding tests around it. The index is done.", "The matcher is in place. The index is done."),
        ("But `checkout` reverted my edit. Let me re-apply it:", "But `checkout` reverted my edit. Let me re-apply it:"),
        ("Pinning to core 1 is worse, it starves the radio.", "Pinning to core 1 is worse, it starves the radio."),
        ("I'll leave the cap at 7, because the tests need it.", "I'll leave the cap at 7, because the tests need it."),
        ("I'm not sure whether `a` holds.", "I'm not sure whether `a` holds."),
        ("```\nLet me run this\n```\n- Let me be", "```\nLet me run this\n```\n- Let me be"),
    ],
)  # fmt: skip
def test_what_a_message_only_announces_is_left_off(text: str, left: str) -> None:
    """Wherever it stands in a paragraph; reasons, states, code and lists stay."""
    assert language_cues.strip_talk(text, language_cues.is_announcement) == left


@pytest.mark.parametrize(
    "text",
    [
        "The key ignores the tenant.", "- one\n- two", "", "x" * 700,
        "I'll use advisory locks of Postgres instead of Redis because the customer forbids Redis.",
        "Root cause: reading the config twice resets the tenant to `main`.",
        "Looking at the log, the clock of the container runs in UTC.",
        "We keep the cap at 4, i.e. now the worker retries three times.",
        "Two steps:\n1. I'll move the lock\n2. I'll drop the cache of `blue`.",
        "根因是缓存。我决定改用 Postgres，不再使用 Redis。修改如下：",
        "Now the importer merges by tenant, and the index `ix_7` must stay.",
        "The reasons are these:",
    ],
)  # fmt: skip
def test_what_is_decided_or_found_is_no_announcement(text: str) -> None:
    """Neither a decision in the future tense, nor a cause behind a colon, nor half a sentence."""
    assert language_cues.strip_talk(text, language_cues.is_announcement) == text


def test_an_offer_that_was_answered_is_left_off() -> None:
    """A question that asks for more than leave to go on stays."""
    text = "The cause is the cache. Want me to drop it?\n\nHow long are articles kept?"

    assert language_cues.strip_talk(text, language_cues.is_offer) == (
        "The cause is the cache.\n\nHow long are articles kept?"
    )
    assert language_cues.strip_talk("let me " * 300_000) == ("let me " * 300_000).strip()


def test_of_options_none_is_quoted_without_the_others() -> None:
    """One of three ways alone reads as the advice; if not all fit, none is there."""
    text = "Three ways:\n\nA. Disable the `guard` on the target\n\nB. Exclude `refs/x`\n\nC. Use `sync` of the mirror"

    assert sum(t[:2] in ("A.", "B.", "C.") for t in picked(blocks_of(text), room=60)) == 0
    assert sum(t[:2] in ("A.", "B.", "C.") for t in picked(blocks_of(text))) == 3


def test_a_paragraph_that_points_back_is_not_quoted_alone() -> None:
    """`It should …` says nothing without the paragraph that it is about."""
    first = "The section on argv is missing in `docs/configuration.md`. " + "Filler of it. " * 20
    found = picked(
        blocks_of(f"{first}\n\nIt should be added to PR `#1067` before merging."), room=90
    )

    assert found == []


def test_a_paragraph_that_ends_in_a_colon_is_not_quoted_without_its_list() -> None:
    """The point is in the list; where that finds no room, nothing is quoted of both."""
    claim = "I do not agree with the `cleanup_condition` of the proposal, since it breaks under their `monorepo`:"
    items = "\n".join(f"- Project {n} keeps what it has" for n in range(3))
    blocks = blocks_of(f"{claim}\n\n{items}")

    assert picked(blocks) == [b.text for b in blocks]
    assert claim not in picked(blocks, measure_block(claim) + MESSAGE_COST)
