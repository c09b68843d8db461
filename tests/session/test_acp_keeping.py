"""Sessions that pass through the ACP proxy are threads of tasuki's own, unless the agent keeps them itself."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from acp_client import HELLO, WRITES, Client, Setting, outcome, setting
from fakes.acp_agent import AcpRule, AcpStep
from waiting import retry_until

from tasuki.session.acp import recorder
from tasuki.session.acp.conversation import AcpConversation
from tasuki.session.acp.recorder import RecordedThread

__all__ = ["setting"]

WORDS = "add a zebra retry to upload.py"
ANSWER = AcpRule("zebra", (AcpStep(say="I added the zebra retry."),))


def told(setting: Setting, *arguments: str) -> str:
    """What a command of tasuki prints."""
    command = [sys.executable, "-m", "tasuki", *arguments]
    done = subprocess.run(
        command, env=setting.env, cwd=setting.folder, capture_output=True, text=True, timeout=60
    )
    return done.stdout


def threads(setting: Setting) -> list[dict[str, Any]]:
    """The threads that tasuki lists, of all folders, the newest first."""
    found: list[dict[str, Any]] = json.loads(told(setting, "threads", "--all", "--json"))["threads"]
    return found


def files(setting: Setting) -> list[Path]:
    """The files of sessions, the oldest first."""
    return sorted((setting.folder / "data" / "sessions").rglob("*.jsonl"))


async def again(client: Client, session: str) -> None:
    """Begin anew and load a session."""
    await client.ask("initialize", protocolVersion=1, clientCapabilities={})
    await client.ask("session/load", sessionId=session, cwd="/tmp", mcpServers=[])


@pytest.mark.parametrize("version", [1, 2])
async def test_a_session_without_a_handoff_is_a_thread(setting: Setting, version: int) -> None:
    """It is listed by its first words, found by what was said in it, and read."""
    async with setting.talk(ANSWER, version=version) as (client, session):
        await client.prompt(session, WORDS)
        await client.prompt(session, "and a giraffe")

    (thread,) = threads(setting)
    assert thread["harness"] == "tasuki"
    assert (thread["name"], thread["first_words"]) == ("", WORDS)
    assert "giraffe" in told(setting, "find", "giraffe")
    read = told(setting, "read", thread["id"])
    assert [read.count(said) for said in (WORDS, "I added the zebra", "giraffe\n")] == [1, 1, 1]


async def test_what_follows_a_handoff_is_a_thread_that_continues_the_first(
    setting: Setting,
) -> None:
    """Both are listed by their first words; the second names the first as its parent."""
    async with setting.talk(WRITES, ANSWER) as (client, session):
        await client.prompt(session, WORDS)
        ended, text = await client.prompt(session, "/handoff test it")
        await client.prompt(session, "now the giraffe")

    assert outcome(ended) == "started", text
    first, second = files(setting)
    assert [t["first_words"] for t in threads(setting)] == ["now the giraffe", WORDS]
    assert json.loads(second.read_text().splitlines()[0])["parentSession"] == str(first)
    assert first.read_text().count(WORDS) == 1
    assert "<handoff-context>" in second.read_text()
    (handoff,) = setting.vault.list_handoffs()
    assert handoff.predecessor.path == str(first)


async def test_what_was_said_is_kept_while_the_session_lasts(setting: Setting) -> None:
    """A first turn that lasts is kept meanwhile, and after a kill -9 all turns that were over."""
    async with setting.talk(ANSWER) as (client, session):
        await client.prompt(session, WORDS)
        await client.until(lambda: files(setting))
        await client.prompt(session, "and a giraffe")
        os.kill(client.process.pid, signal.SIGKILL)
        await client.process.wait()

    (file,) = files(setting)
    assert [file.read_text().count(said) for said in (WORDS, "and a giraffe")] == [1, 1]


async def test_a_session_that_is_loaded_goes_on_in_its_thread(setting: Setting) -> None:
    """After a restart the replay is not kept again, and what is new is added, also in the same
    connection."""
    async with setting.talk(ANSWER) as (client, session):
        await client.prompt(session, WORDS)
    for said in ("and a giraffe", "and an okapi"):
        async with setting.client(setting.proxied(ANSWER)) as client:
            await again(client, session)
            await client.prompt(session, said)
            await again(client, session)
            await client.prompt(session, f"{said} once more")

    (file,) = files(setting)
    entries = [json.loads(line) for line in file.read_text().splitlines()[1:]]
    text = file.read_text()
    expected = (WORDS, '"and a giraffe"', "giraffe once more", '"and an okapi"', "okapi once more")
    assert [text.count(said) for said in expected] == [1] * 5
    assert [e["parentId"] for e in entries] == [None, *(e["id"] for e in entries[:-1])]


async def test_what_the_agent_keeps_itself_is_not_kept_twice(setting: Setting) -> None:
    """Where tasuki reads the agent's own thread there is no other, before and after a handoff."""
    own = setting.home / ".pi/agent/sessions/--tmp--"
    async with setting.talk(WRITES, ANSWER, threads=str(own), ids="{uuid}") as (client, session):
        await client.prompt(session, WORDS)
        await client.prompt(session, "/handoff")
        await client.prompt(session, "now the giraffe")

    assert files(setting) == []
    assert {t["harness"] for t in threads(setting)} == {"pi"}


async def test_a_thread_that_the_agent_writes_late_takes_the_place_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was begun goes as soon as the agent's own is found."""
    monkeypatch.setenv("TASUKI_DATA", str(tmp_path))
    found = iter([None, ("pi", tmp_path)])
    monkeypatch.setattr(recorder, "find_thread", lambda *_: next(found))
    conversation = AcpConversation()
    kept = RecordedThread("s1", "/tmp", conversation)
    conversation.record_prompt([{"type": "text", "text": WORDS}])
    kept.end_turn()
    async with asyncio.timeout(10):
        while not list(tmp_path.rglob("*.jsonl")):
            await asyncio.sleep(0.01)
        conversation.record_prompt([{"type": "text", "text": "more"}])
        kept.end_turn()
        while list(tmp_path.rglob("*.jsonl")):
            await asyncio.sleep(0.01)
        await kept.finish()

    assert kept.has_own_thread is True
    assert conversation.message_count == 2


@pytest.mark.parametrize("is_written", [False, True])
async def test_a_thread_that_is_found_while_ours_is_written_leaves_no_second_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_written: bool
) -> None:
    """A handoff may find the agent's thread at any moment."""
    monkeypatch.setenv("TASUKI_DATA", str(tmp_path))
    conversation = AcpConversation()
    kept = RecordedThread("s1", "/tmp", conversation, has_own_thread=False)
    conversation.record_prompt([{"type": "text", "text": WORDS}])
    await asyncio.sleep(0)  # The thread that writes is begun.
    if is_written:  # and has ended before anything else happens here
        retry_until(lambda: list(tmp_path.rglob("*.jsonl")), 10)
        time.sleep(0.2)
    kept.discard()
    await kept.finish()

    assert list(tmp_path.rglob("*.jsonl")) == []


async def test_a_folder_that_cannot_be_written_is_told_once(
    setting: Setting, capfd: pytest.CaptureFixture[str]
) -> None:
    """The session goes on as if nothing were kept."""
    (setting.folder / "data").mkdir()
    (setting.folder / "data" / "sessions").write_text("a file where a folder should be")
    async with setting.talk(ANSWER) as (client, session):
        for _ in range(4):
            _, text = await client.prompt(session, WORDS)

    assert "I added the zebra retry." in text
    assert capfd.readouterr().err.count("tasuki acp: ") == 1


async def test_a_file_that_another_program_changed_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is added to it any more, which is told once, and what is said is still known."""
    monkeypatch.setenv("TASUKI_DATA", str(tmp_path))
    conversation = AcpConversation()
    kept = RecordedThread("s1", "/tmp", conversation, has_own_thread=False)
    conversation.record_prompt([{"type": "text", "text": WORDS}])
    path = await kept.write_all()
    assert path
    path.write_text("something else")
    content = {"type": "text", "text": "Done."}
    for _ in range(3):
        conversation.record_update({"sessionUpdate": "agent_message_chunk", "content": content})
        conversation.record_prompt([{"type": "text", "text": "more"}])
    await kept.finish()

    assert capsys.readouterr().err.count("was changed by another program") == 1
    assert path.read_text() == "something else"
    assert [m["role"] for m in conversation.messages] == ["user", *["assistant", "user"] * 3]


async def test_nothing_is_kept_of_a_session_without_words(setting: Setting) -> None:
    """A session that is opened and left is no thread."""
    async with setting.talk(ANSWER) as (_, session):
        assert session

    assert files(setting) == []


async def test_a_handoff_that_fails_leaves_the_thread(setting: Setting) -> None:
    """What is said after it is in the same thread."""
    rule = AcpRule("handoff document", (AcpStep(error="model overloaded"),))
    async with setting.talk(rule) as (client, session):
        await client.prompt(session, HELLO)
        ended, _ = await client.prompt(session, "/handoff")
        await client.prompt(session, "now the giraffe")

    assert outcome(ended) == "failed"
    (file,) = files(setting)
    assert [file.read_text().count(said) for said in (HELLO, "now the giraffe")] == [1, 1]
