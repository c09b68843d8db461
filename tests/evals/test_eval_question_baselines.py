"""The briefs that question sets are asked of beside the tool's: no straw men, and never too long."""

import pytest

from tasuki.model import Entry, Thread, ToolCall
from tasuki_evals.question_sets import QUESTION_BASELINES


def some_thread() -> Thread:
    """Messages, calls with outputs, a summary, and what the harness wrote."""
    entries = [
        Entry(1, "user", "please keep the port " + "p" * 700),
        Entry(2, "compaction", "summary_of_the_harness"),
        Entry(3, "user", "written_by_the_harness", origin="harness"),
    ]
    for n in range(4, 40):
        call = ToolCall(f"t{n}", "Bash", "shell", f"make target{n}", output=f"out{n} " + "o" * 400)
        entries.append(Entry(n, "tool", tool=call))
    read = ToolCall("r", "Read", "read", paths=("src/seen.py",), output="text")
    entries += [Entry(40, "tool", tool=read), Entry(41, "assistant", "last words " + "w" * 900)]
    return Thread(harness="claude", id="t", path="/t.jsonl", entries=tuple(entries))


@pytest.mark.parametrize("name", QUESTION_BASELINES)
@pytest.mark.parametrize("characters", [0, 90, 1_000, 4_000, 100_000])
def test_baselines_keep_their_size(name: str, characters: int) -> None:
    """At any budget; without room nothing is left, and no summary of the harness is among them."""
    text = QUESTION_BASELINES[name](some_thread(), characters)

    assert len(text) <= max(characters, 4)
    assert "summary_of_the_harness" not in text


def test_the_newest_messages_fill_the_budget() -> None:
    """In the thread's order, outputs and calls shortened; the one that does not fit is cut."""
    text = QUESTION_BASELINES["last"](some_thread(), 3_000)
    whole = QUESTION_BASELINES["last"](some_thread(), 100_000)

    assert 2_900 < len(text) <= 3_000
    assert text.endswith("w" * 900)
    assert text.index("make target38") < text.index("make target39")
    assert "o" * 300 not in whole
    assert "out4 " in whole
    assert "written_by_the_harness" not in whole


def test_the_mix_holds_index_users_and_newest() -> None:
    """Files and commands, then what the user said, then the end of the thread."""
    text = QUESTION_BASELINES["mix"](some_thread(), 5_000)

    assert text.index("src/seen.py") < text.index("make target39") < text.index("please keep")
    assert text.endswith("w" * 900)
    assert "p" * 600 not in text
    assert "make target4\n" in QUESTION_BASELINES["index"](some_thread(), 5_000) + "\n"
