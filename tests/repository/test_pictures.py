"""The moving picture of README, and the script that makes it."""

import re
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tree import ROOT

PICTURE = ROOT / "docs" / "handoff.svg"
CAPTIONS = re.findall(r'"(\d\. [^"]+)"', (ROOT / "demo" / "film.py").read_text())
SHOWN = ("hit your 5-hour limit", "/handoff\n", "Continue in (claude, codex)", "Never touch the signature",
         "^S start", "OpenAI Codex", "[Pasted Content", "Edited")  # fmt: skip


def check(picture: Path) -> None:
    """A picture that plays by itself, shows each step of the scene, and nothing of this machine."""
    text = picture.read_text()
    words = "\n".join(ElementTree.fromstring(text).itertext())

    assert not [caption for caption in CAPTIONS if caption not in words]
    assert not [shown for shown in SHOWN if shown not in words]
    assert len(CAPTIONS) == 6
    assert "animation: play" in text
    assert len(text) < 300_000
    still = picture.with_name("review.svg").read_text()
    assert "Never touch the signature" in "\n".join(ElementTree.fromstring(still).itertext())
    assert not re.search(r"<script|@font-face|url\(http|/tmp/|/root|@[a-z]+\.", text + still)


def test_the_picture_shows_each_step_of_the_scene() -> None:
    """The committed picture is that of the script: its captions, and what both programs showed."""
    check(PICTURE)


@pytest.mark.long
def test_the_script_makes_the_picture(tmp_path: Path) -> None:
    """`scripts/pictures` plays the scene with the real programs."""
    made = tmp_path / "made.svg"
    done = subprocess.run(
        ["scripts/pictures", str(made)], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr

    check(made)
