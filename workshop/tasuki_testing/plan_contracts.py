"""The contracts on plans: successors, questions, what is installed, and agents of a fleet."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import msgspec
from msgspec.structs import replace

from tasuki.errors import UsageError
from tasuki.harness import protocol
from tasuki.harness import registry as harnesses
from tasuki.harness.integration import Addition, HookAnswer, HookCall, JsonEntry, OwnFile
from tasuki.harness.plans import FLEET_MARK
from tasuki.harness.protocol import AgentEvent, AskRequest, EventKind, HookReply, LaunchRequest
from tasuki.install import edits
from tasuki.model import Draft, Goal, Handoff, Predecessor
from tasuki_testing.forms import Trial, register_contract

HOOK = "/opt/a folder/hook.sh"
MAX_NUMBER = 2**53
"""Larger numbers cannot be stored."""
MEMBER_NAMES = (
    "agent_id", "background_tasks", "child", "context_window", "cwd", "event", "hook_event_name",
    "initialPrompt", "last_assistant_message", "message", "model", "notification_type", "path",
    "permission_mode", "previous", "prompt", "prompt_id", "prompt_response", "reason", "session",
    "sessionId", "session_id", "source", "stopReason", "text", "tokens", "tool_input", "tool_name",
    "transcriptPath", "transcript_path", "trigger", "turn", "turn_id", "used", "window",
)  # fmt: skip
"""Members of payloads of known programs."""
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


# -- how a successor starts ----------------------------------------------------------------


@register_contract(22)
def check_plans_unsent_successor(trial: Trial) -> None:
    """A plan contains brief and goal once, sends nothing by itself, and has no effect yet."""
    request = _create_request(trial)
    if not trial.harness.can_start:
        _assert_no_plan(trial, request)
        return
    plan = trial.harness.plan(request)
    parts = [*plan.argv, plan.paste, *(_unescape_strings(f.content) for f in plan.files)]
    assert plan.argv[0] == trial.harness.program, plan.argv
    assert plan.cwd == request.cwd, plan.cwd
    assert sum(request.context in part for part in parts) == 1, "the past"
    assert any(request.handoff.goal.text in p for p in (*plan.argv, plan.paste)), "the goal"
    assert plan.ready or not plan.paste, "pasted without knowing when"
    assert not any(Path(f.path).exists() for f in plan.files), "written already"


@register_contract(23)
def check_plans_sent_successor(trial: Trial) -> None:
    """With `send`, the goal is an argument; one that is too long is pasted. The model is passed on."""
    wanted: dict[str, Any] = {"model": "provider/model-x", "arguments": ("--flag",)}
    request = replace(_create_request(trial), send=True, **wanted)
    if not trial.harness.can_start:
        _assert_no_plan(trial, request)
        return
    plan = trial.harness.plan(request)
    assert not plan.paste and any(request.handoff.goal.text in a for a in plan.argv), plan.argv
    assert "provider/model-x" in plan.argv and "--flag" in plan.argv, plan.argv
    long = trial.harness.plan(replace(request, brief=request.brief + "x" * 200_000))
    assert all(len(a) < 128 << 10 for a in long.argv), "argument too long"
    assert bool(long.paste) == bool(long.note), "pasted, and not told"


@register_contract(24)
def check_reads_planned_file(trial: Trial) -> None:
    """A session file that a plan writes is a thread of the harness that holds the handoff."""
    if not trial.harness.can_start:
        _assert_no_plan(trial, _create_request(trial))
        return
    plan = trial.harness.plan(_create_request(trial))
    for file in plan.files:
        path = trial.write_raw(file.content.encode(), Path(file.path))
        assert trial.harness.is_thread_file(Path(file.path), path.read_bytes()[:8192]), file.path
        thread = trial.read(path)
        assert thread.id == plan.thread_id, thread.id
        assert [e.origin for e in thread.entries] == ["handoff"], thread.entries
        assert "## What was decided" in thread.entries[0].text, thread.entries[0].text


# -- how the agent of a thread is asked ----------------------------------------------------


@register_contract(27)
def check_asks_fork_or_copy(trial: Trial) -> None:
    """A plan to ask names a fork or a copy, stays in its scratch folder, and does nothing itself."""
    request = _create_question(trial)
    if not trial.harness.can_ask:
        _assert_not_asked(trial, request)
        return
    thread, plan = request.thread, trial.harness.ask(request)
    assert plan.argv[0] == trial.harness.program, plan.argv
    question_parts = [*plan.argv, plan.stdin, *(file.content for file in plan.files)]
    assert sum(request.question in part for part in question_parts) == 1, "the question"
    named = [part for part in plan.argv if thread.id in part or thread.path in part]
    forks = any("fork" in part for part in plan.argv)
    copied = any(source == thread.path for source, _ in plan.copies)
    assert forks if named else copied, f"neither a fork nor a copy: {plan.argv}"
    outside = [p for p in _list_made_paths(plan) if not Path(p).is_relative_to(request.scratch)]
    assert not outside, f"outside of the scratch folder: {outside}"
    assert not any(Path(request.scratch).iterdir()), "written already"


@register_contract(28)
def check_takes_any_output(trial: Trial) -> None:
    """The program's output may be cut off or anything else; without output there is no answer."""
    request = _create_question(trial)
    if not trial.harness.can_ask:
        _assert_not_asked(trial, request)
        return
    for output in ("{", "[]\nnull\n3\n", '{"type":"result","is_error":7}\n', "\x00\ufffd\r\n"):
        trial.harness.parse_answer(output, request)
    assert not trial.harness.parse_answer("", request).text, "an answer, though nothing was written"


@register_contract(29)
def check_installs_cleanly(trial: Trial) -> None:
    """What is installed is known as tasuki's, and goes without a trace; a hook may say anything."""
    missing = "`get_integration` is missing: return None for nothing"
    assert hasattr(trial.harness, "get_integration"), missing
    if (integration := trial.harness.get_integration()) is None:
        return
    for number, addition in enumerate(integration.list_additions(("/opt/tasuki",))):
        assert addition.what, f"an addition to {addition.path} does not say what it is"
        assert Path(addition.path).is_absolute(), addition.path
        assert_leaves_no_trace(replace(addition, path=str(trial.folder / str(number))))
    payloads: tuple[dict[str, object], ...] = (
        {}, {"hook_event_name": 7}, {"prompt": ["/handoff"]}, {"cwd": None, "x": {}},
    )  # fmt: skip
    for payload in payloads:
        assert integration.parse_hook_call(payload) is None, payload
    call = HookCall("handoff", path="/x", text="a goal")
    answer = HookAnswer("no such goal", blocked=True)
    assert "no such goal" in integration.format_answer(call, answer)


# -- agents: their hooks, how they are started, their screens -------------------------------


@register_contract(30)
def check_takes_any_payload(trial: Trial) -> None:
    """Any payload of an agent's hook gives no event, or one with valid fields."""
    if (control := harnesses.get_control(trial.harness)) is None:
        return
    for payload in _list_payloads():
        if (event := control.parse_event(payload)) is None:
            continue
        msgspec.convert(msgspec.to_builtins(event), AgentEvent)
        assert event.session, f"an event without a session: {event.kind}"
        numbers = (event.used, event.tokens, event.window)
        assert all(n is None or 0 <= n < MAX_NUMBER for n in numbers), numbers


@register_contract(31)
def check_installs_fleet_hooks(trial: Trial) -> None:
    """Fleet hooks bear the fleet's mark and call the script; removing them changes nothing else."""
    if (control := harnesses.get_control(trial.harness)) is None:
        return
    made = harnesses.get_integration(trial.harness)
    ordinary = made.list_additions(("/opt/tasuki",)) if made else ()
    additions = control.list_additions(HOOK)
    assert additions, "no hooks: nothing would be heard of its agents"
    for addition in additions:
        assert addition.what, f"an addition to {addition.path} does not say what it is"
        assert Path(addition.path).is_absolute(), addition.path
        assert addition.mark == FLEET_MARK, f"{addition.what}: the mark is {addition.mark!r}"
        assert HOOK in _get_content(addition), f"{addition.what}: it does not call {HOOK}"
        assert_leaves_no_trace(addition)
        _assert_coexists(addition, [o for o in ordinary if o.path == addition.path])


@register_contract(32)
def check_starts_agent(trial: Trial) -> None:
    """The program starts in its folder, with the operator's arguments and the prompt as one."""
    if (control := harnesses.get_control(trial.harness)) is None:
        return
    prompt = "-p @notes.txt\n$(id) 'x' --yes"
    cwd, own = str(trial.folder), ("--own", "two words")
    request = protocol.AgentRequest(
        cwd, "s-1", prompt, "provider/model-x", "", ("/some/docs",), own
    )
    plan, bare = control.plan_start(request), control.plan_start(protocol.AgentRequest(cwd, "s-1"))
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


@register_contract(33)
def check_reads_any_screen(trial: Trial) -> None:
    """A pane may show anything; an empty one says nothing about an unknown session."""
    if (control := harnesses.get_control(trial.harness)) is None:
        return
    for text in SCREENS:
        for title in TITLES:
            sight = control.read_screen(protocol.Screenshot(text, title, session="no-such-session"))
            assert isinstance(sight, protocol.ScreenState) and sight.state in STATES, sight
            assert sight.typed is None or isinstance(sight.typed, str), sight
    for text in ("", "$ ls\nsh: not found\n$ "):
        sight = control.read_screen(protocol.Screenshot(text, session="no-such-session"))
        assert sight == protocol.ScreenState("unknown"), f"{text!r} is called {sight}"


@register_contract(34)
def check_answers_hooks(trial: Trial) -> None:
    """A hook without answer prints nothing; skills come only at a start, vetoes of a compaction."""
    if (control := harnesses.get_control(trial.harness)) is None:
        return
    for kind in get_args(EventKind):
        event = AgentEvent(kind, "s-1", source="auto")
        assert control.format_reply(event, HookReply()) == "", f"something for nothing: {kind}"
        skill = control.format_reply(event, HookReply(context="You are a tester."))
        takes = kind == "started" and control.skill_at_start
        assert ("a tester" in skill) if takes else not skill, f"a skill at {kind}: {skill!r}"
        veto = control.format_reply(event, HookReply(veto="Not now."))
        takes = kind == "compacting" and control.can_veto
        assert ("Not now." in veto) if takes else not veto, f"a veto at {kind}: {veto!r}"
    _assert_can_be_typed(control)


def _assert_no_plan(trial: Trial, request: LaunchRequest) -> None:
    """Check that a harness that cannot start a successor says which flag names one that can."""
    try:
        trial.harness.plan(request)
    except UsageError as exc:
        assert "--to" in str(exc), exc
    else:
        raise AssertionError("a plan, though `can_start` is false")


def assert_leaves_no_trace(addition: Addition) -> None:
    """Check that our addition is recognised and removed again, also without a record."""
    assert edits.check_state(None, addition) == "add", addition.path
    text, put = edits.insert_addition(None, addition)
    assert edits.check_state(text, addition) == "there", addition.what
    assert addition.mark in text, f"{addition.what}: the mark {addition.mark!r} is not in it"
    for recorded in (put, ""):
        left, _ = edits.remove_addition(text, edits.build_installed_addition(addition, recorded))
        assert left is None or left.strip() in ("", "{}"), left


def _assert_not_asked(trial: Trial, request: AskRequest) -> None:
    """Check that a harness whose agents cannot be asked says so, before and after."""
    for call in (trial.harness.ask, lambda request: trial.harness.parse_answer("", request)):
        try:
            call(request)
        except UsageError as exc:
            assert trial.harness.title in str(exc), exc
        else:
            raise AssertionError("asked, though `can_ask` is false")


def _list_made_paths(plan: protocol.AskPlan) -> list[str]:
    """Return the paths that a plan to ask creates."""
    targets = [target for _, target in (*plan.copies, *plan.links)]
    return targets + [file.path for file in plan.files]


def _create_question(trial: Trial) -> AskRequest:
    scratch = trial.folder / "scratch"
    scratch.mkdir()
    question = "What must the next one know?"
    return AskRequest(thread=trial.read(trial.story), question=question, scratch=str(scratch))


def _unescape_strings(content: str) -> str:
    """Return the strings of a planned file, so that quoted texts can be found in it."""
    return content.replace("\\n", "\n").replace('\\"', '"')


def _create_request(trial: Trial) -> LaunchRequest:
    goal = Goal(text="Write the test of the timeout")
    past = "# Handoff Context\n\n## What was decided\n- 25 s"
    thread = Predecessor(harness=trial.harness.name, thread_id="t-1", path="/gone/t-1.jsonl")
    handoff = Handoff(
        id="0199", created="2026-01-05T10:00:00Z", goal=goal, predecessor=thread,
        draft=Draft(goal=goal),
    )  # fmt: skip
    brief = f"{past}\n\n## Next Goal (verbatim)\n{goal.text}"
    cwd = str(trial.folder)
    return LaunchRequest(handoff=handoff, brief=brief, context=past, cwd=cwd)


def _list_payloads() -> Iterator[Mapping[str, Any]]:
    """Yield payloads that no program sends, and some that are nearly those of a program."""
    yield {}
    for value in VALUES:
        yield dict.fromkeys(MEMBER_NAMES, value)
        yield {"hook_event_name": "Stop", "event": value, "session": "s", "session_id": value}
        ids = dict.fromkeys(("session", "sessionId", "session_id"), "s")
        unnamed = (name for name in MEMBER_NAMES if name not in ("event", "hook_event_name"))
        yield {**dict.fromkeys(unnamed, value), **ids}
        for event in EVENTS:
            named = {"hook_event_name": event, "event": event}
            yield {**dict.fromkeys(MEMBER_NAMES, value), **named, **ids}
            yield {**named, **ids, "agent_id": "a", "notification_type": "ToolPermission"}


def _get_content(addition: Addition) -> str:
    if isinstance(addition, OwnFile):
        return addition.content
    return json.dumps(addition.value) if isinstance(addition, JsonEntry) else addition.body


def _assert_coexists(addition: Addition, ordinary: list[Addition]) -> None:
    """Check that it is distinguished from an ordinary installation, with and without the record."""
    text: str | None = None
    for other in ordinary:
        assert not isinstance(other, OwnFile), f"{other.path} is a file of the ordinary part"
        text, _ = edits.insert_addition(text, other)
    both, put = edits.insert_addition(text, addition)
    for recorded in (put, ""):
        left, _ = edits.remove_addition(both, edits.build_installed_addition(addition, recorded))
        assert not recorded or (left or None) == text, f"{addition.what} leaves a trace: {left}"
        states = [edits.check_state(left, other) for other in ordinary]
        assert set(states) <= {"there"}, f"{addition.what} takes others along"
    for other in ordinary:
        left, _ = edits.remove_addition(both, edits.build_installed_addition(other))
        state = edits.check_state(left, addition)
        assert state == "there", f"{other.what} takes {addition.what} along"


def _assert_can_be_typed(control: protocol.AgentControl) -> None:
    """Check the texts and keys that end the program, or are typed into it."""
    assert control.exit_text.strip(), "`exit_text` is empty"
    keys = {*control.clear_keys, *control.stash_keys}
    assert control.clear_keys and not {"C-c", "C-d"} & keys, "a key may end the program"
    assert set(control.pasted.groupindex) <= {"lines", "ends", "chars"}, control.pasted.pattern
    assert 0 <= control.enter_gap <= 2, control.enter_gap
