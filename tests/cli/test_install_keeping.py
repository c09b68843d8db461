"""`tasuki install --keep`: what takes part in a harness's compactions, there and gone again."""

from pathlib import Path

import pytest
from hooks import Session, program

KEEPING = ("claude", "codex", "pi", "omp", "gemini", "copilot", "opencode")
"""Harnesses that let another program take part in a compaction."""


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """A user with all of these programs."""
    session = Session(tmp_path)
    session.env["PATH"] = f"{tmp_path / 'bin'}:/usr/bin:/bin"
    for name in KEEPING:
        program(session, name, "echo 1.0")
    return session


def everything(session: Session) -> dict[str, bytes]:
    """Every file of the home."""
    return {str(p): p.read_bytes() for p in session.home.rglob("*") if p.is_file()}


@pytest.mark.parametrize("name", KEEPING)
def test_it_is_there_once_and_gone_without_a_trace(name: str, session: Session) -> None:
    """Installed twice it is there once; taken out alone, the rest stays; then nothing is left."""
    before = everything(session)
    session.run("install", name, "--yes")
    ordinary = everything(session)
    done = session.run("install", name, "--keep", "--yes")
    assert done.returncode == 0, done.stderr
    kept = everything(session)
    assert kept != ordinary
    assert session.run("install", name, "--keep", "--yes").stdout.count("Nothing to do.") == 1
    assert everything(session) == kept
    session.run("install", name, "--yes")
    assert everything(session) == kept

    assert session.run("uninstall", name, "--keep", "--yes").returncode == 0
    assert _without_record(everything(session)) == _without_record(ordinary)
    session.run("install", name, "--keep", "--yes")
    session.run("uninstall", name, "--yes")
    assert everything(session) == before


def _without_record(files: dict[str, bytes]) -> dict[str, bytes]:
    return {path: content for path, content in files.items() if "installed" not in path}


def test_it_is_offered_where_it_is_not_installed(session: Session) -> None:
    """After an installation without it, and in what the doctor says."""
    offer = "tasuki install claude --keep"

    assert offer in " ".join(session.run("install", "claude", "--yes").stdout.split())
    assert offer in " ".join(session.run("doctor", "claude").stdout.split())
    assert offer not in session.run("install", "claude", "--keep", "--yes").stdout
    said = " ".join(session.run("doctor", "claude").stdout.split())
    assert "rules and state are kept; no compaction yet" in said


def test_a_harness_that_lets_nobody_take_part_says_so(session: Session) -> None:
    """No silent success."""
    done = session.run("install", "aider", "--keep", "--yes")

    assert done.returncode == 2
