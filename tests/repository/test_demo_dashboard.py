"""`scripts/demo dashboard`: a fleet in a browser that leaves nothing behind."""

import html
import http.client
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from demonstrations import Shown
from waiting import retry_until


@pytest.fixture
def shown(tmp_path: Path) -> Iterator[Shown]:
    """The demonstration."""
    made = Shown("dashboard.py", tmp_path)
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
