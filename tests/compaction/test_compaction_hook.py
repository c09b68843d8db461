"""The hooks around a compaction: what each prints, once, and nothing where anything goes wrong."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from compactions import RULES, shop_thread

from tasuki.compaction.memory import CompactionMemory, forget_old, get_folder, read_report
from tasuki.session.hook import answer_hook

LITTLE = "We speed up the cart. Use Decimal for money, never float."


@pytest.fixture
def thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The afternoon in the shop, before Claude Code writes its summary."""
    monkeypatch.setenv("TASUKI_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("TASUKI_CONFIG", str(tmp_path / "config.toml"))
    return shop_thread().write(tmp_path / "thread.jsonl")


def ask(thread: Path, event: str, **more: Any) -> str:
    """What Claude Code gets for an event."""
    payload = {
        "hook_event_name": event,
        "transcript_path": str(thread),
        "session_id": "s1",
        "cwd": str(thread.parent),
        **more,
    }
    return answer_hook("claude", json.dumps(payload).encode())


def summarize(thread: Path, summary: str = LITTLE) -> None:
    """Claude Code's sub-agent without a name has made the summary."""
    message = f"<analysis>Thinking.</analysis>\n<summary>\n{summary}\n</summary>"
    assert ask(thread, "SubagentStop", agent_type="", last_assistant_message=message) == ""


def find_context(output: str) -> str:
    """The text for the model in the answer to a session start."""
    answer = json.loads(output)["hookSpecificOutput"]
    assert answer["hookEventName"] == "SessionStart"
    return str(answer["additionalContext"])


def test_the_block_holds_what_the_kept_summary_lacks(thread: Path) -> None:
    """The summary is in no file yet: it is kept from the hook before."""
    summarize(thread)
    text = find_context(ask(thread, "SessionStart", source="compact"))

    assert [rule in text for rule in RULES] == [True, True, True, True, False]
    report = read_report("claude")
    assert report is not None
    assert (report.rules, report.problem) == (4, "")


def test_one_compaction_gets_one_block(thread: Path) -> None:
    """Also where two hooks of tasuki are installed, and ask at the same time."""
    summarize(thread)
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: ask(thread, "SessionStart", source="compact"), range(4)))

    assert sum(bool(answer) for answer in answers) == 1


def test_the_next_compaction_gets_its_own(thread: Path, tmp_path: Path) -> None:
    """Even with the same summary and not a word in between."""
    first = find_context(ask(thread, "SessionStart", source="compact"))
    shop_thread().compaction(LITTLE).write(thread)
    summarize(thread)
    second = find_context(ask(thread, "SessionStart", source="compact"))

    assert RULES[4] in first
    assert RULES[4] not in second
    assert RULES[0] in second


def test_an_automatic_summary_is_asked_to_keep_the_rules(thread: Path) -> None:
    """A manual one is not: what is said there stays in view, and would be there twice."""
    automatic = ask(thread, "PreCompact", trigger="auto")
    manual = ask(thread, "PreCompact", trigger="manual", custom_instructions="keep it short")

    assert [automatic.count(rule) for rule in RULES] == [1] * len(RULES)
    assert manual == ""


def test_what_the_user_asked_to_keep_is_no_invented_quote(thread: Path) -> None:
    """The words behind /compact stand in no file, and in the summary."""
    words = "keep the coupons for the next release in mind, please"
    ask(thread, "PreCompact", trigger="manual", custom_instructions=words)
    summarize(thread, f'{LITTLE}\n- User: "{words}"')
    text = find_context(ask(thread, "SessionStart", source="compact"))

    assert "did not say" not in text


@pytest.mark.parametrize("source", ["startup", "resume", "clear"])
def test_other_session_starts_get_nothing(source: str, thread: Path) -> None:
    """Only a compaction needs a block."""
    assert ask(thread, "SessionStart", source=source) == ""


def test_a_sub_agent_is_left_alone(thread: Path) -> None:
    """Its own compaction, and the end of one with a name."""
    assert ask(thread, "SessionStart", source="compact", agent_id="a1") == ""
    assert ask(thread, "PreCompact", trigger="auto", agent_id="a1") == ""
    message = "<summary>Nothing.</summary>"
    ask(thread, "SubagentStop", agent_type="Explore", last_assistant_message=message)
    assert CompactionMemory("claude", "s1").read("summary") == ""


def test_off_is_off(thread: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The setting needs no new installation."""
    monkeypatch.setenv("TASUKI_COMPACTION", "off")

    assert ask(thread, "SessionStart", source="compact") == ""
    assert ask(thread, "PreCompact", trigger="auto") == ""


@pytest.mark.parametrize("content", [b"", b"\x00\xff\xfe", b'{"type":"user"', b"{}\n" * 9])
def test_a_thread_that_cannot_be_read_fails_nothing(content: bytes, thread: Path) -> None:
    """The harness's own compaction stands, and `tasuki doctor` can say why there was no block."""
    thread.write_bytes(content)

    assert ask(thread, "SessionStart", source="compact") == ""
    report = read_report("claude")
    assert report is not None
    assert report.problem


def test_a_summary_that_is_none_does_no_harm(thread: Path) -> None:
    """The block is then that of a compaction whose summary is not known."""
    message = "I cannot do that, sorry."
    ask(thread, "SubagentStop", agent_type="", last_assistant_message=message)
    text = find_context(ask(thread, "SessionStart", source="compact"))

    assert [rule in text for rule in RULES] == [True] * len(RULES)
    assert "Wrong in the summary" not in text


def test_a_thread_that_grows_is_read_up_to_its_last_whole_line(thread: Path) -> None:
    """The harness may be writing while the hook runs."""
    with thread.open("ab") as file:
        file.write(b'{"type":"user","uuid":"half a li')
    text = find_context(ask(thread, "SessionStart", source="compact"))

    assert RULES[0] in text


def test_a_damaged_setting_costs_the_block_and_nothing_else(thread: Path, tmp_path: Path) -> None:
    """No error of tasuki's reaches the model's context."""
    (tmp_path / "config.toml").write_text("compaction = [")

    assert ask(thread, "SessionStart", source="compact") == ""


def test_without_a_place_to_remember_the_block_is_given(
    thread: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full or forbidden data folder: twice is better than never."""
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    monkeypatch.setenv("TASUKI_DATA", str(blocked))

    assert RULES[0] in find_context(ask(thread, "SessionStart", source="compact"))


def test_old_threads_are_forgotten(thread: Path) -> None:
    """Nothing of the user's is kept for ever; a clock that is wrong deletes nothing new."""
    memory = CompactionMemory("claude", "old")
    memory.keep("summary", "words")
    os.utime(memory.folder / "summary", (0, 0))
    CompactionMemory("claude", "new").keep("summary", "words")
    forget_old(get_folder())

    assert not memory.folder.exists()
    assert CompactionMemory("claude", "new").read("summary") == "words"


def test_the_command_prints_only_the_answer(thread: Path) -> None:
    """`tasuki hook` itself, as a harness runs it."""
    payload = {
        "hook_event_name": "SessionStart",
        "source": "compact",
        "transcript_path": str(thread),
        "session_id": "s2",
        "cwd": str(thread.parent),
    }
    command = [sys.executable, "-m", "tasuki", "hook", "claude"]
    done = subprocess.run(
        command, input=json.dumps(payload), capture_output=True, text=True, check=False, timeout=60
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert RULES[0] in find_context(done.stdout)
