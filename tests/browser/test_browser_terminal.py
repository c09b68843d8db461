"""The terminal on an agent's page: what it shows while the pane changes, and what is typed there."""

import shlex
from pathlib import Path

import pytest
from browser import Browsing, operator, portraits, shot
from fleets import World
from playwright.sync_api import Page, expect
from waiting import retry_until

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
ROWS = """() => [...document.querySelectorAll(".xterm-rows > div")].map(row => row.textContent.replaceAll("\\u00a0", " ").trimEnd()).join("\\n")"""


class Desk:
    """An agent whose pane a test fills, or that shows each byte that is typed into it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.file: Path = world.folder / "shown"
        self.file.touch()
        self.agent = world.started()

    def take(self, command: str, columns: int = 80, rows: int = 24) -> str:
        """Give the agent a pane of a size with a command in it; its id."""
        size = ("-x", str(columns), "-y", str(rows))
        made = self.world.tmux("new-session", "-d", *size, "-P", "-F", "#{pane_id} #{pane_pid}", command)  # fmt: skip
        pane, pid = made.split()
        self.world.sql(f"UPDATE agents SET pane = '{pane}', pid = {pid} WHERE id = {self.agent}")
        return pane

    def shows(self, text: str, **size: int) -> str:
        """A pane that shows a text, and what `write` adds."""
        self.file.write_text(text)
        return self.take(f"exec tail -f -n +1 {shlex.quote(str(self.file))}", **size)

    def write(self, text: str) -> None:
        """More of its output."""
        with self.file.open("a") as stream:
            stream.write(text)

    def echoes(self) -> str:
        """A pane that shows each byte that reaches it."""
        return self.take("stty raw -echo; printf 'ready\\033[?2004h '; exec cat -v")

    def typed(self, pane: str, text: str) -> str:
        """What reached the pane, once a text is the last of it."""
        screen = lambda: self.world.tmux("capture-pane", "-p", "-J", "-t", pane).strip()  # noqa: E731
        retry_until(lambda: screen().endswith(text))
        return screen().removeprefix("ready ")


@pytest.fixture
def desk(world: World) -> Desk:
    """An agent of the fleet, with a pane that is the test's."""
    return Desk(world)


def opened(desk: Desk, browsing: Browsing, text: str, **look: object) -> Page:
    """The agent's page once its terminal shows a text."""
    page = operator(browsing.page(desk.world.origin(), **look), desk.world.link())
    page.goto(f"/agents/{desk.agent}")
    shows(page, text)
    return page


def shows(page: Page, text: str) -> None:
    """Wait until the terminal shows a text."""
    page.wait_for_function(f"text => ({ROWS})().includes(text)", arg=text)


def test_try(desk: Desk, browsing: Browsing) -> None:
    desk.shows("".join(f"\x1b[3{n % 8}mline {n}\x1b[0m \x1b[48;2;10;20;30;38;5;200m bar \x1b[m\n" for n in range(60)) + f"secret {TOKEN} end\n\x1b[1;7mlast\x1b[m 日本 x\n", columns=200, rows=50)
    page = opened(desk, browsing, "last")
    page.wait_for_timeout(1500)
    print("SHEETS", page.evaluate("[document.adoptedStyleSheets.length, document.querySelectorAll('#terminal style').length, document.querySelectorAll('#terminal [style]').length]"))
    print("SPAN", page.evaluate("[...document.querySelectorAll('.xterm-rows [style]')].slice(0,6).map(x=>x.outerHTML)"))
    print("FAULTS", {f[:400] for f in browsing.faults})
    browsing.faults.clear()
    shot(page, "try-light")
    page.emulate_media(color_scheme="dark")
    page.wait_for_timeout(600)
    shot(page, "try-dark")
    page.set_viewport_size({"width": 380, "height": 900})
    page.wait_for_timeout(600)
    shot(page, "try-380")
    print(page.evaluate(ROWS)[-500:])
