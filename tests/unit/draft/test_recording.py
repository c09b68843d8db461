"""The messages of a turn: whatever order an agent tells things in, each is kept once and in order."""

import time

from tasuki.session.agent_session.backend import FileDiff, TextPiece, ToolProgress
from tasuki.session.agent_session.recorder import MOST_OUTPUT_CHARACTERS, TurnRecorder
from tasuki.session.pi_store.messages import Json

ENDED = ToolProgress("t1", "Read a", "read", "completed", {}, ("a",), (), "out")


def kept_of(
    *events: TextPiece | ToolProgress, stop: str = "end_turn"
) -> tuple[TurnRecorder, list[Json]]:
    """A recorder that took these events, and what it kept."""
    kept: list[Json] = []
    recorder = TurnRecorder(kept.append)
    for event in events:
        recorder.take(event)
    recorder.end(stop)
    return recorder, kept


def calls(kept: list[Json]) -> list[str]:
    """The ids of the tools that were called."""
    blocks = [b for m in kept if m["role"] == "assistant" for b in m["content"]]
    return [block["id"] for block in blocks if block["type"] == "toolCall"]


def test_a_tool_that_is_told_again_after_its_message_was_kept_is_no_second_call() -> None:
    """Agents repeat themselves; a file with two calls of one id is none that a harness reads."""
    _, kept = kept_of(TextPiece("a"), ENDED, TextPiece("b"), ENDED, TextPiece("c"))

    assert calls(kept) == ["t1"]
    assert [m["role"] for m in kept] == ["assistant", "toolResult", "assistant"]


def test_a_tool_that_ends_later_keeps_its_place_and_holds_back_what_follows() -> None:
    """Its result stands behind its own call."""
    running = ToolProgress("t1", "Read a", "read", "in_progress")
    _, kept = kept_of(TextPiece("a"), running, TextPiece("b"), ENDED, TextPiece("c"))

    assert [m["role"] for m in kept] == ["assistant", "toolResult", "assistant"]
    assert kept[1]["content"][0]["text"] == "out"


def test_a_tool_that_never_ends_has_no_result() -> None:
    """The turn ends all the same, and everything that was said is kept."""
    never = ToolProgress("t1", "Watch", "execute", "in_progress")
    recorder, kept = kept_of(TextPiece("a"), never, TextPiece("b"), stop="cancelled")

    assert [(m["role"], m["stopReason"]) for m in kept] == [
        ("assistant", "toolUse"),
        ("assistant", "aborted"),
    ]
    assert recorder.text == "b"


def test_an_empty_piece_begins_no_message() -> None:
    """A document before a tool is not hidden by nothing after it."""
    recorder, _ = kept_of(TextPiece("the document"), ENDED, TextPiece(""))

    assert recorder.text == "the document"


def test_a_turn_of_nothing_is_a_message_of_nothing() -> None:
    """A prompt always has an answer in the file."""
    recorder, kept = kept_of()

    assert [m["role"] for m in kept] == ["assistant"]
    assert recorder.text == ""


def test_huge_outputs_are_cut() -> None:
    """One tool cannot fill the disk."""
    _, kept = kept_of(
        ToolProgress("t1", "x", "execute", "completed", output="x" * (MOST_OUTPUT_CHARACTERS + 9))
    )

    assert len(kept[1]["content"][0]["text"]) == MOST_OUTPUT_CHARACTERS


def test_time_grows_with_what_is_told_and_not_faster() -> None:
    """A long answer in small pieces, and ten thousand tools behind one that never ends."""
    began = time.monotonic()
    recorder, _ = kept_of(*[TextPiece("x" * 100)] * 300_000)
    assert len(recorder.text) == 30_000_000
    events = [TextPiece("a"), ToolProgress("never", "x", "execute", "in_progress")]
    for n in range(10_000):
        events += [
            TextPiece("w"),
            ToolProgress(f"t{n}", "x", "read", "completed", {}, ("p",), (), "o"),
        ]
    _, kept = kept_of(*events)

    assert len(calls(kept)) == 10_001
    assert time.monotonic() - began < 20


def test_a_call_that_changes_two_files_is_two_calls() -> None:
    """Pi's tools change one file each; a file that is new is written, one that was there edited."""
    diffs = (FileDiff("a.py", None, "x"), FileDiff("b.py", "y", "z"))
    _, kept = kept_of(ToolProgress("t1", "Edit", "edit", "completed", {}, (), diffs, "done"))

    blocks = [b for m in kept if m["role"] == "assistant" for b in m["content"]]
    assert [(b["id"], b["name"], b["arguments"]["path"]) for b in blocks] == [
        ("t1", "write", "a.py"),
        ("t1:1", "edit", "b.py"),
    ]
    results = [m["toolCallId"] for m in kept if m["role"] == "toolResult"]
    assert results == ["t1", "t1:1"]


def test_a_turn_that_failed_says_why() -> None:
    """The last message carries the error."""
    kept: list[Json] = []
    recorder = TurnRecorder(kept.append)
    recorder.take(TextPiece("half"))
    recorder.end("cancelled", "the model is overloaded")

    assert (kept[0]["stopReason"], kept[0]["errorMessage"]) == ("error", "the model is overloaded")
