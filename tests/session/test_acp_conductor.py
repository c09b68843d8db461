"""The ACP proxy in a chain of proxies, under a stand-in for the conductor."""

import asyncio
import json
import subprocess
import sys

import pytest
from acp_client import HELLO, WRITE, WRITES, Json, Setting, block, outcome, setting
from fakes.acp_agent import AcpRule, AcpStep
from tree import PROGRAMS

__all__ = ["setting"]

CONDUCTOR = PROGRAMS / "acp_conductor.py"


def conducted(setting: Setting, prefix: str, *rules: AcpRule) -> list[str]:
    """The command of a conductor with the proxy and the scripted agent."""
    proxy = [sys.executable, "-m", "tasuki", "acp"]
    return [sys.executable, str(CONDUCTOR), prefix, *proxy, "--", *setting.agent(*rules)]


@pytest.mark.parametrize("prefix", ["proxy", "_proxy"])
async def test_handoff(setting: Setting, prefix: str) -> None:
    """Both spellings of the draft lead to the same handoff as an agent of one's own."""
    rule = AcpRule("may I", (AcpStep(ask=("allow_once",)), AcpStep(say="{got}"), AcpStep(request="x/y", params={"n": 1.5}), AcpStep(say=" {got}")))  # fmt: skip

    def allow(request: Json) -> Json:
        return {"result": {"outcome": {"outcome": "selected", "optionId": "id-allow_once"}}}

    async with setting.client(conducted(setting, prefix, WRITES, rule)) as client:
        client.answering = allow
        session = await client.open()
        await client.prompt(session, HELLO)
        _, asked = await client.prompt(session, "may I")
        ended, text = await client.prompt(session, "/handoff finish it")
        _, after = await client.prompt(session, "go on, may I")

    assert client.all[0]["result"]["agentCapabilities"]["future"] == {"x": 1}
    assert asked == after == "id-allow_once given"
    assert outcome(ended) == "started", text
    assert setting.prompts("session-2")[0].startswith("<handoff-context>")
    assert setting.log("initialize")[0]["params"]["protocolVersion"] == 1
    assert {m["params"]["sessionId"] for m in client.all if m.get("method") == "session/update"} == {session}  # fmt: skip
    assert not any("successor" in json.dumps(m) for m in (*client.all, *setting.log()))


async def test_cancel(setting: Setting) -> None:
    """A cancellation reaches the agent through the conductor."""
    slow = AcpRule(WRITE, (AcpStep(say="half"), AcpStep(wait=30.0)))
    async with setting.client(conducted(setting, "proxy", slow)) as client:
        session = await client.open()
        await client.prompt(session, HELLO)
        _, answer = client.send("session/prompt", sessionId=session, prompt=[block("/handoff")])
        await client.until(lambda: "half" in client.said())
        client.notify("session/cancel", sessionId=session)
        ended = await asyncio.wait_for(answer, 5)
        _, after = await client.prompt(session, "go on")

    assert outcome(ended["result"]) == "cancelled"
    assert "[session-1 " in after


def run(*lines: Json) -> "tuple[list[Json], subprocess.CompletedProcess[bytes]]":
    """What the proxy answers to a few lines of a conductor."""
    given = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    command = [sys.executable, "-m", "tasuki", "acp"]
    done = subprocess.run(command, input=given, capture_output=True, timeout=30, check=False)
    return [json.loads(line) for line in done.stdout.splitlines()], done


def test_a_client_without_a_conductor() -> None:
    """Without a command and without a conductor there is no agent: the client is told what to do."""
    (answer,), done = run({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}})

    assert answer["id"] == 1
    assert "tasuki acp -- gemini --acp" in answer["error"]["message"]
    assert b"waits for a conductor" in done.stderr


def test_the_ids_of_two_neighbours() -> None:
    """A request of the client and one of the agent may have the same id, and their answers do not mix."""
    begin = {"jsonrpc": "2.0", "id": 1, "method": "proxy/initialize", "params": {"_meta": {"m": 1}}}
    of_agent = {"method": "x/ask", "params": {"a": 1.0}, "_meta": {"trace": "t"}}
    lines = run(
        begin,
        {"jsonrpc": "2.0", "id": 7, "method": "x/y", "params": [1.0]},
        {"jsonrpc": "2.0", "id": 7, "method": "proxy/successor", "params": of_agent},
        {"jsonrpc": "2.0", "id": "tasuki:agent:7", "result": {"r": 1.0}},
        {"jsonrpc": "2.0", "id": 7, "result": {"s": 2.0}},
        {"jsonrpc": "2.0", "method": "proxy/successor", "params": {"method": "$/cancel_request", "params": {"requestId": 7}}},
    )[0]  # fmt: skip

    assert lines == [
        {"jsonrpc": "2.0", "id": 1, "method": "proxy/successor", "params": {"method": "initialize", "params": {"_meta": {"m": 1}}}},
        {"jsonrpc": "2.0", "id": 7, "method": "proxy/successor", "params": {"method": "x/y", "params": [1.0]}},
        {"jsonrpc": "2.0", "id": "tasuki:agent:7", "method": "x/ask", "params": {"a": 1.0}, "_meta": {"trace": "t"}},
        {"jsonrpc": "2.0", "id": 7, "result": {"r": 1.0}},
        {"jsonrpc": "2.0", "id": 7, "result": {"s": 2.0}},
        {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": "tasuki:agent:7"}},
    ]  # fmt: skip
