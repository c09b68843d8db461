"""`/handoff` in the ACP proxy, with a scripted agent: every outcome, and what stays in use."""

import asyncio
import json
import stat
from pathlib import Path

import pytest
from acp_client import DOCUMENT, HELLO, WRITE, WRITES, Setting, block, outcome, setting
from fakes.acp_agent import AcpRule, AcpStep

__all__ = ["setting"]

STARTED = "New session started with handoff context"
SLOW = AcpRule(WRITE, (AcpStep(say="## Goal\n- half"), AcpStep(wait=30.0), AcpStep(say=DOCUMENT)))


async def test_nothing_to_hand_off(setting: Setting) -> None:
    """With fewer than two messages the user is told, and nothing else happens."""
    async with setting.talk(WRITES) as (client, session):
        ended, text = await client.prompt(session, "/handoff")

    assert (outcome(ended), text) == ("nothing", "Nothing to hand off (no messages yet)")
    assert ended["stopReason"] == "end_turn"
    assert setting.prompts() == []
    assert len(setting.log("session/new")) == 1
    assert setting.chains() == []


async def test_handoff(setting: Setting) -> None:
    """The old session writes; a new one is opened as the old one was; the next prompt begins with it."""
    servers = [{"name": "m", "command": "c", "args": [], "env": []}]
    more = {"additionalDirectories": ["/y"], "_meta": {"x": [1.0, "ü"]}, "future": {"y": None}}
    async with setting.client(setting.proxied(WRITES)) as client:
        await client.ask("initialize", protocolVersion=1)
        opened = await client.ask("session/new", cwd="/tmp", mcpServers=servers, **more)
        session = opened["result"]["sessionId"]
        client.write({"jsonrpc": "2.0", "method": "x/y", "params": {}})
        await client.prompt(session, HELLO)
        ended, text = await client.prompt(session, "/handoff finish the tests")
        await client.prompt(session, "go on")

    made = setting.log("session/new")
    (handoff,) = setting.vault.list_handoffs()
    assert outcome(ended) == "started"
    assert f"{STARTED}\n\nHandoff {handoff.id[:8]}, " in text
    assert " tokens, focus: finish the tests" in text
    assert DOCUMENT in text
    assert "Additional focus: finish the tests" in setting.prompts("session-1")[1]
    assert made[0]["params"] == made[1]["params"]
    (prompt,) = [m["params"]["prompt"] for m in setting.log("session/prompt") if m["params"]["sessionId"] == "session-2"]  # fmt: skip
    assert prompt[0]["text"].startswith(
        "<handoff-context>\n## Goal\n- Make the upload client retry"
    )
    assert prompt[1] == block("go on")
    assert [m["params"] for m in setting.log("session/close")] == [{"sessionId": "session-1"}]
    assert {m["params"]["sessionId"] for m in client.all if m.get("method") == "session/update"} == {session}  # fmt: skip


async def test_a_token_of_an_unsupported_claim_goes_nowhere(setting: Setting) -> None:
    """The checks quote the document without its secrets, to the client and to the successor."""
    token = "pcsk_" + "aB3dE6" + "_" + "zY9xW8vU" * 7
    document = (
        f"{DOCUMENT}\n\n## Critical Context\n- `deploy --key {token}` was run in src/nofile.py"
    )
    writes = AcpRule(WRITE, (AcpStep(say=document),))
    async with setting.talk(writes) as (client, session):
        await client.prompt(session, HELLO)
        _, text = await client.prompt(session, "/handoff")
        await client.prompt(session, "go on")

    (handoff,) = setting.vault.list_handoffs()
    brief = setting.vault.load_brief(handoff.id)
    prompts = setting.prompts("session-2")
    assert "does not bear out" in brief
    told = text.partition(STARTED)[2]
    assert told
    assert all(token[12:] not in said for said in (told, brief, *prompts))


async def test_the_events_of_the_handoff(setting: Setting) -> None:
    """The vault tells that it started, and that it was delivered once a prompt took it along."""
    async with setting.talk(WRITES) as (client, session):
        await client.prompt(session, HELLO)
        await client.prompt(session, "/handoff")
        started = setting.states()
        await client.prompt(session, "go on")

    (handoff,) = setting.vault.list_handoffs()
    assert started == ["started"]
    assert setting.states() == ["delivered"]
    kinds = [event.kind for event in setting.vault.load_events(handoff.id)]
    assert kinds == ["drafted", "started", "intent", "delivered"]


async def test_a_session_that_tasuki_can_read(setting: Setting) -> None:
    """Where the agent keeps a thread by the session's id, that is what is read, not what passed through."""
    threads = setting.home / ".pi/agent/sessions/--tmp--"
    async with setting.talk(WRITES, threads=str(threads), ids="{uuid}") as (client, session):
        await client.prompt(session, HELLO)
        ended, text = await client.prompt(session, "/handoff")

    (handoff,) = setting.vault.list_handoffs()
    assert outcome(ended) == "started", text
    assert handoff.predecessor.thread_id == session
    assert handoff.predecessor.path.startswith(str(threads))
    assert not (setting.folder / "data/sessions").exists()


async def test_a_session_that_only_the_proxy_saw(setting: Setting) -> None:
    """Otherwise what passed through is written as a session file: prompts, answers and tool calls."""
    call = {
        "title": "make test", "kind": "execute", "rawInput": {"command": "make test"},
        "content": [{"type": "content", "content": {"type": "text", "text": "3 failed"}}],
    }  # fmt: skip
    edit = {"title": "edit", "kind": "edit", "content": [{"type": "diff", "path": "/tmp/a.py", "oldText": "x", "newText": "y"}]}  # fmt: skip
    rule = AcpRule("run the tests", (AcpStep(say="I run "), AcpStep(say="them."), AcpStep(tool=call), AcpStep(tool=edit), AcpStep(say="Three failed.")))  # fmt: skip
    async with setting.talk(WRITES, rule) as (client, session):
        await client.prompt(session, "run the tests; the marker is MARKER-DOC-77")
        ended, text = await client.prompt(session, "/handoff")

    (file,) = (setting.folder / "data/sessions").rglob("*.jsonl")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    said = json.dumps([line.get("message") for line in lines])
    assert outcome(ended) == "started", text
    for expected in ("run the tests; the marker", "I run them.", "make test", "3 failed", "Three failed.", "/tmp/a.py"):  # fmt: skip
        assert expected in said
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("text", ["/handoff", "  /handoff", "\n/handoff \t", "/handoff\nwith more"])
async def test_what_is_a_handoff(setting: Setting, text: str) -> None:
    """Blanks in front are accepted, and words behind it; the agent never gets it as a prompt."""
    async with setting.talk(WRITES) as (client, session):
        ended, _ = await client.prompt(session, text)

    assert outcome(ended) == "nothing"
    assert setting.prompts() == []


@pytest.mark.parametrize("text", ["/handoffs are nice", "/hand off", "see /handoff", "/handoff-x"])
async def test_what_is_none(setting: Setting, text: str) -> None:
    """Every other text is the agent's."""
    async with setting.talk(WRITES) as (client, session):
        await client.prompt(session, text)

    assert setting.prompts() == [text]


async def test_settings_are_repeated(setting: Setting) -> None:
    """Mode, options and model are set again in the new session, the newest of each, in order."""
    async with setting.talk(WRITES) as (client, session):
        await client.ask("session/set_mode", sessionId=session, modeId="ask")
        for option, value in (("a", "1"), ("b", "2"), ("a", "3"), ("c", "refused")):
            await client.ask("session/set_config_option", sessionId=session, configId=option, value=value)  # fmt: skip
        await client.ask("session/set_model", sessionId=session, modelId="m")
        await client.ask("session/set_mode", sessionId=session, modeId="plan", _meta={"k": 1})
        await client.prompt(session, HELLO)
        await client.prompt(session, "/handoff")
        _, text = await client.prompt(session, "go on")

    again = [
        (m["method"], {**m["params"], "sessionId": ""})
        for m in setting.log()
        if m.get("params", {}).get("sessionId") == "session-2" and m["method"].startswith("session/set")
    ]  # fmt: skip
    assert "[session-2 mode=plan n=1]" in text
    assert again == [
        ("session/set_config_option", {"sessionId": "", "configId": "b", "value": "2"}),
        ("session/set_config_option", {"sessionId": "", "configId": "a", "value": "3"}),
        ("session/set_model", {"sessionId": "", "modelId": "m"}),
        ("session/set_mode", {"sessionId": "", "modeId": "plan", "_meta": {"k": 1}}),
    ]


async def test_a_mode_that_the_agent_changed(setting: Setting) -> None:
    """The mode in use is set again, also if the agent itself changed it, and a refusal is told."""
    change = {"sessionUpdate": "current_mode_update", "currentModeId": "yolo"}
    async with setting.talk(WRITES, AcpRule("^change", (AcpStep(update=change),))) as (
        client,
        session,
    ):
        await client.prompt(session, HELLO)
        await client.prompt(session, "change the mode")
        await client.prompt(session, "/handoff")
        _, text = await client.prompt(session, "go on")

    assert "[session-2 mode=yolo n=1]" in text


async def test_slash_commands_first(setting: Setting) -> None:
    """The message is held back over a slash command of the agent, and goes once, with words."""
    async with setting.talk(WRITES) as (client, session):
        await client.prompt(session, HELLO)
        await client.prompt(session, "/handoff")
        await client.prompt(session, " /own thing")
        await client.prompt(session, "/tmp/notes.txt is what you need")
        await client.prompt(session, "and then?")

    command, first, second = setting.prompts("session-2")
    assert command == " /own thing"
    assert first.startswith("<handoff-context>")
    assert second == "and then?"


async def test_put_back(setting: Setting) -> None:
    """A prompt that fails or is refused did not deliver it: it goes with the next one."""
    rules = (AcpRule("overload", (AcpStep(error="model overloaded"),)), AcpRule("forbidden", (AcpStep(stop="refusal"),)))  # fmt: skip
    async with setting.talk(WRITES, *rules) as (client, session):
        await client.prompt(session, HELLO)
        await client.prompt(session, "/handoff")
        failed, _ = await client.prompt(session, "overload")
        states = setting.states()
        await client.prompt(session, "forbidden")
        await client.prompt(session, "go on")
        await client.prompt(session, "and on")

    assert failed["error"]["message"] == "model overloaded"
    assert states == ["failed"]
    with_message = [p.startswith("<handoff-context>") for p in setting.prompts("session-2")]
    assert with_message == [True, True, True, False]
    assert setting.states() == ["delivered"]


@pytest.mark.parametrize(
    ("steps", "expected", "told"),
    [
        ((AcpStep(error="model overloaded"),), "failed", "The agent answered with an error: model overloaded."),
        ((AcpStep(say=DOCUMENT), AcpStep(stop="max_tokens")), "failed", "(max_tokens)"),
        ((AcpStep(say=DOCUMENT), AcpStep(stop="refusal")), "failed", "(refusal)"),
        ((AcpStep(say="  \n"),), "empty", "The agent answered without text, even when asked again."),
        ((AcpStep(say=DOCUMENT), AcpStep(stop="cancelled")), "cancelled", "Handoff cancelled"),
    ],
)  # fmt: skip
async def test_failures(
    setting: Setting, steps: tuple[AcpStep, ...], expected: str, told: str
) -> None:
    """Failed, empty and cancelled are told apart; only `end_turn` counts; the old session goes on."""
    async with setting.talk(AcpRule(WRITE, steps)) as (client, session):
        await client.prompt(session, HELLO)
        ended, text = await client.prompt(session, "/handoff")
        _, after = await client.prompt(session, "go on")

    assert outcome(ended) == expected
    assert told in text
    assert ("This session goes on unchanged." in text) == (expected != "cancelled")
    assert ("Handoff failed: " in text) == (expected != "cancelled")
    (file,) = (setting.folder / "data" / "sessions").rglob("*.jsonl")
    assert [file.read_text().count(said) for said in (HELLO, '"go on"', WRITE)] == [1, 1, 0]
    assert "[session-1 " in after
    assert setting.prompts()[-1] == "go on"
    assert setting.chains() == []


async def test_no_new_session(setting: Setting) -> None:
    """Where the agent opens no further session the old one goes on."""
    async with setting.talk(WRITES, sessions=1) as (client, session):
        await client.prompt(session, HELLO)
        ended, text = await client.prompt(session, "/handoff")
        _, after = await client.prompt(session, "go on")

    assert outcome(ended) == "failed"
    assert "Handoff failed: The agent did not open a new session: Authentication required." in text
    assert "[session-1 " in after


async def test_the_map_cannot_be_written(setting: Setting) -> None:
    """Nothing is switched that could not be kept: the new session is closed, the old one goes on."""
    (setting.folder / "data").mkdir()
    (setting.folder / "data" / "acp").write_text("no folder")
    async with setting.talk(WRITES) as (client, session):
        await client.prompt(session, HELLO)
        ended, text = await client.prompt(session, "/handoff")
        _, after = await client.prompt(session, "go on")

    assert outcome(ended) == "failed"
    assert "could not be written" in text
    assert "[session-1 " in after
    assert [m["params"]["sessionId"] for m in setting.log("session/close")] == ["session-2"]


async def test_talk_before_a_tool_is_not_the_document(setting: Setting) -> None:
    """The text is reset at each tool call; what the agent asks for meanwhile is refused."""
    rule = AcpRule(
        WRITE,
        (
            AcpStep(say="CHATTER"), AcpStep(tool={"title": "look", "kind": "read"}),
            AcpStep(ask=("allow_always", "reject_always", "reject_once")), AcpStep(say="{got}"),
            AcpStep(tool={"title": "look", "kind": "read"}), AcpStep(ask=("allow_once",)), AcpStep(say="{got}"),
            AcpStep(request="fs/write_text_file", params={"path": "/tmp/x", "content": "y"}), AcpStep(say="{got}"),
            AcpStep(request="terminal/create", params={"command": "ls"}), AcpStep(say="{got}"),
            AcpStep(request="fs/read_text_file", params={"path": "/tmp/x"}), AcpStep(say="{got}"),
            AcpStep(tool={"title": "look", "kind": "read"}), AcpStep(say=DOCUMENT),
        ),
    )  # fmt: skip
    async with setting.talk(rule) as (client, session):
        await client.prompt(session, HELLO)
        ended, text = await client.prompt(session, "/handoff")
        await client.prompt(session, "go on")

    requests = [m["method"] for m in client.all if "method" in m and "id" in m]
    assert outcome(ended) == "started", text
    assert "CHATTERid-reject_oncecancelledrefusedrefusedgiven" in text
    assert requests == ["fs/read_text_file"]
    assert "CHATTER" not in setting.prompts("session-2")[0]
    assert "cancelled" not in setting.prompts("session-2")[0]


async def test_a_tool_of_which_the_question_alone_tells(setting: Setting) -> None:
    """What was said before a question for permission is no part of the document either."""
    rule = AcpRule(
        WRITE, (AcpStep(say="CHATTER"), AcpStep(ask=("reject_once",)), AcpStep(say=DOCUMENT))
    )
    async with setting.talk(rule) as (client, session):
        await client.prompt(session, HELLO)
        await client.prompt(session, "/handoff")
        await client.prompt(session, "go on")

    assert setting.prompts("session-2")[0].startswith("<handoff-context>\n## Goal")


async def test_the_time_limit(setting: Setting) -> None:
    """The setting `author_seconds` bounds how long the session may write."""
    setting.env["TASUKI_AUTHOR_SECONDS"] = "1"
    async with setting.talk(SLOW) as (client, session):
        await client.prompt(session, HELLO)
        ended, text = await client.prompt(session, "/handoff")
        _, after = await client.prompt(session, "go on")

    assert outcome(ended) == "failed"
    assert "author_seconds" in text
    assert "[session-1 " in after


async def test_the_agent_dies_while_it_writes(setting: Setting) -> None:
    """The user is told, the prompt is answered with an error, and the exit code is the agent's."""
    rule = AcpRule(WRITE, (AcpStep(say="half"), AcpStep(exit=7)))
    async with setting.talk(rule) as (client, session):
        await client.prompt(session, HELLO)
        _, answer = client.send("session/prompt", sessionId=session, prompt=[block("/handoff")])
        failed = await asyncio.wait_for(answer, 10)
        code = await asyncio.wait_for(client.process.wait(), 10)

    assert client.said().endswith("Handoff failed: The agent ended with status 7.")
    assert failed["error"]["message"] == "Handoff failed: The agent ended with status 7."
    assert code == 7
    assert setting.chains() == []


async def test_two_handoffs(setting: Setting) -> None:
    """A chain may have many links; what was not delivered is a part of what is handed on next."""
    async with setting.talk(WRITES) as (client, session):
        await client.prompt(session, HELLO)
        await client.prompt(session, "/handoff")
        nothing, _ = await client.prompt(session, "/handoff")
        await client.prompt(session, "/own command")
        second, text = await client.prompt(session, "/handoff")
        _, after = await client.prompt(session, "go on")

    assert outcome(nothing) == "nothing"
    assert outcome(second) == "started", text
    assert setting.prompts("session-2")[1].startswith("<handoff-context>")
    assert "[session-3 " in after
    assert setting.states() == ["delivered", "delivered"]
    newer, older = setting.vault.list_handoffs()
    assert newer.parent == older.id


async def test_another_author(setting: Setting) -> None:
    """Where the user's configuration names an author, that one writes and the session is not asked."""
    setting.env["TASUKI_AUTHOR"] = "offline"
    async with setting.talk(WRITES) as (client, session):
        await client.prompt(session, HELLO)
        ended, text = await client.prompt(session, "/handoff finish the tests")
        await client.prompt(session, "go on")

    assert outcome(ended) == "started", text
    assert setting.prompts("session-1") == [HELLO]
    assert setting.prompts("session-2")[0].startswith("<handoff-context>")


async def test_broken_settings(setting: Setting) -> None:
    """A configuration that cannot be read fails the handoff with its own sentence."""
    setting.env["TASUKI_AUTHOR_SECONDS"] = "never"
    async with setting.talk(WRITES) as (client, session):
        await client.prompt(session, HELLO)
        ended, text = await client.prompt(session, "/handoff")

    assert outcome(ended) == "failed"
    assert "Handoff failed: TASUKI_AUTHOR_SECONDS='never' must be a whole number." in text


async def test_late_news_of_the_old_session(setting: Setting) -> None:
    """What the old session still tells after the switch is for nobody."""
    late = AcpRule("upload", (AcpStep(say="ok"),))
    news = '{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"session-1","update":{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"LATE"}}}}}}}}'  # fmt: skip
    rule = AcpRule(
        "go on", (AcpStep(line=news.replace("{{", "{").replace("}}", "}")), AcpStep(say="on"))
    )
    async with setting.talk(WRITES, rule, late) as (client, session):
        await client.prompt(session, HELLO)
        await client.prompt(session, "/handoff")
        _, text = await client.prompt(session, "go on")

    assert text == "on"


def test_the_files_are_the_users_alone(setting: Setting) -> None:
    """The map of sessions, which holds the message, is readable by nobody else."""

    async def run() -> None:
        async with setting.talk(WRITES) as (client, session):
            await client.prompt(session, HELLO)
            await client.prompt(session, "/handoff")

    asyncio.run(run())
    (chain,) = setting.chains()
    assert stat.S_IMODE(chain.stat().st_mode) == 0o600
    assert stat.S_IMODE(Path(chain.parent).stat().st_mode) == 0o700
