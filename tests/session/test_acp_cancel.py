"""What the client says while a handoff of the ACP proxy is under way: cancellations, and what waits."""

import asyncio

import pytest
from acp_client import DOCUMENT, HELLO, WRITE, WRITES, Setting, block, outcome, setting
from fakes.acp_agent import AcpRule, AcpStep
from fakes.model_server import ModelServer
from fakes.model_server import ModelStep as ModelStep

__all__ = ["setting"]

SLOW = AcpRule(WRITE, (AcpStep(say="## Goal\n- half"), AcpStep(wait=30.0), AcpStep(say=DOCUMENT)))


@pytest.mark.parametrize("how", ["session/cancel", "$/cancel_request"])
async def test_cancel(setting: Setting, how: str) -> None:
    """Cancelling while the session writes leaves the old one in use, and is no failure."""
    async with setting.talk(SLOW) as (client, session):
        await client.prompt(session, HELLO)
        since = len(client.all)
        id, answer = client.send("session/prompt", sessionId=session, prompt=[block("/handoff")])
        await client.until(lambda: "half" in client.said(since))
        client.notify(how, **({"sessionId": session} if how == "session/cancel" else {"requestId": id}))  # fmt: skip
        ended = (await asyncio.wait_for(answer, 5))["result"]
        text = client.said(since)
        _, after = await client.prompt(session, "go on")

    assert (ended["stopReason"], outcome(ended)) == ("cancelled", "cancelled")
    assert text.endswith("Handoff cancelled")
    assert "failed" not in text
    assert "[session-1 " in after
    assert [m["params"] for m in setting.log("session/cancel")] == [{"sessionId": "session-1"}]


async def test_cancel_while_the_new_session_opens(setting: Setting) -> None:
    """The session that comes too late is closed, and the old one stays in use."""
    async with setting.talk(WRITES, slow=0.7) as (client, session):
        await client.prompt(session, HELLO)
        _, answer = client.send("session/prompt", sessionId=session, prompt=[block("/handoff")])
        await client.until(lambda: len(setting.log("session/new")) == 2)
        client.notify("session/cancel", sessionId=session)
        ended = (await asyncio.wait_for(answer, 5))["result"]
        await client.until(lambda: setting.log("session/close"))
        _, after = await client.prompt(session, "go on")

    assert outcome(ended) == "cancelled"
    assert "[session-1 " in after
    assert [m["params"] for m in setting.log("session/close")] == [{"sessionId": "session-2"}]


async def test_a_deaf_agent(setting: Setting) -> None:
    """An agent that does not stop is left to itself: the user has the session back in seconds."""
    rule = AcpRule(WRITE, (AcpStep(say="half"), AcpStep(wait=60.0, deaf=True)))
    async with setting.talk(rule) as (client, session):
        await client.prompt(session, HELLO)
        since = len(client.all)
        _, answer = client.send("session/prompt", sessionId=session, prompt=[block("/handoff")])
        await client.until(lambda: "half" in client.said(since))
        client.notify("session/cancel", sessionId=session)
        ended = (await asyncio.wait_for(answer, 9))["result"]
        _, after = await client.prompt(session, "go on")

    assert outcome(ended) == "cancelled"
    assert "[session-1 " in after


async def test_prompts_wait(setting: Setting) -> None:
    """What is typed during a handoff goes to the session that is in use afterwards, in order."""
    rule = AcpRule(WRITE, (AcpStep(wait=0.5), AcpStep(say=DOCUMENT)))
    async with setting.talk(rule) as (client, session):
        await client.prompt(session, HELLO)
        _, handed = client.send("session/prompt", sessionId=session, prompt=[block("/handoff")])
        _, first = client.send("session/prompt", sessionId=session, prompt=[block("typed first")])
        id, dropped = client.send("session/prompt", sessionId=session, prompt=[block("dropped")])
        _, again = client.send("session/prompt", sessionId=session, prompt=[block("/handoff")])
        client.notify("$/cancel_request", requestId=id)
        await asyncio.wait_for(asyncio.gather(handed, first, dropped, again), 10)

    assert (await dropped)["error"]["code"] == -32800
    assert "Handoff not started: another one is in progress." in client.said()
    (sent,) = setting.prompts("session-2")
    assert sent.endswith("|typed first")


async def test_prompts_wait_for_a_cancelled_handoff(setting: Setting) -> None:
    """After a cancellation they go to the old session."""
    async with setting.talk(SLOW) as (client, session):
        await client.prompt(session, HELLO)
        since = len(client.all)
        client.send("session/prompt", sessionId=session, prompt=[block("/handoff")])
        await client.until(lambda: "half" in client.said(since))
        _, waiting = client.send("session/prompt", sessionId=session, prompt=[block("typed")])
        client.notify("session/cancel", sessionId=session)
        await asyncio.wait_for(waiting, 10)

    assert setting.prompts("session-1")[-1] == "typed"
    assert setting.prompts("session-2") == []


async def test_busy(setting: Setting) -> None:
    """During a running turn `/handoff` is refused with a message, and the turn goes on."""
    rule = AcpRule("slowly", (AcpStep(say="begun"), AcpStep(wait=30.0), AcpStep(say="not reached")))
    async with setting.talk(WRITES, rule) as (client, session):
        _, turn = client.send("session/prompt", sessionId=session, prompt=[block("slowly")])
        await client.until(lambda: "begun" in client.said())
        ended, text = await client.prompt(session, "/handoff")
        assert not turn.done()
        client.notify("session/cancel", sessionId=session)
        stopped = await asyncio.wait_for(turn, 5)

    assert "a turn is still running" in text
    assert ended == {"stopReason": "end_turn"}
    assert stopped["result"] == {"stopReason": "cancelled"}
    assert setting.prompts() == ["slowly"]


async def test_cancel_while_another_author_writes(setting: Setting) -> None:
    """Nobody waits for an author that was cancelled, whatever it still says."""
    with ModelServer([], ModelStep("too late", delay=20.0)) as model:
        config = setting.folder / "config.toml"
        config.write_text(
            'author = "model"\nmodel = "local/scripted"\n'
            f'[providers.local]\nbase_url = "{model.url}/v1"\nkey_env = "KEY"\n'
        )
        setting.env |= {"TASUKI_CONFIG": str(config), "KEY": "dummy"}
        async with setting.talk(WRITES) as (client, session):
            await client.prompt(session, HELLO)
            _, answer = client.send("session/prompt", sessionId=session, prompt=[block("/handoff")])
            await client.until(lambda: model.log)
            client.notify("session/cancel", sessionId=session)
            ended = (await asyncio.wait_for(answer, 5))["result"]
            _, after = await client.prompt(session, "go on")

    assert outcome(ended) == "cancelled"
    assert "[session-1 " in after
    assert setting.log("session/cancel") == []
