"""A crash at any step of a handoff leaves the old session whole, or the new one."""

import json
import subprocess
import sys
from pathlib import Path

from tree import PROGRAMS

PROGRAM = PROGRAMS / "killed_handoff.py"
WORK = ["message"] * 4
ASKED = ["message"] * 6


def test_killed_at_every_write_a_handoff_leaves_whole_sessions(tmp_path: Path) -> None:
    """Every file opens without a torn line, the next start has one whole conversation, and what the
    vault holds can be read."""
    command = [sys.executable, str(PROGRAM), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    *killed, whole = map(json.loads, done.stdout.splitlines())

    assert len(killed) >= 15
    for left in killed:
        old, *new = left["sessions"]
        assert WORK == old[:4]
        assert new in ([], [["custom_message"]])
        assert len(left["briefs"]) == 1 or not new
        first = left["context"][0]
        assert first == ("custom" if new else "user")
    assert not whole["killed"]
    assert whole["sessions"] == [ASKED, ["custom_message"]]


def test_the_kills_reach_from_the_first_question_to_the_last_event(tmp_path: Path) -> None:
    """The trial is one: sessions are left in each of the stages."""
    command = [sys.executable, str(PROGRAM), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)

    stages = {json.dumps(json.loads(line)["sessions"]) for line in done.stdout.splitlines()}
    wanted = ([WORK], [[*WORK, "message"]], [ASKED], [ASKED, ["custom_message"]])
    assert {json.dumps(stage) for stage in wanted} <= stages
