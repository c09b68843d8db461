"""What `tasuki doctor` says of a fleet: only where there is one, and with the line that mends it."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hooks import Session, program


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """A user with Claude Code and Codex; curl and tmux are their own, of a version of the test's."""
    session = Session(tmp_path).talk()
    for name in ("sh", "head", "cat"):
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / name).symlink_to(str(shutil.which(name)))
    session.env["PATH"] = str(tmp_path / "bin")
    program(session, "claude", 'echo "2.1.330 (Claude Code)"')
    program(session, "codex", "echo codex-cli 0.169.0")
    program(session, "curl", "exit 0")
    program(session, "tmux", "echo tmux 3.3a")
    return session


def report(session: Session, *names: str) -> dict[str, Any]:
    """What doctor says, as JSON."""
    done = session.run("doctor", *names, "--json")
    assert done.returncode in (0, 1), done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def problems(session: Session) -> list[dict[str, str]]:
    """Everything that does not work with Claude Code, and with the fleet."""
    found = report(session, "claude")
    return [*found["problems"], *found["harnesses"][0]["problems"]]


def installed(session: Session) -> Path:
    """The fleet's hooks are in Claude Code; the script that they run."""
    done = session.run("install", "claude", "--fleet", "--yes")
    assert done.returncode == 0, done.stderr
    return session.data / "fleet" / "hook.sh"


def test_without_a_fleet_nothing_is_said_of_one(session: Session) -> None:
    """An ordinary installation needs neither curl nor a new tmux."""
    (session.root / "bin" / "curl").unlink()
    program(session, "tmux", "echo tmux 2.9")
    session.run("install", "claude", "--yes")
    done = session.run("doctor", "claude")

    assert done.returncode == 0
    assert "\n  fleet " not in done.stdout
    assert report(session)["fleet"] is None


def test_a_fleet_that_works_is_described(session: Session) -> None:
    """Its script, and for each harness whether its agents are seen."""
    hooks = len(report(session, "claude")["harnesses"][0]["fleet"])
    installed(session)
    said = session.run("doctor").stdout
    words = " ".join(said.split())

    assert problems(session) == []
    assert "  fleet      the hooks' script is current\n" in said
    assert f"  fleet      its agents are seen ({hooks} of {hooks} parts)\n" in said
    assert "its agents are not seen. To see them: tasuki install codex --fleet" in words
    assert report(session, "claude")["fleet"] == {"curl": str(session.root / "bin" / "curl"), "script": "current", "waiting": 0}  # fmt: skip


def test_a_server_alone_is_a_fleet(session: Session) -> None:
    """Its folder is there, and no hooks are: it is said which line adds them, and nothing is broken."""
    (session.data / "fleet").mkdir(parents=True)
    done = session.run("doctor", "claude")

    assert done.returncode == 0
    assert "tasuki install claude --fleet" in " ".join(done.stdout.split())


def test_events_that_wait_are_counted(session: Session) -> None:
    """What hooks kept while the server was away."""
    spool = installed(session).parent / "spool"
    spool.mkdir()
    for name in ("1.json", "2.json", ".unfinished", "3.bad"):
        (spool / name).write_text("")

    assert "2 events wait for it: tasuki serve" in session.run("doctor", "claude").stdout


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("hook.sh", "older.sh", "The installed parts are from an older version"),
        ('"PermissionRequest"', '"PermissionAsked"', "A part is missing: a hook that tells"),
    ],
)
def test_hooks_that_are_not_what_they_should_be_are_told(
    session: Session, old: str, new: str, what: str
) -> None:
    """Older ones, and one that was taken out: the line that brings them up to date does."""
    installed(session)
    settings = session.home / ".claude" / "settings.json"
    settings.write_text(settings.read_text().replace(old, new))
    (problem,) = problems(session)
    assert what in problem["what"]
    assert problem["mend"] == "tasuki install claude --fleet"
    installed(session)

    assert problems(session) == []


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (None, "The script that the fleet's hooks run is missing"),
        ("echo", "is from another version"),
    ],
)
def test_the_script_is_looked_at(session: Session, text: str | None, what: str) -> None:
    """Gone, or of another version: the same line writes it anew."""
    script = installed(session)
    script.unlink() if text is None else script.write_text(text)
    (problem,) = problems(session)
    assert what in problem["what"]
    assert problem["mend"] == "tasuki install claude --fleet"
    assert session.run(*problem["mend"].split()[1:], "--yes").returncode == 0

    assert problems(session) == []


def test_without_curl_it_says_what_does_not_work(session: Session) -> None:
    """And how it is installed."""
    installed(session)
    (session.root / "bin" / "curl").unlink()
    (problem,) = problems(session)

    assert "curl is missing" in problem["what"]
    assert "apt install curl" in problem["mend"]


@pytest.mark.parametrize(
    ("version", "told"),
    [("3.2", ""), ("3.3a", ""), ("10.0", ""), ("next-3.6", ""), ("3.1c", "this is 3.1c"), ("2.9", "this is 2.9")],
)  # fmt: skip
def test_a_tmux_that_is_too_old_is_told(session: Session, version: str, told: str) -> None:
    """3.2 is the first that agents can run in."""
    installed(session)
    program(session, "tmux", f"echo tmux {version}")
    found = [problem["what"] for problem in problems(session)]

    assert [told in what for what in found] == [True] * bool(told)


def test_a_machine_without_tmux_cannot_run_agents(session: Session) -> None:
    """Said where a fleet is in use."""
    installed(session)
    (session.root / "bin" / "tmux").unlink()
    (problem,) = problems(session)

    assert problem["what"] == "Agents of a fleet need tmux 3.2 or newer; there is none."


def test_hooks_of_the_fleet_that_codex_was_not_told_to_trust_are_told(session: Session) -> None:
    """Those of the ordinary part were approved; what came with the fleet was not."""
    session.run("install", "codex", "--fleet", "--yes")
    config = session.home / ".codex" / "config.toml"
    text = config.read_text()
    state = '\n[hooks.state."/x/hooks.json:{}:0:0"]\ntrusted_hash = "x"\n'
    config.write_text(text + state.format("user_prompt_submit"))
    assert "! The hooks wait for your approval." in session.run("doctor", "codex").stdout
    config.write_text(text + "".join(map(state.format, ("user_prompt_submit", "session_start"))))

    assert session.run("doctor", "codex").returncode == 0
