"""What tasuki types is exactly what is sent: a grid of what may be in the input of the real programs."""

import itertools
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import pytest
from conftest import World
from fakes.model_server import ModelRule, ModelStep
from real_fleet import SECONDS, RealFleet
from test_fleet import KINDS
from waiting import retry_until

from tasuki.fleet.delivery.typed_input import InputTyping, WantedText
from tasuki.fleet.store.failures import HandoffStopped
from tasuki.fleet.store.log import ChangeFeed
from tasuki.fleet.store.models import FleetAgent
from tasuki.harness import registry as harnesses
from tasuki.harness.protocol import ScreenState
from tasuki.launch.tmux.panes import TmuxPanes
from tasuki.launch.tmux.server import Tmux

pytestmark = pytest.mark.e2e

TEXTS = {
    "plain": "please run the tests",
    "bang": "!touch made-by-bang is what the note says",
    "hash": "#remember that the tests come first",
    "at": "look at @notes",
    "question": "? what is open",
    "path": "/etc/hosts is where it is",
    "backslash": "the path ends in \\",
    "wide": "测试 the 日本語 tests, naïve café, done 🎉",
    "long": "\n".join(f"- point {number} of the list" for number in range(120)),
}
"""Texts by what is special about them."""
CURSORS = ("end", "start", "middle", "earlier")
MOVES = {
    "end": ("C-e",),
    "start": ("C-a",),
    "earlier": ("C-a",),
    "middle": ("C-a", "Right", "Right"),
}


class Cell(NamedTuple):
    """A draft of some lines, where the cursor is in it, and the text that is sent."""

    lines: int
    cursor: str
    text: str


class Typist:
    """A user at the terminal of a real agent, and an operator who sends it texts."""

    def __init__(self, fleet: RealFleet, *, vim: bool = False) -> None:
        self.fleet, self.vim = fleet, vim
        self.agent = fleet.worked(fleet.started())
        self.pane = fleet.agent(self.agent)["pane"]
        self.control = harnesses.require_control(fleet.harness)
        socket = next(fleet.sockets.glob("tmux-*/default"))
        self.panes = TmuxPanes(Tmux(str(socket)), fleet.folder / "locks of the test")

    def press(self, *keys: str) -> None:
        """Press keys as the user does."""
        self.panes.press_keys(self.pane, *keys)

    def type(self, text: str) -> None:
        """Type words as the user does."""
        self.fleet.tmux("send-keys", "-t", self.pane, "-l", text)

    def look(self) -> ScreenState:
        """What the screen shows."""
        return self.control.read_screen(self.panes.capture_screen(self.pane))

    def draws(self, words: str) -> None:
        """Wait until the screen has words that were typed, wherever they went."""
        retry_until(lambda: words.strip() in self.fleet.screen(self.pane), SECONDS)

    def shows(self, condition: Callable[[ScreenState], bool], seconds: float = 15.0) -> None:
        """Wait until the input shows what is wanted."""
        try:
            retry_until(lambda: condition(self.look()), seconds)
        except AssertionError:
            raise AssertionError(f"{self.look()}\n{self.fleet.screen(self.pane)}") from None

    def draft(self, lines: int, cursor: str) -> str:
        """Type a draft and go somewhere in it; what it is."""
        self.clear()
        words = [f"drop the table {number} of {lines}" for number in range(1, lines + 1)]
        for number, line in enumerate(words):
            self.press(*(["C-j"] if number else []))
            self.type(line)
        self.shows(lambda now: not lines or words[-1] in (now.typed or ""))
        if self.vim:
            self.press("Escape")
            time.sleep(0.3)
            self.type({"start": "gg0", "middle": "gg02l", "earlier": "k0", "end": "$"}[cursor])
        elif lines:
            ups = {"end": 0, "earlier": 1, "start": lines - 1, "middle": lines // 2}[cursor]
            self.press(*["Up"] * ups, *MOVES[cursor])
        time.sleep(0.4)
        return "\n".join(words)

    def clear(self) -> None:
        """Remove what the user typed."""
        retry_until(lambda: self.look().state == "ready", SECONDS)
        if self.vim:
            self.press("Escape")
            time.sleep(0.3)
            self.type("dd" * 14)
            self.type("i")
        else:
            for _ in range(12):  # Claude Code takes many keys at once for a paste.
                if self.look().typed:
                    self.press(*["C-k", "DC", "C-u", "BSpace"] * 3)
                    time.sleep(0.2)
        self.shows(lambda now: now.typed == "" and not now.has_stash)

    def send(self, text: str) -> tuple[Any, list[str]]:
        """Send a text; what is told, and the prompts that reached the model."""
        before = len(self.fleet.world.model.log)
        told = self.fleet.api("POST", f"/api/agents/{self.agent}/send", {"text": text})
        if told["state"] == "proven":
            self.fleet.idle(self.agent)
        requests = list(self.fleet.world.model.log)[before:]
        return told, [r.prompt for r in requests if r.step == 0 and r in self.fleet.world.sent("")]

    def check(self, cell: Cell) -> str:
        """Try a cell of the grid; what is wrong about it, empty where nothing is."""
        draft = self.draft(cell.lines, cell.cursor)
        before = self.look().typed
        told, prompts = self.send(text := TEXTS[cell.text])
        time.sleep(0.3)
        after = self.look().typed
        wrong = []
        if told["state"] == "proven":
            if len(prompts) != 1 or not is_sent(text, prompts[0]):
                wrong.append("the model did not get exactly that")
        elif told["state"] != "refused" or prompts or not told["why"]:
            wrong.append("neither sent nor refused with a reason")
        if draft and after != before and squeeze(told["leftover"]) != squeeze(draft):
            wrong.append("the draft is lost")
        if draft and told["state"] == "refused" and after != before:
            wrong.append("refused, and the draft is not as it was")
        if list(self.fleet.work.glob("made-by*")):
            wrong.append("it ran")
        return f"{cell}: {wrong}\n{told} {prompts} {before!r} {after!r}" if wrong else ""


def build_row(pane: str, name: str) -> FleetAgent:
    """What typing needs of an agent."""
    row = SimpleNamespace(pane=pane, pid=0, adopted=False, process=None, harness=name)
    return cast(FleetAgent, row)


def is_sent(text: str, prompt: str) -> bool:
    """Whether a prompt is a text, with what the program itself adds: marks of a paste, a file."""
    head, _, rest = prompt.strip().partition(text.strip())
    return bool(rest.strip() == "" and (not head.strip() or "pasted" in head)) or (
        text.strip() in prompt and "drop the table" not in prompt
    )


def squeeze(text: str) -> str:
    """A text without its blanks."""
    return "".join(text.split())


@contextmanager
def typing_to(world: World, name: str, *, vim: bool = False, **settings: Any) -> Iterator[Typist]:
    """A user and an operator of an agent of a program; `settings` are more of those of Claude Code."""
    kind = KINDS[name]
    world.set(**kind.env)
    if name == "claude":
        path = world.home / ".claude" / "settings.json"
        more = {"editorMode": "vim"} if vim else {}
        path.write_text(json.dumps(json.loads(path.read_text()) | more | settings))
    (world.project / "notes.txt").write_text("hello\n")
    fleet = RealFleet(world, name, kind.arguments)
    try:
        fleet.serve()
        fleet.install()
        yield Typist(fleet, vim=vim)
    finally:
        fleet.close()


def grid(texts: list[str]) -> list[Cell]:
    """All drafts with all places of the cursor, for each of these texts."""
    drafts = [
        (0, "end"),
        *itertools.product((1,), CURSORS[:3]),
        *itertools.product((2, 10), CURSORS),
    ]
    return [Cell(*draft, text) for text in texts for draft in drafts]


BRIEF = [*(Cell(0, "end", text) for text in TEXTS), *grid(["plain"])[1:]]
"""The part of the grid that every run tries: each text, and each draft."""


@pytest.mark.parametrize(("name", "vim"), [("claude", False), ("claude", True), ("pi", False)])
def test_the_model_gets_the_text_and_the_draft_stays(
    name: str, vim: bool, request: pytest.FixtureRequest
) -> None:
    """Each text, each draft: sent exactly, once and alone, or refused; the draft is there, or is told whole."""
    world = request.getfixturevalue(f"with_{name}")
    with typing_to(world, name, vim=vim) as typist:
        cells = BRIEF[len(TEXTS) :] if vim else BRIEF
        wrong = list(filter(None, map(typist.check, cells)))

    assert wrong == []


@pytest.mark.long
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize(
    ("name", "vim"), [*((name, False) for name in sorted(KINDS)), ("claude", True)]
)
def test_the_whole_grid(name: str, vim: bool, text: str, request: pytest.FixtureRequest) -> None:
    """The same for all programs, with each text at each draft."""
    world = request.getfixturevalue(f"with_{name}")
    with typing_to(world, name, vim=vim) as typist:
        wrong = list(filter(None, map(typist.check, grid([text]))))

    assert wrong == []


PLAIN = TEXTS["plain"]
SPECIAL: dict[str, tuple[tuple[str, ...], str, tuple[str, ...]]] = {
    "an open menu": (("/he",), "proven", ()),
    "an open menu of files": (("look at @no",), "proven", ()),
    "a command of the shell": (("!", "ls -la"), "proven", ()),
    "the same words": ((PLAIN,), "proven", ()),
    "the words of a hint": (('Try "fix lint errors"', "C-a"), "proven", ()),
    "blanks": (("   ", "C-a"), "proven", ()),
    "another draft set aside": (("one", "C-s", "two"), "refused", ()),
    "a search in the history": (("half a thought", "C-r"), "refused", ("Escape",)),
    "the transcript": (("half a thought", "C-o"), "refused", ("C-o",)),
    "a chord that is half pressed": (("half a thought", "C-x"), "proven", ()),
    "a prompt of before": (("half a thought", "Up", "Up"), "refused", ("Down", "Down", "Down")),
}
"""What the user types and presses, what becomes of a text then, and what leads back to the input."""


def test_what_else_may_be_in_the_input_of_claude(with_claude: World) -> None:
    """Menus, modes and views: the text is sent alone or refused, and the input is as it was."""
    with typing_to(with_claude, "claude") as typist:
        outcomes, wanted = {}, {}
        for name, (actions, state, back) in SPECIAL.items():
            for action in actions:
                if action[1:2] == "-" or action == "Up":
                    typist.press(action)
                else:
                    typist.type(action)
                    typist.draws(action.strip("!"))
                time.sleep(0.5)
            before = typist.look()
            told, prompts = typist.send(PLAIN)
            time.sleep(0.5)
            after = typist.look()
            outcomes[name] = (told["state"], prompts, (after.typed or "").strip())
            wanted[name] = (
                state,
                [PLAIN] if state == "proven" else [],
                (before.typed or "").strip(),
            )
            typist.press(*back)
            time.sleep(0.5)
            if back:
                assert typist.look().typed == "half a thought"
            if after.has_stash:
                typist.press(*["C-u"] * 2)
                time.sleep(0.3)
                typist.press("C-s")
                typist.shows(lambda now: now.typed == "one")
            typist.clear()
            typist.press("BSpace")  # out of the mode of the shell

    assert outcomes == wanted


def test_a_hint_is_no_draft(with_claude: World) -> None:
    """What Claude Code suggests in an empty input is no unsent text; the same words are, once typed."""
    suggestion = ModelRule("SUGGESTION MODE", (ModelStep("run the tests again", read=1000),))
    with_claude.model.rules = (suggestion,)
    with_claude.model.default = ModelRule("", (ModelStep("Done.", read=1000),))
    with_claude.set(CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION="1")
    settings = with_claude.home / ".claude" / "settings.json"
    settings.write_text(settings.read_text().replace('Enabled": false', 'Enabled": true'))
    pane = with_claude.run(["claude"])
    with_claude.shows(pane, "accept edits on")
    with_claude.until_quiet(pane)
    panes, control = TmuxPanes(with_claude.terminal, with_claude.folder), harnesses.require_control("claude")  # fmt: skip
    typing, agent = InputTyping(panes, ChangeFeed()), build_row(pane, "claude")

    def read() -> ScreenState:
        return control.read_screen(panes.capture_screen(pane))

    def send(text: str) -> str:
        why = typing.type_text(WantedText(agent, text.replace(" ", "-"), text, read))
        retry_until(lambda: why or with_claude.sent(text), SECONDS)
        with_claude.until_quiet(pane)
        return why

    refused = [send("say hello"), send("say it again")]
    with_claude.shows(pane, "run the tests again", SECONDS)
    seen = read().typed
    refused.append(send(PLAIN))
    with_claude.shows(pane, "❯ run the tests again", SECONDS)
    panes.press_keys(pane, "r")
    retry_until(lambda: read().typed == "r", SECONDS)

    assert (refused, seen) == (["", "", ""], "")
    assert [
        r.prompt for r in with_claude.sent(PLAIN) if r.step == 0 and "MODE" not in r.prompt
    ] == [PLAIN]


def test_commands_are_told_as_what_they_are(with_claude: World) -> None:
    """By what they did; a word that would end the program is refused, and the program lives."""
    with typing_to(with_claude, "claude") as typist:
        told = {}
        for text in ("/compact", "/clear", "/help", "exit", "/Users is the folder"):
            typist.fleet.idle(typist.agent)
            told[text] = typist.fleet.api(
                "POST", f"/api/agents/{typist.agent}/send", {"text": text}
            )
            typist.fleet.press(typist.agent, "Escape")
            time.sleep(0.5)
        alive = typist.send(PLAIN)[1]

    assert [one["state"] for one in told.values()] == ["proven"] * 3 + ["refused"] * 2
    for text, words in {
        "/compact": "compacts",
        "/clear": "another session",
        "/help": "a dialog",
        "/Users is the folder": "no such command",
    }.items():
        assert words in told[text]["why"], told
    assert [prompt.splitlines()[-1] for prompt in alive] == [PLAIN]


@pytest.mark.parametrize("name", ["claude", "pi"])
def test_what_is_typed_meanwhile_stops_it(name: str, request: pytest.FixtureRequest) -> None:
    """Words that come between the proof and Enter: nothing is sent. A text that is not wanted is taken back."""
    with typing_to(request.getfixturevalue(f"with_{name}"), name) as typist:
        agent = build_row(typist.pane, name)
        typing, asked = InputTyping(typist.panes, ChangeFeed()), itertools.count()

        def interfere() -> bool:
            if next(asked) == 1:
                typist.type(" and drop the table")
                typist.shows(lambda now: "drop" in (now.typed or ""))
            return True

        def refuse() -> bool:
            return not (typist.look().typed or "").startswith("please")

        mixed = typing.type_text(WantedText(agent, "t-1", PLAIN, typist.look, interfere))
        left = typist.look().typed
        typist.clear()
        with pytest.raises(HandoffStopped):
            typing.type_text(WantedText(agent, "t-2", PLAIN, typist.look, refuse))
        taken_back = typist.look().typed
        marks = [typist.panes.was_pasted(typist.pane, id) for id in ("t-1", "t-2")]

    assert "there is other text in its input" in mixed
    assert (left, taken_back, marks) == (f"{PLAIN} and drop the table", "", [True, False])
    assert typist.fleet.world.sent(PLAIN) == []


@pytest.mark.parametrize("name", ["claude", "codex"])
def test_a_user_who_is_typing_is_left_alone(name: str, request: pytest.FixtureRequest) -> None:
    """Nothing is pressed while the draft changes; it is there afterwards, whole and unsent."""
    with typing_to(request.getfixturevalue(f"with_{name}"), name) as typist:
        words = "when you are done with that never drop the users table"
        half = len(words) // 2
        typist.type(words[:half])
        typist.shows(lambda now: bool(now.typed))
        with ThreadPoolExecutor() as pool:
            sending = pool.submit(typist.send, PLAIN)
            for letter in words[half:]:
                typist.type(letter)
                time.sleep(0.12)
            told, prompts = sending.result()
        typist.shows(lambda now: now.typed == words)

    assert (told["state"], prompts) == ("refused", [])


def test_a_user_with_own_keys_loses_nothing(with_claude: World) -> None:
    """Where Enter begins another line and Ctrl-S sends, words that were said before prove nothing, and a draft stays."""
    folder = with_claude.home / ".claude"
    with typing_to(with_claude, "claude") as typist:
        typist.send("please continue with the upload client")
        keys = {"enter": "chat:newline", "ctrl+s": "chat:submit"}
        binding = {"bindings": [{"context": "Chat", "bindings": keys}]}
        (folder / "keybindings.json").write_text(json.dumps(binding))
        time.sleep(2)
        told, prompts = typist.send("continue")
        typist.clear()
        typist.type("half a thought")
        typist.shows(lambda now: now.typed == "half a thought")
        refused, sent = typist.send(PLAIN)
        left = typist.look().typed

    assert (told["state"] == "proven") == bool(prompts)
    assert (refused["state"], sent, left) == ("refused", [], "half a thought")
