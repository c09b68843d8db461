"""Chains of handoffs are found from the handoffs alone, and drawn for a terminal."""

from pathlib import Path

import msgspec
import pytest
from handoffs import event, made

from tasuki.errors import HandoffNotFound
from tasuki.vault import Vault
from tasuki.vault.lineage import build_lineage, draw_lineage


def name(n: int) -> str:
    """The id of the n-th handoff of a test."""
    return f"{n:08x}" * 4


def day(n: int) -> str:
    """The time of the n-th handoff of a test."""
    return f"2025-11-{n:02d}T10:00:00Z"


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    """An empty vault."""
    return Vault(tmp_path / "handoffs")


def test_nothing_stored(vault: Vault) -> None:
    """An empty vault has no lineage."""
    assert build_lineage(vault).roots == ()
    assert draw_lineage(build_lineage(vault)) == ""


def test_a_chain_of_five(vault: Vault) -> None:
    """A chain by `parent` is one tree, drawn without indentation, oldest first."""
    for n in range(1, 6):
        parent = name(n - 1) if n > 1 else ""
        vault.save(made(name(n), f"Step {n} of five", day(n), parent=parent, to="pi"), "brief")
    vault.append_event(name(1), event("started"))

    tree = build_lineage(vault)

    assert (name(1),) == tree.roots
    assert [name(n) for n in range(1, 6)] == tree.list_chain(name(5))
    assert draw_lineage(tree).splitlines() == [
        "● 00000001  2025-11-01 10:00  claude t-1 → pi  started  Step 1 of five",
        "● 00000002  2025-11-02 10:00  claude t-1 → pi  draft  Step 2 of five",
        "● 00000003  2025-11-03 10:00  claude t-1 → pi  draft  Step 3 of five",
        "● 00000004  2025-11-04 10:00  claude t-1 → pi  draft  Step 4 of five",
        "● 00000005  2025-11-05 10:00  claude t-1 → pi  draft  Step 5 of five",
    ]


def test_a_parent_known_by_its_first_digits(vault: Vault) -> None:
    """A brief names but eight digits of its handoff; what they mean is found again."""
    vault.save(made(name(1), created=day(1)), "brief")
    vault.save(made(name(2), created=day(2), parent=name(1)[:8]), "brief")

    assert [name(1), name(2)] == build_lineage(vault).list_chain(name(2))


def test_a_fork(vault: Vault) -> None:
    """Two successors of one handoff are two branches, and what follows stays in its branch."""
    for n, parent in ((1, 0), (2, 1), (3, 1), (4, 2), (5, 2), (6, 5)):
        above = name(parent) if parent else ""
        vault.save(made(name(n), f"goal {n}", day(n), parent=above), "brief")

    shapes = [
        line.partition("  2025")[0]
        for line in draw_lineage(build_lineage(vault, name(5)[:8])).splitlines()
    ]

    assert shapes == [
        "● 00000001",
        "├─● 00000002",
        "│ ├─● 00000004",
        "│ └─◆ 00000005",
        "│   ● 00000006",
        "└─● 00000003",
    ]


def test_a_revision_hangs_on_what_it_revises(vault: Vault) -> None:
    """An edited handoff stands below the one it revises, and says so."""
    vault.save(made(name(1), created=day(1)), "brief")
    vault.save(made(name(2), created=day(2), parent=name(1)), "brief")
    vault.save(made(name(3), created=day(3), parent=name(1), revises=name(2)), "brief")

    tree = build_lineage(vault)

    assert [name(1), name(2), name(3)] == tree.list_chain(name(3))
    assert "revision  Fix the login timeout" in draw_lineage(tree).splitlines()[2]


def test_a_successor_thread_links(vault: Vault) -> None:
    """A handoff from a thread that an event names as a successor follows that handoff."""
    vault.save(made(name(1), created=day(1), thread="one"), "brief")
    vault.append_event(name(1), event("delivered", successor_thread="two"))
    vault.save(made(name(2), created=day(2), thread="two"), "brief")
    vault.save(made(name(3), created=day(3), thread="three"), "brief")

    tree = build_lineage(vault)

    assert (name(1), name(3)) == tree.roots
    assert tree.nodes[name(2)].link == "thread"
    assert {name(1), name(2)} == set(build_lineage(vault, name(2)).nodes)


def test_an_id_that_is_not_enough_or_not_readable_says_so(vault: Vault) -> None:
    """It is a handoff's; that no thread has it is not the reason."""
    for n in (0xABCD0001, 0xABCD0002):
        vault.save(made(name(n), thread="abcd-a-thread"), "brief")

    with pytest.raises(HandoffNotFound, match="2 handoffs begin with abcd: "):
        build_lineage(vault, "abcd")
    (vault.root / name(0xABCD0002) / "handoff.json").write_text("{")
    with pytest.raises(HandoffNotFound, match="cannot be read"):
        build_lineage(vault, "abcd0002")


@pytest.mark.parametrize("length", [1, 2, 3, 7])
def test_circles_end(vault: Vault, length: int) -> None:
    """Handoffs that name each other in a circle are drawn once, from the oldest."""
    for n in range(1, length + 1):
        after = n % length + 1
        vault.save(made(name(n), created=day(n), parent=name(after)), "brief")
    vault.save(made(name(9), created=day(9), parent=name(length)), "brief")

    tree = build_lineage(vault, name(9))

    assert (name(1),) == tree.roots
    assert length + 1 == len(draw_lineage(tree).splitlines())


def test_a_circle_of_threads(vault: Vault) -> None:
    """A thread that is named as its own successor makes no circle."""
    vault.save(made(name(1), created=day(1), thread="one"), "brief")
    vault.append_event(name(1), event("delivered", successor_thread="one"))

    assert len(draw_lineage(build_lineage(vault, name(1))).splitlines()) == 1


def test_a_missing_parent(vault: Vault) -> None:
    """What a handoff follows is shown where it is not stored, and keeps its children together."""
    vault.save(made(name(1), created=day(1)), "brief")
    for n in (2, 3):
        vault.save(made(name(n), created=day(n), parent="\x1b[2Jfeedbeef" + "0" * 24), "brief")

    lines = draw_lineage(build_lineage(vault)).splitlines()

    assert lines[0].startswith("● 00000001")
    assert lines[1] == "○ feedbee…  (not stored here)"
    assert len(lines) == 4


def test_nothing_reaches_the_terminal(vault: Vault) -> None:
    """Escape sequences and line breaks of a goal or a thread id are taken out."""
    vault.save(
        made(
            name(1),
            "Fix\nit \x1b]0;title\x07\x1b[31mred\x9b0m \u202edesrever " + "word " * 50,
            "2025\x1b[2J",
            thread="\x1b[31mabc",
            to="p\x07i",
        ),
        "brief",
    )

    drawn = draw_lineage(build_lineage(vault))

    assert drawn.isprintable()
    assert "Fix it red desrever word" in drawn
    assert len(drawn) < 140


def test_a_long_chain(vault: Vault) -> None:
    """A chain longer than Python's recursion limit is drawn."""
    for n in range(1, 1202):
        created = f"2025-11-02T10:{n // 60:02d}:{n % 60:02d}Z"
        vault.root.mkdir(exist_ok=True, parents=True)
        (vault.root / name(n)).mkdir()
        handoff = made(name(n), created=created, parent=name(n - 1) if n > 1 else "")
        (vault.root / name(n) / "handoff.json").write_bytes(msgspec.json.encode(handoff))

    tree = build_lineage(vault)

    assert len(draw_lineage(tree).splitlines()) == 1201
    assert len(tree.list_chain(name(1201))) == 1201


def test_unknown(vault: Vault) -> None:
    """An unknown id is an error, not an empty lineage."""
    with pytest.raises(HandoffNotFound):
        build_lineage(vault, "abcd1234")


def test_the_successors_thread_is_drawn(vault: Vault) -> None:
    """It is known from the events of a start, or from a handoff that its thread began with."""
    vault.save(made(name(1), created=day(1), thread="thread-one", to="pi"), "brief")
    started = event("started", harness="codex", successor_thread="thread-two")
    vault.append_event(name(1), started)
    vault.save(made(name(2), created=day(2), thread="thread-two", to="pi"), "brief")
    vault.save(made(name(3), created=day(3), thread="thread-six", parent=name(2)), "brief")
    vault.save(made(name(4), created=day(4), thread="thread-ten", to="pi"), "brief")
    vault.append_event(name(4), started)
    vault.append_event(name(4), event("failed"))

    lines = draw_lineage(build_lineage(vault)).splitlines()

    assert "claude thread-o → codex thread-t  started" in lines[0]
    assert "claude thread-t → claude thread-s  draft" in lines[1]
    assert "claude thread-t → pi  failed" in lines[3]


@pytest.mark.parametrize(
    ("id", "drawn"),
    [
        ("thread-one", "◆1 ●2"),
        ("Thread-TWO", "●1 ◆2"),
        (name(3), "◆3"),
        ("thread-four", "●1 ◆2"),
        ("thread-t", None),
        ("thread-nine", None),
        ("thr", None),
    ],
)
def test_an_id_of_a_thread_draws_what_belongs_together(
    vault: Vault, id: str, drawn: str | None
) -> None:
    """All handoffs from a thread and to it, with their trees, and nothing else."""
    vault.save(made(name(1), created=day(1), thread="thread-one"), "brief")
    vault.append_event(name(1), event("started", successor_thread="thread-two"))
    vault.save(made(name(2), created=day(2), thread="thread-two"), "brief")
    vault.append_event(name(2), event("started", successor_thread="thread-four"))
    vault.save(made(name(3), created=day(3), thread="thread-three"), "brief")
    if drawn is None:
        with pytest.raises(HandoffNotFound):
            build_lineage(vault, id)
        return
    lines = draw_lineage(build_lineage(vault, id)).splitlines()

    assert " ".join(f"{line[0]}{line[9]}" for line in lines) == drawn
