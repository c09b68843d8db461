"""tasuki's extension of pi and oh-my-pi, and its plugin of opencode, run by node against programs that are not there."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import npm_programs as programs
import pytest
from tree import PROGRAMS

from tasuki.harness import registry as harnesses
from tasuki.harness.integration import GONE, OwnFile

GOAL = "add the missing test for $& `id`"
BRIEF = "# Handoff Context\n\n## Next Goal (verbatim)\n" + GOAL
DRAFT = {"id": "ab12cd34" * 4, "brief": BRIEF, "warnings": ["Redacted: 1 token"]}
READY = {"id": "ef56ab78" * 4, "thread": "/new.jsonl", "text": GOAL}


def build_script(name: str, program: Path) -> str:
    """The extension or plugin that is installed."""
    integration = harnesses.get_integration(harnesses.get_harness(name))
    assert integration is not None
    files = (a for a in integration.list_additions((str(program),)) if isinstance(a, OwnFile))
    (script,) = (file.content for file in files if file.path.endswith((".ts", ".js")))
    return script


class Stage:
    """A tasuki that is told what to say, in a folder of an odd name, and what calls it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.program = folder / 'it\'s a "q" $HOME `id`' / "tasuki"
        self.program.parent.mkdir()
        self.thread = folder / "thread.jsonl"
        self.thread.write_text("{}\n")
        self.answers(handoff=json.dumps(DRAFT), start=json.dumps(READY))

    def answers(self, **said: str) -> None:
        """What each of its commands prints; a script where it begins with `!`."""
        for name, words in said.items():
            (self.folder / f"{name}.out").write_text(words)
            script = words[1:] if words.startswith("!") else f"cat '{self.folder}/{name}.out'"
            (self.folder / f"{name}.sh").write_text(script)
        self.program.write_text(
            f'#!/bin/sh\nprintf "%s\\n" "$@" >"{self.folder}/$1.called"\n'
            f'[ "$1" = start ] && [ "$6" != "--brief-file" ] || cat >"{self.folder}/$1.read"\n'
            f'. "{self.folder}/$1.sh"\n'
        )
        self.program.chmod(0o755)

    def called(self, command: str) -> list[str]:
        """The arguments of a command that was run."""
        path = self.folder / f"{command}.called"
        return path.read_text().splitlines() if path.exists() else []

    def read(self, command: str) -> str:
        """What a command read from standard input."""
        return (self.folder / f"{command}.read").read_text()

    def play(self, program: str, source: Path, **scene: Any) -> list[list[Any]]:
        """What was done to the program."""
        done = self.folder / "done.json"
        scene = {"cwd": str(self.folder), "done": str(done), "thread": str(self.thread), **scene}
        command = [str(programs.node()), str(PROGRAMS / f"{program}_session.mjs"), str(source)]
        reading, writing = os.pipe()
        os.set_blocking(writing, False)  # as a program may have set it
        with subprocess.Popen([*command, json.dumps(scene)], stdout=writing, stderr=subprocess.PIPE,
                              text=True) as ran:  # fmt: skip
            os.close(writing)
            with open(reading, encoding="utf-8") as printed:
                self.printed = printed.read()
            assert ran.stderr is not None
            errors = ran.stderr.read()
        assert ran.returncode == 0, errors
        found: list[list[Any]] = json.loads(done.read_text())
        return found

    def pi(self, harness: str = "pi", **scene: Any) -> list[list[Any]]:
        """Run the extension of pi once."""
        source = self.folder / "extension.ts"
        source.write_text(build_script(harness, self.program))
        return self.play("pi", source, **scene)

    def opencode(self, **scene: Any) -> list[list[Any]]:
        """Run the plugin of opencode once."""
        source = self.folder / "plugin" / "tasuki.mjs"
        source.parent.mkdir(exist_ok=True)
        source.write_text(build_script("opencode", self.program))
        return self.play("opencode", source, **scene)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """A tasuki that hands off."""
    if not shutil.which("npm", path=programs.ENV["PATH"]):
        pytest.skip("npm is not installed")
    return Stage(tmp_path)


def told(done: list[list[Any]]) -> str:
    """What the user was told, in the old session."""
    return "\n".join(step[2] for step in done if step[0] == "notify")


# -- pi ------------------------------------------------------------------------------------


def test_the_review_leads_to_the_successor(stage: Stage) -> None:
    """The goal gets there to the letter; nothing is told in the old session once it was left."""
    done = stage.pi(goal=GOAL)

    assert stage.read("handoff") == GOAL
    assert stage.called("handoff")[1:] == [
        "--from", str(stage.thread), "--to", "pi", "--goal-file", "-", "--json",
    ]  # fmt: skip
    assert stage.called("start")[1:] == ["ab12cd34", "--to", "pi", "--prepare"]
    assert done == [
        ["status", "Analyzing conversation..."],
        ["status", ""],
        ["notify", "warning", "Redacted: 1 token"],
        ["editor", "Handoff ab12cd34: look it over. Nothing is sent yet.", BRIEF],
        ["switch", "/new.jsonl"],
        ["fresh input", GOAL],
        ["fresh notify", "info", "New session started with handoff context"],
    ]


def test_in_oh_my_pi_the_input_of_the_same_screen_is_filled(stage: Stage) -> None:
    """It knows no screen of the new session."""
    done = stage.pi("omp", goal=GOAL, switch="old")

    assert done[-2] == ["input", GOAL]
    assert stage.called("start")[1:4] == ["ab12cd34", "--to", "omp"]


def test_an_edited_brief_is_taken_over_first(stage: Stage) -> None:
    """What was edited goes through standard input; what tasuki has to say of it is told."""
    stage.answers(start=f"!echo 'tasuki: since the draft: a.py' >&2; echo '{json.dumps(READY)}'")
    done = stage.pi(goal=GOAL, edited=BRIEF + " and more\n\ttoo")

    assert stage.called("start")[5:] == ["--brief-file", "-"]
    assert stage.read("start") == BRIEF + " and more\n\ttoo"
    assert ["fresh notify", "warning", "since the draft: a.py"] in done


@pytest.mark.parametrize("edited", [None, "", " \n\t"])
def test_a_review_that_is_left_starts_nothing(stage: Stage, edited: str | None) -> None:
    """Escape, or a brief of which nothing was left."""
    done = stage.pi(goal=GOAL, edited=edited)

    assert "The draft is kept: tasuki start ab12cd34" in told(done)
    assert stage.called("start") == []


@pytest.mark.parametrize(("code", "kind"), [(1, "error"), (2, "error"), (3, "warning")])
def test_what_tasuki_refuses_is_told_and_the_goal_stands_in_the_input_again(
    stage: Stage, code: int, kind: str
) -> None:
    """Its own words, without its name; where it had none, its status."""
    stage.answers(handoff=f"!echo 'tasuki: Be specific.' >&2; exit {code}")
    done = stage.pi(goal=GOAL)
    assert done[2:] == [["notify", kind, "Be specific."], ["input", f"/handoff {GOAL}"]]

    stage.answers(handoff=f"!exit {code}")
    done = stage.pi(goal=GOAL, input="typed meanwhile")
    assert told(done) == f"tasuki ended with status {code}. In a terminal: tasuki doctor"
    assert done[-1][0] == "notify", "what was typed meanwhile was overwritten"


@pytest.mark.parametrize(
    "garbage", ["", "{", "null", "[]", "7", '{"id": 3, "brief": "x"}', "\x00\x1b[2J"]
)
@pytest.mark.parametrize("command", ["handoff", "start"])
def test_an_answer_that_is_none_is_told(stage: Stage, command: str, garbage: str) -> None:
    """Nothing is opened, nothing thrown into the program."""
    stage.answers(**{command: garbage})
    done = stage.pi(goal=GOAL)

    assert "Handoff failed: " in told(done)
    assert "In a terminal: tasuki doctor" in told(done)
    assert "switch" not in [step[0] for step in done]


def test_a_start_that_fails_says_where_the_draft_is(stage: Stage) -> None:
    """As with a disk that is full."""
    stage.answers(start="!echo 'tasuki: x.jsonl cannot be written: No space left.' >&2; exit 1")
    done = stage.pi(goal=GOAL)

    assert "Handoff failed: x.jsonl cannot be written: No space left." in told(done)
    assert "The draft is kept: tasuki start ab12cd34" in told(done)


@pytest.mark.parametrize("how", ["cancelled", "throws"])
def test_a_session_that_is_not_switched_to_can_be_reached_later(stage: Stage, how: str) -> None:
    """By the id of what was reviewed, not of the first draft."""
    done = stage.pi(goal=GOAL, edited=BRIEF + "!", switch=how)

    assert told(done).endswith("Go there later: /resume, or tasuki start ef56ab78")
    assert done[-1][0] == "notify"


def test_a_tasuki_that_is_gone_is_told(stage: Stage) -> None:
    """In one sentence, and the goal stays; not where the folder of the session alone is gone."""
    done = stage.pi(goal=GOAL, cwd="/gone/folder")
    assert ["fresh input", GOAL] in done

    stage.program.unlink()
    done = stage.pi(goal=GOAL)
    assert told(done) == GONE.replace("HARNESS", "pi")
    assert done[-1] == ["input", f"/handoff {GOAL}"]
    stage.program.mkdir()
    assert "tasuki cannot be run: spawn" in told(stage.pi(goal=GOAL))


@pytest.mark.parametrize("thread", [None, "", "/none.jsonl"])
def test_without_a_session_file_there_is_nothing_to_hand_off(
    stage: Stage, thread: str | None
) -> None:
    """pi makes it with the first answer; sessions that are not kept have none."""
    assert stage.pi(goal=GOAL, thread=thread) == [
        ["notify", "warning", "Nothing to hand off (no messages yet)"]
    ]
    assert stage.called("handoff") == []


def test_a_large_answer_comes_whole(stage: Stage) -> None:
    """More than a pipe holds, both ways; and to standard output, where there is no screen."""
    large = {**DRAFT, "brief": "ü" * 400_000}
    stage.answers(handoff=json.dumps(large, ensure_ascii=False))
    assert stage.pi(goal="x" * 100_000)[3][2] == large["brief"]
    assert len(stage.read("handoff")) == 100_000

    stage.pi(goal=GOAL, screen=False)
    assert stage.printed == f"{large['brief']}\n"


def test_output_without_end_is_cut_off(stage: Stage) -> None:
    """It is no answer, and does not fill the memory."""
    stage.answers(handoff=json.dumps({**DRAFT, "brief": "x" * (20 << 20)}))
    assert "Handoff failed: " in told(stage.pi(goal=GOAL))


def test_the_end_of_a_turn_is_asked_about_where_it_is_worth_it(stage: Stage) -> None:
    """What tasuki says is shown; nothing where it fails, is gone, or the context is nearly empty."""
    ended: dict[str, Any] = {"events": [["agent_settled", {}]]}
    stage.answers(hook="The context is 80 % full.")
    assert stage.pi(used=80, **ended) == [["notify", "info", "The context is 80 % full."]]
    assert json.loads(stage.read("hook"))["used"] == 80
    for scene in (
        {"used": 3},
        {"used": None},
        {"used": 80, "screen": False},
        {"used": 80, "thread": ""},
    ):
        assert stage.pi(**ended, **scene) == []
    assert stage.pi(used=80, events=[["agent_end", {"aborted": True}]]) == []
    stage.answers(hook="!echo no; exit 1")
    assert stage.pi(used=80, **ended) == []
    stage.program.unlink()
    assert stage.pi(used=80, **ended) == []


def test_a_skill_that_is_typed_is_noted(stage: Stage) -> None:
    """Its name alone; other prompts are not looked at."""
    texts = ["/skill:tidy-up the parser", "see /skill:x", "/skill:", "", None]
    done = stage.pi(events=[["input", {"text": text}] for text in texts])

    assert done == [["entry", "handoff:last-skill", {"skill": "tidy-up"}]]


# -- opencode --------------------------------------------------------------------------------


def test_the_command_is_taken_out_and_what_tasuki_says_is_shown(stage: Stage) -> None:
    """The goal gets there to the letter; another command passes."""
    stage.answers(hook="Handoff ab12cd34 is drafted.")
    goal = f'{GOAL}\n\t- "quotes" and \\n'
    assert stage.opencode(command="handoff", goal=goal) == [
        ["toast", "Handoff ab12cd34 is drafted."],
        ["stopped", "Handoff ab12cd34 is drafted."],
    ]
    payload = json.loads(stage.read("hook"))
    assert (payload["event"], payload["session"], payload["goal"]) == ("handoff", "ses_1", goal)
    assert stage.opencode(command="other", goal=goal) == [["passed"]]
    assert stage.opencode(command="handoff", screen=False)[-1][0] == "stopped"


def test_a_command_of_the_users_own_is_left_alone(stage: Stage) -> None:
    """The plugin takes `/handoff` where the file of that name is tasuki's, or there is none."""
    stage.answers(hook="Drafted.")
    file = stage.folder / "command" / "handoff.md"
    file.parent.mkdir()
    file.write_text("Written by `tasuki install`")
    assert stage.opencode(command="handoff", goal=GOAL)[-1][0] == "stopped"
    file.write_text("Write a note for the next session.")
    assert stage.opencode(command="handoff", goal=GOAL) == [["passed"]]


@pytest.mark.parametrize(("script", "what"), [
    ("exit 0", "tasuki said nothing."), ("echo Traceback; exit 1", "tasuki ended with status 1."),
    ("exit 2", "tasuki ended with status 2."), ("kill -9 $$", "tasuki was ended by SIGKILL."),
])  # fmt: skip
def test_a_tasuki_that_fails_stops_the_command_and_is_silent_at_the_end_of_a_turn(
    stage: Stage, script: str, what: str
) -> None:
    """The model never gets the command because something is broken."""
    stage.answers(hook=f"!{script}")
    (toast, stopped) = stage.opencode(command="handoff", goal=GOAL)
    assert toast[1] == stopped[1]
    assert toast[1].startswith(what)
    assert toast[1].endswith("In a terminal: tasuki doctor opencode")

    idle = {"type": "session.idle", "properties": {"sessionID": "ses_1"}}
    assert stage.opencode(events=[idle]) == []


def test_the_end_of_a_turn_is_told_in_the_corner(stage: Stage) -> None:
    """Other events are not looked at, odd ones do no harm; a tasuki that is gone is not missed."""
    stage.answers(hook="The context is 80 % full.")
    idle: dict[str, Any] = {"type": "session.idle", "properties": {"sessionID": "ses_1"}}
    odd: list[object] = [{"type": "session.updated"}, {}, None]
    assert stage.opencode(events=[idle, *odd]) == [["toast", "The context is 80 % full."]]
    stage.program.unlink()
    assert stage.opencode(events=[idle, {"type": "session.idle"}]) == []
    toast = ["toast", GONE.replace("HARNESS", "opencode")]
    assert stage.opencode(command="handoff", goal=GOAL) == [toast, ["passed"]]
    assert stage.opencode(command="handoff", goal=GOAL, screen=False) == [["passed"]]
    stage.program.mkdir()
    assert "tasuki cannot be run" in stage.opencode(command="handoff", goal=GOAL)[0][1]


# -- time ------------------------------------------------------------------------------------


def test_a_tasuki_that_does_not_end_is_ended(stage: Stage) -> None:
    """The user is told, and the goal stands in the input again."""
    source = stage.folder / "slow.mjs"
    stage.answers(handoff="!exec sleep 30", hook="!exec sleep 30")
    text = build_script("pi", stage.program)
    ts = source.with_suffix(".ts")
    ts.write_text(text.replace("HANDOFF_SECONDS = 600", "HANDOFF_SECONDS = 0.3"))
    done = stage.play("pi", ts, goal=GOAL)
    assert "tasuki did not end within 0.3 seconds" in told(done)
    assert done[-1] == ["input", f"/handoff {GOAL}"]

    text = build_script("opencode", stage.program)
    source.write_text(text.replace("HANDOFF_SECONDS = 300", "HANDOFF_SECONDS = 0.3"))
    (toast, _) = stage.play("opencode", source, command="handoff", goal=GOAL)
    assert "tasuki did not end within 0.3 seconds" in toast[1]
