"""Questions of agents in a browser: shown whole, answered by one click, never by mistake."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fleet_records
import pytest
import sqlalchemy as sa
from browser import Browsing, operator, portraits, shot
from fleets import World
from playwright.sync_api import Locator, Page, expect
from waiting import retry_until
from web_servers import Served, serving

from tasuki.fleet.store import log, tables
from tasuki.fleet.store.agent_question import AgentQuestion, QuestionChoice
from tasuki.fleet.store.questions import TALL, build_question, dump_question
from tasuki.harness.protocol import AgentEvent
from tasuki.harness.questions import describe_tool_call

ON_SQLITE = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
KEY = "sk-ant-api03-" + "Zx9Qw8Er7Ty6Ui5Op4As3Df2Gh1Jk0Lz" * 3
"""What looks like a key."""
COMMAND = "alembic downgrade -1 && curl https://migrations.example/run?with=everything"
SECRET = f"alembic downgrade -1 && curl -H 'x-api-key: {KEY}' https://migrations.example/run?with=everything"
LONG = "Yes, and always allow access to /srv/databases/production-of-the-shop and /srv/backups from this project"


# -- a real fleet ----------------------------------------------------------------------


@pytest.fixture
def seen(world: World, browsing: Browsing) -> Page:
    """A browser that is signed in and shows the fleet."""
    return operator(browsing.page(world.origin()), world.link())


def asking(world: World, *commands: str) -> int:
    """An agent that asks whether it may run commands, and whose choices were read."""
    do: list[Any] = [["permit", command, "Run migration down"] for command in commands]
    world.script(migrate=[*do, ["say", "Migrated."]])
    agent = world.started()
    world.api("POST", f"/api/agents/{agent}/send", {"text": "migrate it"})
    retry_until(lambda: (world.agent(agent)["question"] or {}).get("is_read"), 20)
    return agent


def choice(page: Page, agent: int, key: str) -> Locator:
    """The button of a choice."""
    return page.locator(f"#answer-{agent}-{key}")


@ON_SQLITE
def test_a_question_is_answered_by_one_click(world: World, seen: Page) -> None:
    """On its card: what is asked, the command, the choices; the click is the answer."""
    agent = asking(world, COMMAND)
    seen.goto("/?show=needs")
    card = seen.locator(f"#agent-{agent}")
    expect(card.locator(".asked")).to_have_text("Allow Bash?")
    expect(card.locator("pre")).to_contain_text("https://migrations.example/run?with=everything")
    expect(card.locator(".answers button")).to_have_text(
        ["1 Yes", "2 Yes, and don't ask again for this command", "3 No"]
    )
    choice(seen, agent, "1").click()
    world.idle(agent)
    expect(seen.locator(".card")).to_have_count(0)
    assert seen.url.endswith("/?show=needs")

    assert [one["text"] for one in world.seen("answered")] == ["1"]


@ON_SQLITE
def test_what_a_secret_hides_is_answered_in_the_terminal(world: World, seen: Page) -> None:
    """No page has a button for it, and each leads to the terminal of its agent, which does."""
    agent = asking(world, SECRET)
    for path in ("/?show=needs", f"/agents/{agent}", f"/agents/{agent}/peek"):
        seen.goto(path)
        question = seen.locator(".question")
        expect(question.locator("pre")).to_contain_text("curl -H 'x-api-key: [REDACTED")
        expect(question).to_contain_text(
            "A secret is hidden in it here: answer it in its terminal."
        )
        expect(question.locator("button, input")).to_have_count(0)
        assert KEY not in seen.content()
    seen.get_by_role("link", name="Its terminal").click()
    expect(seen.locator("#screen")).to_be_visible()


@ON_SQLITE
def test_the_agent_page_asks_too_and_without_scripts(world: World, browsing: Browsing) -> None:
    """A plain form; a reload behind it answers nothing again."""
    agent = asking(world, COMMAND)
    page = operator(browsing.page(world.origin(), javascript=False), world.link())
    page.goto(f"/agents/{agent}")
    expect(page.locator(".asked")).to_have_text("Allow Bash?")
    choice(page, agent, "3").click()
    expect(page.locator(".question")).to_have_count(0)
    page.reload()
    world.idle(agent)

    assert page.url.endswith(f"/agents/{agent}")
    assert [one["text"] for one in world.seen("answered")] == ["3"]


@ON_SQLITE
def test_another_question_meanwhile_is_shown_and_not_answered(
    world: World, browsing: Browsing
) -> None:
    """A page that is old: nothing is typed, a sentence says so, and the new question stands there."""
    browsing.expect("status of 400")
    agent = asking(world, "rm -rf build", "git push --force")
    page = operator(browsing.page(world.origin(), javascript=False), world.link())
    expect(page.locator("pre.detail")).to_have_text("rm -rf build")
    world.api("POST", f"/api/agents/{agent}/keys", {"key": "1"})
    retry_until(
        lambda: (
            (now := world.agent(agent)["question"])
            and now["is_read"]
            and now["detail"] == "git push --force"
        ),
        20,
    )
    choice(page, agent, "1").click()
    expect(page.get_by_role("alert")).to_contain_text(
        "asks something else by now. Nothing was typed"
    )
    expect(page.locator("pre.detail")).to_have_text("git push --force")
    assert [one["text"] for one in world.seen("answered")] == ["1"]
    page.goto(f"/agents/{agent}/answer")
    expect(page).to_have_url(f"{world.origin()}/agents/{agent}")
    choice(page, agent, "3").click()
    world.idle(agent)

    assert [one["text"] for one in world.seen("answered")] == ["1", "3"]


# -- rows ------------------------------------------------------------------------------


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A server with agents that ask in every way."""
    with serving(tmp_path) as made:
        add(made, 1, detail="alembic downgrade -1\n" + "x" * 400 + "\n" + "echo more\n" * 40)
        add(made, 2, detail="", kind="choice", text="Which database should the store use?", takes_text=True,
            choices=(QuestionChoice("1", "SQLite — One file, nothing to run"), QuestionChoice("2", LONG)))  # fmt: skip
        add(
            made,
            3,
            detail="",
            kind="free",
            text="What is the port <script>alert(1)</script>?",
            choices=(),
            takes_text=True,
        )
        add(made, 4, detail="rm -rf build", answered_at=time.time(), answer="1. Yes")
        add(
            made,
            5,
            detail="rm -rf build",
            choices=(QuestionChoice("1", LONG), QuestionChoice("2", "No")),
        )
        add(made, 6, kind="choice", text="Which databases?", takes_several=True,
            choices=(QuestionChoice("1", "SQLite — One file, nothing to run"), QuestionChoice("2", LONG)))  # fmt: skip
        hidden = "touch F;" + " " * 14_000 + "ls \u202e\t;\u200b" + "\n" * 40 + "ls # אב"
        add(
            made,
            7,
            **reported(hidden, "Yes is safe.” Allow Bash? 1. Yes" * 30, obstacle=TALL, choices=()),
        )
        add(
            made,
            8,
            **reported(
                "\n".join(("touch F", *(f"echo line {n}" for n in range(80)), "ls -la src"))
            ),
        )
        yield made


def reported(command: str, words: str = "List the sources", **values: Any) -> dict[str, Any]:
    """A question whether a command may run, as it is built from what a hook reports."""
    called = describe_tool_call("Bash", {"command": command, "description": words})
    question = build_question(AgentEvent("waiting", "s", question=called), 1.0)
    names = ("detail", "words", "lines", "characters")
    return {name: getattr(question, name) for name in names} | {"text": question.text, **values}


def add(served: Served, number: int, **values: Any) -> None:
    """An agent that waits with a question."""
    slug = f"developer-con-{number}"
    question = question_of(**{"mark": f"{number:016x}", **values})
    fleet_records.persona(served.fleet.database, slug)
    fleet_records.agent(
        served.fleet.database, persona=slug, cwd="/src/shop", session=f"s{number}", state="waiting",
        waiting_for="permission for Bash", question=dump_question(question), context_used=40,
        pane=f"%{number}", adopted=True, started_at=time.time(), state_at=time.time() - 60 + number,
        last_words="Two of nine menus are left.",
    )  # fmt: skip


def question_of(**values: Any) -> AgentQuestion:
    """A question with three choices, or with what is given."""
    choices = (QuestionChoice("1", "Yes"), QuestionChoice("2", LONG), QuestionChoice("3", "No"))
    given = {"text": "Allow Bash?", "asked_at": time.time(), "choices": choices, "is_read": True}
    return AgentQuestion(**{**given, **values})


def test_questions_look_well_at_every_width(served: Served, browsing: Browsing) -> None:
    """On cards and on a page, in light and dark; long commands and choices wrap, nothing scrolls sideways."""
    page = operator(browsing.page(served.origin), served.link)
    found = portraits(page, "questions")
    for width in (320, 380, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        shot(page, f"questions-{width}")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        for button in page.locator(".answers button").all():
            box = button.bounding_box()
            assert box is not None
            assert 0 <= box["x"] <= width - box["width"]
    for path, name in (("/agents/1", "question"), ("/agents/7", "hidden"), ("/agents/8/peek", "peek"), ("/?look=list", "rows")):  # fmt: skip
        page.goto(path)
        for width in (320, 1440):
            page.set_viewport_size({"width": width, "height": 900})
            shot(page, f"question-{name}-{width}")
            assert page.evaluate("document.documentElement.scrollWidth") <= width

    assert found == []


def test_the_main_button_allows_nothing_for_later(served: Served, browsing: Browsing) -> None:
    """The first choice is the main one where it holds for this once; a choice of several answers has none."""
    page = operator(browsing.page(served.origin), served.link)
    main = page.locator(".answers .pri").evaluate_all("found => found.map((one) => one.id)")

    assert main == ["answer-1-1", "answer-8-1"]
    expect(page.locator("#agent-4 .question")).to_contain_text("Answered: 1. Yes")
    expect(page.locator("#agent-4 .answers")).to_have_count(0)
    expect(page.locator("#answer-3-text")).to_be_visible()


def test_enter_in_words_of_ones_own_takes_no_choice(served: Served, browsing: Browsing) -> None:
    """It sends the words, which the pane that is gone here refuses; what was typed stays."""
    browsing.expect("status of 400")
    page = operator(browsing.page(served.origin), served.link)
    page.locator("#answer-2-text").fill("A file of JSON lines")
    with page.expect_request("**/agents/2/answer") as sent:
        page.locator("#answer-2-text").press("Enter")
    expect(page.get_by_role("alert")).to_be_visible()

    assert "choice=" not in (sent.value.post_data or "")
    assert page.locator("#answer-2-text").input_value() == "A file of JSON lines"


def test_boxes_stay_ticked_while_the_page_is_renewed(served: Served, browsing: Browsing) -> None:
    """One button sends those that are ticked; the first box has the key for an answer."""
    browsing.expect("status of 400")
    page = operator(browsing.page(served.origin), served.link)
    expect(page.locator("#live-word")).to_have_text("Live")
    page.locator("#agent-6 .boxes").get_by_role("checkbox").last.check()
    renew(served, 6, context_used=77)
    expect(page.locator("#agent-6")).to_contain_text("77 %")
    with page.expect_request("**/agents/6/answer") as sent:
        page.locator("#agent-6").get_by_role("button", name="Send").click()
    expect(page.get_by_role("alert")).to_be_visible()

    assert (sent.value.post_data or "").endswith("&box=2")
    expect(page.locator("#answer-6-2")).to_be_checked()
    expect(page.locator("#answer-6-1")).not_to_be_checked()
    expect(page.locator("#agent-6 [data-answer]")).to_have_count(1)


@pytest.mark.parametrize("javascript", [True, False])
@pytest.mark.parametrize(
    ("path", "where"), [("/", ""), ("/agents/8", ""), ("/agents/8/peek", "peek-")]
)
def test_a_long_command_is_read_to_its_end_before_it_is_allowed(
    served: Served, browsing: Browsing, path: str, where: str, javascript: bool
) -> None:
    """Its ends and its size are shown; the buttons are below all of it, which nothing cuts or scrolls."""
    page = operator(browsing.page(served.origin, width=380, javascript=javascript), served.link)
    page.goto(path)
    question = page.locator(f"#{where}question-8-{8:016x}")
    yes, whole = question.locator(f"#{where}answer-8-1"), question.locator("details pre")
    expect(question.locator("> .detail")).to_contain_text("touch F")
    expect(question.locator("> .detail")).to_contain_text("ls -la src")
    expect(yes).to_be_hidden()
    question.get_by_text("Read all of it to answer: 82 lines").click()
    expect(yes).to_be_visible()
    below, above = yes.bounding_box(), whole.bounding_box()
    assert below
    assert above

    assert whole.evaluate("one => one.scrollHeight <= one.clientHeight && one.innerText.split('\\n').length") == 82  # fmt: skip
    assert below["y"] >= above["y"] + above["height"]
    expect(question.locator("> .detail")).to_be_hidden()


def test_what_is_hidden_in_a_command_is_seen(served: Served, browsing: Browsing) -> None:
    """On the card and in the list; the agent's own words stand behind it, as what they are."""
    page = operator(browsing.page(served.origin), served.link)
    card = page.locator("#agent-7")
    shown = "touch F;⟨14,000 blanks⟩ls ⟨U+202E⟩⇥;⟨U+200B⟩\n⟨39 empty lines⟩\nls # ⟨rtl⟩אב⟨ltr⟩"

    expect(card.locator("pre.detail")).to_have_text(shown)
    expect(card.locator("pre .sign")).to_have_count(7)
    assert (
        card.locator("pre").evaluate("one => getComputedStyle(one).unicodeBidi") == "bidi-override"
    )
    text = card.locator(".question").inner_text()
    assert (
        text.index("touch F")
        < text.index("41 lines, 14,0")
        < text.index("The agent says: “Yes is safe.")
    )
    assert (text.count("”"), len(text) < 1000) == (1, True)
    expect(card.locator("button, input")).to_have_count(0)
    expect(card.locator(".question")).to_contain_text(TALL)
    page.goto("/?look=list")
    expect(page.locator("#agent-7 .said")).to_contain_text("touch F;⟨14,000 blanks⟩ls")
    expect(page.locator("#agent-7 .said")).to_contain_text("ls # ⟨rtl⟩אב⟨ltr⟩ (41 lines, 14,0")
    expect(page.locator("#agent-7 .do")).to_have_text("Answer")


def test_the_key_for_an_answer_opens_what_is_to_be_read(served: Served, browsing: Browsing) -> None:
    """It goes to the line that opens a long command, and once that is open, to its first choice."""
    page = operator(browsing.page(served.origin), served.link)
    page.locator("#a8-name").focus()
    page.keyboard.press("a")
    expect(page.locator("#agent-8 summary")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#answer-8-1")).to_be_visible()
    page.locator("#a8-name").focus()
    page.keyboard.press("a")
    expect(page.locator("#answer-8-1")).to_be_focused()


def test_another_long_question_is_not_open(served: Served, browsing: Browsing) -> None:
    """One that is read stays open while the page is renewed; the next one is to be read anew."""
    page = operator(browsing.page(served.origin), served.link)
    expect(page.locator("#live-word")).to_have_text("Live")
    page.locator("#agent-8 summary").click()
    renew(served, 8, context_used=77)
    expect(page.locator("#agent-8")).to_contain_text("77 %")
    expect(page.locator("#answer-8-1")).to_be_visible()
    renew(
        served,
        8,
        question=dump_question(question_of(**{**reported("rm x\n" * 90), "mark": "f" * 16})),
    )
    expect(page.locator("#agent-8 .detail").first).to_contain_text("rm x")
    expect(page.locator("#answer-8-1")).to_be_hidden()


CLICK_AT_ONCE = """() => new MutationObserver((_, observer) => {
    if (document.querySelector("#agent-5 .detail")?.textContent !== "rm y") return;
    observer.disconnect();
    setTimeout(() => {
        window.hadNoFocus = document.activeElement === document.body;
        document.querySelector("#answer-5-1").click();
    });
}).observe(document.body, {childList: true, subtree: true, characterData: true})"""


def test_a_question_in_place_of_another_is_looked_at_first(
    served: Served, browsing: Browsing
) -> None:
    """Its button loses the focus, and takes no click of the one before; a second later it does."""
    browsing.expect("status of 400")
    page = operator(browsing.page(served.origin), served.link)
    expect(page.locator("#live-word")).to_have_text("Live")
    page.clock.install()
    page.locator("#answer-5-2").focus()
    sent: list[str] = []
    page.on("request", lambda one: sent.append(one.url) if one.method == "POST" else None)
    page.evaluate(CLICK_AT_ONCE)
    renew(served, 5, question=dump_question(question_of(**{**reported("rm y"), "mark": "e" * 16})))
    expect(page.locator("#agent-5 [data-note]")).to_have_text(
        "It changed just now: look again, then answer."
    )
    assert page.evaluate("window.hadNoFocus")
    assert sent == []
    page.clock.fast_forward(1500)
    page.locator("#answer-5-1").click()
    expect(page.get_by_role("alert")).to_be_visible()

    assert len(sent) == 1


def renew(served: Served, number: int, **values: Any) -> None:
    """Something of an agent changes while pages are open."""
    with served.fleet.database.write() as connection:
        query = sa.update(tables.agents).where(tables.agents.c.id == number)
        connection.execute(query.values(**values))
        log.note(connection, "context", "It changed", agent_id=number)
    served.fleet.changes.notify([number])
