"""What the script of the scripted harness says is what happens, in a real tmux pane."""

import json
import shutil
from pathlib import Path

import pytest
from fleet_agents import Scripted, texts
from waiting import retry_until, runs

from tasuki.harness import registry as harnesses

pytestmark = pytest.mark.skipif(not shutil.which("tmux"), reason="tmux is not installed")

SESSION = "11111111-2222-4333-8444-555555555555"


def test_the_default_rules(scripted: Scripted) -> None:
    """Without a script it writes the document that is asked for, acknowledges, and else says ok."""
    scripted.record()
    opened = scripted.start()
    path = scripted.folder / "data" / "handoffs" / "d.md"
    path.parent.mkdir(parents=True)
    ask = f"Write a handoff document.\nFile (write to exactly this path): {path}\n\n## What I did\n## Next steps\n(tasuki handoff x)"

    scripted.send(opened.pane, ask, "t-1")
    scripted.hooks_told("Stop")
    scripted.send(opened.pane, f"Handoff document: {path}\n1. Begin your answer with this line, by itself: handoff 0123abcd", "t-2")  # fmt: skip
    scripted.hooks_told("Stop", 2)
    scripted.send(opened.pane, 'answer with the one word "ready" and end', "t-3")
    scripted.hooks_told("Stop", 3)
    scripted.send(opened.pane, "anything", "t-4")

    words = [stop["last_assistant_message"] for stop in scripted.hooks_told("Stop", 4)]
    assert words[1].splitlines()[0] == "handoff 0123abcd"
    assert words[2:] == ["ready", "ok"]
    assert "## What I did\n" in path.read_text()
    assert "## Next steps\n" in path.read_text()
    assert [wrote["path"] for wrote in scripted.told("wrote")] == [str(path)]
    assert [use["tool_name"] for use in scripted.hooked("PostToolUse")] == ["Write"]


def test_the_ends_of_turns(scripted: Scripted) -> None:
    """A turn's end is told not at all, twice, early or late, as the script says."""
    scripted.record()
    scripted.rules(
        {"match": "none", "do": [["say", "none"], "no_stop"]},
        {"match": "twice", "do": [["say", "twice"], "stop_twice"]},
        {"match": "early", "do": [["say", "early"], "stop", ["wait_for", str(scripted.folder / "go")], "no_stop"]},
        {"match": "late", "do": [["say", "late"], ["late_stop", 0.3]]},
    )  # fmt: skip
    opened = scripted.start()

    def idle() -> bool:
        return bool(scripted.state(opened.pid)["status"] == "idle")

    scripted.send(opened.pane, "none", "t-1")
    scripted.told_of("prompt", 1)
    retry_until(idle)
    assert scripted.hooked("Stop") == []
    scripted.send(opened.pane, "twice", "t-2")
    assert len(scripted.hooks_told("Stop", 2)) == 2
    retry_until(idle)
    scripted.send(opened.pane, "early", "t-3")
    assert len(scripted.hooks_told("Stop", 3)) == 3
    assert scripted.state(opened.pid)["status"] == "busy"
    (scripted.folder / "go").touch()
    retry_until(idle)
    scripted.send(opened.pane, "late", "t-4")
    late = scripted.hooks_told("Stop", 4)[-1]
    assert late["last_assistant_message"] == "late"
    assert late["prompt_id"] == scripted.told("prompt")[-1]["turn"]


def test_what_goes_on_beside_a_turn(scripted: Scripted) -> None:
    """Sub-agents, background work, nested sessions and failures run the hooks that Claude's do."""
    scripted.record()
    scripted.rules(
        {"match": "child", "do": [["child_start", "c1"], ["background", "make all"], ["nested", "inner"]]},
        {"match": "done", "do": [["child_stop", "c1"], "background_done"]},
        {"match": "fail", "do": [["fail", "API Error: 400"]]},
    )  # fmt: skip
    opened = scripted.start("--session-id", SESSION)

    scripted.send(opened.pane, "child", "t-1")
    nested, stop = scripted.hooks_told("Stop", 2)
    scripted.send(opened.pane, "done", "t-2")
    last = scripted.hooks_told("Stop", 3)[-1]
    scripted.send(opened.pane, "fail", "t-3")
    (failure,) = scripted.hooks_told("StopFailure")

    assert nested["session_id"] != SESSION
    assert stop["session_id"] == SESSION
    assert [task["type"] for task in stop["background_tasks"]] == ["subagent", "shell"]
    assert last["background_tasks"] == []
    assert [s["agent_id"] for s in scripted.hooked("SubagentStart", "SubagentStop")] == ["c1", "c1"]
    assert failure["last_assistant_message"] == "API Error: 400"
    thread = harnesses.get_harness("claude").read(scripted.thread(SESSION))
    assert "error" in [notice.kind for notice in thread.notices]


def test_the_context_and_its_compaction(scripted: Scripted) -> None:
    """The status line tells the use; an automatic compaction goes through, or is vetoed by a hook."""
    scripted.record()
    scripted.rules(
        {"match": "full", "do": [["context", 85], "compact", ["say", "after"]]},
        window=100_000,
    )
    opened = scripted.start("--session-id", SESSION)
    scripted.send(opened.pane, "full", "t-1")
    scripted.told_of("compacted")
    scripted.hooks_told("Stop")

    uses = [
        json.loads(line)["context_window"]["used_percentage"]
        for line in Path(f"{scripted.payloads}.status").read_text().splitlines()
    ]
    assert uses[:3] == [None, 85, 5]
    events = [p["hook_event_name"] for p in scripted.hooked()]
    assert events[2:6] == ["PreCompact", "SubagentStop", "SessionStart", "PostCompact"]
    thread = harnesses.get_harness("claude").read(scripted.thread(SESSION))
    assert any(entry.kind == "compaction" for entry in thread.entries)

    answer = scripted.folder / "PreCompact.answer"
    answer.write_text(json.dumps({"decision": "block", "reason": "a handoff comes first"}))
    scripted.send(opened.pane, "full", "t-2")
    assert scripted.told_of("vetoed")[0]["reason"] == "a handoff comes first"
    assert len(scripted.told("compacted")) == 1


def test_enter_that_is_not_noticed(scripted: Scripted) -> None:
    """A script lets Enter go unnoticed once: the text stands in the input, a second Enter submits it."""
    scripted.rules({"match": "late", "ignore_enter": 1, "do": []})
    opened = scripted.start()

    scripted.send(opened.pane, "late")

    scripted.told_of("enter_ignored")
    retry_until(lambda: "❯\u00a0late" in scripted.panes.capture_screen(opened.pane).text)
    assert scripted.told("submitted") == []
    scripted.panes.enter(opened.pane, "t-1+")
    assert texts(scripted.told_of("prompt")) == ["late"]


@pytest.mark.parametrize(("action", "status"), [(["crash", 7], 7), ("kill", 137)])
def test_a_crash(scripted: Scripted, action: object, status: int) -> None:
    """It ends at the point that the script names, and its pane stands with its last words."""
    path = scripted.cwd / "half.md"
    scripted.rules({"match": "die", "do": [["write", str(path), "half"], action, ["say", "never"]]})
    opened = scripted.start()

    scripted.send(opened.pane, "die")

    state = retry_until(
        lambda: (s := scripted.panes.read_status().panes[opened.pane]).dead and s, seconds=10
    )
    assert state
    assert state.status in (status, None)
    assert path.read_text() == "half"
    assert scripted.told("exit") == []
    assert "❯ die" in scripted.panes.read_last_lines(opened.pane, 30)


def test_what_a_script_can_say(scripted: Scripted) -> None:
    """A rule counts so often as it says; commands run, files are made, hooks are repeated, it ends."""
    scripted.record()
    scripted.rules(
        {"match": "^(?P<name>[a-z]+)$", "times": 1, "do": [["say", "{name} {prompt} {session} {other}"]]},
        {"match": "work", "do": [
            ["run", "printf made > out.txt; echo told"], ["touch", "{cwd}/seen"],
            ["hook", "Stop", {"session_id": "another", "last_assistant_message": "replayed"}],
        ]},
        {"match": "leave", "do": ["exit"]},
    )  # fmt: skip
    opened = scripted.start("--session-id", SESSION)

    for number, text in enumerate(("once", "twice", "work", "leave"), 1):
        scripted.send(opened.pane, text, f"t-{number}")
        scripted.told_of("prompt", number)
    scripted.told_of("exit")

    stops = [(s["session_id"], s["last_assistant_message"]) for s in scripted.hooked("Stop")]
    assert stops[0] == (SESSION, f"once once {SESSION} {{other}}")
    assert stops[1:3] == [(SESSION, "ok"), ("another", "replayed")]
    assert (scripted.cwd / "out.txt").read_text() == "made"
    assert (scripted.cwd / "seen").exists()
    assert [u["tool_response"]["stdout"] for u in scripted.hooked("PostToolUse")] == ["told\n"]
    assert scripted.told("exit")[0]["code"] == 0


def test_a_script_that_is_wrong(scripted: Scripted) -> None:
    """An action that does not exist ends the program, and is named in the log."""
    scripted.rules({"match": "x", "do": ["dance"]})
    opened = scripted.start()

    scripted.send(opened.pane, "x")

    assert "dance" in scripted.told_of("error")[0]["error"]
    retry_until(lambda: not runs(opened.pid))


def test_a_file_that_grows_after_the_turn(scripted: Scripted) -> None:
    """A file is appended to behind the end of the turn."""
    path = scripted.cwd / "handoffs" / "grows.md"
    scripted.record()
    scripted.rules({"match": "grow", "do": [["append", str(path), "line\n", 20, 0.02]]})
    opened = scripted.start()

    scripted.send(opened.pane, "grow")

    scripted.hooks_told("Stop")
    scripted.told_of("appended")
    assert path.read_text() == "line\n" * 20
