"""`tasuki dashboard` signs a browser in without a word that another user of the machine could read."""

import os
import pty
import re
import select
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from browser import Browsing
from fleets import TASUKI, World
from playwright.sync_api import Page, expect
from waiting import retry_until

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


class OtherServer(ThreadingHTTPServer):
    """Another program of this machine: it notes the headers that it is sent."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Noting)
        self.asked: list[str] = []
        self.port = self.server_address[1]


class _Noting(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, OtherServer)
        self.server.asked.append(str(self.headers))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<title>other</title>")

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def other_server() -> Iterator[OtherServer]:
    """A program on a port of its own."""
    with OtherServer() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(10)


SPY = r"""#!/bin/sh
# Stands for the program that opens a browser: notes what others can see meanwhile, then opens the page.
cd @FOLDER@ || exit 1
printf '%s' "$*" > argv
cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' ' ' > cmdlines # some end meanwhile
page=${1#file://}
stat -c '%a' "$page" > mode
sed -n 's/.*content="0;url=\([^"]*\)".*/url = "\1"/p' "$page" > link
@OPEN@
touch seen
"""
CURL = "curl -q -s -K link -o page"


@pytest.fixture
def seen(world: World) -> Path:
    """A folder in which a stand-in for `xdg-open` notes what it sees."""
    folder = world.folder / "seen"
    folder.mkdir()
    write_spy(world, folder, CURL)
    return folder


def write_spy(world: World, folder: Path, command: str) -> None:
    """Write the stand-in; `command` opens the page."""
    spy = world.folder / "bin" / "xdg-open"
    spy.write_text(SPY.replace("@FOLDER@", str(folder)).replace("@OPEN@", command))
    spy.chmod(0o755)


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and xdg-open")
def test_no_command_line_holds_the_link(world: World, seen: Path) -> None:
    """--open hands a private file to the browser: the key is in no command line, and the file is gone behind it."""
    said = world.tasuki("dashboard", "--open")
    retry_until((seen / "seen").exists)
    argv, key = (seen / "argv").read_text(), "login?key="
    command_lines = (seen / "cmdlines").read_text()

    assert "http" not in argv
    assert argv in command_lines
    assert key not in command_lines
    assert key in (seen / "link").read_text()
    assert (seen / "mode").read_text() == "600\n"
    assert "You are signed in." in (seen / "page").read_text()
    assert not Path(argv.removeprefix("file://")).exists()
    assert said == ""
    assert len(world.api("GET", "/api/sessions")["sessions"]) == 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of click.launch
@pytest.mark.skipif(sys.platform != "linux", reason="needs xdg-open")
def test_a_browser_that_opens_nothing_is_told(
    world: World, seen: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no browser uses the link, the command says so, and what to do; its file is gone."""
    from tasuki.cli.fleet import serve as command
    from tasuki.cli.fleet.client import FleetClient

    write_spy(world, seen, ":")
    monkeypatch.setenv("PATH", world.env["PATH"])
    monkeypatch.setattr(command, "PATIENCE_SECONDS", 0.5)
    with pytest.raises(Exception, match="Open the link in one yourself: tasuki dashboard"):
        command._open_dashboard(FleetClient(world.data / "fleet"))
    assert list((world.data / "fleet").glob("open-*")) == []


def test_a_service_prints_no_link(world: World) -> None:
    """What is not a terminal gets no link at the start, but the command that makes one."""
    retry_until(lambda: "Its dashboard" in world.output.read_text())
    said = world.output.read_text()

    assert "key=" not in said
    assert "Its dashboard: tasuki dashboard --open\n" in said


def test_a_terminal_gets_a_link_that_is_valid_once(world: World) -> None:
    """The start on a terminal prints a link, and that it can be used once."""
    above, below = pty.openpty()
    env = {**world.env, "TASUKI_DATA": str(world.folder / "second")}
    server = subprocess.Popen(
        [str(TASUKI), "serve", "--port", "0"], env=env, cwd=world.folder, stdout=below,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(below)
    said = ""
    try:
        while said.count("\n") < 3 and select.select([above], [], [], 60)[0]:
            said += os.read(above, 4096).decode()
    finally:
        server.terminate()
        server.wait(20)
        os.close(above)

    assert "The link is valid once" in said
    assert re.search(r"http://tasuki-[0-9a-f]{10}\.localhost:\d+/login\?key=\S{20,}", said)


def test_browsers_are_listed_and_signed_out(world: World, browsing: Browsing) -> None:
    """--sessions lists the browsers that are signed in; one that --sign-out ends sees the page that says how to sign in."""
    browsing.expect("status of 401")
    assert "No browser is signed in." in world.tasuki("dashboard", "--sessions")
    page = open_dashboard(world, browsing)
    listed = world.tasuki("dashboard", "--sessions")
    (session,) = world.api("GET", "/api/sessions")["sessions"]
    said = world.tasuki("dashboard", "--sign-out", str(session["id"]))
    page.goto("/handoffs")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()

    assert "Chrom" in listed
    assert said == f"Browser {session['id']} is signed out.\n"
    assert world.tasuki("dashboard", "--sign-out", "all") == "0 browsers signed out.\n"
    assert "No browser is signed in as 99" in world.tasuki("dashboard", "--sign-out", "99", code=1)
    assert "Give an id" in world.tasuki("dashboard", "--sign-out", "me", code=2)


def open_dashboard(world: World, browsing: Browsing) -> Page:
    """A browser that used a link."""
    page = browsing.page(world.origin())
    page.goto(world.tasuki("dashboard").strip())
    expect(page.get_by_role("heading", name="Fleet")).to_be_visible()
    return page


def test_no_other_server_gets_the_cookie(world: World, browsing: Browsing) -> None:
    """A program on another port, opened in the same browser under the names of this machine, is sent no cookie."""
    browsing.expect("")
    page = open_dashboard(world, browsing)
    with other_server() as other:
        for name in ("127.0.0.1", "localhost", "tasuki.localhost"):
            page.goto(f"http://{name}:{other.port}/")
        page.goto(world.origin())
        expect(page.get_by_role("heading", name="Fleet")).to_be_visible()

    assert len(other.asked) >= 3
    assert [headers for headers in other.asked if "tasuki-" in headers] == []
