"""A handoff is suggested when the context fills up: once, in every place, and not at all when off."""

import json
import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from hooks import ASKED, SAID, Session, inside, program, window
from terminals import Terminal

from tasuki.vault import Vault

ADVICE = "Hand off while the agent still has all of it: /handoff GOAL"


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """A session of Claude Code with one turn."""
    return Session(tmp_path).talk()


def status(session: Session, used: float | None, window: int = 200_000) -> str:
    """The part of the status line."""
    about = session.payload(
        "", context_window={"used_percentage": used, "context_window_size": window}
    )
    del about["hook_event_name"]
    done = session.raw("status", json.dumps(about))
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


# -- the end of a turn -------------------------------------------------------------------


def test_it_is_suggested_once_from_the_threshold_on(session: Session) -> None:
    """Below it nothing is said; above it once for a thread, and again for another one."""
    assert session.uses(150_000).turn() == ""
    assert session.uses(166_000).turn() == f"The context is 83 % full. {ADVICE}"
    assert session.uses(180_000).turn() == ""
    other = Session(session.root)
    other.builder = type(other.builder)("claude", cwd=str(other.project), seed=3)
    assert other.talk().uses(166_000).turn() != ""


@pytest.mark.parametrize("harness", ["claude", "codex"])
def test_an_answer_that_is_written_late_is_waited_for(tmp_path: Path, harness: str) -> None:
    """The figures of the turn before do not count, though the same words ended that one."""
    session = Session(tmp_path, harness).talk("And the printer?")
    whole = session.uses(240_000 if harness == "codex" else 166_000).thread.read_bytes()
    asked = whole.index(b"\n", whole.rindex(b"And the printer?")) + 1
    session.thread.write_bytes(whole[:asked])
    os.utime(session.thread, (1_700_000_000, 1_700_000_000))
    late = threading.Timer(1.2, session.thread.write_bytes, (whole,))
    late.start()
    said = session.hook("Stop", last_assistant_message=SAID)
    late.join()

    assert ADVICE.split(":")[0] in said.get("systemMessage", "")


def test_codex_says_how_large_its_window_is(tmp_path: Path) -> None:
    """Of 258,400 tokens four fifths are 206,720."""
    session = Session(tmp_path, "codex").talk()

    assert session.uses(206_000).turn() == ""
    assert "The context is 80 % full." in session.uses(206_800).turn()


def test_the_window_that_the_status_line_told_counts(session: Session) -> None:
    """The thread of Claude Code does not say it; 166,000 of a million is not much."""
    assert status(session, 16.6, 1_000_000) == "context 17 %\n"
    assert session.uses(166_000).turn() == ""
    assert "The context is 85 % full." in session.uses(850_000).turn()


def test_more_than_the_usual_window_means_a_large_one(session: Session) -> None:
    """A thread that holds 300,000 tokens is not 150 % full."""
    assert session.uses(300_000).turn() == ""
    assert "85 %" in session.uses(850_000).turn()


@pytest.mark.parametrize("at", ["0", "95"])
def test_off_means_off(session: Session, at: str) -> None:
    """With 0, or a threshold that is not reached, nothing is printed, and nothing counts as told."""
    assert session.uses(180_000).turn(TASUKI_SUGGEST_AT=at) == ""
    assert not list(session.data.glob("suggested/*/suggested-*"))
    assert session.turn() != ""


def test_two_at_once_say_it_once(session: Session) -> None:
    """Two hooks of one thread do not both suggest it."""
    session.uses(180_000)
    with ThreadPoolExecutor(4) as pool:
        said = list(pool.map(lambda _: session.turn(), range(4)))

    assert sorted(map(bool, said)) == [False, False, False, True]


def test_a_thread_that_says_nothing_of_its_size_is_left_alone(session: Session) -> None:
    """No figures, no thread: no word, and no error."""
    session.thread.write_text(session.thread.read_text().replace('"usage"', '"used"'))
    assert session.turn() == ""
    session.thread.unlink()
    assert session.turn() == ""


def test_a_session_without_a_screen_is_left_alone(session: Session) -> None:
    """`claude -p` in somebody's script is told nothing, and makes no drafts."""
    session.config.write_text("auto_handoff_at = 50\n")

    assert session.uses(190_000).turn(CLAUDE_CODE_ENTRYPOINT="sdk-cli") == ""
    assert Vault(session.data / "handoffs").list_handoffs() == []
    assert session.turn(CLAUDE_CODE_ENTRYPOINT="cli") != ""


def test_a_problem_is_told_once(session: Session) -> None:
    """A setting that is wrong is not repeated at every turn."""
    session.config.write_text("suggest_att = 3\n")

    assert "Did you mean suggest_at?" in session.turn()
    assert session.turn() == ""


# -- the status line -----------------------------------------------------------------------


def test_the_status_line_tells_the_use_and_from_the_threshold_on_the_command(
    session: Session,
) -> None:
    """Every time, unlike the message."""
    for _ in range(2):
        assert status(session, 41) == "context 41 %\n"
        assert status(session, 83.4) == "context 83 % · /handoff GOAL\n"
    assert status(session, None) == ""
    session.config.write_text("suggest_at = 0\n")
    assert status(session, 99) == "context 99 %\n"


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", "{}", '{"context_window": 3}', '{"context_window": {"used_percentage": "x"}}'],
)
def test_any_status_is_taken(session: Session, text: str) -> None:
    """What is not understood prints nothing."""
    done = session.raw("status", text)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# -- notifications -------------------------------------------------------------------------


def desktop(session: Session) -> Path:
    """A `notify-send` that writes down its arguments, and nothing else on the PATH but the system."""
    seen = session.root / "notified"
    notify = program(session, "notify-send", f'printf "%s\\n" "$@" >>"{seen}"')
    session.env["PATH"] = f"{notify.parent}:{session.env['PATH']}"
    return seen


def test_a_notification_on_the_desktop_is_off_unless_it_is_wanted(session: Session) -> None:
    """Nothing is sent by default; with `notify = "desktop"` it says what, and where."""
    seen = desktop(session)
    session.uses(180_000).turn(TASUKI_SUGGEST_AT="70")
    assert not seen.exists()

    session.config.write_text('notify = "desktop"\n')
    session.turn()
    assert seen.read_text().splitlines() == [
        "--app-name=tasuki", "--", "Claude Code: the context is 90 % full",
        f"The context is 90 % full. {ADVICE} ({session.project})",
    ]  # fmt: skip


def test_a_repository_cannot_have_notifications_sent_or_drafts_made(session: Session) -> None:
    """An address in a project's file is a stranger's."""
    seen = desktop(session)
    (session.project / ".tasuki.toml").write_text('notify = "desktop"\nauto_handoff_at = 1\n')

    assert "90 % full" in session.uses(180_000).turn()
    assert not seen.exists()
    assert Vault(session.data / "handoffs").list_handoffs() == []


class Receiver:
    """A server on this machine that keeps what it is sent."""

    def __init__(self) -> None:
        self.got: list[Any] = []
        got = self.got

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *words: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def end(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def test_apprise_carries_it_redacted(tmp_path: Path) -> None:
    """An address of apprise gets title and body; a secret in the folder's name does not go there."""
    pytest.importorskip("apprise")
    session = Session(tmp_path)
    session.project = tmp_path / "AKIAIOSFODNN7EXAMPLE"
    session.project.mkdir()
    session.talk().uses(180_000)
    receiver = Receiver()
    try:
        address = f"json://127.0.0.1:{receiver.server.server_port}/?key=verysecret1234"
        said = session.turn(TASUKI_NOTIFY=address)
    finally:
        receiver.end()

    assert "could not" not in said
    (sent,) = receiver.got
    assert sent["title"] == "Claude Code: the context is 90 % full"
    assert ADVICE in sent["message"]
    assert "AKIAIOSFODNN7EXAMPLE" not in json.dumps(sent)


def test_an_address_that_does_not_work_is_told_without_its_key(session: Session) -> None:
    """The message comes all the same, with what went wrong."""
    pytest.importorskip("apprise")
    said = session.uses(180_000).turn(TASUKI_NOTIFY="nosuch://verysecret1234")

    assert said.startswith("The context is 90 % full.")
    assert "Address 1 of the setting notify is not an address that apprise supports." in said
    assert "verysecret" not in said


def test_config_does_not_show_the_addresses(session: Session) -> None:
    """They hold keys: only the kind of each is told."""
    session.config.write_text('notify = "desktop ntfy://user:verysecret1234@host/topic"\n')
    for more in ((), ("--json",)):
        done = session.run("config", *more)
        assert done.returncode == 0, done.stderr
        assert "verysecret" not in done.stdout + done.stderr
        assert "desktop ntfy://…" in done.stdout


# -- by itself -------------------------------------------------------------------------------


def test_by_default_no_draft_is_made(session: Session) -> None:
    """A full context is suggested, no more."""
    session.uses(199_000).turn()

    assert Vault(session.data / "handoffs").list_handoffs() == []


def test_where_it_is_switched_on_a_draft_is_made_once_with_the_users_last_words(
    tmp_path: Path,
) -> None:
    """The goal is the last request to the letter; nothing is started, and it is announced."""
    last = "And now\n  the printer, please: `print()` drops tabs."
    session = Session(tmp_path).talk(last).uses(186_000)
    session.config.write_text("auto_handoff_at = 92\n")
    said = session.turn()

    vault = Vault(session.data / "handoffs")
    (handoff,) = vault.list_handoffs()
    assert handoff.goal.text == last
    assert [e.kind for e in vault.load_events(handoff.id)] == ["drafted"]
    assert said == (
        f"The context is 93 % full, so handoff {handoff.id[:8]} was drafted with your last request as its "
        f"goal. Review and start it in another terminal: tasuki start {handoff.id[:8]}"
    )
    assert session.turn() == ""
    assert len(vault.list_handoffs()) == 1


def test_a_thread_that_began_with_a_handoff_does_not_hand_itself_on(tmp_path: Path) -> None:
    """Not before the user spoke five times; until then it is only suggested."""
    session = Session(tmp_path)
    session.config.write_text("auto_handoff_at = 80\n")
    session.builder.handoff("What was done.\n\n## Next Goal (verbatim)\nmend the printer")
    assert ADVICE in session.talk("two", "three").uses(190_000).turn()
    assert Vault(session.data / "handoffs").list_handoffs() == []

    session.builder.user("four").assistant("Yes.").user("five").assistant("Yes.")
    session.written().uses(190_000).turn()
    assert len(Vault(session.data / "handoffs").list_handoffs()) == 1


def test_in_tmux_the_draft_is_shown_for_review(tmp_path: Path) -> None:
    """A window opens with the review; nothing starts by itself."""
    if not shutil.which("tmux"):
        pytest.skip("tmux is not installed")
    session = Session(tmp_path).talk().uses(190_000)
    session.config.write_text("auto_handoff_at = 80\n")
    terminal = Terminal(session.home, session.env)
    try:
        said = session.turn(**inside(session, terminal))
        assert said.endswith("Review it in the new tmux window.")
        terminal.shows(window(terminal), "^S start")
    finally:
        terminal.end()
    (handoff,) = Vault(session.data / "handoffs").list_handoffs()
    assert handoff.goal.text == ASKED
