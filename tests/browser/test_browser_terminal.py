"""The terminal on an agent's page: what it shows while the pane changes, and what is typed there."""

import shlex
from pathlib import Path

import pytest
from browser import Browsing, operator, portraits
from fleets import World
from playwright.sync_api import Page, Route, expect
from selection import by_default
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


def select(page: Page, text: str) -> None:
    """Select a row of the terminal by dragging over it."""
    row = page.locator(".xterm-rows > div").filter(has_text=text).first
    box, before = row.bounding_box(), None
    while box != before:  # It may still scroll.
        page.wait_for_timeout(100)
        box, before = row.bounding_box(), box
    assert box
    page.mouse.move(box["x"] + 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + 150, box["y"] + box["height"] / 2, steps=5)
    page.mouse.up()


def test_the_terminal_has_colours_and_no_secrets(desk: Desk, browsing: Browsing) -> None:
    """What the pane shows is there with its colours, in the light and in the dark; a token is not."""
    desk.shows(f"\x1b[31mred\x1b[0m \x1b[48;2;10;20;30;38;2;250;251;252mtrue\x1b[m {TOKEN[:20]}\x1b[1m{TOKEN[20:]}\nlast\n")  # fmt: skip
    page = opened(desk, browsing, "last")
    colour = "() => window.getComputedStyle([...document.querySelectorAll('.xterm-rows span')].find(one => one.textContent === 'red')).color"
    ground = page.locator(".xterm-rows span").filter(has_text="true").evaluate("one => window.getComputedStyle(one).backgroundColor")  # fmt: skip
    light, shown = page.evaluate(colour), page.evaluate(ROWS)
    page.emulate_media(color_scheme="dark")
    dark = page.wait_for_function(
        f"before => {{ try {{ const now = ({colour})(); return now !== before && now; }} catch {{ return false; }} }}", arg=light
    ).json_value()  # fmt: skip
    page.evaluate(
        "document.documentElement.dataset.theme = 'light'"
    )  # chosen, whatever the system says
    page.wait_for_function(
        f"wanted => [...document.querySelectorAll('.xterm-rows span')].some(one => one.textContent === 'red') && ({colour})() === wanted", arg=light
    )  # fmt: skip

    assert ground == "rgb(10, 20, 30)"
    assert (light, dark) == ("rgb(173, 36, 28)", "rgb(242, 139, 130)")
    assert "[REDACTED:github-token]" in shown.replace("\n", "")
    assert not any(TOKEN[n : n + 6] in shown for n in range(4, 34))
    assert page.locator("#terminal style").count() == 0


CONTRASTS = """() => {
  const light = (colour) => { const [r, g, b] = colour.match(/[\\d.]+/g).map(Number).map(one => one / 255)
    .map(one => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ground = (one) => { const own = window.getComputedStyle(one).backgroundColor; return own === "rgba(0, 0, 0, 0)" ? ground(one.parentElement) : own; };
  return [...document.querySelectorAll(".xterm-rows span")].filter(one => /[a-z]{2}/.test(one.textContent)).map(one => {
    const pair = [light(window.getComputedStyle(one).color), light(ground(one))];
    return [one.textContent, (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05)]; }).filter(([, ratio]) => ratio < 4.4);
}"""


@pytest.mark.parametrize("scheme", by_default(["light", "dark"], "light"))
def test_every_colour_can_be_read(desk: Desk, browsing: Browsing, scheme: str) -> None:
    """Each of the sixteen colours, inverse too, and white or black on a ground."""
    numbers = (*range(30, 38), *range(90, 98))
    desk.shows(
        "".join(f"\x1b[{n}mink\x1b[m \x1b[7;{n}minverse\x1b[m \x1b[37;{n + 10}mwhite\x1b[m \x1b[30;{n + 10}mblack\x1b[m\n" for n in numbers)
        + "\x1b[7minverse\x1b[m \x1b[1;7;38;5;200;48;2;1;2;3mboth\x1b[m last\n"
    )  # fmt: skip
    page = opened(desk, browsing, "last", scheme=scheme)
    swapped = page.locator(".xterm-rows span").filter(has_text="both").evaluate("one => window.getComputedStyle(one).backgroundColor")  # fmt: skip

    assert page.evaluate(CONTRASTS) == []
    assert swapped == "rgb(255, 0, 215)"


def test_scroll_and_selection_stay_while_the_pane_changes(desk: Desk, browsing: Browsing) -> None:
    """Whoever reads above is not moved; what is selected waits, says so, and can be copied."""
    desk.shows("".join(f"line {n} of many\n" for n in range(100)))
    page = opened(desk, browsing, "line 99 ")
    page.locator(".xterm-screen").hover()
    page.mouse.wheel(0, -600)
    page.wait_for_function(f"() => !({ROWS})().includes('line 99 ')")
    above = page.evaluate(ROWS)
    desk.write("".join(f"more {n}\n" for n in range(5)))
    page.wait_for_timeout(1500)
    moved = page.evaluate(ROWS)
    page.mouse.wheel(0, 5000)
    shows(page, "more 4")
    select(page, "more 3")
    expect(page.get_by_text("Waits while text is selected.")).to_be_visible()
    desk.write("behind the selection\n")
    page.wait_for_timeout(1500)
    waited = page.evaluate(ROWS)
    page.evaluate("document.addEventListener('copy', event => { window.copied = event.clipboardData.getData('text/plain'); })")  # fmt: skip
    page.keyboard.press("Control+c")
    page.wait_for_function("() => window.copied !== undefined")
    page.locator(".xterm-screen").click()
    shows(page, "behind the selection")

    assert moved == above
    assert "behind" not in waited
    assert "more 3" in page.evaluate("window.copied")
    expect(page.get_by_text("Waits while text is selected.")).to_be_hidden()


def test_what_stands_still_costs_nothing(desk: Desk, browsing: Browsing) -> None:
    """An unchanged pane is answered by 304, one question after the other; a hidden page asks none."""
    desk.shows("still\n")
    page = opened(desk, browsing, "still")
    answers: list[int] = []
    under_way = [0, 0]

    def asked(_: object) -> None:
        under_way[0] += 1
        under_way[1] = max(under_way)

    def answered(response: object) -> None:
        if "/terminal?" in response.url:  # type: ignore[attr-defined]
            answers.append(response.status)  # type: ignore[attr-defined]
            under_way[0] -= 1

    page.on("request", lambda one: asked(one) if "/terminal?" in one.url else None)
    page.on("response", answered)
    page.wait_for_timeout(2500)
    page.evaluate(
        "Object.defineProperty(document, 'hidden', {configurable: true, get: () => true})"
    )
    page.wait_for_timeout(500)
    seen = len(answers)
    page.wait_for_timeout(2500)
    hidden = len(answers) - seen
    page.evaluate("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))")
    desk.write("again\n")
    shows(page, "again")

    assert set(answers[:seen]) == {304}
    assert (hidden, under_way[1]) == (0, 1)


def test_what_is_typed_reaches_the_pane_in_order(desk: Desk, browsing: Browsing) -> None:
    """Text, control keys, arrows and a paste come as they were typed, each once."""
    pane = desk.echoes()
    page = opened(desk, browsing, "ready")
    page.locator(".xterm-screen").click()
    page.keyboard.type("some é words;")
    for key in ("Escape", "Tab", "Shift+Tab", "Control+c", "Control+k", "ArrowUp", "Home", "PageDown", "Backspace", "Delete", "Enter"):  # fmt: skip
        page.keyboard.press(key)
    page.evaluate(
        """() => { const data = new DataTransfer(); data.setData("text/plain", "a\\r\\nb");
        document.querySelector(".xterm-helper-textarea").dispatchEvent(new ClipboardEvent("paste", {clipboardData: data, bubbles: true, cancelable: true})); }"""
    )
    page.keyboard.type("0123456789" * 20)
    page.keyboard.type("|end")
    typed = desk.typed(pane, "|end")

    assert typed == (
        "some M-CM-) words;^[      ^[[Z^C^K^[[A^[[1~^[[6~^?^[[3~^M^[[200~a^Mb^[[201~" + "0123456789" * 20 + "|end"
    )  # fmt: skip
    assert "some" not in str(desk.world.log())


def test_the_keyboard_leaves_the_terminal(desk: Desk, browsing: Browsing) -> None:
    """Tab goes to the agent; F6 goes on to the keys below, Shift-F6 back, and the page says so."""
    pane = desk.echoes()
    page = opened(desk, browsing, "ready")
    inside = "document.activeElement.closest('#terminal') !== null"
    page.locator(".xterm-helper-textarea").focus()
    page.keyboard.press("Tab")
    page.keyboard.type("|end")
    desk.typed(pane, "|end")
    stayed = page.evaluate(inside)
    page.keyboard.press("F6")
    left = page.evaluate("document.activeElement.value")
    page.locator(".xterm-helper-textarea").focus()
    page.keyboard.press("Shift+F6")

    assert (stayed, left) == (True, "Enter")
    assert page.evaluate("document.activeElement.id") == "now-do"
    expect(page.locator(".xterm-helper-textarea")).to_have_accessible_description(
        "What you type here goes to the agent; F6 leaves the terminal, Shift-F6 backwards."
    )


def test_the_terminal_of_another_is_only_read(desk: Desk, browsing: Browsing) -> None:
    """Nothing is typed to an agent that tasuki did not start, its page says so, and Tab goes on."""
    pane = desk.echoes()
    desk.world.sql(f"UPDATE agents SET adopted = 0, ordered_at = NULL WHERE id = {desk.agent}")
    page = opened(desk, browsing, "ready")
    page.locator(".xterm-screen").click()
    page.keyboard.type("secretly")
    page.keyboard.press("Tab")
    desk.world.tmux("send-keys", "-t", pane, "-l", "|end")
    typed = desk.typed(pane, "|end")

    assert typed == "|end"
    assert page.evaluate("document.activeElement.closest('.xterm') === null")
    expect(page.get_by_text("Read-only: nothing is typed to this agent.")).to_be_visible()


def test_a_key_changes_nothing_else(desk: Desk, browsing: Browsing) -> None:
    """A button presses its key: no step in the history, no reload; typed text and focus stay."""
    pane = desk.echoes()
    page = opened(desk, browsing, "ready")
    page.get_by_label("Sent once").fill("not sent yet")
    before = page.evaluate("[window.history.length, window.same = true]")
    for name in ("Shift-Tab", "Ctrl-C", "Left", "0", "9"):
        page.get_by_role("button", name=name, exact=True).click()
    typed = desk.typed(pane, "09")

    assert typed == "^[[Z^C^[[D09"
    assert page.evaluate("[window.history.length, window.same]") == before
    assert page.evaluate("document.activeElement.value") == "9"
    expect(page.get_by_label("Sent once")).to_have_value("not sent yet")


def test_what_was_sent_is_not_sent_again(world: World, browsing: Browsing) -> None:
    """After Send the page can be loaded again: the result was said, and nothing is typed twice."""
    agent = world.worked(world.started())
    page = operator(browsing.page(world.origin()), world.link())
    page.goto(f"/agents/{agent}")
    page.get_by_label("Sent once").fill("And now the tests")
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("status").filter(has_text="Delivered")).to_be_visible()
    page.reload()
    expect(page.get_by_label("Sent once")).to_have_value("")
    page.go_back()
    world.idle(agent)

    assert [x["text"] for x in world.prompts("And now the tests")] == ["And now the tests"]


def test_what_is_refused_stays_typed_in(desk: Desk, browsing: Browsing) -> None:
    """A text that is refused says why and is still there, also when the page is loaded again."""
    pane = desk.shows("ready\n")
    page = opened(desk, browsing, "ready")
    desk.world.tmux("kill-pane", "-t", pane)
    page.get_by_label("Sent once").fill("A long text")
    with page.expect_navigation():
        page.get_by_role("button", name="Send").click()
    page.reload()
    found = page.get_by_label("Sent once")
    said = page.get_by_role("alert").first

    expect(said).to_be_visible()
    assert found.count() == 0 or found.input_value() == "A long text"


def test_a_pane_that_is_gone_is_said_above_the_terminal(desk: Desk, browsing: Browsing) -> None:
    """What was seen last stays, under a sentence."""
    pane = desk.shows("the last words\n")
    page = opened(desk, browsing, "the last words")
    desk.world.tmux("kill-pane", "-t", pane)

    expect(page.locator(".term-problem")).to_contain_text("is gone")
    assert "the last words" in page.evaluate(ROWS)


def test_without_scripts_the_screen_is_text(desk: Desk, browsing: Browsing) -> None:
    """The page has the lines without blanks at their ends; keys and texts are forms that come back."""
    pane = desk.echoes()
    page = operator(
        browsing.page(desk.world.origin(), javascript=False, width=320), desk.world.link()
    )
    page.goto(f"/agents/{desk.agent}")
    text = page.locator("pre.screen").inner_text()
    for key in ("Shift-Tab", "y"):
        page.locator("#keybox > summary").click()
        page.get_by_role("button", name=key, exact=True).click()
    typed = desk.typed(pane, "y")

    assert text.strip() == "ready"
    assert typed == "^[[Zy"
    assert page.url.endswith(f"/agents/{desk.agent}#screen")
    assert page.locator("pre.screen").evaluate("one => one.scrollWidth <= one.clientWidth")


@pytest.mark.parametrize("columns", [80, 200])
def test_every_width(desk: Desk, browsing: Browsing, columns: int) -> None:
    """Nothing scrolls sideways, nothing is cut, and axe-core finds nothing, from a phone to a desk."""
    question = "Do you want to run this command, which " + "is very long and " * 9 + "ends here?"
    desk.shows(f"{question}\n\x1b[32m1. Yes\x1b[m\n\x1b[7m2. No\x1b[m\n", columns=columns)
    page = opened(desk, browsing, "2. No")
    found = portraits(page, f"terminal-{columns}")
    page.set_viewport_size({"width": 320, "height": 800})
    text = page.locator("#terminal pre.wrapped")
    expect(text).to_be_visible()
    cut = text.evaluate("one => one.scrollWidth > one.clientWidth")
    whole = text.inner_text()
    page.get_by_role("button", name="Show as terminal").click()
    expect(page.locator(".term-box")).to_be_visible()

    assert found == []
    assert (cut, page.evaluate("document.getElementById('main').scrollWidth")) == (False, 320)
    assert question in whole


def test_a_batch_that_comes_again_is_not_typed_again(desk: Desk, browsing: Browsing) -> None:
    """Browsers send a request anew where a connection broke; the log says once that keys are typed."""
    pane = desk.echoes()
    page = opened(desk, browsing, "ready")
    send = """async ([agent, number, value]) => { const batch = JSON.stringify({keys: [{type: "text", value}], typist: "one", number});
      return (await fetch(`/agents/${agent}/type`, {method: "POST", body: new URLSearchParams({batch})})).json(); }"""
    answers = [page.evaluate(send, [desk.agent, *batch]) for batch in ((1, "a"), (1, "a"), (2, "b"), (1, "a"), (9, "|end"))]  # fmt: skip
    typed = desk.typed(pane, "|end")

    assert answers == [{}] * 5
    assert typed == "ab|end"
    assert str(desk.world.log()).count("Keys are typed in the terminal") == 1


def test_an_answer_that_comes_while_text_is_selected_takes_nothing_away(
    desk: Desk, browsing: Browsing
) -> None:
    """It was asked for before the button went down: the selection stays, and the rows come afterwards."""
    desk.shows("".join(f"line {n} of many\n" for n in range(10)))
    page = opened(desk, browsing, "line 9 ")
    waiting: list[Route] = []
    page.route("**/terminal?**", lambda route: waiting.append(route), times=1)
    desk.write("behind the selection\n")
    for _ in range(100):
        if waiting:
            break
        page.wait_for_timeout(50)
    select(page, "line 3 ")
    expect(page.get_by_text("Waits while text is selected.")).to_be_visible()
    waiting[0].continue_()
    page.wait_for_timeout(1500)

    assert "behind" not in page.evaluate(ROWS)
    expect(page.get_by_text("Waits while text is selected.")).to_be_visible()
    page.locator(".xterm-screen").click()
    shows(page, "behind the selection")


def test_a_terminal_is_as_high_as_its_text(desk: Desk, browsing: Browsing) -> None:
    """*Message* is on the first screen beside little text; more text makes it higher."""
    desk.shows("ready\n")
    page = opened(desk, browsing, "ready")
    box, form = page.locator(".term-host").bounding_box(), page.locator("#text").bounding_box()
    assert box
    assert form
    assert box["height"] < 200
    assert form["y"] + form["height"] < 900
    desk.write("more\n" * 18)
    page.wait_for_function("one => document.querySelector('.term-host').offsetHeight > one + 100", arg=box["height"])  # fmt: skip
