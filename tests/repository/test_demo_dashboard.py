"""`scripts/demo dashboard`: a fleet in a browser that leaves nothing behind."""

import html
import http.client
import os
import re
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tree import ROOT
from waiting import retry_until

DEMO = ROOT / "demo" / "dashboard.py"
SECONDS = 180.0
MARK = "STARTED_FOR_THE_TEST"


class Shown:
    """The demonstration in a process of its own; its folders are made in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = f"{folder.name}-{time.monotonic_ns()}"
        env = {**os.environ, "TMPDIR": str(folder), MARK: self.mark, "HOME": str(folder)}
        self.program = subprocess.Popen(
            [sys.executable, str(DEMO)], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        self.said = ""

    def until(self, words: str) -> str:
        """What it said, once these words are among it."""
        assert self.program.stdout
        deadline = time.monotonic() + SECONDS
        with selectors.DefaultSelector() as ready:
            ready.register(self.program.stdout, selectors.EVENT_READ)
            while words not in self.said:
                assert ready.select(deadline - time.monotonic()), self.said
                piece = os.read(self.program.stdout.fileno(), 1 << 16).decode()
                assert piece, self.said
                self.said += piece
        return self.said

    def running(self) -> list[str]:
        """The environment of every process that was started by it and still runs."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                found.append((process / "environ").read_bytes().decode("utf-8", "replace"))
        return [each for each in found if f"{MARK}={self.mark}\0" in each]

    def end(self, number: int) -> int:
        """Its exit status once a signal has ended it."""
        self.program.send_signal(number)
        return self.program.wait(60)

    def close(self) -> None:
        """End what is left of it."""
        if self.program.poll() is None:
            self.end(signal.SIGTERM)
        assert self.program.stdout
        self.program.stdout.close()


@pytest.fixture
def shown(tmp_path: Path) -> Iterator[Shown]:
    """The demonstration."""
    made = Shown(tmp_path)
    yield made
    made.close()


def opened(link: str) -> str:
    """What the page says that a browser sees behind the link."""
    url = urlsplit(link)
    connection = http.client.HTTPConnection("127.0.0.1", url.port, timeout=30)
    try:
        connection.request("GET", f"{url.path}?{url.query}", headers={"Host": url.netloc})
        answer = connection.getresponse()
        answer.read()
        cookie = answer.headers["Set-Cookie"].partition(";")[0]
        connection.request("GET", "/", headers={"Host": url.netloc, "Cookie": cookie})
        page = connection.getresponse().read().decode()
    finally:
        connection.close()
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", page)).split())


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
def test_the_demo_of_the_dashboard_shows_its_agents_and_takes_everything_away(shown: Shown) -> None:
    """Its link opens the fleet, with agents in every state; Ctrl-C leaves no process and no folder."""
    said = shown.until("takes everything away.")
    (link,) = re.findall(r"http://tasuki-\w+\.localhost:\d+/login\?key=\S+", said)
    page = opened(link)
    for word in (
        "7 agents, 3 projects", "Handoff failed", "Waiting for you", "Past threshold", "Handing off",
        "Busy", "Idle", "No persona", "3 of 3", "developer-mira-1", "orchard-web",
    ):  # fmt: skip
        assert word in page, page
    (sockets,) = set(re.findall(r"\0TMUX_TMPDIR=([^\0]+)", "".join(shown.running())))
    assert len(shown.running()) > 9  # itself, its server, tmux, seven agents

    assert shown.end(signal.SIGINT) == 0, shown.said
    retry_until(lambda: not shown.running())
    assert not Path(sockets).exists()
    assert [path.name for path in shown.folder.iterdir()] == []
