"""The first start where something is missing: it is noticed once it is there, and a start that fails leaves nothing behind."""

import os
import shutil
from pathlib import Path

import pytest
from browser import Browsing, operator
from playwright.sync_api import expect
from web_servers import serving

from tasuki.errors import NotPossible
from tasuki.fleet.orders.bodies import NewAgent
from tasuki.fleet.store import queries
from tasuki.web.pages.agent import first_start
from tasuki.web.pages.settings import HooksState


def test_what_is_missing_is_noticed_once_it_is_there(
    tmp_path: Path, browsing: Browsing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program, tmux and curl are found without a reload; without curl hooks are not ticked."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("git", "sh", "env", "cat", "true"):
        (folder / name).symlink_to(shutil.which(name) or "/bin/true")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(first_start, "list_hooks", lambda fleet: [HooksState("claude", "Claude Code", "in place")])  # fmt: skip
    browsing.expect("ERR_CONNECTION_REFUSED|htmx:")  # it looks until the server ends
    with serving(tmp_path / "s") as made:
        monkeypatch.setenv("PATH", str(folder))
        page = operator(browsing.page(made.origin), made.link)
        steps = page.locator("#first-start")
        expect(steps.locator("#step-programs")).to_contain_text("tmux is missing")
        expect(steps.locator("#step-hooks")).to_contain_text("curl, which is missing")
        (folder / "claude").write_text("#!/bin/sh\necho 2.1.0\n")
        (folder / "claude").chmod(0o755)
        (folder / "tmux").symlink_to("/bin/true")
        expect(steps.locator("#step-programs")).to_contain_text("Claude Code")
        expect(steps.get_by_role("heading", name="1 Programs found")).to_be_visible()
        expect(steps.get_by_role("heading", name="2 Hooks added")).to_have_count(0)


def test_a_start_that_fails_leaves_no_persona(
    tmp_path: Path, browsing: Browsing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folder is gone, too; the home folder may be written as `~`, and the page names no options."""
    browsing.expect("status of 4")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "proj").mkdir()
    (tmp_path / "claude").write_text("#!/bin/sh\necho 2.1.0\n")
    (tmp_path / "claude").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    wanted: list[str] = []
    with serving(tmp_path / "s") as made:

        def refuse(_: object, request: NewAgent) -> None:
            wanted.append(request.cwd)
            raise NotPossible("tmux is not there. Install it, or omit --tmux to start the successor in this terminal.")  # fmt: skip

        monkeypatch.setattr(first_start, "start_agent", refuse)
        monkeypatch.setattr(first_start, "check_hooks", lambda data, name: None)  # fmt: skip
        monkeypatch.setattr(first_start, "list_hooks", lambda fleet: [HooksState("claude", "Claude Code", "in place")])  # fmt: skip
        page = operator(browsing.page(made.origin), made.link)
        page.goto("/agents/first")
        page.get_by_label("Folder").fill("~/proj")
        page.get_by_role("button", name="Start it").click()
        expect(page.get_by_role("alert")).to_have_text("tmux is not there. Install it.")
        personas = made.fleet.root / "personas"

        assert wanted == [str(tmp_path / "proj")]
        assert queries.list_personas(made.fleet.database) == []
        assert not personas.exists() or list(personas.iterdir()) == []
