"""The contracts on plans: how a successor starts, and how the agent of a thread is asked."""

from pathlib import Path

from msgspec.structs import replace

from tasuki.errors import UsageError
from tasuki.harness import editing
from tasuki.harness.integration import Addition, HookAnswer, HookCall
from tasuki.harness.protocol import AskPlan, AskRequest, LaunchRequest
from tasuki.model import Draft, Goal, Handoff, Predecessor
from tasuki.testing.trial import Trial, contract

# -- how a successor starts ----------------------------------------------------------------


@contract(22)
def plans_an_unsent_successor(trial: Trial) -> None:
    """A plan carries brief and goal once, sends nothing unasked, and does nothing itself."""
    request = _request(trial)
    if not trial.harness.can_start:
        _assert_no_plan(trial, request)
        return
    plan = trial.harness.plan(request)
    parts = [*plan.argv, plan.paste, *(_unescaped(f.content) for f in plan.files)]
    assert plan.argv[0] == trial.harness.program, plan.argv
    assert plan.cwd == request.cwd, plan.cwd
    assert sum(request.context in part for part in parts) == 1, "the past"
    assert any(request.handoff.goal.text in p for p in (*plan.argv, plan.paste)), "the goal"
    assert not plan.submit, "submitted"
    assert plan.ready or not plan.paste, "pasted without knowing when"
    assert not any(Path(f.path).exists() for f in plan.files), "written already"


@contract(23)
def plans_a_sent_successor(trial: Trial) -> None:
    """With `send`, the goal is an argument, or pasted and submitted; the model is passed on."""
    request = replace(_request(trial), send=True, model="provider/model-x", arguments=("--flag",))
    if not trial.harness.can_start:
        _assert_no_plan(trial, request)
        return
    plan = trial.harness.plan(request)
    sent = [a for a in plan.argv if request.handoff.goal.text in a]
    assert bool(sent) != bool(plan.paste and plan.submit), plan.argv
    assert not plan.paste or plan.submit, "pasted and left"
    assert "provider/model-x" in plan.argv and "--flag" in plan.argv, plan.argv
    long = replace(request, brief=request.brief + "x" * 200_000)
    assert all(len(a) < 128 << 10 for a in trial.harness.plan(long).argv), "argument too long"


@contract(24)
def reads_what_it_planned(trial: Trial) -> None:
    """A session file that a plan writes is a thread of the harness that holds the handoff."""
    if not trial.harness.can_start:
        _assert_no_plan(trial, _request(trial))
        return
    plan = trial.harness.plan(_request(trial))
    for file in plan.files:
        path = trial.raw(file.content.encode(), Path(file.path))
        assert trial.harness.recognises(Path(file.path), path.read_bytes()[:8192]), file.path
        thread = trial.read(path)
        assert thread.id == plan.thread_id, thread.id
        assert [e.origin for e in thread.entries] == ["handoff"], thread.entries
        assert "## What was decided" in thread.entries[0].text, thread.entries[0].text


# -- how the agent of a thread is asked ----------------------------------------------------


@contract(27)
def asks_a_fork_or_a_copy(trial: Trial) -> None:
    """A plan to ask names the thread to fork it, or a copy; it keeps to its scratch folder, and does nothing itself."""
    request = _question(trial)
    if not trial.harness.can_ask:
        _assert_not_asked(trial, request)
        return
    thread, plan = request.thread, trial.harness.ask(request)
    assert plan.argv[0] == trial.harness.program, plan.argv
    told = [*plan.argv, plan.stdin, *(file.content for file in plan.files)]
    assert sum(request.question in part for part in told) == 1, "the question"
    named = [part for part in plan.argv if thread.id in part or thread.path in part]
    forks = any("fork" in part for part in plan.argv)
    copied = any(source == thread.path for source, _ in plan.copies)
    assert forks if named else copied, f"neither a fork nor a copy: {plan.argv}"
    outside = [p for p in _made_by(plan) if not Path(p).is_relative_to(request.scratch)]
    assert not outside, f"outside of the scratch folder: {outside}"
    assert not any(Path(request.scratch).iterdir()), "written already"


@contract(28)
def takes_any_output(trial: Trial) -> None:
    """What the program wrote may be cut off or anything else; where it wrote nothing, there is no answer."""
    request = _question(trial)
    if not trial.harness.can_ask:
        _assert_not_asked(trial, request)
        return
    for output in ("{", "[]\nnull\n3\n", '{"type":"result","is_error":7}\n', "\x00\ufffd\r\n"):
        trial.harness.answered(output, request)
    assert not trial.harness.answered("", request).text, "an answer, though nothing was written"


# -- what is installed into it -------------------------------------------------------------


@contract(29)
def takes_what_is_installed(trial: Trial) -> None:
    """What is installed into it is known as tasuki's and can be taken out without a trace; a hook may say anything."""
    assert hasattr(trial.harness, "integration"), (
        "`integration` is missing: return None for nothing"
    )
    if (made := trial.harness.integration()) is None:
        return
    for number, addition in enumerate(made.additions(("/opt/tasuki",))):
        assert addition.what, f"an addition to {addition.path} does not say what it is"
        assert Path(addition.path).is_absolute(), addition.path
        assert_leaves_no_trace(replace(addition, path=str(trial.folder / str(number))))
    payloads: tuple[dict[str, object], ...] = (
        {}, {"hook_event_name": 7}, {"prompt": ["/handoff"]}, {"cwd": None, "x": {}},
    )  # fmt: skip
    for payload in payloads:
        assert made.called(payload) is None, payload
    call = HookCall("handoff", path="/x", text="a goal")
    assert "no such goal" in made.answer(call, HookAnswer("no such goal", blocked=True))


# -- helpers -------------------------------------------------------------------------------


def _assert_no_plan(trial: Trial, request: LaunchRequest) -> None:
    """A harness that cannot start a successor says which flag names one that can."""
    try:
        trial.harness.plan(request)
    except UsageError as exc:
        assert "--to" in str(exc), exc
    else:
        raise AssertionError("a plan, though `can_start` is false")


def assert_leaves_no_trace(addition: Addition) -> None:
    """Ours is recognised once it is there, and taken out again, also without a record."""
    assert editing.state(None, addition) == "add", addition.path
    text, put = editing.put(None, addition)
    assert editing.state(text, addition) == "there", addition.what
    assert addition.mark in text, f"{addition.what}: the mark {addition.mark!r} is not in it"
    for recorded in (put, ""):
        left, _ = editing.taken(text, editing.put_for(addition, recorded))
        assert left is None or left.strip() in ("", "{}"), left


def _assert_not_asked(trial: Trial, request: AskRequest) -> None:
    """A harness whose agents cannot be asked says so, before and after."""
    for call in (trial.harness.ask, lambda request: trial.harness.answered("", request)):
        try:
            call(request)
        except UsageError as exc:
            assert trial.harness.title in str(exc), exc
        else:
            raise AssertionError("asked, though `can_ask` is false")


def _made_by(plan: AskPlan) -> list[str]:
    """The paths that a plan to ask makes."""
    targets = [target for _, target in (*plan.copies, *plan.links)]
    return targets + [file.path for file in plan.files]


def _question(trial: Trial) -> AskRequest:
    scratch = trial.folder / "scratch"
    scratch.mkdir()
    question = "What must the next one know?"
    return AskRequest(thread=trial.read(trial.story), question=question, scratch=str(scratch))


def _unescaped(content: str) -> str:
    """The strings of a planned file, so that quoted texts can be found in it."""
    return content.replace("\\n", "\n").replace('\\"', '"')


def _request(trial: Trial) -> LaunchRequest:
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
