"""`scripts/demo machines`: an agent moves to another host; nothing is left behind."""

import re
from collections.abc import Iterator
from pathlib import Path

import databases
import pytest
from demonstrations import Shown
from waiting import retry_until

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc"),
    pytest.mark.skipif(bool(databases.missing()), reason="needs PostgreSQL"),
]


@pytest.fixture
def shown(tmp_path: Path) -> Iterator[Shown]:
    """The demonstration."""
    made = Shown("machines.py", tmp_path)
    yield made
    made.close()


def assert_nothing_is_left(shown: Shown) -> None:
    """No process, and no folder: its own, PostgreSQL's, and those of tmux."""
    (postgres,) = set(re.findall(r"host=(/tmp/[\w-]+)", shown.said))
    retry_until(lambda: not shown.running(), 20)

    assert not Path(postgres).exists()
    assert [] == [path.name for path in shown.folder.iterdir()]


def test_the_demo_of_machines_moves_an_agent_and_takes_everything_away(shown: Shown) -> None:
    """The same `git status` on both hosts, the thread opened there, everything once."""
    said = shown.until("Counted in the harness's own journals")
    said = shown.until("Each once, although a server was killed")
    status = "## main...origin/main\nM  upload.py\n?? limits.py\n"

    assert 0 == shown.program.wait(60)
    assert 2 == said.count(status)
    assert "can move to build2" in said
    assert "kill -9" in said
    assert re.search(
        r"build2\$ tasuki read .*#1'?\n── #1 user .*\nMake the retries of the upload client", said
    )
    assert_nothing_is_left(shown)


def test_ctrl_c_in_the_middle_of_the_demo_takes_everything_away(shown: Shown) -> None:
    """With two servers, a PostgreSQL, a tmux with an agent, and a command in the foreground."""
    shown.until("✓ await_idle")
    (sockets, more) = set(re.findall(r"\0TMUX_TMPDIR=([^\0]+)", "".join(shown.running())))

    assert 130 == shown.interrupt(), shown.said
    assert "Everything was taken away." in shown.said
    assert "Traceback" not in shown.said
    assert_nothing_is_left(shown)
    assert not Path(sockets).exists()
    assert not Path(more).exists()
