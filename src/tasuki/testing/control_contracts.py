"""The contracts on agents: what their hooks tell, how they are started, what their screens say."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import msgspec

from tasuki import harness as harnesses
from tasuki.harness import editing
from tasuki.harness.control import (
    FLEET_MARK,
    AgentEvent,
    AgentRequest,
    Control,
    EventKind,
    HookReply,
    Look,
    Sight,
)
from tasuki.harness.integration import Addition, JsonEntry, OwnFile
from tasuki.testing.plan_contracts import assert_leaves_no_trace
from tasuki.testing.trial import Trial, contract

HOOK = "/opt/a folder/hook.sh"
MOST = 2**53
"""Numbers above it cannot be kept."""
NAMES = (
    "agent_id", "background_tasks", "child", "context_window", "cwd", "event", "hook_event_name",
    "initialPrompt", "last_assistant_message", "message", "model", "notification_type", "path",
    "permission_mode", "previous", "prompt", "prompt_id", "prompt_response", "reason", "session",
    "sessionId", "session_id", "source", "stopReason", "text", "tokens", "tool_input", "tool_name",
    "transcriptPath", "transcript_path", "trigger", "turn", "turn_id", "used", "window",
)  # fmt: skip
"""Members that payloads of known programs have."""
EVENTS = (
    "SessionStart", "UserPromptSubmit", "Stop", "StopFailure", "Interrupt", "Notification",
    "PermissionRequest", "PreCompact", "PostCompact", "SubagentStart", "SubagentStop", "SessionEnd",
    "BeforeAgent", "AfterAgent", *get_args(EventKind),
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, -1, 10**400, 1e308 * 10, float("nan"), "", "x" * (1 << 20), "../../x", "\x00\x1b[2J\ud800",
    [], [[]], [None, 7, {}], {}, {"file_path": 7, "context_window_size": 10**400, "used_percentage": {}},
    {"context_window_size": True, "used_percentage": 3}, {"context_window_size": 10**400, "used_percentage": 3},
)  # fmt: skip
SCREENS = (
    "\x00\x1b[31m\ud800", "\n" * 300, "❯", "❯ \n", "│", "╰─", "╹▀▀▀▀▀▀▀▀", "┃\n┃\n╹▀▀▀▀▀▀▀▀▀▀",
    *("\n".join(200 * [300 * sign]) for sign in "─━▄▀┃╹│❯›>π⠼ x"),
    *("\n".join(40 * [f"{60 * rule}\n{sign} words"]) for rule in "─▄▀" for sign in "❯›>┃"),
)  # fmt: skip
TITLES = ("", "✋", "✦ x", "◇", "π ⠼ x", "π >", "[ ! ]", "⠏ x", "\x00\ud800")
STATES = {"ready", "busy", "waiting", "unknown"}


@contract(30)
def takes_any_payload(trial: Trial) -> None:
    """The payload of an agent's hook may be anything: it tells nothing, or an event whose fields are what they should be."""
    if (control := harnesses.control(trial.harness)) is None:
        return
    for payload in _payloads():
        if (event := control.event(payload)) is None:
            continue
        msgspec.convert(msgspec.to_builtins(event), AgentEvent)
        assert event.session, f"an event without a session: {event.kind}"
        numbers = (event.used, event.tokens, event.window)
        assert all(n is None or 0 <= n < MOST for n in numbers), numbers


@contract(31)
def takes_the_fleets_hooks(trial: Trial) -> None:
    """What `--fleet` installs bears the fleet's mark and calls the script; taken out, it leaves the ordinary part as it was."""
    if (control := harnesses.control(trial.harness)) is None:
        return
    made = harnesses.integration(trial.harness)
    ordinary = made.additions(("/opt/tasuki",)) if made else ()
    additions = control.additions(HOOK)
    assert additions, "no hooks: nothing would be heard of its agents"
    for addition in additions:
        assert addition.what, f"an addition to {addition.path} does not say what it is"
        assert Path(addition.path).is_absolute(), addition.path
        assert addition.mark == FLEET_MARK, f"{addition.what}: the mark is {addition.mark!r}"
        assert HOOK in _content(addition), f"{addition.what}: it does not call {HOOK}"
        assert_leaves_no_trace(addition)
        _assert_stands_beside(addition, [o for o in ordinary if o.path == addition.path])


@contract(32)
def starts_an_agent(trial: Trial) -> None:
    """An agent starts as the program in its folder, with the operator's arguments, and its prompt in one argument."""
    if (control := harnesses.control(trial.harness)) is None:
        return
    prompt = "-p @notes.txt\n$(id) 'x' --yes"
    cwd, own = str(trial.folder), ("--own", "two words")
    request = AgentRequest(cwd, "s-1", prompt, "provider/model-x", "", ("/some/docs",), own)
    plan, bare = control.start(request), control.start(AgentRequest(cwd, "s-1"))
    for planned in (plan, bare):
        assert planned.argv[0] == trial.harness.program, planned.argv
        assert planned.cwd == cwd, planned.cwd
        assert not planned.paste and not planned.files, "an agent's prompt is an argument"
        assert planned.ready and re.compile(planned.ready), "when something can be typed"
        assert all(planned.argv), f"an empty argument: {planned.argv}"
        assert ("s-1" in planned.argv) == control.chooses_session, planned.argv
    assert [a.endswith(prompt) for a in plan.argv] == [False] * (len(plan.argv) - 1) + [True], (
        f"the prompt is not the last argument, once: {plan.argv}"
    )
    assert not plan.argv[-1].startswith("-p") or plan.argv[-2] == "--", "the prompt is an option"
    place = plan.argv.index(own[0])
    assert plan.argv[place : place + 2] == own, f"the operator's arguments: {plan.argv}"
    assert request.model in plan.argv, f"the model: {plan.argv}"
    assert not any(trial.folder.iterdir()), "written already"


@contract(33)
def takes_any_screen(trial: Trial) -> None:
    """A pane may show anything; one that shows nothing tells nothing of an unknown session."""
    if (control := harnesses.control(trial.harness)) is None:
        return
    for text in SCREENS:
        for title in TITLES:
            sight = control.sight(Look(text, title, session="no-such-session"))
            assert isinstance(sight, Sight) and sight.state in STATES, sight
            assert isinstance(sight.typed, str), sight
    for text in ("", "$ ls\nsh: not found\n$ "):
        sight = control.sight(Look(text, session="no-such-session"))
        assert sight == Sight("unknown"), f"{text!r} is called {sight}"


@contract(34)
def answers_its_hooks(trial: Trial) -> None:
    """A hook prints nothing where there is nothing to say; a skill only at a start, a veto only of a compaction."""
    if (control := harnesses.control(trial.harness)) is None:
        return
    for kind in get_args(EventKind):
        event = AgentEvent(kind, "s-1", source="auto")
        assert control.answer(event, HookReply()) == "", f"something for nothing: {kind}"
        skill = control.answer(event, HookReply(context="You are a tester."))
        takes = kind == "started" and control.skill_at_start
        assert ("a tester" in skill) if takes else not skill, f"a skill at {kind}: {skill!r}"
        veto = control.answer(event, HookReply(veto="Not now."))
        takes = kind == "compacting" and control.can_veto
        assert ("Not now." in veto) if takes else not veto, f"a veto at {kind}: {veto!r}"
    _assert_can_be_typed(control)


# -- helpers -------------------------------------------------------------------------------


def _payloads() -> Iterator[Mapping[str, Any]]:
    """Payloads that no program gives, and some that are nearly one of a program's."""
    yield {}
    for value in VALUES:
        yield dict.fromkeys(NAMES, value)
        yield {"hook_event_name": "Stop", "event": value, "session": "s", "session_id": value}
        ids = dict.fromkeys(("session", "sessionId", "session_id"), "s")
        unnamed = (name for name in NAMES if name not in ("event", "hook_event_name"))
        yield {**dict.fromkeys(unnamed, value), **ids}
        for event in EVENTS:
            named = {"hook_event_name": event, "event": event}
            yield {**dict.fromkeys(NAMES, value), **named, **ids}
            yield {**named, **ids, "agent_id": "a", "notification_type": "ToolPermission"}


def _content(addition: Addition) -> str:
    if isinstance(addition, OwnFile):
        return addition.content
    return json.dumps(addition.value) if isinstance(addition, JsonEntry) else addition.body


def _assert_stands_beside(addition: Addition, ordinary: list[Addition]) -> None:
    """It is told from what is installed without a fleet, with the record and without."""
    text: str | None = None
    for other in ordinary:
        assert not isinstance(other, OwnFile), f"{other.path} is a file of the ordinary part"
        text, _ = editing.put(text, other)
    both, put = editing.put(text, addition)
    for recorded in (put, ""):
        left, _ = editing.taken(both, editing.put_for(addition, recorded))
        assert not recorded or (left or None) == text, f"{addition.what} leaves a trace: {left}"
        states = [editing.state(left, other) for other in ordinary]
        assert set(states) <= {"there"}, f"{addition.what} takes others along"
    for other in ordinary:
        left, _ = editing.taken(both, editing.put_for(other))
        assert editing.state(left, addition) == "there", f"{other.what} takes {addition.what} along"


def _assert_can_be_typed(control: Control) -> None:
    """What is typed to end it, and to break off a turn."""
    assert control.exit_text.strip(), "`exit_text` is empty"
    assert control.interrupt_keys, "`interrupt_keys` is empty"
    assert not {"C-c", "C-d"} & set(control.clear_keys), "`clear_keys` may end the program"
    assert 0 <= control.enter_gap <= 2, control.enter_gap
