"""The status line and the end of a turn in real shells: what they answer without starting tasuki."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hooks import SAID, SHELLS, Session, program
from waiting import retry_until

from tasuki.harness import registry as harnesses
from tasuki.harness.integration import JsonEntry, OwnFile, build_turn_call
from tasuki.install.hook_script import write_hook_script
from tasuki.threads.kept.copies import SUFFIX

ADVICE = "Hand off while the agent still has all of it: /handoff GOAL"


class Front:
    """The commands that `tasuki install` writes, in front of a tasuki that counts its starts."""

    def __init__(self, session: Session, shell: str = "sh") -> None:
        self.session = session
        self.shell = [shell, "sh"] if shell == "busybox" else [shell]
        self.log = session.root / "bin" / "starts"
        run = 'echo "$*" >>"${0%/*}/starts"; exec '
        self.program = program(session, "tasuki", f'{run} "{sys.executable}" -m tasuki "$@"')
        session.env["PYTHONPATH"] = os.environ.get("PYTHONPATH", "")

    @property
    def starts(self) -> int:
        """How often tasuki was started since this was asked last."""
        count = len(self.log.read_text().splitlines()) if self.log.exists() else 0
        self.log.unlink(missing_ok=True)
        return count

    def run(self, command: str, payload: dict[str, Any] | str, **env: str) -> str:
        """What a harness reads of `hook` or `status`: it never fails, nor complains."""
        line = build_turn_call((str(self.program),), command, self.session.harness)
        text = payload if isinstance(payload, str) else _format(payload)
        done = subprocess.run(
            [*self.shell, "-c", line], input=text.encode(), env={**self.session.env, **env},
            cwd=self.session.project, capture_output=True, timeout=60, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, b"")
        return done.stdout.decode()

    def status(self, used: float | None, window: int = 200_000, **env: str) -> str:
        """The status line of a session that uses so much of its context."""
        return self.run("status", status(self.session, used, window), **env)

    def settled(self) -> "Front":
        """The settings of this session are noted, and were not changed shortly before."""
        self.session.data.mkdir(exist_ok=True)
        for path in (self.session.config.parent, self.session.config):
            os.utime(path, (1_700_000_000, 1_700_000_000))
        if self.session.harness == "claude":
            self.status(None)
            self.status(None)
            assert self.starts <= 1
        return self

    def turn(self, said: str = SAID, **env: str) -> str:
        """What the user is told at the end of a turn."""
        more = {"stop_hook_active": False, "last_assistant_message": said}
        told = self.run("hook", self.session.payload("Stop", **more), **env)
        return str(json.loads(told)["systemMessage"]) if told else ""

    def grow(self, count: int) -> None:
        """Let the thread hold more, without a figure."""
        with self.session.thread.open("a") as file:
            file.write(json.dumps({"type": "system", "content": "x" * count}) + "\n")


def _format(payload: dict[str, Any]) -> str:
    """Format as harnesses do: compact."""
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":"))


def status(session: Session, used: object, window: int = 200_000) -> dict[str, Any]:
    """What Claude Code 2.1.330 gives a status line."""
    usage = {"input_tokens": 3, "cache_creation_input_tokens": 0}
    context = {"total_input_tokens": 3, "context_window_size": window, "current_usage": usage}
    about: dict[str, Any] = session.payload("", model={"id": "m"}, context_window={**context, "used_percentage": used},
                            rate_limits={"five_hour": {"used_percentage": 77}})  # fmt: skip
    del about["hook_event_name"]
    return about


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """A session of Claude Code with one turn."""
    return Session(tmp_path).talk()


@pytest.fixture(params=SHELLS)
def front(request: pytest.FixtureRequest, session: Session) -> Front:
    """The commands in each of the shells that may run them."""
    return Front(session, request.param).settled()


@pytest.fixture
def front_sh(session: Session) -> Front:
    """The commands in `sh`."""
    return Front(session).settled()


# -- the status line -------------------------------------------------------------------


def test_the_shell_shows_what_tasuki_shows(front: Front) -> None:
    """From the figures alone, advice from the threshold on; tasuki is not started."""
    shown = [front.status(used) for used in (0, 3, 79, 80, 100, None)]
    assert front.starts == 0

    text = [_format(status(front.session, used)) for used in (0, 3, 79, 80, 100, None)]
    assert shown == [front.session.raw("status", line).stdout for line in text]
    assert shown[3] == "context 80 % · /handoff GOAL\n"


@pytest.mark.parametrize("used", [83.4, -1, 1001, "7", True, 1e2, [3], {"used_percentage": 5}])
def test_a_figure_that_the_shell_does_not_know_is_left_to_tasuki(
    front_sh: Front, used: object
) -> None:
    """A fraction is rounded, and what is no percentage is not shown."""
    about = status(front_sh.session, used)

    assert front_sh.run("status", about) == front_sh.session.raw("status", _format(about)).stdout
    assert front_sh.starts == 1


@pytest.mark.parametrize(
    "odd", ["spaced", "indented", "without", "sub-agent", "{}", "", "[", "{}\n{}"]
)
def test_a_payload_of_another_shape_is_left_to_tasuki(front_sh: Front, odd: str) -> None:
    """A percentage of something else is not taken for that of the context."""
    about = status(front_sh.session, 41)
    text = {"spaced": json.dumps(about), "indented": json.dumps(about, indent=1)}.get(odd, odd)
    if odd == "without":
        del about["context_window"]["used_percentage"]
        text = _format(about)
    if odd == "sub-agent":
        text = _format({**about, "agent_id": "a"})

    assert front_sh.run("status", text) == front_sh.session.raw("status", text).stdout
    assert front_sh.starts == 1


def test_words_of_the_payload_are_no_figures(front_sh: Front) -> None:
    """A text that looks like a figure is quoted in the payload."""
    about = status(front_sh.session, 12)
    about["model"] = {"name": '"context_window":{"used_percentage":99,"cwd":"/"'}

    assert front_sh.run("status", about) == "context 12 %\n"
    assert front_sh.starts == 0


def test_a_change_of_the_settings_counts_at_once(front: Front) -> None:
    """Of the user's file, of a project's, of a variable; made, edited and removed."""
    session, own = front.session, front.session.project / ".tasuki.toml"
    plain, advised = "context 41 %\n", "context 41 % · /handoff GOAL\n"
    assert front.status(41) == plain
    session.config.write_text("suggest_at = 40\n")
    assert front.status(41) == advised
    own.write_text("suggest_at = 50\n")
    assert front.status(41) == plain
    own.unlink()
    assert front.status(41) == advised
    assert front.status(41, TASUKI_SUGGEST_AT="60") == plain
    assert front.status(41) == advised
    other = session.root / "older.toml"
    other.write_text("suggest_at = 70\n")
    os.utime(other, (1_600_000_000, 1_600_000_000))
    other.replace(session.config)
    assert front.status(41) == plain


def test_another_folder_has_its_own_settings(front_sh: Front) -> None:
    """A session that goes elsewhere is advised as it is there."""
    folder = front_sh.session.project / "sub"
    folder.mkdir()
    (folder / ".tasuki.toml").write_text("suggest_at = 40\n")
    os.utime(folder / ".tasuki.toml", (1_700_000_000, 1_700_000_000))
    for _ in range(2):
        assert front_sh.status(41) == "context 41 %\n"
        about = {**status(front_sh.session, 41), "cwd": str(folder)}
        assert front_sh.run("status", about) == "context 41 % · /handoff GOAL\n"


def test_the_users_own_command_is_found(front_sh: Front) -> None:
    """Once there is another `/handoff`, the advice names tasuki's."""
    assert front_sh.status(90).endswith("· /handoff GOAL\n")
    own = front_sh.session.home / ".claude" / "commands" / "handoff.md"
    own.parent.mkdir(parents=True)
    own.write_text("Mine.")

    assert front_sh.status(90).endswith("· /tasuki:handoff GOAL\n")


@pytest.mark.parametrize(
    "name", ['it\'s $HOME `id` "x"', "ü 字 🙂", "a\\b", "a\nb", "-n", "*", "+ end"]
)
def test_folders_of_any_name(tmp_path: Path, name: str) -> None:
    """The line and the message are right, and nothing is expanded."""
    root = tmp_path / name
    root.mkdir()
    front = Front(Session(root).talk().uses(170_000))
    for _ in range(2):
        assert front.status(85) == "context 85 % · /handoff GOAL\n"
    assert front.turn() == f"The context is 85 % full. {ADVICE}"
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    "text", ["", "x", "\n\n80 0 0 c\nend\n", "0" * 5000, "\x00\xff", "1 08 09 1", "half"]
)
@pytest.mark.parametrize("name", ["settings", "most"])
def test_a_damaged_note_is_as_none(front_sh: Front, name: str, text: str) -> None:
    """tasuki is asked then, and notes it anew."""
    front_sh.session.uses(170_000)
    (note,) = front_sh.session.data.glob(f"suggested/claude-*/{name}")
    before = note.read_text()
    note.write_text(before[: len(before) // 2] if text == "half" else text)

    assert front_sh.turn() == f"The context is 85 % full. {ADVICE}"
    assert front_sh.status(85) == "context 85 % · /handoff GOAL\n"


def test_a_data_folder_that_cannot_be_written_changes_nothing(session: Session) -> None:
    """Each line starts tasuki then, as nothing can be noted."""
    if os.geteuid() == 0:
        session.data.write_text("")  # root may write to any folder
    else:
        session.data.mkdir(mode=0o500)
    front = Front(session)

    assert [front.status(85) for _ in range(2)] == ["context 85 % · /handoff GOAL\n"] * 2
    assert front.turn() == ""
    assert front.starts == 3


def test_many_at_once(front_sh: Front) -> None:
    """Each shows its own figure, and the notes are whole."""
    with ThreadPoolExecutor(8) as pool:
        shown = list(pool.map(front_sh.status, range(60)))

    assert shown == [f"context {used} %\n" for used in range(60)]
    (note,) = front_sh.session.data.glob("suggested/*/most")
    assert len(note.read_text().splitlines()[0].split()) == 4
    assert front_sh.starts == 0


def test_the_fleets_server_is_told(front: Front) -> None:
    """The payload goes to its script, to the letter, as tasuki itself does it."""
    write_hook_script(front.session.data / "fleet")
    spool = front.session.data / "fleet" / "spool"
    front.status(41)
    (kept,) = retry_until(lambda: list(spool.glob("status-*.json")))

    assert kept.read_text().endswith("\n\n" + _format(status(front.session, 41)))
    assert front.starts == 0


# -- the end of a turn -----------------------------------------------------------------


def test_a_turn_far_from_the_threshold_starts_nothing(front: Front) -> None:
    """Neither that of a fresh session nor a later one, as long as the thread grew little."""
    assert front.turn() == ""
    front.status(20)
    front.grow(5_000)
    front.status(25)
    front.grow(5_000)

    assert front.turn() == ""
    assert front.starts == 0


def test_the_first_turn_of_a_session_starts_nothing(session: Session) -> None:
    """Its status line was drawn before, by tasuki: with what a session begins with there is room."""
    front = Front(session)
    session.data.mkdir()
    for path in (session.config.parent, session.config):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    front.status(None)
    assert front.starts == 1

    assert (front.turn(), front.starts) == ("", 0)
    front.grow(400_000)
    assert (front.turn(), front.starts) == ("", 1)


def test_a_thread_that_grew_much_is_measured(front: Front) -> None:
    """The figure of an earlier turn does not count: what came since may fill the context."""
    front.status(20)
    front.status(21)
    front.session.uses(170_000)
    front.grow(400_000)

    assert front.turn() == f"The context is 85 % full. {ADVICE}"
    assert front.starts == 1


def test_what_a_figure_may_not_count_yet_is_counted(front_sh: Front) -> None:
    """A result that was written before its status line is part of no figure so far."""
    front_sh.status(20)
    front_sh.grow(400_000)
    front_sh.status(21)
    front_sh.session.uses(166_000)

    assert "83 %" in front_sh.turn()


def test_another_window_is_another_context(front_sh: Front) -> None:
    """A switch to a model with less room is noticed by the next turn's end, at the same percentage too."""
    front_sh.status(20, 1_000_000)
    front_sh.grow(400_000)
    assert front_sh.turn() == ""
    front_sh.session.uses(170_000)
    front_sh.status(20, 200_000)

    assert "85 %" in front_sh.turn()


def test_the_notes_of_another_session_are_not_used(front_sh: Front) -> None:
    """Nor those of a file that became shorter."""
    front_sh.status(20)
    front_sh.session.uses(170_000)
    other = Front(Session(front_sh.session.root))
    other.session.builder = type(other.session.builder)(
        "claude", cwd=str(other.session.project), seed=3
    )
    other.session.talk().uses(170_000)
    assert "85 %" in other.turn()

    (note,) = front_sh.session.data.glob(f"suggested/claude-{front_sh.session.builder.id}/most")
    note.write_text("20 200000 99999999 99999999\n")
    assert "85 %" in front_sh.settled().turn()


def test_once_it_was_suggested_nothing_more_is_started(front: Front) -> None:
    """Until the next threshold, that of a draft."""
    front.session.uses(170_000)
    front.status(84)
    front.status(85)
    assert "85 %" in front.turn()
    assert front.starts == 1

    front.session.uses(190_000)
    assert (front.turn(), front.starts) == ("", 0)
    front.session.config.write_text("auto_handoff_at = 90\n")
    assert "was drafted" in front.turn()
    front.settled()
    assert (front.turn(), front.starts) == ("", 0)


def test_with_suggestions_off_no_turn_starts_tasuki(front_sh: Front) -> None:
    """The first notes that there is nothing to say."""
    front_sh.session.uses(190_000)
    for count in (1, 0):
        assert front_sh.turn(TASUKI_SUGGEST_AT="0") == ""
        assert front_sh.starts == count


def test_a_session_without_a_screen_starts_nothing(front: Front) -> None:
    """`claude -p` has no status line, and is told nothing."""
    front.session.uses(190_000)
    front.status(95)

    assert front.turn(CLAUDE_CODE_ENTRYPOINT="sdk-cli") == ""
    assert front.starts == 0
    assert "95 %" in front.turn(CLAUDE_CODE_ENTRYPOINT="cli")


@pytest.mark.parametrize("harness", ["codex"])
def test_a_program_without_a_status_line_is_measured_when_it_grew(
    tmp_path: Path, harness: str
) -> None:
    """What one turn's end measured answers the next ones."""
    front = Front(Session(tmp_path, harness).talk().uses(30_000)).settled()
    for count in (1, 0):
        assert front.turn() == ""
        assert front.starts == count
    front.session.uses(240_000)
    front.grow(400_000)
    os.utime(front.session.thread, (1_700_000_000, 1_700_000_000))

    assert "93 %" in front.turn()


@pytest.mark.parametrize("is_far", [True, False])
def test_a_copy_is_made_behind_the_turn(session: Session, is_far: bool) -> None:
    """In a process of its own, whether the shell answers or tasuki; nobody waits for it, nor for the cache."""
    session.config.write_text('keep_threads = "all"\n')
    front = Front(session.uses(170_000)).settled()
    front.status(20 if is_far else 85)
    assert bool(front.turn()) is not is_far

    assert retry_until(lambda: list(session.data.glob(f"threads/*{SUFFIX}")), 20)
    assert retry_until(lambda: list(session.data.glob("cache/*.thread")), 20)


# -- the installation ------------------------------------------------------------------


def test_what_is_installed_is_this(session: Session) -> None:
    """The status line and the hook of a turn's end, in each program whose hooks are shell commands."""
    for name, count in (("claude", 2), ("codex", 1), ("gemini", 1), ("copilot", 1)):
        made = harnesses.get_integration(harnesses.get_harness(name))
        assert made is not None
        texts = [json.dumps(a.value) if isinstance(a, JsonEntry) else a.content
                 for a in made.list_additions(("/x/tasuki",)) if isinstance(a, JsonEntry | OwnFile)]  # fmt: skip
        assert sum("turn.sh" in text for text in texts) == count


def test_an_older_installation_works_on_until_it_is_renewed(session: Session) -> None:
    """Its lines start tasuki each time; `tasuki install` replaces them."""
    session.run("install", "claude", "--yes")
    path = session.home / ".claude" / "settings.json"
    settings = json.loads(path.read_text())
    new = settings["statusLine"]["command"]
    own = new.rpartition("; else ")[2].removesuffix("; fi")
    settings["statusLine"]["command"] = f": tasuki hook; {own}"
    path.write_text(json.dumps(settings))
    done = subprocess.run(
        ["sh", "-c", settings["statusLine"]["command"]], input=_format(status(session, 41)),
        env={**session.env, "PYTHONPATH": os.environ.get("PYTHONPATH", "")}, capture_output=True,
        text=True, check=True, cwd=session.project,
    )  # fmt: skip
    assert done.stdout == "context 41 %\n"

    assert (
        "a status line with context use (an older one is replaced)"
        in session.run("install", "claude", "--yes").stdout
    )
    assert json.loads(path.read_text())["statusLine"]["command"] == new


def test_without_the_script_tasuki_answers(session: Session) -> None:
    """A package that moved, as with another Python, leaves the longer way."""
    front = Front(session).settled()
    line = build_turn_call((str(front.program),), "status", "claude").replace("turn.sh", "gone.sh")
    done = subprocess.run(["sh", "-c", line], input=_format(status(session, 41)).encode(),
                          env=session.env, capture_output=True, check=True)  # fmt: skip

    assert (done.stdout, done.stderr, front.starts) == (b"context 41 %\n", b"", 1)


def test_a_hook_does_not_load_the_fleets_client(session: Session) -> None:
    """It is needed only where a handoff was typed."""
    text = json.dumps(session.payload("Stop"))
    code = ("import sys, tasuki.cli.main as m\nsys.argv = ['tasuki', 'hook', 'claude']\n"
            "try: m.main()\nfinally: print('tasuki.cli.fleet.client' in sys.modules)")  # fmt: skip
    done = subprocess.run([sys.executable, "-c", code], input=text, env={**session.env, "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
                          capture_output=True, text=True, check=True, cwd=session.project)  # fmt: skip

    assert done.stdout == "False\n"
