"""Pages in Debian's Chromium, driven by Playwright, and what axe-core finds in them.

A page that is opened here is watched: an error in its console, an uncaught exception, a request
that fails and a request to another origin each fail the test, unless it said that it expects it.
What a Content-Security-Policy stops, Chromium tells in the console.
"""

import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import selection
from npm_programs import axe
from playwright.sync_api import Browser as Chromium
from playwright.sync_api import (
    BrowserContext,
    ConsoleMessage,
    Error,
    FloatRect,
    Page,
    Request,
    Response,
    expect,
    sync_playwright,
)
from tree import ROOT

PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The first is Chromium without what surrounds a page; it needs two thirds of the time."""
WHOLE = PROGRAMS[1:]
"""Those that have what surrounds a page: notifications."""
SECONDS = 30
"""Time limit of an action and of an expectation: other tests run beside it."""
HEIGHT = 900
TALLEST = 12_000
"""Pixels of a page that are kept as a picture; Chromium makes none of more than 16,384."""
WIDTHS = (360, 820, 1280, 2560)
PORTRAYED = (360, 1280)
Scheme = Literal["light", "dark"]
_AXE = """async () => (await axe.run(document, {resultTypes: ["violations"]})).violations.flatMap(
    rule => rule.nodes.map(node => `${rule.id}: ${node.target.join(" ")}: ${node.failureSummary}`))"""
_SETTLE = (
    "for (const one of document.getAnimations()) if (one instanceof CSSTransition) one.finish()"
)
_SIZE = "[document.documentElement.scrollWidth, document.documentElement.scrollHeight]"
expect.set_options(timeout=SECONDS * 1000)
_NETWORK_CHANGED = "net::ERR_NETWORK_CHANGED"  # other tests make networks of their own
_LEFT = "net::ERR_ABORTED"  # a request that its page no longer waits for: it was left or reloaded


def missing(programs: Sequence[str] = PROGRAMS) -> str:
    """Why no page can be opened; empty where it can."""
    return "" if _program(programs) else f"no Chromium is installed (one of {', '.join(programs)})"


def _program(programs: Sequence[str]) -> str | None:
    return next(filter(None, map(shutil.which, programs)), None)


@contextmanager
def chromium(programs: Sequence[str] = PROGRAMS) -> Iterator[Chromium]:
    """Chromium without a window, the first of the programs that is installed, and no other one of this process."""
    close_shared()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=_program(programs), headless=True, chromium_sandbox=os.getuid() != 0
        )
        try:
            yield browser
        finally:
            browser.close()


_shared: list[tuple[ExitStack, Chromium]] = []


def open_shared() -> Chromium:
    """The Chromium of this process, until it is closed."""
    if not _shared:
        with ExitStack() as opened:
            made = opened.enter_context(chromium())
            _shared.append((opened.pop_all(), made))
    return _shared[0][1]


def close_shared() -> None:
    """Close the Chromium of this process: while Playwright runs, no asyncio test can run in the same thread."""
    while _shared:
        _shared.pop()[0].close()


class Browsing:
    """The pages that a test has open, and what went wrong in them."""

    def __init__(self, browser: Chromium) -> None:
        self.browser = browser
        self.faults: list[str] = []
        self._expected: list[str] = []
        self._contexts: list[BrowserContext] = []

    def page(
        self,
        origin: str,
        *,
        width: int = 1280,
        scheme: Scheme = "light",
        javascript: bool = True,
        still: bool = False,
        own_authority: bool = False,
        zone: str = "UTC",
        touch: bool = False,
    ) -> Page:
        """An empty page in a browser of its own: without the cookies of the others.

        `origin` is the server's, `http://127.0.0.1:4720`: what `page.goto("/personas")` is asked
        of, and the only one that may be asked. `still` is what people set who want no movement.
        `own_authority`: the certificate is one that no browser knows. `touch`: a finger points.
        """
        context = self.browser.new_context(
            base_url=origin,
            color_scheme=scheme,
            ignore_https_errors=own_authority,
            java_script_enabled=javascript,
            locale="en-GB",
            reduced_motion="reduce" if still else "no-preference",
            timezone_id=zone,
            has_touch=touch,
            is_mobile=touch,
            viewport={"width": width, "height": HEIGHT},
        )
        self._contexts.append(context)
        context.set_default_timeout(SECONDS * 1000)
        context.on("console", self._console)
        context.on("weberror", lambda error: self._fault(f"exception: {error.error}"))
        context.on("requestfailed", self._failed)
        context.on("request", lambda request: self._asked(request, origin))
        page = context.new_page()
        page.goto = partial(_go, page.goto)  # type: ignore[method-assign]
        return page

    def expect(self, pattern: str) -> None:
        """Faults in which this regular expression is found are no faults, before and after."""
        self._expected.append(pattern)

    def leave(self) -> None:
        """Close every page; what goes wrong from here on is no fault of theirs."""
        for context in self._contexts:
            context.close()
        self._contexts.clear()

    def unexpected(self) -> list[str]:
        """The faults that the test did not say it expects."""
        return [it for it in self.faults if not any(re.search(one, it) for one in self._expected)]

    def _fault(self, sentence: str) -> None:
        self.faults.append(sentence)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self._fault(f"console: {message.text} ({message.location.get('url', '')})")

    def _failed(self, request: Request) -> None:
        if request.failure not in (_LEFT, _NETWORK_CHANGED):
            self._fault(f"failed: {request.method} {request.url}: {request.failure}")

    def _asked(self, request: Request, origin: str) -> None:
        asked = urlsplit(request.url)
        if asked.scheme not in ("data", "blob") and f"{asked.scheme}://{asked.netloc}" != origin:
            self._fault(f"another origin: {request.method} {request.url}")


def _go(go: Callable[..., Response | None], url: str, **options: Any) -> Response | None:
    """Open an address, once more where an interface of the machine came or went meanwhile."""
    try:
        return go(url, **options)
    except Error as error:
        if _NETWORK_CHANGED not in error.message:
            raise
        return go(url, **options)


def operator(page: Page, link: str) -> Page:
    """The page, signed in by the link that `tasuki serve` prints; it shows the fleet."""
    page.goto(link)
    page.wait_for_url(lambda url: urlsplit(url).path == "/")
    return page


def violations(page: Page) -> list[str]:
    """What axe-core finds in a page that runs scripts, as it stands: a rule, the element, what to do.

    The script is evaluated by the browser, not by the page, so that the page's own
    Content-Security-Policy stays as it is. Colours are judged as they end, not on their way.
    """
    page.evaluate(_SETTLE)
    page.evaluate(_axe())
    found: list[str] = page.evaluate(_AXE)
    return found


@cache
def _axe() -> str:
    return axe().read_text("utf-8")


def shot(page: Page, name: str) -> Path:
    """Save a picture of a page as an artefact of the run: `$TASUKI_ARTEFACTS/{name}.png`."""
    folder = Path(os.environ.get("TASUKI_ARTEFACTS") or ROOT / ".cache" / "artefacts" / "dashboard")
    path = folder.absolute() / f"{name}.png"
    width, height = page.evaluate(_SIZE)
    clip = FloatRect(x=0, y=0, width=width, height=min(height, TALLEST))
    page.screenshot(path=path, full_page=True, clip=clip, animations="disabled")
    return path


def portraits(page: Page, name: str) -> list[str]:
    """Save a page in light and narrow, with `--all` in dark, too; what axe-core finds there, and at which width it is too wide."""
    found = []
    looks: list[tuple[Scheme, int]] = [("light", width) for width in WIDTHS]
    looks += [("dark", 1280)] if selection.takes_long else []
    for scheme, width in looks:
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # no colour halfway
        page.set_viewport_size({"width": width, "height": HEIGHT})
        look = f"{scheme}-{width}"
        if width in PORTRAYED:
            shot(page, f"{name}-{look}")
            found += [f"{look}: {one}" for one in violations(page)]
        if (wide := page.evaluate(_SIZE)[0]) > width:
            found.append(f"{look}: the page is {wide} wide and scrolls sideways")
    page.emulate_media(color_scheme="light", reduced_motion="no-preference")
    page.set_viewport_size({"width": 1280, "height": HEIGHT})
    return found
