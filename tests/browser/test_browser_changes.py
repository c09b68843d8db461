"""What an agent changed, in a browser: on its card, on its page, and whole."""

import os
from pathlib import Path

import pytest
from browser import Browsing, operator, portraits
from fleets import World
from playwright.sync_api import Page, expect
from waiting import retry_until
from work_trees import WorkFolder

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
SECRET = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC2dF4hJ6"
GH = """#!/bin/sh
cat <<'END'
{"number": 42, "title": "Retry uploads", "state": "OPEN", "isDraft": false,
 "url": "https://github.com/ann/upload/pull/42", "statusCheckRollup": [
 {"name": "tests", "conclusion": "SUCCESS", "detailsUrl": "https://github.com/ann/upload/runs/1"},
 {"name": "lint", "conclusion": "FAILURE", "detailsUrl": "javascript:alert(1)"}]}
END
"""


class Changed:
    """An agent in a repository that has changed something, and a browser that shows the fleet."""

    def __init__(self, world: World, browsing: Browsing, tmp_path: Path) -> None:
        self.world, self.browsing = world, browsing
        self.repository = WorkFolder(tmp_path / "repository")
        self.agent = world.started(cwd=str(self.repository.folder))
        long = "".join(f"line {n}\n" for n in range(600))
        self.repository.write("app.py", f"one\n2\nthree\nkey = '{SECRET}'\n")
        self.repository.write("docs/long.txt", long)
        self.repository.commit("Retry an upload that was refused")
        self.repository.write("src/new.py", "def retry() -> None:\n    pass\n")
        self.repository.write("<b>odd</b>\nname.txt", "<script>alert(1)</script>\n")
        world.worked(self.agent)
        retry_until(lambda: (world.agent(self.agent)["changes"] or {}).get("files") == 4, 40)

    def page(self, **options: object) -> Page:
        """The fleet's page."""
        page = self.browsing.page(self.world.origin(), **options)  # type: ignore[arg-type]
        return operator(page, self.world.link())


@pytest.fixture
def changed(world: World, browsing: Browsing, tmp_path: Path) -> Changed:
    """An agent that has changed something."""
    return Changed(world, browsing, tmp_path)


def test_what_an_agent_did_is_one_click_away(changed: Changed) -> None:
    """The card has branch, lines, files and commits; one click opens commits and every line."""
    page = changed.page()
    line = page.locator(f"#a{changed.agent}-work")
    expect(line).to_have_text("main +605 −1 in 4 files, 1 commit")
    line.click()
    page.wait_for_url(f"**/agents/{changed.agent}/changes")
    expect(page.get_by_text("Retry an upload that was refused")).to_be_visible()
    expect(page.locator("details.diff")).to_have_count(4)
    app = page.locator("details.diff").filter(has_text="app.py")
    expect(app.locator(".add").first).to_have_text("+2")
    expect(app.locator(".del").first).to_have_text("-two")

    assert SECRET not in page.content()
    assert page.locator("main script, main b").count() == 0


def test_a_long_file_and_the_way_to_its_whole(changed: Changed) -> None:
    """A long file says how many lines are left out, and opens whole; its name in the list leads to it."""
    page = changed.page()
    page.goto(f"/agents/{changed.agent}/changes")
    long = page.locator("details.diff").filter(has_text="long.txt")
    expect(long).to_contain_text("… 201 more lines.")
    expect(long.locator("pre > span")).to_have_count(400)
    long.get_by_role("link", name="The whole file").click()
    expect(page.locator("pre > span")).to_have_count(601)
    page.get_by_role("link", name="All files").click()
    page.locator(".files").get_by_role("link", name="src/new.py").click()

    assert page.url.partition("#")[2] == page.locator("details.diff").filter(
        has_text="src/new.py"
    ).get_attribute("id")


def test_the_agents_page_loads_it(changed: Changed) -> None:
    """The agent's page shows branch, commits and files a moment later; without a script it is a link."""
    page = changed.page()
    page.goto(f"/agents/{changed.agent}")
    section = page.locator("#changes")
    expect(section).to_contain_text("Retry an upload that was refused")
    expect(section).to_contain_text("src/new.py")
    expect(section).to_contain_text("Pull requests are shown where the program gh is installed")
    plain = changed.page(javascript=False)
    plain.goto(f"/agents/{changed.agent}")
    plain.locator("#changes").get_by_role("link", name="Full diff").click()

    expect(plain.locator("details.diff")).to_have_count(4)


def test_no_repository_is_a_sentence(world: World, browsing: Browsing) -> None:
    """In a folder without a repository the card says nothing, and the pages say why."""
    agent = world.worked(world.started())
    retry_until(lambda: world.agent(agent)["changes"], 40)
    page = operator(browsing.page(world.origin()), world.link())
    expect(page.locator(f"#agent-{agent}")).to_be_visible()
    expect(page.locator(f"#a{agent}-work")).to_have_count(0)
    page.goto(f"/agents/{agent}")
    expect(page.locator("#changes")).to_contain_text("is in no git repository")
    page.goto(f"/agents/{agent}/changes")
    expect(page.locator("main")).to_contain_text("is in no git repository")


def test_it_looks_right(changed: Changed) -> None:
    """Narrow and wide, light and dark: nothing scrolls sideways, and axe-core finds nothing."""
    page = changed.page()
    faults = portraits(page, "fleet-with-changes")
    for name, path in (("agent-changes", "/changes"), ("agent-with-changes", "")):
        page.goto(f"/agents/{changed.agent}{path}")
        expect(page.locator("main")).to_contain_text("Pull requests are shown")
        faults += portraits(page, name)
        page.set_viewport_size({"width": 320, "height": 800})
        assert page.evaluate("document.querySelector('main').scrollWidth") <= 320

    assert [] == faults


@pytest.fixture
def world_with_gh(world: World) -> World:
    """A fleet whose server finds a scripted `gh`."""
    program = world.folder / "bin" / "gh"
    program.write_text(GH)
    os.chmod(program, 0o755)
    return world


def test_the_pull_request_and_its_checks(
    world_with_gh: World, browsing: Browsing, tmp_path: Path
) -> None:
    """Number, title and checks come from `gh`; a failed check stands open, and only https is a link."""
    changed = Changed(world_with_gh, browsing, tmp_path)
    page = changed.page()
    page.goto(f"/agents/{changed.agent}/changes")
    part = page.locator("#pull-request")
    expect(part).to_contain_text("Pull request #42 Retry uploads open")
    expect(part).to_contain_text("1 failed, 1 passed")

    assert part.get_by_role("link").all_inner_texts() == ["#42", "tests"]


def test_an_open_page_follows(changed: Changed) -> None:
    """The line of a card changes while the page is open, soon after the agent's turn."""
    page = changed.page()
    line = page.locator(f"#a{changed.agent}-work")
    expect(line).to_contain_text("in 4 files, 1 commit")
    page.evaluate("window.same = true")
    changed.repository.commit("The second")
    changed.world.worked(changed.agent, "Please commit it")
    expect(line).to_contain_text("in 4 files, 2 commits", timeout=40_000)

    assert page.evaluate("window.same") is True
