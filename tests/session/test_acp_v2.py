"""`/handoff` over version 2 of the protocol, where the answer to a prompt does not end its turn."""

import asyncio

import pytest
from acp_client import DOCUMENT, HELLO, WRITE, WRITES, Setting, block, outcome, setting
from fakes.acp_agent import AcpRule, AcpStep

__all__ = ["setting"]

SLOW = AcpRule(WRITE, (AcpStep(say="half"), AcpStep(wait=30.0), AcpStep(say=DOCUMENT)))


async def test_handoff(setting: Setting) -> None:
    """The prompt is acknowledged; the client sees its own message, never our question, and one end."""
    async with setting.talk(WRITES, version=2) as (client, session):
        await client.prompt(session, HELLO)
        since = len(client.all)
        ended, text = await client.prompt(session, "/handoff finish it")
        updates = client.updates(session, since)
        await client.prompt(session, "go on")
        offered = [u for u in client.updates() if "availableCommands" in u][-1]

    (answer,) = [m for m in client.all[since:] if m.get("id") == 4]
    assert answer["result"] == {}
    assert outcome(ended) == "started", text
    assert DOCUMENT in text
    assert ended["stopReason"] == "end_turn"
    users = [u["content"] for u in updates if u["sessionUpdate"] == "user_message"]
    assert users == [[block("/handoff finish it")]]
    assert [u["state"] for u in updates if "state" in u] == ["running", "idle"]
    assert all(u["messageId"] for u in updates if u["sessionUpdate"].endswith("_chunk"))
    assert offered["availableCommands"][-1]["input"] == {"type": "text", "hint": "[focus instructions]"}  # fmt: skip
    assert setting.prompts("session-2")[0].startswith("<handoff-context>")
    assert [m["params"]["sessionId"] for m in setting.log("session/close")] == ["session-1"]
    assert setting.states() == ["delivered"]


@pytest.mark.parametrize("as_request", [False, True])
async def test_cancel(setting: Setting, as_request: bool) -> None:
    """A cancellation ends the turn with its reason, and the old session stays in use."""
    async with setting.talk(SLOW, version=2) as (client, session):
        await client.prompt(session, HELLO)
        since = len(client.all)
        await client.ask("session/prompt", sessionId=session, prompt=[block("/handoff")])
        await client.until(lambda: "half" in client.said(since))
        if as_request:
            assert (await client.ask("session/cancel", sessionId=session))["result"] == {}
        else:
            client.notify("session/cancel", sessionId=session)
        await client.until(lambda: client.idle(since))
        ended = client.idle(since)
        text = client.said(since)
        _, after = await client.prompt(session, "go on")

    assert [end["stopReason"] for end in ended] == ["cancelled"]
    assert outcome(ended[0]) == "cancelled"
    assert text.endswith("Handoff cancelled")
    assert "[session-1 " in after


async def test_cancel_by_the_request(setting: Setting) -> None:
    """`$/cancel_request` for the prompt cancels too, although it was acknowledged."""
    async with setting.talk(SLOW, version=2) as (client, session):
        await client.prompt(session, HELLO)
        since = len(client.all)
        id, _ = client.send("session/prompt", sessionId=session, prompt=[block("/handoff")])
        await client.until(lambda: "half" in client.said(since))
        client.notify("$/cancel_request", requestId=id)
        await client.until(lambda: client.idle(since))

    assert outcome(client.idle(since)[0]) == "cancelled"


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ((AcpStep(error="model overloaded"),), "failed"),
        ((AcpStep(say=DOCUMENT), AcpStep(stop="max_tokens")), "failed"),
        ((AcpStep(say=" "),), "empty"),
    ],
)
async def test_failures(setting: Setting, steps: tuple[AcpStep, ...], expected: str) -> None:
    """The end of a turn that failed tells so, and the old session goes on."""
    async with setting.talk(AcpRule(WRITE, steps), version=2) as (client, session):
        await client.prompt(session, HELLO)
        ended, text = await client.prompt(session, "/handoff")
        _, after = await client.prompt(session, "go on")

    assert outcome(ended) == expected
    assert "Handoff failed: " in text
    assert "[session-1 " in after


async def test_busy(setting: Setting) -> None:
    """A refusal during a running turn does not end that turn."""
    rule = AcpRule("slowly", (AcpStep(say="begun"), AcpStep(wait=30.0)))
    async with setting.talk(rule, version=2) as (client, session):
        since = len(client.all)
        await client.ask("session/prompt", sessionId=session, prompt=[block("slowly")])
        await client.until(lambda: "begun" in client.said())
        answer = await client.ask("session/prompt", sessionId=session, prompt=[block("/handoff")])
        await client.until(lambda: "a turn is still running" in client.said())
        assert client.idle(since) == []
        client.notify("session/cancel", sessionId=session)
        await client.until(lambda: client.idle(since))

    assert answer["result"] == {}
    assert setting.prompts() == ["slowly"]


async def test_whole_messages(setting: Setting) -> None:
    """A message that is told whole replaces what was streamed of it; tool calls reset the text."""
    whole = {"sessionUpdate": "agent_message", "messageId": "m-agen", "content": [block(DOCUMENT)]}
    steps = (
        AcpStep(say="CHATTER"),
        AcpStep(tool={"title": "x"}),
        AcpStep(say="DRAFT"),
        AcpStep(update=whole),
    )
    async with setting.talk(AcpRule(WRITE, steps), version=2) as (client, session):
        await client.prompt(session, HELLO)
        ended, text = await client.prompt(session, "/handoff")
        await client.prompt(session, "go on")

    (prompt,) = setting.prompts("session-2")
    assert outcome(ended) == "started", text
    assert "Make the upload client retry" in prompt
    assert "CHATTER" not in prompt
    assert "DRAFT" not in prompt


async def test_the_agent_dies_while_it_writes(setting: Setting) -> None:
    """The user is told, the turn ends, and so does the proxy, with the agent's status."""
    rule = AcpRule(WRITE, (AcpStep(say="half"), AcpStep(exit=7)))
    async with setting.talk(rule, version=2) as (client, session):
        await client.prompt(session, HELLO)
        since = len(client.all)
        await client.ask("session/prompt", sessionId=session, prompt=[block("/handoff")])
        code = await asyncio.wait_for(client.process.wait(), 10)
        await client.reader

    assert client.said().endswith("Handoff failed: The agent ended with status 7.")
    assert len(client.idle(since)) == 1
    assert code == 7


async def test_an_agent_of_version_1(setting: Setting) -> None:
    """A client that speaks 2 and an agent that speaks 1 agree on 1, and so does the proxy."""
    async with setting.client(setting.proxied(WRITES)) as client:
        session = await client.open(version=2)
        await client.prompt(session, HELLO)
        ended, _ = await client.prompt(session, "/handoff")

    assert client.version == 1
    assert outcome(ended) == "started"
