"""A peek at an agent over the list: by keyboard, current, and answered without leaving the list."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fleet_records
import pytest
import sqlalchemy as sa
from browser import Browsing, operator, shot, violations
from fleets import World
from msgspec.structs import replace
from playwright.sync_api import Locator, Page, Route, expect
from waiting import retry_until
from web_servers import Served, serving

from tasuki.fleet.store import log, queries, tables
from tasuki.fleet.store.agent_question import AgentQuestion, QuestionChoice
from tasuki.fleet.store.models import WorkSummary
from tasuki.fleet.store.questions import dump_question
from tasuki.web.pages.agent import peek as peek_page
from tasuki_testing import ThreadBuilder

ON_SQLITE = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
KEY = "sk-ant-api03-" + "Zx9Qw8Er7Ty6Ui5Op4As3Df2Gh1Jk0Lz" * 3
"""What looks like a key."""
PASSWORD = "Tulip42Harbour9x"
"""What is a secret only to who read its name."""
WORK = WorkSummary(
    branch="rounding", added=120, removed=8, files=3, commits=2, command="pytest -q tests", at=1.0
)


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """A server with three agents: one asks, one works and has a thread, one is idle."""
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    with serving(tmp_path) as made:
        asks = AgentQuestion(
            text="Allow Bash?", mark="a" * 16, asked_at=1.0, detail="alembic downgrade -1", is_read=True,
            choices=(QuestionChoice("1", "Yes"), QuestionChoice("2", "No")), takes_text=True,
        )  # fmt: skip
        add(
            made,
            1,
            state="waiting",
            waiting_for="permission for Bash",
            question=dump_question(asks),
        )
        builder = ThreadBuilder("claude").user("Oldest of all").assistant("Begun.")
        builder.user(f"Use half-even rounding; the key is {KEY}").assistant(
            "Rounded. " + "More of it. " * 200
        )
        builder.user("Now the export <b>please</b>")
        folder = tmp_path / "claude" / "projects" / "-src-shop"
        folder.mkdir(parents=True)
        path = builder.write(folder)
        add(
            made, 2, state="busy", changes=WORK_ROW, thread=str(path),
            children=["tail -f build.log"],
        )  # fmt: skip
        add(made, 3)
        yield made


WORK_ROW = {name: getattr(WORK, name) for name in WORK.__struct_fields__}


def add(served: Served, number: int, **values: Any) -> None:
    """An agent of a persona of its own."""
    slug = f"developer-con-{number}"
    fleet_records.persona(served.fleet.database, slug)
    given = {"state": "idle", "session": f"session-{number}", **values}
    fleet_records.agent(
        served.fleet.database, persona=slug, cwd="/src/shop", context_used=40, pane=f"%{number}", adopted=True,
        started_at=time.time() - number, state_at=time.time() - 60, **given,
    )  # fmt: skip


def changes(served: Served, agent: int, **values: Any) -> None:
    """Something of an agent changes, as its server writes it down."""
    with served.fleet.database.write() as connection:
        query = sa.update(tables.agents).where(tables.agents.c.id == agent)
        connection.execute(query.values(**values))
        log.note(connection, "agent", "It changed", agent_id=agent)
    served.fleet.changes.notify([agent])


@pytest.fixture
def seen(served: Served, browsing: Browsing) -> Page:
    """A browser that shows the list, connected."""
    page = operator(browsing.page(served.origin), served.link)
    page.goto("/?look=list")
    expect(page.locator("#live-word")).to_have_text("Live")
    return page


def test_space_peeks_and_the_list_is_gone_through(seen: Page) -> None:
    """Space opens and closes, j and k show the next and the previous agent; the cursor goes with them."""
    peek = seen.locator("dialog #peek")
    seen.keyboard.press("Space")
    expect(peek).to_have_count(0)
    seen.keyboard.press("j")
    seen.keyboard.press("Space")
    expect(peek.get_by_role("heading", name="developer-con-1")).to_be_visible()
    expect(peek).to_be_focused()
    for key, name in (("j", "con-2"), ("j", "con-3"), ("j", "con-3"), ("k", "con-2")):
        seen.keyboard.press(key)
        expect(peek.get_by_role("heading", name=name)).to_be_visible()
    expect(seen.locator("#agent-2")).to_have_attribute("data-cursor", "")
    seen.keyboard.press("Space")
    expect(seen.get_by_role("dialog")).to_have_count(0)
    expect(seen.locator("#a2-name")).to_be_focused()
    seen.keyboard.press("Space")
    expect(peek).to_be_visible()
    seen.keyboard.press("Escape")
    expect(seen.get_by_role("dialog")).to_have_count(0)
    seen.keyboard.press("Space")
    expect(peek).to_be_focused()
    seen.keyboard.press("Enter")
    seen.wait_for_url("**/agents/2")


def test_space_is_no_answer_by_chance(served: Served, seen: Page) -> None:
    """It is the button's only where the operator went to the button."""
    asked: list[str] = []
    seen.on(
        "request", lambda request: asked.append(request.url) if request.method == "POST" else None
    )
    seen.keyboard.press("j")
    for _ in range(2):
        seen.keyboard.press("Space")
        expect(seen.locator("dialog #peek")).to_be_focused()
        seen.keyboard.press("Space")
        expect(seen.get_by_role("dialog")).to_have_count(0)
        expect(seen.locator("#a1-name")).to_be_focused()
    assert asked == []
    seen.locator("#pick-2").focus()
    seen.keyboard.press("Space")
    expect(seen.locator("#pick-2")).to_be_checked()
    expect(seen.get_by_role("dialog")).to_have_count(0)


def test_it_says_what_matters_without_secrets(seen: Page) -> None:
    """State, command, what it changed, and the last three messages, shortened."""
    seen.keyboard.press("n")
    seen.keyboard.press("j")
    seen.keyboard.press("Space")
    peek = seen.locator("dialog #peek")
    expect(peek).to_contain_text("Busy")
    expect(peek).to_contain_text("1 in the background: tail -f build.log")
    expect(peek).to_contain_text("Runs pytest -q tests")
    expect(
        peek.get_by_role("link", name=re.compile("rounding .120 −8 in 3 files, 2 commits"))
    ).to_be_visible()
    said = peek.locator(".spoken li")
    expect(said).to_have_count(3)
    expect(said.nth(0)).to_contain_text("Use half-even rounding")
    expect(said.nth(0)).to_contain_text("[REDACTED")
    expect(said.nth(1)).to_contain_text(re.compile("More of it[.] .{0,12}…$"))
    expect(said.nth(2)).to_contain_text("Now the export <b>please</b>")
    assert KEY not in seen.content()
    found = []
    for width in (320, 380, 1440):
        for scheme in ("light", "dark"):
            seen.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            seen.set_viewport_size({"width": width, "height": 900})
            shot(seen, f"peek-{scheme}-{width}")
            found += violations(seen)
            dialog = seen.get_by_role("dialog")
            assert dialog.evaluate("it => it.scrollWidth <= it.clientWidth")
            assert seen.evaluate("document.documentElement.scrollWidth") <= width

    assert found == []


def test_a_value_named_earlier_is_not_shown(served: Served) -> None:
    """Nor where the message that names it is no longer among the last ones."""
    builder = ThreadBuilder("claude").user(f"The database password: {PASSWORD}").assistant("Noted.")
    builder.user("Now look").assistant(f"I ran psql with {PASSWORD} and it works.")
    said = say_of(served, builder).messages

    assert [one.text for one in said[:2]] == ["Noted.", "Now look"]
    assert said[2].text.startswith("I ran psql with [REDACTED")


def test_where_only_tools_were_called_lately_it_says_so(served: Served) -> None:
    """What was said is in an older part of the thread."""
    builder = ThreadBuilder("claude").user("Begin").assistant("Begun.")
    for number in range(130):
        builder.shell(f"ls {number}", "a")
    last = say_of(served, builder)

    assert (last.messages, last.problem) == ((), "Only tool calls lately.")


def say_of(served: Served, builder: ThreadBuilder) -> peek_page.LastMessages:
    """What a peek at the second agent shows of a thread."""
    agent = queries.load_agent(served.fleet.database, 2)
    folder = Path(agent.thread).parent
    path = builder.write(folder)
    return peek_page.read_last_messages(served.fleet, replace(agent, thread=str(path)))


def test_it_becomes_current_while_it_is_open(served: Served, seen: Page) -> None:
    """Another question replaces the first, what is typed for the same one stays, an agent that goes on is shown."""
    seen.keyboard.press("j")
    seen.keyboard.press("Space")
    peek = seen.locator("dialog #peek")
    field = peek.get_by_label("Answer in your own words")
    field.fill("Not that one")
    changes(served, 1, context_used=61)
    expect(peek).to_contain_text("Context 61 %")
    expect(field).to_have_value("Not that one")
    expect(field).to_be_focused()
    asks = AgentQuestion(
        text="Allow a push?", mark="b" * 16, asked_at=2.0, detail="git push --force", is_read=True,
        choices=(QuestionChoice("1", "Yes"), QuestionChoice("2", "No")),
    )  # fmt: skip
    changes(served, 1, question=dump_question(asks))
    expect(peek.locator("pre")).to_have_text("git push --force")
    expect(peek.locator("input[name=mark]")).to_have_value("b" * 16)
    changes(served, 1, question=None, state="busy", waiting_for="")
    expect(peek.locator(".question")).to_have_count(0)
    expect(peek).to_contain_text("Works on a prompt")


def test_an_old_choice_is_not_sent(served: Served, seen: Page) -> None:
    """While the page knows that the agent changed, and not yet to what, a press on a choice sends nothing."""
    seen.keyboard.press("j")
    seen.keyboard.press("Space")
    peek = seen.locator("dialog #peek")
    expect(peek).to_be_visible()
    asked: list[str] = []
    seen.on(
        "request", lambda request: asked.append(request.url) if request.method == "POST" else None
    )
    seen.route("**/agents/1/peek*", lambda route: None)
    changes(served, 1, context_used=62)
    expect(peek).to_have_attribute("data-stale", "")
    peek.get_by_role("button", name="Yes").click()
    expect(peek).to_contain_text("look again, then answer")

    assert asked == []


def test_a_refused_answer_is_told_in_the_peek(
    served: Served, seen: Page, browsing: Browsing
) -> None:
    """Under the dialog nobody could read it; it stays while the same question does."""
    browsing.expect("status of 409")
    seen.keyboard.press("j")
    seen.keyboard.press("Space")
    peek = seen.locator("dialog #peek")
    refusal = "<p>It types just now. Try it again.</p>"
    seen.route("**/agents/1/answer", lambda route: route.fulfill(status=409, body=refusal))
    peek.get_by_role("button", name="Yes").click()
    note = peek.locator("[data-note]")
    expect(note).to_have_text("It types just now. Try it again.")
    expect(seen.locator("#toasts .toast")).to_have_count(0)
    changes(served, 1, context_used=65)
    expect(peek).to_contain_text("Context 65 %")
    expect(note).to_have_text("It types just now. Try it again.")
    with served.fleet.database.read() as connection:
        query = sa.select(tables.agents.c.question).where(tables.agents.c.id == 1)
        old = connection.execute(query).scalar_one()
    changes(served, 1, question={**old, "mark": "d" * 16, "detail": "git push --force"})
    expect(peek.locator("pre")).to_have_text("git push --force")
    expect(note).to_be_hidden()


def test_what_was_ticked_is_not_left_by_a_key(served: Served, seen: Page) -> None:
    """Nor by a press beside the peek; Escape leaves it."""
    several = AgentQuestion(
        text="Which ones?", mark="e" * 16, asked_at=2.0, is_read=True, takes_several=True,
        choices=(QuestionChoice("1", "Alpha"), QuestionChoice("2", "Beta")),
    )  # fmt: skip
    changes(served, 1, question=dump_question(several))
    seen.keyboard.press("j")
    seen.keyboard.press("Space")
    peek = seen.locator("dialog #peek")
    box = peek.get_by_label("Beta")
    box.check()
    seen.keyboard.press("j")
    peek.focus()
    seen.keyboard.press("Space")
    seen.mouse.click(5, 5)
    seen.wait_for_timeout(300)
    expect(peek.get_by_role("heading", name="developer-con-1")).to_be_visible()
    expect(box).to_be_checked()
    seen.keyboard.press("Escape")
    expect(seen.get_by_role("dialog")).to_have_count(0)


def test_a_long_thread_delays_nothing(
    served: Served, seen: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The question is there at once, and stays current while the messages are still read; these follow."""
    monkeypatch.setattr(peek_page, "SHORT_BYTES", 0)
    held: list[Route] = []
    seen.route(re.compile("whole=true"), lambda route: held.append(route))
    with served.fleet.database.read() as connection:
        query = sa.select(tables.agents.c.thread, tables.agents.c.session).where(
            tables.agents.c.id == 2
        )
        thread, session = connection.execute(query).one()
    changes(served, 1, thread=thread, session=session)
    seen.keyboard.press("j")
    seen.keyboard.press("Space")
    peek = seen.locator("dialog #peek")
    expect(peek.get_by_role("button", name="Yes")).to_be_visible()
    expect(peek.locator(".spoken")).to_contain_text("are being read")
    with served.fleet.database.read() as connection:
        old = connection.execute(
            sa.select(tables.agents.c.question).where(tables.agents.c.id == 1)
        ).scalar_one()
    changes(served, 1, question={**old, "mark": "c" * 16, "detail": "git push --force"})
    expect(peek.locator("pre")).to_have_text("git push --force")
    expect(peek).not_to_have_attribute("data-stale", "")
    seen.unroute(re.compile("whole=true"))
    changes(served, 1, context_used=63)
    expect(peek.locator(".spoken li")).to_have_count(3)
    expect(peek).not_to_have_attribute("data-partial", "")
    seen.route(re.compile("whole=true"), lambda route: held.append(route))
    changes(served, 1, context_used=64)
    expect(peek).to_contain_text("Context 64 %")
    expect(peek).not_to_have_attribute("data-stale", "")
    expect(peek.locator(".spoken li")).to_have_count(3)
    assert peek.get_attribute("data-topics") == "agent:1"


def test_by_mouse_a_row_offers_it(seen: Page) -> None:
    """Where the pointer is; a card has no such link."""
    link = seen.get_by_role("link", name="Peek at developer-con-3")
    expect(link).to_have_count(0)
    seen.locator("#agent-3 .said").hover()
    link.click()
    expect(seen.locator("dialog #peek").get_by_role("heading", name="con-3")).to_be_visible()
    seen.keyboard.press("k")
    expect(seen.locator("dialog #peek").get_by_role("heading", name="con-2")).to_be_visible()
    seen.keyboard.press("Escape")
    seen.goto("/")

    assert "/peek" not in seen.content()


def test_by_tab_a_row_offers_it(seen: Page) -> None:
    """In the row that has the focus, after its name."""
    seen.locator("#a3-name").focus()
    seen.keyboard.press("Tab")
    expect(seen.get_by_role("link", name="Peek at developer-con-3")).to_be_focused()
    expect(seen.get_by_role("link", name="Peek at")).to_have_count(1)
    seen.keyboard.press("Enter")
    expect(seen.locator("dialog #peek").get_by_role("heading", name="con-3")).to_be_visible()


def test_without_javascript_it_is_a_page(served: Served, browsing: Browsing) -> None:
    """With the same content and a form for the answer; an agent without a session says so."""
    changes(served, 3, session="")
    page = operator(browsing.page(served.origin, javascript=False), served.link)
    page.goto("/agents/1/peek")
    expect(page.get_by_role("heading", level=1)).to_have_text("developer-con-1")
    expect(page.get_by_role("button", name="Yes")).to_be_visible()
    page.goto("/agents/2/peek")
    expect(page.locator(".spoken li")).to_have_count(3)
    page.goto("/agents/3/peek")
    expect(page.locator(".spoken")).to_contain_text("Its session has not begun.")


def test_it_is_no_key_where_single_letters_are_none(seen: Page) -> None:
    """The blank then scrolls, as browsers have it."""
    seen.evaluate("window.localStorage.setItem('tasuki-single-keys-off', 'yes')")
    seen.locator("#a2-name").focus()
    seen.keyboard.press("Space")
    seen.wait_for_timeout(300)
    expect(seen.get_by_role("dialog")).to_have_count(0)
    seen.reload()
    seen.locator("#agent-2 .said").hover()
    seen.get_by_role("link", name="Peek at developer-con-2").click()
    expect(seen.locator("dialog #peek")).to_be_visible()

    expect(seen.locator(".byhand")).to_be_hidden()


def answer(peek: Locator, choice: str) -> None:
    """Press the first choice that is called so, once more where it is said that the question changed just now."""
    changed = peek.get_by_text("It changed just now")

    def press() -> bool:
        if changed.count():
            changed.evaluate("(note) => { note.textContent = ''; }")
            peek.page.wait_for_timeout(500)
        peek.get_by_role("button", name=choice, exact=False).first.click()
        return not changed.count()

    retry_until(press)


@ON_SQLITE
def test_the_list_answers_in_a_peek(world: World, browsing: Browsing) -> None:
    """A real agent asks twice: both are answered over the list, which stays."""
    do: list[Any] = [["permit", command, "Clean up"] for command in ("rm -rf build", "git push")]
    world.script(migrate=[*do, ["say", "Migrated."]])
    agent = world.started()
    world.api("POST", f"/api/agents/{agent}/send", {"text": "migrate it"})
    retry_until(lambda: (world.agent(agent)["question"] or {}).get("is_read"), 20)
    page = operator(browsing.page(world.origin()), world.link())
    page.goto("/?look=list")
    page.keyboard.press("j")
    page.keyboard.press("Space")
    peek = page.locator("dialog #peek")
    expect(peek.locator("pre")).to_have_text("rm -rf build")
    answer(peek, "Yes")
    expect(peek.locator("pre")).to_have_text("git push")
    answer(peek, "No")
    world.idle(agent)
    expect(peek.locator(".question")).to_have_count(0)
    page.keyboard.press("Escape")
    expect(page.locator(f"#agent-{agent}")).to_be_visible()

    assert [one["text"] for one in world.seen("answered")] == ["1", "3"]
