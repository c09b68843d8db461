"""Pictures of the dashboard's pages, made by Chromium: `scripts/demo dashboard --pictures FOLDER`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cast import CON, HELD, LENA, MIRA, RAVI
from stage import say, until

if TYPE_CHECKING:
    from dashboard import Fleet
    from playwright.sync_api import Page

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests" / "support"))
WIDE, NARROW = 1280, 360
HIGH = 1100
"""Pixels of a picture of the README at most."""
MOST = 6000
"""Pixels of another one."""


def make(fleet: "Fleet", folder: Path, every: bool) -> None:
    """Save the two pictures of the README, or those of every page, wide and narrow, in light and dark.

    Raises SystemExit where Playwright or Chromium is missing.
    """
    try:
        from browser import Browsing, chromium, missing, operator
    except ImportError as error:
        raise SystemExit(f"{error}: this needs the packages of the tests; scripts/test makes them ready.") from None  # fmt: skip
    if reason := missing():
        raise SystemExit(f"No picture can be made: {reason}.")

    def new_link() -> str:
        return fleet.demo.run("dashboard", show=False).strip()

    folder.mkdir(parents=True, exist_ok=True)
    with chromium() as browser:
        browsing = Browsing(browser)
        origin = new_link().rpartition("/")[0]
        light = operator(browsing.page(origin, still=True), new_link())
        dark = operator(browsing.page(origin, scheme="dark", still=True), new_link())
        _every(fleet, folder, light, dark) if every else _readme(fleet, folder, light, dark)
        browsing.leave()
    for fault in browsing.faults:
        say(f"In the browser: {fault}")


def _readme(fleet: "Fleet", folder: Path, light: "Page", dark: "Page") -> None:
    _shot(light, "/", folder / "dashboard-fleet.png", down_to="#cards")
    _shot(dark, _reading(fleet), folder / "dashboard-handoff.png", down_to="main")


def _every(fleet: "Fleet", folder: Path, light: "Page", dark: "Page") -> None:
    pages = {"fleet": "/"}
    _all(pages, folder, light, dark)
    pages = {"handoff": _reading(fleet), **_pages(fleet)}
    _all(pages, folder, light, dark)


def _all(pages: dict[str, str], folder: Path, light: "Page", dark: "Page") -> None:
    for name, where in pages.items():
        for page, scheme in ((light, "light"), (dark, "dark")):
            for width in (WIDE, NARROW):
                _shot(page, where, folder / f"{name}-{scheme}-{width}.png", width, MOST)


def _reading(fleet: "Fleet") -> str:
    """The page of the handoff under way, once its successor reads the document."""
    (fleet.demo.folder / HELD).touch()
    path = f"handoffs/{fleet.handoffs[LENA.slug]}"
    until(lambda: _step(fleet.demo.api("GET", path)) == "acknowledge")
    return f"/{path}"


def _step(handoff: Any) -> str:
    return str(handoff["step"])


def _pages(fleet: "Fleet") -> dict[str, str]:
    """The other pages, by names for their pictures."""
    agent = fleet.demo.api("GET", f"agents/{fleet.ids[MIRA.slug]}")
    brief = next((fleet.demo.data / "handoffs").glob("[0-9a-f]*"), Path("none"))
    return {
        "agent": f"/agents/{agent['id']}",
        "agent-handoff": f"/agents/{agent['id']}/handoff",
        "agent-new": "/agents/new",
        "handoffs": "/handoffs",
        "handoff-failed": f"/handoffs/{fleet.handoffs[RAVI.slug]}",
        "handoff-done": f"/handoffs/{fleet.handoffs[CON.slug]}",
        "lineage": f"/lineage?persona={CON.slug}",
        "threads": "/threads",
        "threads-found": "/threads?q=gallery",
        "thread": f"/threads/claude/{agent['session']}",
        "briefs": "/briefs",
        "brief": f"/briefs/{brief.name}",
        "personas": "/personas",
        "persona": f"/personas/{CON.slug}",
        "settings": "/settings",
        "alerts": "/alerts",
    }


def _shot(
    page: "Page", where: str, path: Path, width: int = WIDE, most: int = HIGH, down_to: str = "html"
) -> None:
    """A picture of a page from its top to the end of what `down_to` selects."""
    page.set_viewport_size({"width": width, "height": 400})
    answer = page.goto(where)
    if answer and not answer.ok:
        say(f"{where} answers {answer.status}: no picture.")
        return
    end = page.evaluate(
        "(it) => document.querySelector(it).getBoundingClientRect().bottom", down_to
    )
    clip: Any = {"x": 0, "y": 0, "width": width, "height": min(most, int(end) + 24)}
    page.screenshot(path=path, full_page=True, clip=clip, animations="disabled")
    _fewer_colours(path)
    say(f"{path} ({path.stat().st_size // 1024} kB)")


def _fewer_colours(path: Path) -> None:
    """A picture with a palette: a third of its size, and nobody sees it."""
    from PIL import Image

    with Image.open(path) as picture:
        made = picture.convert("RGB").quantize(160, dither=Image.Dither.NONE)
    made.save(path, optimize=True)
