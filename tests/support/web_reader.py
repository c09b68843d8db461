"""Somebody who reads threads in the dashboard: a home with threads, a vault, and a browser without scripts."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path

import pytest
from keyless import keyless_home
from visitors import Visitor
from waiting import retry_until
from web_servers import Answer, Served, serving

from tasuki.vault import Vault
from tasuki.web.pages.threads import routes
from tasuki_testing import ThreadBuilder, story

GOAL = "Make the retries of the upload client configurable, and cover the 429 path with a test"
_HITS = re.compile(r'<ul class="hits">(.*?)</ul>', re.DOTALL)
_SAFE = re.compile(r"/(?!/)|#|https?://")
_LINK = re.compile(r'<a href="(/threads/[^"]+)"')


class Reader(Visitor):
    """Signed in, with threads of Claude Code in a home of its own."""

    def __init__(self, served: Served, folder: Path) -> None:
        super().__init__(served)
        self.home = folder / "home"
        self.projects = self.home / ".claude" / "projects" / "-home-dev-proj"
        self.projects.mkdir(parents=True)
        self.vault = Vault()

    def thread(self, builder: ThreadBuilder | None = None, name: str = "") -> str:
        """Write a thread; its address. Without a builder it is one in which everything happens."""
        builder = builder or story("claude")
        builder.write(self.projects / name if name else self.projects)
        return f"/threads/claude/{builder.id}"

    def draft(self, thread: str, goal: str = GOAL, **fields: str) -> Answer:
        """Ask for a draft as the form of a thread does."""
        return self.post(f"{thread}/handoff", goal=goal, **fields)

    def brief(self, thread: str, goal: str = GOAL, **fields: str) -> str:
        """Draft a handoff and wait for it; the address of its brief."""
        answer = self.draft(thread, goal, **fields)
        assert answer.status == 303, answer.body.decode()
        job = answer.headers["location"]
        where: str = retry_until(lambda: self.get(job).headers.get("location", ""), 30)
        return where


def hits(page: str) -> list[str]:
    """The addresses of the threads that a page lists."""
    found = _HITS.search(page)
    return [one.replace("&amp;", "&") for one in _LINK.findall(found[1])] if found else []


class _Tags(HTMLParser):
    """Collects what could do something in a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Scripts of others, images, handlers, styles, and links to anything but pages."""
        for name, value in [("", ""), *attrs]:
            to = name in ("href", "src", "action") and not _SAFE.match(value or "")
            if (
                tag in ("img", "iframe", "style", "object")
                or name.startswith("on")
                or name == "style"
                or to
            ):
                self.found.append(f"<{tag} {name}={value}>")
        if tag == "script" and not str(dict(attrs).get("src", "")).startswith("/static/"):
            self.found.append("<script>")


def harmful(page: str) -> list[str]:
    """The tags of a page that could do something that the page itself does not."""
    tags = _Tags()
    tags.feed(page)
    return tags.found


@contextmanager
def reading(folder: Path, patch: pytest.MonkeyPatch) -> Iterator[Reader]:
    """A reader before a server of its own; nothing of this machine is in reach."""
    keyless_home(folder, patch)
    for name in ("CLAUDE_CONFIG_DIR", "TMUX", "TMUX_PANE"):
        patch.delenv(name, raising=False)
    patch.setenv("TASUKI_DATA", str(folder / "data"))
    patch.setenv("TASUKI_CONFIG", str(folder / "config.toml"))
    patch.setattr(
        routes, "THREAD_SEARCH", routes.ThreadSearch()
    )  # the index of this home, not of the last one
    with serving(folder / "data") as served:
        yield Reader(served, folder)
