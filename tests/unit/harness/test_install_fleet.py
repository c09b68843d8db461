"""`tasuki install --fleet` and what takes it out again: beside the ordinary part, never in its place."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hooks import Session, program

from tasuki.harness import registry as harnesses
from tasuki.harness.integration import HOOK_MARK
from tasuki.harness.plans import FLEET_MARK

SETTINGS = """{
    "model": "opus",   // the large one
    "hooks": {
        "Stop": [ {"hooks": [{"type": "command", "command": "say done"}]} ],
        "PreToolUse": []
    }
}
"""
RECORDED = {"path", "kind", "what", "mark", "text", "keys", "name", "made", "folders"}
"""What was recorded of each addition before there was a fleet."""
FLEET = tuple(n for n in harnesses.BUILT_IN if harnesses.get_control(harnesses.get_harness(n)))


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """A user with the programs whose agents a fleet can run, and settings of their own."""
    session = Session(tmp_path)
    session.env["PATH"] = f"{tmp_path / 'bin'}:/usr/bin:/bin"
    for name in FLEET:
        program(session, name, "echo 1.0")
    settings(session).parent.mkdir()
    settings(session).write_text(SETTINGS)
    return session


def settings(session: Session) -> Path:
    """Claude Code's."""
    return session.home / ".claude" / "settings.json"


def script(session: Session) -> Path:
    """The hook script."""
    return session.data / "fleet" / "hook.sh"


def everything(session: Session) -> dict[str, bytes]:
    """Every file of the home."""
    return {str(p): p.read_bytes() for p in session.home.rglob("*") if p.is_file()}


def fleets(session: Session) -> list[str]:
    """Files of the home in which something of the fleet stands."""
    return [path for path, content in everything(session).items() if FLEET_MARK.encode() in content]


def does(session: Session, *arguments: str) -> str:
    """Run tasuki, which does it without a complaint; what it says."""
    done = session.run(*arguments)
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


def stops(session: Session) -> list[str]:
    """The commands of the hooks at a turn's end, in order."""
    text = settings(session).read_text().replace("// the large one", "")
    found: list[dict[str, Any]] = json.loads(text)["hooks"]["Stop"]
    return [hook["command"] for entry in found for hook in entry["hooks"]]


def kinds(session: Session) -> list[str]:
    """Whose they are."""
    marks = {FLEET_MARK: "fleet", HOOK_MARK: "ordinary"}
    return [next((k for m, k in marks.items() if m in c), c) for c in stops(session)]


# -- what is put in --------------------------------------------------------------------


@pytest.mark.parametrize("name", FLEET)
def test_without_the_flag_nothing_of_the_fleet_is_there(session: Session, name: str) -> None:
    """An ordinary installation brings neither a hook of the fleet nor its script."""
    does(session, "install", name, "--yes")

    assert fleets(session) == []
    assert not (session.data / "fleet").exists()


@pytest.mark.parametrize("name", FLEET)
def test_everything_can_be_taken_out_again(session: Session, name: str) -> None:
    """With the fleet in, and out again: every file as it was, to the byte; the second time changes nothing."""
    before = everything(session)
    does(session, "install", name, "--fleet", "--yes")
    after = everything(session)
    assert fleets(session)
    assert "Nothing to do." in does(session, "install", name, "--fleet", "--yes")
    assert everything(session) == after
    does(session, "uninstall", name, "--yes")

    assert everything(session) == before
    assert "Nothing of tasuki is installed." in does(session, "uninstall", name, "--yes")


@pytest.mark.parametrize("name", FLEET)
def test_the_fleets_part_alone_is_taken_out(session: Session, name: str) -> None:
    """What was there without the fleet is there after it, to the byte."""
    does(session, "install", name, "--yes")
    ordinary = everything(session)
    does(session, "install", name, "--fleet", "--yes")
    assert fleets(session)
    does(session, "uninstall", name, "--fleet", "--yes")

    assert everything(session) == ordinary


@pytest.mark.parametrize("name", FLEET)
def test_an_ordinary_installation_keeps_the_fleets(session: Session, name: str) -> None:
    """Bringing the ordinary part up to date leaves the fleet's as it is."""
    does(session, "install", name, "--fleet", "--yes")
    before = everything(session)
    assert "Nothing to do." in does(session, "install", name, "--yes")
    assert everything(session) == before


def test_hooks_of_one_event_stand_beside_each_other(session: Session) -> None:
    """At a turn's end Claude Code runs the user's own hook, the ordinary one and the fleet's: each once."""
    does(session, "install", "claude", "--fleet", "--yes")
    assert kinds(session) == ["say done", "ordinary", "fleet"]
    does(session, "install", "claude", "--fleet", "--yes")
    assert kinds(session) == ["say done", "ordinary", "fleet"]
    does(session, "uninstall", "claude", "--fleet", "--yes")
    assert kinds(session) == ["say done", "ordinary"]
    does(session, "install", "claude", "--fleet", "--yes")
    assert kinds(session) == ["say done", "ordinary", "fleet"]


def test_an_older_one_is_replaced_in_its_place(session: Session) -> None:
    """A hook of the fleet that another version wrote goes; the ordinary one beside it stays."""
    does(session, "install", "claude", "--fleet", "--yes")
    text = settings(session).read_text()
    settings(session).write_text(text.replace("hook.sh", "older.sh"))
    said = does(session, "install", "claude", "--fleet", "--yes")

    assert "an older one is replaced" in said
    assert "Nothing to do." in does(session, "install", "claude", "--fleet", "--yes")
    assert kinds(session) == ["say done", "ordinary", "fleet"]
    assert "older.sh" not in settings(session).read_text()


@pytest.mark.parametrize("changed", ["Stop", "UserPromptSubmit"])
def test_a_hook_that_somebody_changed_is_taken_out_itself(session: Session, changed: str) -> None:
    """The hooks of all events are the same text: the one that differs goes, and none in its place."""
    settings(session).unlink()
    does(session, "install", "claude", "--yes")
    ordinary = everything(session)
    does(session, "install", "claude", "--fleet", "--yes")
    before, key, after = settings(session).read_text().partition(f'"{changed}"')
    mine, mark, rest = after.partition(FLEET_MARK)
    settings(session).write_text(before + key + mine + mark + rest.replace("hook.sh", "own.sh", 2))
    does(session, "uninstall", "claude", "--fleet", "--yes")

    assert fleets(session) == []
    assert everything(session) == ordinary


def test_without_the_record_both_are_known_by_their_marks(session: Session) -> None:
    """The record is lost: what is taken out is ours alone, and each part by its own mark."""
    does(session, "install", "claude", "--fleet", "--yes")
    (session.data / "installed.json").unlink()
    does(session, "uninstall", "claude", "--fleet", "--yes")
    assert kinds(session) == ["say done", "ordinary"]
    does(session, "uninstall", "claude", "--yes")

    assert kinds(session) == ["say done"]
    assert "tasuki" not in settings(session).read_text()


def test_a_record_from_before_there_was_a_fleet_is_understood(session: Session) -> None:
    """What an earlier version put in and recorded goes with the rest, to the byte."""
    before = everything(session)
    does(session, "install", "claude", "--yes")
    record = json.loads((session.data / "installed.json").read_text())
    (puts,) = record["harnesses"].values()
    assert {field for put in puts for field in put} == RECORDED
    does(session, "install", "claude", "--fleet", "--yes")
    assert kinds(session) == ["say done", "ordinary", "fleet"]
    does(session, "uninstall", "claude", "--yes")

    assert everything(session) == before


def test_what_the_user_wrote_stays(session: Session) -> None:
    """Entries that only look alike are theirs, and so is what they add later."""
    text = SETTINGS.replace("say done", "sh ~/fleet/hook.sh claude")
    settings(session).write_text(text)
    does(session, "install", "claude", "--fleet", "--yes")
    grown = settings(session).read_text().replace('"model": "opus"', '"model": "haiku"')
    settings(session).write_text(grown)
    does(session, "uninstall", "claude", "--yes")

    assert settings(session).read_text() == text.replace("opus", "haiku")


# -- the script ------------------------------------------------------------------------


def test_a_dry_run_writes_nothing(session: Session) -> None:
    """Not even the script; every line is shown."""
    before = everything(session)
    said = does(session, "install", "claude", "--fleet", "--dry-run")

    assert "a hook that tells tasuki's server: Stop" in said
    assert FLEET_MARK in said
    assert "Nothing was written." in said
    assert everything(session) == before
    assert not session.data.exists()


def test_the_hook_that_is_installed_keeps_an_event(session: Session) -> None:
    """Without a server the command in the settings puts the payload into the spool."""
    does(session, "install", "claude", "--fleet", "--yes")
    command = stops(session)[-1]
    assert script(session).exists()
    done = subprocess.run(
        ["sh", "-c", command], input=b'{"hook_event_name":"Stop"}', env=session.env,
        capture_output=True, timeout=20, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert len(list((session.data / "fleet" / "spool").iterdir())) == 1


def test_hooks_outlive_the_data_folder_without_a_word(session: Session) -> None:
    """A data folder that was removed by hand: the hooks say nothing, and can still be taken out."""
    does(session, "install", "claude", "--fleet", "--yes")
    shutil.rmtree(session.data)
    done = subprocess.run(["sh", "-c", stops(session)[-1]], input=b"{}", capture_output=True, timeout=20, check=False)  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    does(session, "uninstall", "claude", "--yes")

    assert kinds(session) == ["say done"]


def test_a_folder_that_cannot_be_written_is_named(session: Session) -> None:
    """Nothing is put into the settings of a harness then."""
    session.data.write_text("a file in the way")
    before = everything(session)
    done = session.run("install", "claude", "--fleet", "--yes")

    assert done.returncode == 1
    assert (
        f"The data folder {session.data}, which TASUKI_DATA names, cannot be used: it is a file"
        in " ".join(done.stderr.split())
    )
    assert everything(session) == before


def test_a_harness_without_agents_is_refused(session: Session) -> None:
    """Nothing is installed for one that a fleet cannot run."""
    done = session.run("install", "aider", "--fleet", "--yes")

    assert done.returncode == 2
    assert fleets(session) == []
