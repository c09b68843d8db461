"""The review screen: the brief to edit, beside the entries of the thread that it rests on."""

import asyncio
import os
import re
import signal
from collections.abc import Iterable, Sequence
from typing import ClassVar, Literal

from msgspec import Struct
from rich.text import Text
from textual import on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import (
    Label,
    OptionList,
    Static,
    TabbedContent,
    TabPane,
    TextArea,
)
from textual.widgets.option_list import Option

from tasuki.draft.brief import FENCE_CLOSE, FENCE_OPEN, item_line, split
from tasuki.draft.redact import redact
from tasuki.model import Entry, Item, Thread, tokens
from tasuki.plain import plain, shown

Action = Literal["start", "save", "cancel"]

_BRACKETS = re.compile(r"\[(#\d+[^\]\n]*)\]")
_NUMBER = re.compile(r"#(\d+)")
_ORDERS = (signal.SIGTERM, signal.SIGHUP)
LONGEST = 60_000
"""Characters of one entry that are laid out; more would hold the screen up for a second."""
_RULE = "─" * 24
KEYS = "^S start  F2 save only  Esc cancel  Tab move  F3 next tab  ^Z undo"
KEYS_LEFT_OUT = "Enter insert  Tab move  F3 next tab  ^S start  F2 save only  Esc cancel"


class ReviewResult(Struct, frozen=True):
    """What the user decided, and the brief as they left it."""

    action: Action
    text: str


def review(
    brief: str,
    thread: Thread,
    left_out: Sequence[Item] = (),
    warnings: Sequence[str] = (),
    budget: int = 0,
) -> ReviewResult:
    """Show the brief for review in this terminal; returns what the user decided.

    `budget` bounds the brief without its goal, in tokens; 0 for none. A brief that was not
    edited comes back to the letter.
    """
    app = ReviewApp(brief, thread, left_out, warnings, budget)
    before = {order: signal.getsignal(order) for order in _ORDERS}
    app.run()
    for order, handler in before.items():
        signal.signal(order, handler)
    if app.ordered:
        raise SystemExit(128 + app.ordered)
    return app.result


def refs_in(line: str) -> tuple[int, ...]:
    """The entries that a line of a brief names: `[#12, #40]` gives 12 and 40."""
    numbers = (int(n) for marks in _BRACKETS.findall(line) for n in _NUMBER.findall(marks))
    return tuple(dict.fromkeys(numbers))


def refs_at(lines: Sequence[str], row: int) -> tuple[int, ...]:
    """The entries that a row names; of a quoted line, those that the line above the quote names."""
    while row > 0 and lines[row].startswith(">"):
        row -= 1
    return refs_in(lines[row])


def insertion_row(lines: Sequence[str], cursor: int) -> int:
    """The row below which an item goes: the cursor's, or the last of the record if that is outside.

    What comes from the thread is data and stays inside the record, and never parts a quoted block; a
    brief that holds no record takes it at the cursor.
    """
    if FENCE_OPEN not in lines or FENCE_CLOSE not in lines:
        return cursor
    first, last = lines.index(FENCE_OPEN), lines.index(FENCE_CLOSE)
    if not first <= cursor < last:
        return max(first, last - 1)
    while cursor + 1 < last and lines[cursor + 1].startswith(">"):
        cursor += 1
    return cursor


def entry_text(entry: Entry) -> Text:
    """One entry in full, without secrets, safe for a terminal, its first line bold."""
    tool = entry.tool
    who = f"{tool.name} ({tool.status})" if tool else entry.kind
    when = entry.at.replace("T", " ")[:16]
    text = Text(shown(f"#{entry.ref} {who}  {when}".rstrip()), style="bold")
    body = "\n".join(part for part in (entry.text, *_tool_parts(entry)) if part)
    more = len(body) - LONGEST
    body = redact(body[:LONGEST])[0]
    if more > 0:
        body = f"{body}\n… {more:,} more characters: tasuki read"
    return text.append("\n" + shown(body).rstrip("\n"), style="not bold")


def _tool_parts(entry: Entry) -> Iterable[str]:
    if (tool := entry.tool) is None:
        return
    yield f"$ {tool.command}" if tool.command else ""
    yield tool.detail
    changed = {change.path for change in tool.changes}
    yield from (path for path in tool.paths if path not in changed)
    for change in tool.changes:
        yield f"{change.kind} {change.path}"
        yield from (f"- {line}" for line in change.old.splitlines())
        yield from (f"+ {line}" for line in change.new.splitlines())
    yield from (f"[{todo.status}] {todo.text}" for todo in tool.todos or ())
    yield tool.output
    if tool.exit_code:
        yield f"exit status {tool.exit_code}"


class Discard(ModalScreen[bool]):
    """Asks whether edits may be thrown away."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Throw away"),
        Binding("n", "answer(False)", "Go on editing"),
    ]

    def compose(self) -> ComposeResult:
        yield Label(
            "Throw your changes away? Nothing is stored or started.\n\n[y] yes   [n] no",
            markup=False,
        )

    def action_answer(self, answer: bool) -> None:
        """Close the question."""
        self.dismiss(answer)


class LeftOut(OptionList):
    """What did not fit the budget; each item can be put into the brief."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter,i", "select", "Insert")]


class Pane(VerticalScroll, can_focus=True):
    """Text to scroll through with the arrow keys."""


class ReviewApp(App[None]):
    """The screen as an application; `result` holds the decision."""

    TITLE = "tasuki"
    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]  # noqa: RUF012
    CSS = """
    #title { height: 1; padding: 0 1; text-style: bold; text-wrap: nowrap; text-overflow: ellipsis; }
    #sides { height: 1fr; }
    #keys { height: 1; padding: 0 1; }
    TextArea, #about { border: round $foreground 50%; height: 1fr; width: 1fr; padding: 0; }
    TextArea:focus, #about:focus-within { border: heavy $foreground; }
    .-narrow #sides { layout: vertical; }
    .-narrow #about { height: 40%; }
    .-narrow #about:focus-within { height: 65%; }
    Pane, LeftOut { height: 1fr; border: none; padding: 0 1; background: transparent; }
    TabPane { padding: 0; }
    TextArea .text-area--cursor { color: $foreground; background: $background; text-style: reverse; }
    TextArea .text-area--selection { color: $foreground; background: $background; text-style: reverse; }
    LeftOut > .option-list--option-highlighted { color: $foreground; background: $background;
        text-style: bold; }
    LeftOut:focus > .option-list--option-highlighted { text-style: bold underline; }
    * { scrollbar-size-vertical: 1; scrollbar-background: $background;
        scrollbar-background-hover: $background; scrollbar-background-active: $background;
        scrollbar-color: $foreground 50%; }
    TabbedContent, ContentSwitcher { height: 1fr; }
    Discard { align: center middle; }
    Discard Label { border: heavy $foreground; padding: 1 2; width: auto; background: $background; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "decide('start')", "Start", priority=True),
        Binding("f2,ctrl+w", "decide('save')", "Save only", priority=True),
        Binding("escape,ctrl+c,ctrl+q", "cancel", "Cancel", priority=True),
        Binding("f3", "next_tab", "Next tab", priority=True),
    ]

    def __init__(
        self,
        brief: str,
        thread: Thread,
        left_out: Sequence[Item] = (),
        warnings: Sequence[str] = (),
        budget: int = 0,
    ) -> None:
        super().__init__(ansi_color=True)
        self.brief, self.shown_brief = brief, plain(brief)
        self.thread, self.left_out, self.warnings = thread, tuple(left_out), tuple(warnings)
        self.budget = budget
        self.entries = {entry.ref: entry for entry in thread.entries}
        self.refs: tuple[int, ...] | None = None
        self.result = ReviewResult("cancel", brief)
        self.ordered = 0
        """The signal that ended the review, if one did."""

    def compose(self) -> ComposeResult:
        yield Static(id="title", markup=False)
        with Horizontal(id="sides"):
            yield TextArea(self.shown_brief, id="brief")
            with TabbedContent(id="about"):
                with TabPane("Entries", id="entries"), Pane():
                    yield Static(id="cited", markup=False)
                with TabPane(f"Left out ({len(self.left_out)})", id="left-out"):
                    yield from self._left_out()
                with TabPane(f"Warnings ({len(self.warnings)})", id="warnings"), Pane():
                    yield Static(_as_list(self.warnings), markup=False)
        yield Static(KEYS, id="keys", markup=False)

    def on_mount(self) -> None:
        """Start on the brief, in the terminal's own colours; an order to end restores those."""
        for order in _ORDERS:
            asyncio.get_running_loop().add_signal_handler(order, self._end, order)
        light = os.environ.get("COLORFGBG", "").rpartition(";")[2] in ("7", "15")
        for theme in ("ansi-light" if light else "ansi-dark", "textual-ansi"):
            if theme in self.available_themes:
                self.theme = theme
                break
        self.query_one(TextArea).focus()
        self._show_size()
        self._show_entries()

    def on_descendant_focus(self) -> None:
        """The keys that count are those of the side one is on."""
        inserting = isinstance(self.focused, LeftOut)
        self.query_one("#keys", Static).update(KEYS_LEFT_OUT if inserting else KEYS)

    def on_resize(self) -> None:
        """The title is cut to the width."""
        self._show_size()

    def _left_out(self) -> ComposeResult:
        if not self.left_out:
            yield Pane(Static("Nothing was left out.", markup=False))
            return
        options = [Option(Text(shown(item_line(item)))) for item in self.left_out]
        yield LeftOut(*options, markup=False)

    @on(TextArea.Changed)
    def _show_size(self) -> None:
        text = self.query_one(TextArea).text
        size = tokens(split(text)[0])
        of = f" of {self.budget:,}" if self.budget else ""
        over = "  OVER BUDGET" if self.budget and size > self.budget else ""
        edited = "  edited" if text != self.shown_brief else ""
        name = redact(self.thread.name)[0]
        who = shown(f"{self.thread.harness} {self.thread.id[:8]} {name}").strip()
        self.query_one("#title", Static).update(
            f"Brief: {size:,}{of} tokens without the goal{over}{edited}   {who}"
        )

    @on(TextArea.SelectionChanged)
    def _show_entries(self) -> None:
        brief = self.query_one(TextArea)
        refs = refs_at(brief.document.lines, brief.cursor_location[0])
        if refs != self.refs:
            self.refs = refs
            self.query_one("#cited", Static).update(self._cited(refs))
            self.query_one("#entries Pane", Pane).scroll_home(animate=False)

    def _cited(self, refs: tuple[int, ...]) -> Text:
        if not refs:
            return Text("This line names no entries. Lines that end in [#n] do.")
        parts = []
        for ref in refs:
            if entry := self.entries.get(ref):
                parts.append(entry_text(entry))
            else:
                parts.append(Text(f"#{ref} is not among the entries of this thread."))
        return Text(f"\n{_RULE}\n").join(parts)

    @on(OptionList.OptionSelected)
    def _insert(self, event: OptionList.OptionSelected) -> None:
        """Put an item below the cursor's line, once; never outside the record of the past."""
        brief = self.query_one(TextArea)
        index = event.option_index
        line = item_line(self.left_out[index])
        row = insertion_row(brief.text.split("\n"), brief.cursor_location[0])
        brief.insert(f"\n{shown(line)}", (row, len(brief.document.get_line(row))))
        brief.move_cursor((row + 1, 0))
        event.option_list.replace_option_prompt_at_index(index, Text(f"✓ {shown(line)}"))
        event.option_list.disable_option_at_index(index)
        event.option_list.action_cursor_down()

    def action_next_tab(self) -> None:
        """Show the next of the three tabs, and go there."""
        tabs = self.query_one(TabbedContent)
        names = [pane.id or "" for pane in self.query(TabPane)]
        tabs.active = names[(names.index(tabs.active) + 1) % len(names)]
        self.call_after_refresh(self._focus_tab, tabs.active)

    def _focus_tab(self, name: str) -> None:
        """Go to a tab, unless another was shown since: its focus would bring it back."""
        tabs = self.query_one(TabbedContent)
        if tabs.active == name and (inside := self.query(f"#{name} Pane, #{name} LeftOut")):
            inside.first().focus()

    def action_decide(self, action: Action) -> None:
        """Leave with a decision, once everything typed before it is in the brief."""
        if not isinstance(self.screen, Discard):
            self.query_one(TextArea).call_later(self._decide, action)

    def action_cancel(self) -> None:
        """Leave without storing anything; asks first where the brief was edited."""
        if isinstance(self.screen, Discard):
            self.screen.dismiss(False)
        else:
            self.query_one(TextArea).call_later(self._cancel)

    def _end(self, order: int) -> None:
        self.ordered = order
        self.exit()

    def _decide(self, action: Action) -> None:
        text = self.query_one(TextArea).text
        self.result = ReviewResult(action, self.brief if text == self.shown_brief else text)
        self.exit()

    def _cancel(self) -> None:
        if self.query_one(TextArea).text == self.shown_brief:
            self.exit()
        elif not isinstance(self.screen, Discard):
            self.push_screen(Discard(), self._discarded)

    def _discarded(self, yes: bool | None) -> None:
        if yes:
            self.exit()


def _as_list(warnings: Sequence[str]) -> str:
    lines = (f"- {shown(warning)}" for warning in warnings)
    return "\n".join(lines) or "No warnings."
