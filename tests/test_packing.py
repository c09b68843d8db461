"""What of an offer fits the budget, and that it is the same every time."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from fixture_threads import FIXTURES
from making import GOAL, ID, made

from tasuki.draft import brief
from tasuki.draft.authors import packing
from tasuki.model import CommandItem, Draft, FileItem, Goal, Item
from tasuki.testing import ThreadBuilder

SECTIONS = ("state", "asked", "context", "files", "commands", "decisions", "questions", "previous")


def pack(budget: int, **offered: list[object]) -> Draft:
    """A draft of some offers within a budget of tokens."""
    whole = {section: offered.get(section, []) for section in SECTIONS}
    return packing.pack(Draft(Goal("go on")), whole, budget, ID, True)


def word(n: int) -> str:
    """A word of its own for each number."""
    parts = ("ra", "mel", "to", "vik", "sun", "pe", "lor", "ga", "ni", "dus")
    return "".join(parts[int(digit)] for digit in f"{n:03}")


def wordy(folder: Path) -> Path:
    """A thread with far more to tell than any budget holds, each line of it in other words."""
    ruled = "\n".join(
        f"- Decided to use {' '.join(map(word, range(n, n + 30)))}" for n in range(20)
    )
    past = f"<record-of-the-past>\n## Key Decisions\n{ruled}\n</record-of-the-past>\n"
    builder = ThreadBuilder("claude").user(
        f"# Handoff Context\n\n{past}\n## Next Goal (verbatim)\nx"
    )
    for n in range(0, 480, 6):
        a, b, c, d, e, f = (word(n + k) for k in range(6))
        builder.user(f"The {a} {b} must never hold more than {n + 3} open {c} {d} {e} at {f}.")
        builder.read(f"src/{a}/{b}.py", f"def {c}_{d}(): ...\nclass {a}Of{b}: ...")
        builder.edit(f"src/{a}/{b}.py", "a", f"def {e}_{f}(): return {n}")
        builder.shell(f"./{a} {b} --{c}", "ok")
        builder.assistant(
            f"The root cause is `{a}_{f}`, because {b} keeps {n + 2} {c} {d} of {e}.\n\n"
            f"I decided to use `{d}_{b}` instead of a {f} {a} around {e}."
        )
    return builder.write(folder)


@pytest.mark.parametrize("budget", [400, 1000, 2000, 2500])
def test_the_budget_holds_on_a_long_thread(budget: int, tmp_path: Path) -> None:
    """The brief without its goal is within the budget, and what did not fit is listed."""
    path = wordy(tmp_path)
    found = made(path, budget=budget)

    assert budget * 0.8 < brief.size(found.context) <= budget
    assert found.handoff.draft.left_out


def test_what_is_too_long_makes_room_for_what_fits() -> None:
    """A line that does not fit is passed over, and the next of its section still has its turn."""
    long, short = Item(text="x" * 9_000, refs=(1,)), Item(text="kept", refs=(2,))
    draft = pack(600, context=[long, short])

    assert draft.context == (short,)
    assert draft.left_out == (long,)


def test_every_section_has_its_turn_before_one_is_told_to_the_end() -> None:
    """Fifty lines of state do not crowd out the first wish, file and command."""
    state = [Item(text=f"line {n} {'y' * 60}", refs=(n,)) for n in range(1, 51)]
    draft = pack(
        500, state=state, asked=[Item(text="wish", refs=(1,))], files=[FileItem(path="a.py")],
        commands=[CommandItem(command="make")],
    )  # fmt: skip

    assert draft.asked
    assert draft.files
    assert draft.commands
    assert len(draft.state) < 50


def test_names_in_files_are_told_where_room_is_left() -> None:
    """With room all names are told, also of minor files; without it two of the others' only."""
    names = ", ".join(f"`name_{n}`" for n in range(70))
    files = [
        FileItem(path="a.py", reason=f"edited 1×; {names}", refs=(1,)),
        FileItem(path="b.py", reason=f"read 1×; {names}", refs=(2,), minor=True),
    ]
    first = [Item(text="z" * 80, refs=(n,)) for n in range(1, 7)]

    assert [f.reason for f in pack(2_000, files=files).files] == [f.reason for f in files]
    assert [f.reason for f in pack(400, files=files, state=first).files] == [
        "edited 1×; `name_0`, `name_1`",
        "",
    ]


def test_a_line_of_any_section_can_be_listed_as_left_out() -> None:
    """Files and commands become lines with their refs; other items stay what they are."""
    item = Item(text="x", refs=(1,))

    assert packing.as_item(item) is item
    assert packing.as_item(FileItem(path="a.py", reason="read", refs=(2,))) == Item(
        text="a.py — read", refs=(2,)
    )
    assert packing.as_item(CommandItem(command="make", note="ok", refs=(3,))) == Item(
        text="`make` — ok", refs=(3,)
    )


@pytest.mark.parametrize("captured", [True, False])
def test_a_brief_does_not_depend_on_the_order_of_sets(captured: bool, tmp_path: Path) -> None:
    """The command prints the same brief under three seeds of Python's hashes."""
    (fixture,) = FIXTURES.glob("claude/2.0.76/8a846500*.jsonl")
    thread = fixture if captured else wordy(tmp_path)
    briefs = set()
    for seed in ("0", "1", "4242"):
        env = {
            "PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path), "LANG": "C.UTF-8",
            "HOME": str(tmp_path), "TASUKI_DATA": str(tmp_path / seed),
            "TASUKI_CONFIG": str(tmp_path / "none.toml"), "PYTHONHASHSEED": seed,
        }  # fmt: skip
        done = subprocess.run(
            (sys.executable, "-m", "tasuki", "handoff", "--print", "--from", str(thread), GOAL),
            cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        id = brief.handoff_of(done.stdout)
        assert id
        briefs.add(done.stdout.replace(id, "ID"))

    assert len(briefs) == 1
