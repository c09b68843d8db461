"""The map of sessions of the ACP proxy: after a restart, in lists, and when sessions end."""

import asyncio
import json
import os
import signal
from pathlib import Path

import msgspec
import pytest
from acp_client import HELLO, WRITES, Client, Json, Setting, outcome, setting
from fakes.acp_agent import AcpRule, AcpStep

from tasuki.errors import StoreFailed
from tasuki.session.acp.sessions import AcpChain, ChainStore, merge_chains

__all__ = ["setting"]


async def handed_off(setting: Setting, *prompts: str, rules: tuple[AcpRule, ...] = ()) -> str:
    """A session that was handed off, and prompted afterwards; the proxy is gone. The client's id."""
    async with setting.talk(WRITES, *rules) as (client, session):
        await client.prompt(session, HELLO)
        ended, text = await client.prompt(session, "/handoff")
        assert outcome(ended) == "started", text
        for prompt in prompts:
            await client.prompt(session, prompt)
    return session


async def again(client: Client, method: str, session: str) -> Json:
    """Open a session of before in a new proxy; the answer."""
    await client.ask("initialize", protocolVersion=1)
    return await client.ask(method, sessionId=session, cwd="/tmp", mcpServers=[])


@pytest.mark.parametrize("method", ["session/load", "session/resume"])
async def test_the_newest_is_opened(setting: Setting, method: str) -> None:
    """The client's own id leads to the newest session of the agent; the replay comes before the answer."""
    session = await handed_off(setting, "go on")
    async with setting.client(setting.proxied(WRITES)) as client:
        answer = await again(client, method, session)
        await client.until(lambda: client.commands(session))
        _, text = await client.prompt(session, "and on")

    replay = [n for n, m in enumerate(client.all) if "user_message_chunk" in json.dumps(m)]
    loaded = [m["params"]["sessionId"] for m in setting.log(method)]
    assert loaded == ["session-2"]
    assert "[session-2 " in text
    assert {m["params"]["sessionId"] for m in client.all if m.get("method") == "session/update"} == {session}  # fmt: skip
    if method == "session/load":
        assert replay
        assert max(replay) < client.all.index(answer)


async def test_commands_of_a_loaded_session(setting: Setting) -> None:
    """The replay passes before the answer, but no list of commands does."""
    session = await handed_off(setting, "go on")
    async with setting.client(setting.proxied(WRITES, early=True)) as client:
        answer = await again(client, "session/load", session)
        await client.until(lambda: client.commands(session))

    lists = [n for n, m in enumerate(client.all) if "availableCommands" in json.dumps(m)]
    assert client.all.index(answer) < lists[0]
    assert client.commands(session) == ["own", "handoff"]


async def test_what_was_not_delivered(setting: Setting) -> None:
    """A message that no prompt took along goes with the first one after the restart, in a session that
    is opened anew: an agent keeps none that was never prompted."""
    session = await handed_off(setting)
    async with setting.client(setting.proxied(WRITES)) as client:
        answer = await again(client, "session/load", session)
        await client.until(lambda: client.commands(session))
        await client.prompt(session, "go on now")
        await client.prompt(session, "and on")

    assert answer["result"] == {"models": {"currentModelId": "scripted"}}
    assert setting.states() == ["delivered"]
    sent = [p for p in setting.prompts() if "go on now" in p]
    assert len(sent) == 1
    assert sent[0].startswith("<handoff-context>")
    assert setting.prompts()[-1] == "and on"


async def test_a_handoff_after_a_restart(setting: Setting) -> None:
    """What was loaded can be handed off again; the chain grows."""
    session = await handed_off(setting, "go on")
    async with setting.client(setting.proxied(WRITES)) as client:
        await again(client, "session/load", session)
        await client.until(lambda: client.commands(session))
        ended, text = await client.prompt(session, "/handoff")

    assert outcome(ended) == "started", text
    (chain,) = [msgspec.json.decode(path.read_bytes(), type=AcpChain) for path in setting.chains()]
    assert chain.client == "session-1"
    assert chain.previous == ("session-1", "session-2")


async def test_an_uncertain_delivery(setting: Setting) -> None:
    """A message that was under way when everything was killed is never sent twice: the replay proves
    that it arrived, or the user is told."""
    slow = AcpRule("take this", (AcpStep(say="working"), AcpStep(wait=60.0)))
    async with setting.talk(WRITES, slow) as (client, session):
        await client.prompt(session, HELLO)
        await client.prompt(session, "/handoff")
        client.send("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "take this"}])  # fmt: skip
        await client.until(lambda: "working" in client.said())
        os.kill(client.process.pid, signal.SIGKILL)
        await client.process.wait()
    assert setting.states() == ["uncertain"]
    kept = Path(setting.folder / "kept.json")
    kept.write_text(json.dumps({**json.loads(kept.read_text()), "session-2": []}))

    async with setting.client(setting.proxied(WRITES)) as client:
        await again(client, "session/load", session)
        await client.until(lambda: "The last handoff may not have reached" in client.said())
        await client.prompt(session, "go on")

    assert setting.states() == ["uncertain"]
    assert setting.prompts()[-1] == "go on"


async def test_a_delivery_that_the_replay_proves(setting: Setting) -> None:
    """The same where the agent has it."""
    session = await handed_off(setting, "go on")
    (path,) = setting.chains()
    (handoff,) = setting.vault.list_handoffs()
    chain = msgspec.json.decode(path.read_bytes(), type=AcpChain)
    history = json.loads((setting.folder / "kept.json").read_text())["session-2"]
    message = history[0][1].rpartition("\n")[0]
    kept = msgspec.structs.replace(chain, message=message, handoff=handoff.id, sending=True)
    path.write_bytes(msgspec.json.encode(kept))
    async with setting.client(setting.proxied(WRITES)) as client:
        await again(client, "session/load", session)
        await client.until(lambda: client.commands(session))
        await client.prompt(session, "and on")

    assert "may not have reached" not in client.said()
    assert setting.prompts()[-1] == "and on"


async def test_the_list(setting: Setting) -> None:
    """One entry for each chain, under the client's id, with the rest of the entry as it was."""
    session = await handed_off(setting, "go on")
    async with setting.client(setting.proxied(WRITES)) as client:
        await client.ask("initialize", protocolVersion=1)
        other = (await client.ask("session/new", cwd="/tmp"))["result"]["sessionId"]
        await client.until(lambda: client.commands(other))
        answer = await client.ask("session/list")

    entries = answer["result"]["sessions"]
    assert [entry["sessionId"] for entry in entries] == [session, other]
    assert entries[0] == {"sessionId": session, "cwd": "/", "_meta": {"kept": True}}


def test_lists() -> None:
    """A chain whose newest session is not listed yet is shown by the one before, unless it is elsewhere."""
    entries: list[object] = [{"sessionId": id} for id in ("a", "b", "x")]
    waiting = AcpChain("a", "c", ("a", "b"), "message")
    elsewhere = AcpChain("a", "c", ("a", "b"))

    assert merge_chains(entries, [waiting]) == [{"sessionId": "a"}, {"sessionId": "x"}]
    assert merge_chains(entries, [elsewhere]) == [{"sessionId": "x"}]
    assert merge_chains([5, {}, *entries], []) == [5, {}, *entries]


async def test_delete(setting: Setting) -> None:
    """Deleting deletes the whole chain, also after a restart, and forgets it."""
    session = await handed_off(setting, "go on")
    async with setting.client(setting.proxied(WRITES)) as client:
        await again(client, "session/load", session)
        await client.until(lambda: client.commands(session))
        await client.ask("session/delete", sessionId=session)

    assert {m["params"]["sessionId"] for m in setting.log("session/delete")} == {"session-1", "session-2"}  # fmt: skip
    assert setting.chains() == []


async def test_delete_without_opening(setting: Setting) -> None:
    """The same from a list of sessions, of which none is open."""
    session = await handed_off(setting, "go on")
    async with setting.client(setting.proxied(WRITES)) as client:
        await client.ask("initialize", protocolVersion=1)
        await client.ask("session/delete", sessionId=session)

    assert {m["params"]["sessionId"] for m in setting.log("session/delete")} == {"session-1", "session-2"}  # fmt: skip
    assert setting.chains() == []


async def test_close(setting: Setting) -> None:
    """Closing closes the newest session; during a handoff, it is cancelled first."""
    slow = AcpRule("Write a handoff", (AcpStep(say="half"), AcpStep(wait=30.0)))
    async with setting.talk(slow) as (client, session):
        await client.prompt(session, HELLO)
        _, answer = client.send("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "/handoff"}])  # fmt: skip
        await client.until(lambda: "half" in client.said())
        await client.ask("session/close", sessionId=session)
        ended = await asyncio.wait_for(answer, 5)

    assert outcome(ended["result"]) == "cancelled"
    assert [m["params"] for m in setting.log("session/close")] == [{"sessionId": "session-1"}]


async def test_fork(setting: Setting) -> None:
    """A fork of a chain is one of its newest session, and takes along what was not delivered."""
    async with setting.talk(WRITES) as (client, session):
        await client.prompt(session, HELLO)
        await client.prompt(session, "/handoff")
        answer = await client.ask("session/fork", sessionId=session, cwd="/tmp")
        fork = answer["result"]["sessionId"]
        await client.prompt(fork, "in the fork")
        await client.prompt(session, "in the first")

    assert [m["params"]["sessionId"] for m in setting.log("session/fork")] == ["session-2"]
    assert fork == "session-3"
    assert setting.prompts("session-3")[0].startswith("<handoff-context>")
    assert setting.prompts("session-2")[0].startswith("<handoff-context>")


async def test_two_proxies(setting: Setting) -> None:
    """Two proxies of one agent at once do not lose each other's entries."""
    command = setting.proxied(WRITES, ids="{uuid}")
    async with setting.client(command) as first, setting.client(command) as second:
        for client in (first, second):
            session = await client.open()
            await client.prompt(session, HELLO)
        for client in (second, first):
            ended, _ = await client.prompt(client.all[1]["result"]["sessionId"], "/handoff")
            assert outcome(ended) == "started"

    assert len(setting.chains()) == 2
    assert len({path.parent for path in setting.chains()}) == 1


def test_chains(tmp_path: Path) -> None:
    """A chain is replaced whole; what cannot be read is as if it were not there."""
    chains = ChainStore(["agent", "--acp"], tmp_path)
    chain = AcpChain("c/../x", "a", ("b",), "message", "id")
    chains.save_chain(chain)
    (file,) = chains.folder.iterdir()

    assert chains.load_chain("c/../x") == chain
    assert ChainStore(["agent"], tmp_path).load_chain("c/../x") is None
    file.write_text("{")
    assert chains.load_chain("c/../x") is None
    assert list(chains.list_chains()) == []
    chains.delete_chain("c/../x")
    assert not file.exists()


def test_a_full_disk(tmp_path: Path) -> None:
    """What cannot be written says so, and leaves the entry before it whole."""
    (tmp_path / "no").write_text("")
    with pytest.raises(StoreFailed, match="TASUKI_DATA can name another folder"):
        ChainStore(["agent"], tmp_path / "no").save_chain(AcpChain("c", "a"))


async def test_killed_at_any_moment(setting: Setting) -> None:
    """Killed between any two lines of a handoff, the client's id opens either the old session or the
    new one, and with the new one its message is kept."""
    seen = set()
    for number, moment in enumerate((0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8)):
        own = Setting(setting.folder / str(number))
        async with own.talk(WRITES) as (client, session):
            await client.prompt(session, HELLO)
            client.send("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "/handoff"}])  # fmt: skip
            await asyncio.sleep(moment)
            os.kill(client.process.pid, signal.SIGKILL)
            await client.process.wait()
        async with own.client(own.proxied(WRITES)) as client:
            await again(client, "session/load", session)
            await client.until(lambda: client.commands(session))
            _, text = await client.prompt(session, "go on")
        kept = own.prompts()[-1].startswith("<handoff-context>")
        assert kept == bool(own.chains())
        assert text.startswith("[")
        seen.add(kept)

    assert False in seen
