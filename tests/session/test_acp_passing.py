"""Everything that is not `/handoff` passes the ACP proxy as it is."""

import asyncio
import json
import re
import sys
from pathlib import Path

import pytest
from acp_client import HELLO, WRITES, Client, Json, Setting, block, outcome, setting
from fakes.acp_agent import AcpRule, AcpStep
from waiting import children

__all__ = ["setting"]

ODD = '{ "jsonrpc":"2.0","method" : "session/update","params":{"update":{"sessionUpdate":"compaction_update","n":1.0,"big":123456789012345678901234567890,"text":"\\ud83d \\u00fc"}, "sessionId":"{session}","_meta":{"a":[]} } , "future":null}'


async def talk_through(setting: Setting, command: list[str]) -> Client:
    """A conversation with lines of every kind; the client that had it."""
    async with setting.client(command) as client:
        session = await client.open()
        client.raw(b"no json at all\n")
        client.raw(b'[{"jsonrpc":"2.0","id":90,"method":"x/y"}]\n')
        client.raw(b'{"jsonrpc":"2.0","id":91,"method":"x/unknown","params":{"n":1.0, "z":null}}\n')
        client.raw(b'{"jsonrpc":"2.0","method":"x/notify" , "params":["a"],"_meta":{}}\r\n')
        client.raw(b'{"jsonrpc":"2.0","id":92,"method":"session/prompt","params":{}}\n')
        client.raw(b'{"jsonrpc":"2.0","id":{"odd":1},"method":"session/prompt","params":{"sessionId":"none","prompt":5}}\n')  # fmt: skip
        await client.prompt(session, "tell")
        await client.until(lambda: {91, 92} <= {m.get("id") for m in client.all if not isinstance(m.get("id"), dict)})  # fmt: skip
    return client


async def test_byte_for_byte(setting: Setting) -> None:
    """Either side gets the same lines with and without the proxy, but for the commands."""
    steps = (
        AcpStep(line=ODD), AcpStep(line="neither json"), AcpStep(line='[{"a":1}]'), AcpStep(say="text", repeat=3),
        AcpStep(line='{"jsonrpc":"2.0","method":"x/agent","params":{"q":1.0}}'), AcpStep(request="x/ask"),
        AcpStep(line='{"jsonrpc":"2.0","id":"never asked","result":{"x":1.0}}'), AcpStep(line=""),
    )  # fmt: skip
    told = []
    rule = AcpRule("tell", steps)
    for command in (setting.agent(rule, keep=""), setting.proxied(rule, keep="")):
        client = await talk_through(setting, command)
        sent = setting.log_file.read_bytes().splitlines(keepends=True)
        setting.log_file.unlink()
        came = [re.sub(rb"agent-0-\w+", b"ID", line) for line in client.lines]
        told.append((sorted(came), [re.sub(rb"agent-0-\w+", b"ID", line) for line in sent]))

    (direct, sent), (proxied, passed) = told
    offered = [line for line in proxied if b'"handoff"' in line]
    own = [line for line in direct if b"available_commands_update" in line]
    assert len(offered) >= 1
    assert [line for line in proxied if line not in offered] == [x for x in direct if x not in own]
    assert sorted(passed) == sorted(sent)


async def test_the_changed_id_alone(setting: Setting) -> None:
    """After a handoff a line differs by the session id, and by nothing else."""
    async with setting.talk(WRITES, AcpRule("tell", (AcpStep(line=ODD),))) as (client, session):
        await client.prompt(session, HELLO)
        await client.prompt(session, "/handoff")
        await client.prompt(session, "tell")
        odd = b'{"jsonrpc":"2.0", "id":77,"method":"session/x","params":{"n":1.0,"sessionId" : "session-1" }, "y":1}\n'  # fmt: skip
        client.raw(odd)
        await client.until(lambda: [m for m in client.all if m.get("id") == 77])

    (line,) = [line for line in client.lines if b"compaction_update" in line]
    assert line == ODD.replace("{session}", "session-1").encode() + b"\n"
    assert odd.replace(b"session-1", b"session-2") in setting.log_file.read_bytes()


async def test_commands_after_the_answer(setting: Setting) -> None:
    """`/handoff` is offered at once, but never before the answer that tells of the session."""
    async with setting.client(setting.proxied(early=True, commands=("own", "handoff"))) as client:
        await client.ask("initialize", protocolVersion=1)
        answer = await client.ask("session/new", cwd="/tmp", mcpServers=[])
        session = answer["result"]["sessionId"]
        await client.until(lambda: client.commands(session))

    lists = [n for n, m in enumerate(client.all) if "available_commands_update" in json.dumps(m)]
    assert client.all.index(answer) < lists[0]
    for n in lists:
        names = [c["name"] for c in client.all[n]["params"]["update"]["availableCommands"]]
        assert names == ["own", "handoff"]
    assert answer["result"]["models"] == {"currentModelId": "scripted"}


async def test_an_agent_without_commands(setting: Setting) -> None:
    """`/handoff` is offered all the same, after new, load, resume and fork, and by version 2 with a type."""
    quiet = {"sessionUpdate": "available_commands_update", "availableCommands": []}
    async with setting.talk(AcpRule("quiet", (AcpStep(update=quiet), AcpStep(say="x")))) as (
        client,
        session,
    ):
        await client.prompt(session, "quiet")
        assert client.commands(session) == ["handoff"]
        for method in ("session/load", "session/resume"):
            since = len(client.updates())
            await client.ask(method, sessionId=session, cwd="/tmp", mcpServers=[])
            await client.until(lambda since=since: any("availableCommands" in u for u in client.updates()[since:]))  # fmt: skip
        fork = (await client.ask("session/fork", sessionId=session, cwd="/tmp"))["result"]["sessionId"]  # fmt: skip
        await client.until(lambda: client.commands(fork))

    for update in client.updates():
        if "availableCommands" in update:
            assert update["availableCommands"][-1]["name"] == "handoff"


async def test_a_slow_opening(setting: Setting) -> None:
    """What the agent asks before the session is open goes through: it waits for the answer."""

    def early(request: Json) -> Json:
        return {"result": {"content": request["params"]["path"]}}

    async with setting.client(setting.proxied(slow=0.3)) as client:
        client.answering = early
        await client.ask("initialize", protocolVersion=1)
        first, second = await asyncio.gather(
            client.ask("session/new", cwd="/a", mcpServers=[]),
            client.ask("session/new", cwd="/b", mcpServers=[]),
        )
        ids = {first["result"]["sessionId"], second["result"]["sessionId"]}
        await client.until(lambda: all(client.commands(id) for id in ids))

    assert ids == {"session-1", "session-2"}


async def test_permissions(setting: Setting) -> None:
    """In the client's own turns the agent asks the client, under the client's session."""
    rule = AcpRule("may I", (AcpStep(ask=("allow_once", "reject_once")), AcpStep(say="{got}")))

    def allow(request: Json) -> Json:
        return {"result": {"outcome": {"outcome": "selected", "optionId": "id-allow_once"}}}

    async with setting.talk(WRITES, rule) as (client, session):
        client.answering = allow
        await client.prompt(session, HELLO)
        await client.prompt(session, "/handoff")
        _, text = await client.prompt(session, "may I")

    (asked,) = [m for m in client.all if m.get("method") == "session/request_permission"]
    assert text == "id-allow_once"
    assert asked["params"]["sessionId"] == session


async def test_large_messages(setting: Setting) -> None:
    """A prompt and an answer of 24 MB pass, in both directions."""
    size = 24 << 20
    async with setting.talk(AcpRule("large", (AcpStep(say="x" * (1 << 20), repeat=1), AcpStep(line='{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"{session}","update":{"sessionUpdate":"x","y":"' + "y" * size + '"}}}')))) as (client, session):  # fmt: skip
        await client.prompt(session, "large " + "p" * size)
        await client.until(lambda: any(len(line) > size for line in client.lines))

    assert len(setting.prompts()[0]) == size + 6


async def test_too_large(setting: Setting) -> None:
    """A message over the limit is not passed on; whoever waits for it gets a clear error."""
    limited = (
        "import sys; from tasuki.session.acp.serve import serve; sys.exit(serve(sys.argv[1:], limit=200_000))",
    )
    rules = (
        AcpRule("huge", (AcpStep(line='{"jsonrpc":"2.0","id":"big","method":"x/y","params":"' + "y" * 300_000 + '"}'), AcpStep(say="after"))),
        AcpRule("lost", (AcpStep(line='{"jsonrpc":"2.0","id":5,"result":"' + "y" * 300_000 + '"}'),)),
    )  # fmt: skip
    command = [sys.executable, "-c", *limited, *setting.agent(*rules)]
    async with setting.client(command) as client:
        session = await client.open()
        _, answer = client.send("session/prompt", sessionId=session, prompt=[block("p" * 300_000)])
        refused = await asyncio.wait_for(answer, 10)
        _, text = await client.prompt(session, "huge")
        _, lost = client.send("session/prompt", sessionId=session, prompt=[block("lost")])
        assert client.number == 5
        failed = await asyncio.wait_for(lost, 10)

    assert "is longer than 200000 bytes and was not passed on" in refused["error"]["message"]
    assert text == "after"
    assert [m["error"]["code"] for m in setting.log() if m.get("id") == "big"] == [-32600]
    assert "is longer than 200000 bytes" in failed["error"]["message"]


async def test_a_message_that_is_not_understood(setting: Setting) -> None:
    """Prompts of a wrong form go to the agent, and the session goes on."""
    async with setting.talk(WRITES) as (client, session):
        odd: tuple[object, ...] = (None, 5, "text", [5], [{"type": "text"}], {"a": 1})
        for number, prompt in enumerate(odd):
            client.write({"jsonrpc": "2.0", "id": 100 + number, "method": "session/prompt", "params": {"sessionId": session, "prompt": prompt}})  # fmt: skip
        client.raw(b'{"jsonrpc":"2.0","method":5,"id":110}\n')
        client.raw(b'{"jsonrpc":"2.0","id":null,"method":"session/new","params":[]}\n')
        await client.prompt(session, HELLO)
        ended, _ = await client.prompt(session, "/handoff")

    assert outcome(ended) == "started"
    assert {100, 101, 102, 103, 104, 105} <= {m.get("id") for m in setting.log()}


def number_in(file: str, name: str) -> int:
    """A number of a file in /proc, by its name."""
    found = re.search(rf"{name}:\s+(\d+)", Path(file).read_text())
    assert found
    return int(found[1])


@pytest.mark.long
async def test_a_client_that_does_not_read(setting: Setting) -> None:
    """While the client reads nothing the agent is made to wait; nothing is lost and memory is bounded."""
    rule = AcpRule("flood", (AcpStep(say="z" * 1000, repeat=40_000),))
    async with setting.talk(rule) as (client, session):
        output = client.process._transport.get_pipe_transport(1)  # type: ignore[attr-defined]
        output.pause_reading()
        client.send("session/prompt", sessionId=session, prompt=[block("flood")])
        agent = children(client.process.pid)[0]
        written = -1
        while written != (written := number_in(f"/proc/{agent}/io", "wchar")):
            await asyncio.sleep(0.3)  # until the agent is stuck
        held = number_in(f"/proc/{client.process.pid}/status", "VmRSS")
        output.resume_reading()
        await client.until(
            lambda: any(m.get("result", {}).get("stopReason") for m in client.all), 30
        )

    assert 0 < written < 30_000_000
    assert client.said().count("z") == 40_000_000
    assert held < 200_000
