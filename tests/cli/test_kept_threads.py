"""Threads that their harness deleted: `tasuki read`, `find`, `handoff` and the rest work from the copies."""

import json
from pathlib import Path

import pytest
from command_line import GOAL, World, work
from hooks import Session, program
from waiting import retry_until

from tasuki.threads.kept.copies import read_record


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A user who keeps the threads that are handed off."""
    world = World(tmp_path)
    world.env["TASUKI_KEEP_THREADS"] = "handed-off"
    return world


def handed_off(world: World) -> tuple[Path, str]:
    """A thread that was handed off and then deleted by its harness, and the handoff's id."""
    path = world.thread(work(cwd=str(world.project)))
    done = world.run("handoff", GOAL, "--json")
    assert done.returncode == 0, done.stderr
    path.unlink()
    return path, json.loads(done.stdout)["id"]


def test_all_commands_work_from_the_copy_and_say_so(world: World) -> None:
    """Listed, read, searched, asked, and handed off once more with the same brief."""
    path, id = handed_off(world)

    listed = world.run("threads")
    assert "(kept copy) Why does the upload stall" in listed.stdout
    for spec in ("@1#5", f"{path}#5", f"{path.stem}#5", f"{id[:8]}#5"):
        read = world.run("read", spec)
        assert read.returncode == 0, read.stderr
        assert "gateway's keepalive is off" in read.stdout, spec
        assert read.stderr.startswith("(Kept copy of "), spec
        assert "Claude Code no longer has its own file of this thread)" in read.stderr
    asked = world.run("read", "@1", "why does the upload stall?")
    assert "keepalive" in asked.stdout

    found = world.run("find", "gateway keepalive")
    assert "#5     assistant  You are right: the upload" in found.stdout
    assert "(Kept copy of" in found.stdout
    again = world.run("handoff", "--from", str(path), GOAL)
    assert again.returncode == 0, again.stderr
    assert "Kept copy of" in again.stderr
    assert "keepalive" in again.stdout
    assert world.run("show", id[:8]).returncode == 0


def test_the_agent_of_a_deleted_thread_is_not_asked(world: World, tmp_path: Path) -> None:
    """Its program no longer has the thread, so the draft is written offline; it is not started."""
    path, _ = handed_off(world)
    claude = tmp_path / "bin" / "claude"
    claude.parent.mkdir()
    claude.write_text(f"#!/bin/sh\ntouch {tmp_path}/asked\n")
    claude.chmod(0o755)
    search = f"{claude.parent}:{world.env['PATH']}"
    done = world.run("handoff", "--from", str(path), GOAL, "--author", "agent", PATH=search)

    assert done.returncode == 0
    assert f"{path} is gone: Claude Code cannot be asked about it." in done.stderr
    assert "Written offline" in done.stderr
    assert not (tmp_path / "asked").exists()


def test_copies_are_listed_and_deleted(world: World) -> None:
    """With their originals or without; nothing else is deleted."""
    assert "No copies of threads are kept" in world.run("threads", "--kept").stderr
    path, _ = handed_off(world)
    other = world.thread(work(2, cwd=str(world.project)))
    world.run("handoff", "--from", str(other), GOAL, "--print")

    listed = world.run("threads", "--kept")
    assert len(listed.stdout.splitlines()) == 2
    assert listed.stdout.count("(original gone)") == 1
    copies = json.loads(world.run("threads", "--kept", "--json").stdout)["copies"]
    assert {(c["path"], c["original_exists"]) for c in copies} == {(str(path), False), (str(other), True)}  # fmt: skip
    assert json.loads(world.run("threads", "--kept", "--harness", "codex", "--json").stdout)["copies"] == []  # fmt: skip

    assert "--kept" in world.run("threads", "--forget", "zzz").stderr
    gone = world.run("threads", "--forget", str(path))
    assert gone.stdout == f"The kept copy of {path} is deleted. No other file was touched.\n"
    assert f"The kept copy of {other} is" in world.run("threads", "--forget", "all").stdout
    assert list((world.data / "threads").glob("*.zst")) == []
    assert other.exists()
    assert world.run("read", f"{path}#5").returncode == 1


def test_a_damaged_copy_is_named(world: World) -> None:
    """With the command that deletes it."""
    path, _ = handed_off(world)
    (copy,) = (world.data / "threads").glob("*.zst")
    copy.write_bytes(copy.read_bytes()[:-40])

    done = world.run("read", f"{path}#5")
    assert done.returncode == 1
    assert f"The kept copy {copy} is damaged" in done.stderr
    assert f"tasuki threads --forget {copy.stem}" in done.stderr
    assert world.run("threads", "--forget", copy.stem).returncode == 0


def test_without_room_the_handoff_is_made_and_one_sentence_said(world: World) -> None:
    """A file where the folder of copies should be: `doctor` says so as well."""
    world.thread(work(cwd=str(world.project)))
    world.data.mkdir()
    (world.data / "threads").write_text("")
    done = world.run("handoff", GOAL, "--print")

    assert done.returncode == 0
    assert "keepalive" in done.stdout
    assert done.stderr.count("No copy of the thread was kept: ") == 1


def test_mcp_tools_read_from_copies(world: World) -> None:
    """read_thread and find_threads say where they read."""
    from tasuki import mcp

    path, _ = handed_off(world)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in world.env.items():
            patch.setenv(name, value)
        assert mcp._read_entries(str(path), [5], "").startswith("(Kept copy of")


# -- at the ends of turns --------------------------------------------------------------------------


def test_a_turn_end_keeps_the_thread_in_the_background(tmp_path: Path) -> None:
    """Where all are kept; the hook says nothing, and the copy is there a moment later."""
    session = Session(tmp_path).talk()
    copies = session.data / "threads"
    assert session.turn(TASUKI_KEEP_THREADS="handed-off") == ""
    assert session.turn() == ""
    assert not copies.exists()

    assert session.turn(TASUKI_KEEP_THREADS="all") == ""
    retry_until(lambda: list(copies.glob("*.zst")), 20)
    (copy,) = copies.glob("*.zst")
    assert read_record(copy).path == str(session.thread)


def test_doctor_says_who_deletes_threads_and_what_is_kept(tmp_path: Path) -> None:
    """By Claude Code's own setting; nothing of it is a defect, but a copy that failed is."""
    session = Session(tmp_path).talk()
    program(session, "claude", 'echo "2.1.330 (Claude Code)"')
    session.env["PATH"] = f"{tmp_path / 'bin'}:/usr/bin:/bin"

    done = session.run("doctor", "claude")
    assert done.returncode == 0, done.stdout
    text = " ".join(done.stdout.split())
    assert "Claude Code deletes threads after 30 days. tasuki keeps no copies; the setting keep_threads changes that." in text  # fmt: skip

    session.env["TASUKI_KEEP_THREADS"] = "all"
    session.run("handoff", GOAL, "--print")
    text = " ".join(session.run("doctor", "claude").stdout.split())
    assert "Claude Code deletes threads after 30 days. Copies of all threads are kept." in text
    assert "1 thread kept, " in text
    settings = session.home / ".claude" / "settings.json"
    settings.write_text('{"cleanupPeriodDays": 100}')
    assert "deletes threads" not in session.run("doctor", "claude").stdout
    settings.write_text('{"cleanupPeriodDays": 7}')
    report = json.loads(session.run("doctor", "claude", "--json").stdout)
    assert report["harnesses"][0]["notes"] == ["Claude Code deletes threads after 7 days. Copies of all threads are kept."]  # fmt: skip
    assert report["kept"]["count"] == 1

    (session.data / "threads" / "last-failure.json").write_text(
        json.dumps(
            {"at": "2026-01-05T09:00:00+00:00", "path": "/x.jsonl", "reason": "the disk is full."}
        )
    )
    done = session.run("doctor", "claude")
    assert done.returncode == 1
    assert "No copy of the thread /x.jsonl could be kept" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("settings", "days"),
    [
        (None, 30), ("{}", 30), ('{"general": {"sessionRetention": {}}}', 30),
        ('{"general": {"sessionRetention": {"enabled": false}}}', None),
        ('{"general": {"sessionRetention": {"maxAge": "2w"}}}', 14),
        ('{"general": {"sessionRetention": {"maxAge": "12h"}}}', 0.5),
        ('{"general": {"sessionRetention": {"maxAge": "soon"}}}', 30), ('{"general": 7}', 30),
    ],
)  # fmt: skip
def test_the_clean_up_of_gemini_is_read_from_its_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: str | None, days: float | None
) -> None:
    """Its default is 30 days; it may be off."""
    from tasuki.harness.gemini.hooks import GeminiIntegration

    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("GEMINI_CLI_HOME", raising=False)
    (tmp_path / ".gemini").mkdir()
    if settings is not None:
        (tmp_path / ".gemini" / "settings.json").write_text(settings)
    assert GeminiIntegration().find_retention_days() == days


def test_listing_copies_is_no_reading(world: World) -> None:
    """A list of threads starts nothing and unpacks nothing, however large the copies."""
    handed_off(world)
    (copy,) = (world.data / "threads").glob("*.zst")
    start = 8 + int.from_bytes(copy.read_bytes()[4:8], "little")
    copy.write_bytes(copy.read_bytes()[:start])  # without any content
    assert "(kept copy)" in world.run("threads").stdout
