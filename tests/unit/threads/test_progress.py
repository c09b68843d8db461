"""Progress: phases with the seed's labels, a spinner in a terminal, nothing under a second (B10)."""

import io
import os
import pty
import re
import select
import time
from pathlib import Path

import pytest
from handoffs import made
from msgspec.structs import replace
from waiting import retry_until

from tasuki.cli import output
from tasuki.cli.output import ProgressSpinner
from tasuki.draft import pipeline
from tasuki.handoffs import FIRST_GUESS, estimate_seconds
from tasuki.model import Authorship
from tasuki.vault import Vault


class Screen(io.StringIO):
    """A stream that says it is a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        """Yes."""
        return True


@pytest.fixture(autouse=True)
def quicker(monkeypatch: pytest.MonkeyPatch) -> None:
    """A twentieth of the real waiting time."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(output, "QUIET_SECONDS", 0.05)
    monkeypatch.setattr(output, "ESTIMATE_SECONDS", 0.4)


def test_the_labels_are_the_seeds_to_the_letter() -> None:
    """The three phases of the seed."""
    assert (pipeline.ANALYZING, pipeline.EXTRACTING, pipeline.ASSEMBLING) == (
        "Analyzing conversation...",
        "Extracting relevant context...",
        "Assembling handoff prompt...",
    )


def test_a_quick_run_shows_nothing() -> None:
    """Nothing is written when it was over before anybody could wonder."""
    screen = Screen()
    with ProgressSpinner(stream=screen) as shown:
        shown.begin_phase("Analyzing conversation...")

    assert screen.getvalue() == ""


def test_a_slow_run_shows_its_phases_and_the_time() -> None:
    """Spinner with the current phase, an estimate when it takes long, and a closing line."""
    screen = Screen()
    with ProgressSpinner(stream=screen, expected=30) as shown:
        shown.begin_phase("Analyzing conversation...")
        retry_until(lambda: "⠋ Analyzing conversation..." in screen.getvalue())
        shown.begin_phase("Assembling handoff prompt...")
        retry_until(lambda: "Assembling handoff prompt... " in screen.getvalue())
        retry_until(lambda: "left" in screen.getvalue())
    text = screen.getvalue()

    assert re.search(r"✓ Context ready \(\d+\.\ds\)\n\Z", text)


def test_a_failure_ends_in_a_cross() -> None:
    """A phase that fails is not called ready."""
    screen = Screen()
    with pytest.raises(ValueError, match="no"), ProgressSpinner(stream=screen):
        time.sleep(0.1)
        raise ValueError("no")

    assert re.search(r"✗ Context failed \(\d+\.\ds\)\n\Z", screen.getvalue())


def test_a_plain_spinner_by_setting() -> None:
    """`showProgressPhases: false` keeps one message."""
    screen = Screen()
    with ProgressSpinner(stream=screen, phases=False) as shown:
        shown.begin_phase("Analyzing conversation...")
        retry_until(lambda: "Working..." in screen.getvalue())

    assert "Analyzing" not in screen.getvalue()


def test_without_a_terminal_nothing_moves() -> None:
    """A log gets the closing line alone."""
    stream = io.StringIO()
    with ProgressSpinner(stream=stream) as shown:
        shown.begin_phase("Analyzing conversation...")
        time.sleep(0.1)

    assert re.fullmatch(r"ok: Context ready \(\d+\.\ds\)\n", stream.getvalue())


def test_an_ascii_terminal_gets_ascii() -> None:
    """No character that the terminal cannot show is sent to it."""
    main, other = pty.openpty()
    with os.fdopen(other, "w", encoding="ascii") as stream, ProgressSpinner(stream=stream):
        time.sleep(0.2)
    data = b""
    while b"ok:" not in data and select.select([main], [], [], 5)[0]:
        data += os.read(main, 10_000)
    os.close(main)

    assert re.search(r"ok: Context ready \(\d+\.\ds\)\s*\Z", data.decode("ascii"))


def test_the_estimate_knows_how_long_an_author_took_before(tmp_path: Path) -> None:
    """The median of the author's last drafts is what another one is expected to take."""
    vault = Vault(tmp_path)
    for number, (author, seconds) in enumerate(
        [("model", 30.0), ("model", 8.0), ("agent", 99.0), ("model", 12.0), ("offline", 0.0)]
    ):
        handoff = made(created=f"2025-11-02T10:00:0{number}Z")
        by = Authorship(author=author, seconds=seconds)
        vault.save(replace(handoff, draft=replace(handoff.draft, authorship=by)), "brief")

    assert estimate_seconds(vault, "model") == 12.0
    assert estimate_seconds(vault, "agent") == 99.0
    assert estimate_seconds(vault, "offline") == 0.0
    assert estimate_seconds(Vault(tmp_path / "none"), "model") == FIRST_GUESS["model"]
