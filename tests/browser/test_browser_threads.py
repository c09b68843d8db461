"""Threads in a browser: found, read, and handed off, from the goal to a successor in tmux."""

import json
from pathlib import Path

import pytest
from browser import Browsing, operator, portraits, violations
from fleets import World
from playwright.sync_api import Page, expect
from waiting import retry_until

from tasuki.vault import Vault
from tasuki_testing import story

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
GOAL = "Make the retries of the upload client configurable, and cover the 429 path with a test"


@pytest.fixture
def threads(world: World) -> Path:
    """The folder of Claude Code's threads, with one in it."""
    folder = world.home / ".claude" / "projects" / "-work"
    folder.mkdir(parents=True)
    story("claude").write(folder)
    return folder


@pytest.fixture
def seen(world: World, threads: Path, browsing: Browsing) -> Page:
    """A browser that is signed in."""
    return operator(browsing.page(world.origin()), world.link())


def open_first(page: Page, query: str = "") -> None:
    """Open the first thread that is found."""
    page.goto(f"/threads?q={query}")
    page.locator(".hits a").first.click()
    expect(page.get_by_role("heading", name="Start a handoff")).to_be_visible()


def drafted(page: Page, goal: str = GOAL) -> None:
    """Fill the form of a thread in; the page shows the brief then."""
    page.get_by_label("Goal, used word for word").fill(goal)
    page.get_by_role("button", name="Draft it").click()
    page.wait_for_url("**/briefs/*", timeout=30_000)


def vault(world: World) -> Vault:
    """What was kept."""
    return Vault(world.data / "handoffs")


def test_a_handoff_from_any_thread(world: World, seen: Page) -> None:
    """A thread is found, read, drafted, reviewed, edited and started: the successor has the brief, unsent."""
    open_first(seen, "timeout")
    expect(seen.locator(".thread > li").first).to_be_visible()
    drafted(seen)
    expect(seen.locator(".goal")).to_contain_text(GOAL)
    expect(seen.get_by_role("heading", name="Left out (not found in the thread)")).to_be_visible()
    seen.get_by_role("link", name="Edit", exact=True).click()
    text = seen.get_by_label("Brief").input_value()
    seen.get_by_label("Brief").fill(text.replace(GOAL, f"{GOAL}, please"))
    seen.get_by_role("button", name="Save as a revision").click()
    seen.wait_for_url("**/briefs/*")
    expect(seen.locator("dl.facts")).to_contain_text("revision 2")
    seen.get_by_role("button", name="Start a successor").click()
    expect(seen.get_by_role("status").filter(has_text="runs in the tmux pane")).to_be_visible(
        timeout=30_000
    )
    newest, first = vault(world).list_handoffs()

    assert (newest.goal.text, newest.revises) == (f"{GOAL}, please", first.id)
    assert first.goal.text == GOAL
    retry_until(lambda: f"{GOAL}, please" in world.screen("tasuki:0"))
    assert world.seen("prompt") == []


def start_from_brief(seen: Page, persona: str = "", *, send: bool = False) -> None:
    """Draft a brief of the first thread and start a successor from it."""
    open_first(seen, "timeout")
    drafted(seen)
    if persona:
        seen.get_by_label("Persona", exact=True).select_option(persona)
    if persona == "new":
        seen.get_by_label("Role of the new persona").fill("tester")
        seen.get_by_label("Name of the new persona").fill("tim")
    if send:
        seen.get_by_label("Send at once").check()
    seen.get_by_role("button", name="Start a successor").click()


def test_a_successor_of_a_brief_is_an_agent_of_the_fleet(world: World, seen: Page) -> None:
    """The brief links to it, its unsent prompt is sent from its page, and then it takes messages."""
    slug = world.persona()
    start_from_brief(seen, slug)
    seen.get_by_role("link", name="agent 1").click(timeout=30_000)
    expect(seen.get_by_text("tasuki did not start this agent")).to_have_count(0)
    unsent = world.prompts(GOAL)
    seen.get_by_role("button", name="Send the brief").click()
    retry_until(lambda: world.prompts(GOAL))
    expect(seen.get_by_role("button", name="Send the brief")).to_have_count(0)
    world.idle(1)
    seen.get_by_label("Sent once").fill("say hello")
    seen.get_by_role("button", name="Send", exact=True).click()
    retry_until(lambda: world.prompts("say hello"))
    agent = world.agent(1)
    (handoff,) = vault(world).list_handoffs()

    assert unsent == []
    assert len(world.prompts(GOAL)) == 1
    assert (agent["persona"], agent["adopted"], agent["brief"], agent["goal"]) == (slug, True, handoff.id, GOAL)  # fmt: skip
    assert len(world.api("GET", "/api/agents")["agents"]) == 1


def test_a_successor_of_a_brief_gets_a_new_persona(world: World, seen: Page) -> None:
    """It is added with its first agent; a name that cannot be is refused before anything starts."""
    start_from_brief(seen, "new")
    expect(seen.get_by_role("link", name="tester-tim-1")).to_be_visible(timeout=30_000)

    assert world.agent(1)["persona"] == "tester-tim-1"


def test_a_persona_at_work_gets_no_second_agent_from_a_brief(
    world: World, browsing: Browsing, seen: Page
) -> None:
    """It is not offered; one that begins to work meanwhile is refused, and nothing is started."""
    browsing.expect("status of 409")
    slug = world.persona()
    open_first(seen, "timeout")
    drafted(seen)
    seen.get_by_label("Persona", exact=True).select_option(slug)
    world.started(persona=slug)
    seen.get_by_role("button", name="Start a successor").click()
    expect(seen.get_by_role("alert")).to_contain_text(f"works as {slug} already")

    assert seen.get_by_label("Persona", exact=True).locator(f"option[value={slug}]").count() == 0
    assert len(world.seen("started")) == 1


def test_the_entries_of_a_brief_open_beside_it(seen: Page) -> None:
    """A reference opens its entry beside the brief without leaving the page, and says where that is from."""
    open_first(seen)
    drafted(seen)
    seen.evaluate("window.same = true")
    link = seen.locator(".brief a.ref").last
    number = (link.text_content() or "").removeprefix("#")
    link.click()
    expect(seen.get_by_role("heading", name=f"Entry #{number}")).to_be_visible()
    expect(link).to_have_attribute("aria-current", "true")
    expect(seen.locator("#entry")).to_contain_text("unchanged: hash")
    seen.locator("#entry").get_by_role("link", name="Open in the thread").click()
    expect(seen.locator(f"#e{number}")).to_be_in_viewport()


def test_a_vague_goal_is_refused_beside_the_form(browsing: Browsing, seen: Page) -> None:
    """A goal that says nothing is refused with the sentence of the command line; what was typed stays."""
    browsing.expect("status of 409")
    open_first(seen)
    seen.get_by_label("Goal, used word for word").fill("continue")
    seen.get_by_role("button", name="Draft it").click()
    expect(seen.locator("form.aside").get_by_role("alert")).to_contain_text("goal")

    assert seen.get_by_label("Goal, used word for word").input_value() == "continue"


def test_a_goal_is_kept_to_the_letter(world: World, seen: Page) -> None:
    """Line ends, quotes and markup of a goal reach the brief as they were typed."""
    goal = 'Add a test.\n\n  - "quoted" <b>not bold</b> & café\n  - last line'
    open_first(seen)
    drafted(seen, goal)

    assert vault(world).list_handoffs()[0].goal.text == goal
    assert goal in vault(world).load_brief(vault(world).list_handoffs()[0].id)


@pytest.mark.long
def test_without_javascript(world: World, threads: Path, browsing: Browsing) -> None:
    """Everything from the search to the draft works without a script."""
    page = browsing.page(world.origin(), javascript=False)
    operator(page, world.link())
    open_first(page)
    page.get_by_label("Goal, used word for word").fill(GOAL)
    page.get_by_role("button", name="Draft it").click()
    page.wait_for_url("**/briefs/*", timeout=30_000)
    expect(page.locator(".goal")).to_contain_text(GOAL)
    page.locator(".brief a.ref").first.click()
    expect(page.locator("#entry h2")).to_contain_text("Entry #")


FETCHED = """async path => { const answer = await fetch(path);
    return [(await answer.text()).length, answer.headers.get("content-security-policy")]; }"""
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)> [x](javascript:alert(3)) \u202egpj.exe \x1b[2J"


def test_a_hostile_thread(world: World, threads: Path, browsing: Browsing, seen: Page) -> None:
    """A thread full of markup, odd links, directions and a line of 1 MB is text, and its page stays small."""
    hits: list[str] = []
    seen.on("dialog", lambda dialog: (hits.append(dialog.message), dialog.dismiss()))
    path = next(threads.glob("*.jsonl"))
    lines = path.read_text().splitlines()
    known = json.loads(lines[-1])
    for number, (kind, content) in enumerate([("user", f"{HOSTILE} {'A' * 1_000_000}"), ("assistant", [{"type": "text", "text": HOSTILE}])]):  # fmt: skip
        known |= {
            "parentUuid": known["uuid"],
            "uuid": f"hostile-{number}",
            "type": kind,
            "message": {"role": kind, "content": content},
        }
        lines.append(json.dumps(known))
    path.write_text("\n".join(lines) + "\n")
    for where in ("/threads", "/threads?q=alert"):
        seen.goto(where)
        expect(seen.locator(".hits a").first).to_be_visible()
    open_first(seen)
    expect(seen.get_by_text("<script>alert(1)</script>").first).to_be_visible()
    content = seen.content()
    whole = seen.get_by_role("link", name="The whole of it").first.get_attribute("href")
    size, policy = seen.evaluate(FETCHED, whole)
    drafted(seen)

    assert hits == []
    assert "\u202e" not in content
    assert "\x1b" not in content
    assert len(content) < 300_000
    assert seen.locator("a[href^='javascript']").count() == 0
    assert (
        size > 1_000_000,
        "sandbox" in policy,
    ) == (True, True)


@pytest.mark.long
def test_drafts_are_listed_found_and_pruned(world: World, seen: Page) -> None:
    """The list of drafts has what was kept; pruning shows what would go before it goes."""
    open_first(seen)
    drafted(seen)
    seen.goto("/briefs?q=retries")
    expect(seen.locator("tbody tr")).to_have_count(1)
    seen.get_by_role("link", name="Prune …").click()
    seen.get_by_label("Older than, days").fill("0")
    seen.get_by_role("button", name="Show").click()
    seen.get_by_role("button", name="Delete 1 permanently").click()
    expect(seen.get_by_role("status").filter(has_text="Deleted 1.")).to_be_visible()

    assert vault(world).list_handoffs() == []


def test_its_pages_are_accessible(seen: Page) -> None:
    """axe-core finds nothing on the pages of threads and drafts."""
    open_first(seen)
    assert ("thread", portraits(seen, "thread")) == ("thread", [])
    drafted(seen)
    id = seen.url.rpartition("/")[2]
    for name, where in {
        "brief": f"/briefs/{id}",
        "edit": f"/briefs/{id}/edit",
        "briefs": "/briefs",
        "prune": "/briefs/prune",
        "threads": "/threads",
        "threads-none": "/threads?q=nothinghasthisword",
    }.items():
        seen.goto(where)

        assert (name, portraits(seen, name)) == (name, [])
    assert violations(seen) == []
