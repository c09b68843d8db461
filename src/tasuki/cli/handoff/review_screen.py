"""The review screen: the brief to edit, next to the entries of the thread that support it."""

import asyncio
import os
import signal
from collections.abc import Iterable, Sequence
from typing import ClassVar, Literal

from rich.text import Text
from textual import on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Label, OptionList, Static, TabbedContent, TabPane, TextArea
from textual.widgets.option_list import Option

from tasuki.cli.handoff.first_frame import (
    END_SIGNALS,
    KEYS_LINE,
    WIDE,
    ReviewDecision,
    format_title,
)
from tasuki.draft.brief import FENCE_CLOSE, FENCE_OPEN, format_item
from tasuki.draft.redact.quotes import QuoteRedactor
from tasuki.model import Entry, Item, Thread
from tasuki.patterns import compile_pattern
from tasuki.text_safety import clean_for_display, clean_text

_BRACKETS = compile_pattern(r"\[(#\d+[^\]\n]*)\]")
_NUMBER = compile_pattern(r"#(\d+)")
MOST_ENTRY_CHARACTERS = 60_000
"""Most characters of one entry that are laid out; more would block the screen for a second."""
_RULE = "─" * 24
KEYS_LINE_LEFT_OUT = "Enter insert  Tab move  F3 next tab  ^S start  F2 save only  Esc cancel"


def show_review(
    brief: str, thread: Thread, left_out: Sequence[Item], warnings: Sequence[str], budget: int
) -> ReviewDecision:
    """Show the brief for review in this terminal; return what the user decided.

    `budget` limits the brief without its goal, in tokens; 0 for none. A brief that was not
    edited is returned unchanged.
    """
    app = ReviewApp(brief, thread, left_out, warnings, budget)
    handlers = {order: signal.getsignal(order) for order in END_SIGNALS}
    app.run()
    for order, handler in handlers.items():
        signal.signal(order, handler)
    if app.end_signal:
        raise SystemExit(128 + app.end_signal)
    return app.result


def parse_refs(line: str) -> tuple[int, ...]:
    """Parse the entries that a line of a brief names: `[#12, #40]` gives 12 and 40."""
    numbers = (int(n) for marks in _BRACKETS.findall(line) for n in _NUMBER.findall(marks))
    return tuple(dict.fromkeys(numbers))


def find_refs(lines: Sequence[str], row: int) -> tuple[int, ...]:
    """Find the entries that a row names; for a quoted line, those of the line above the quote."""
    while row > 0 and lines[row].startswith(">"):
        row -= 1
    return parse_refs(lines[row])


def find_insertion_row(lines: Sequence[str], cursor: int) -> int:
    """Find the row below which an item goes: the cursor's, or the last of the record.

    The last one is used where the cursor is outside of the record. What comes from the thread
    is data: it stays inside the record, and never splits a quoted block. A brief without a
    record takes it at the cursor.
    """
    if FENCE_OPEN not in lines or FENCE_CLOSE not in lines:
        return cursor
    first, last = lines.index(FENCE_OPEN), lines.index(FENCE_CLOSE)
    if not first <= cursor < last:
        return max(first, last - 1)
    while cursor + 1 < last and lines[cursor + 1].startswith(">"):
        cursor += 1
    return cursor


def format_entry(entry: Entry, redactor: QuoteRedactor) -> Text:
    """Format one entry in full, without secrets, safe for a terminal, its first line bold."""
    tool = entry.tool
    source = f"{tool.name} ({tool.status})" if tool else entry.kind
    when = entry.at.replace("T", " ")[:16]
    text = Text(clean_for_display(f"#{entry.ref} {source}  {when}".rstrip()), style="bold")
    body = "\n".join(part for part in (entry.text, *_list_tool_parts(entry)) if part)
    more = len(body) - MOST_ENTRY_CHARACTERS
    body = redactor.redact_quote(body[:MOST_ENTRY_CHARACTERS], [entry.ref])
    if more > 0:
        body = f"{body}\n… {more:,} more characters: tasuki read"
    return text.append("\n" + body.rstrip("\n"), style="not bold")


def _list_tool_parts(entry: Entry) -> Iterable[str]:
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
    """Asks whether edits may be discarded."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Discard"),
        Binding("n", "answer(False)", "Keep editing"),
    ]

    def compose(self) -> ComposeResult:
        yield Label(
            "Discard your changes? The draft stays as it was. Nothing is started.\n\n[y] yes   [n] no",
            markup=False,
        )

    def action_answer(self, answer: bool) -> None:
        """Close the question."""
        self.dismiss(answer)


class LeftOutList(OptionList):
    """The items that did not fit the budget; each can be put into the brief."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter,i", "select", "Insert")]


class Pane(VerticalScroll, can_focus=True):
    """Text to scroll through with the arrow keys."""


class ReviewApp(App[None]):
    """The screen as an application; `result` holds the decision."""

    TITLE = "tasuki"
    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (WIDE, "-wide")]  # noqa: RUF012
    CSS = """
    #title { height: 2; padding: 0 1; text-style: bold; text-wrap: nowrap; text-overflow: ellipsis; }
    #sides { height: 1fr; }
    #keys { height: 1; padding: 0 1; }
    TextArea, #about { border: round $foreground 50%; height: 1fr; width: 1fr; padding: 0; }
    TextArea:focus, #about:focus-within { border: heavy $foreground; }
    .-narrow #sides { layout: vertical; }
    .-narrow #about { height: 40%; }
    .-narrow #about:focus-within { height: 65%; }
    Pane, LeftOutList { height: 1fr; border: none; padding: 0 1; background: transparent; }
    TabPane { padding: 0; }
    TextArea .text-area--cursor { color: $foreground; background: $background; text-style: reverse; }
    TextArea .text-area--selection { color: $foreground; background: $background; text-style: reverse; }
    LeftOutList > .option-list--option-highlighted { color: $foreground; background: $background;
        text-style: bold; }
    LeftOutList:focus > .option-list--option-highlighted { text-style: bold underline; }
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
        self.brief, self.shown_brief = brief, clean_text(brief)
        self.thread, self.left_out, self.warnings = thread, tuple(left_out), tuple(warnings)
        self.budget = budget
        self._redactor = QuoteRedactor(thread)
        self.entries = {entry.ref: entry for entry in thread.entries}
        self.refs: tuple[int, ...] | None = None
        self.result: ReviewDecision = ("cancel", brief)
        self.end_signal = 0
        """The signal that ended the review, if one did."""

    def compose(self) -> ComposeResult:
        yield Static(id="title", markup=False)
        with Horizontal(id="sides"):
            yield TextArea(self.shown_brief, id="brief")
            with TabbedContent(id="about"):
                with TabPane("Entries", id="entries"), Pane():
                    yield Static(id="cited", markup=False)
                with TabPane(f"Left out ({len(self.left_out)})", id="left-out"):
                    yield from self._build_left_out()
                with TabPane(f"Warnings ({len(self.warnings)})", id="warnings"), Pane():
                    yield Static(
                        "\n".join(f"- {clean_for_display(warning)}" for warning in self.warnings)
                        or "No warnings.",
                        markup=False,
                    )
        yield Static(KEYS_LINE, id="keys", markup=False)

    def on_mount(self) -> None:
        """Start on the brief, in the terminal's own colours; an order to end restores those."""
        for order in END_SIGNALS:
            asyncio.get_running_loop().add_signal_handler(order, self._end_on_signal, order)
        light = os.environ.get("COLORFGBG", "").rpartition(";")[2] in ("7", "15")
        for theme in ("ansi-light" if light else "ansi-dark", "textual-ansi"):
            if theme in self.available_themes:
                self.theme = theme
                break
        brief = self.query_one(TextArea)
        brief.focus()
        lines = brief.document.lines
        heading = next((n for n, line in enumerate(lines) if line.startswith("## ")), 0)
        cited = next((n for n in range(heading, len(lines)) if parse_refs(lines[n])), heading)
        brief.move_cursor((cited, 0))

        def show_heading() -> None:
            """At the upper edge until the cursor moves; lines above it take rows by the width."""
            if brief.cursor_location == (cited, 0):
                top = brief.wrapped_document.location_to_offset((heading, 0)).y
                brief.scroll_to(0, top, animate=False)

        self.watch(brief, "virtual_size", show_heading)
        self._show_size()
        self._show_entries()

    def on_descendant_focus(self) -> None:
        """Show the keys of the side that has the focus."""
        can_insert = isinstance(self.focused, LeftOutList)
        self.query_one("#keys", Static).update(KEYS_LINE_LEFT_OUT if can_insert else KEYS_LINE)

    def on_resize(self) -> None:
        """Cut the title to the width."""
        self._show_size()

    def _build_left_out(self) -> ComposeResult:
        if not self.left_out:
            yield Pane(Static("Nothing was left out.", markup=False))
            return
        options = [Option(Text(clean_for_display(format_item(item)))) for item in self.left_out]
        yield LeftOutList(*options, markup=False)

    @on(TextArea.Changed)
    def _show_size(self) -> None:
        text = self.query_one(TextArea).text
        note = "  edited" if text != self.shown_brief else ""
        name = self._redactor.redact(self.thread.name)
        title = format_title(text, self.thread, self.budget, name, note)
        self.query_one("#title", Static).update(title)

    @on(TextArea.SelectionChanged)
    def _show_entries(self) -> None:
        brief = self.query_one(TextArea)
        refs = find_refs(brief.document.lines, brief.cursor_location[0])
        if refs != self.refs:
            self.refs = refs
            self.query_one("#cited", Static).update(self._format_cited(refs))
            self.query_one("#entries Pane", Pane).scroll_home(animate=False)

    def _format_cited(self, refs: tuple[int, ...]) -> Text:
        if not refs:
            return Text("No sources for this line. Lines that end in [#n] have some.")
        return Text(f"\n{_RULE}\n").join(
            format_entry(self.entries[ref], self._redactor)
            if ref in self.entries
            else Text(f"#{ref} is not among the entries of this thread.")
            for ref in refs
        )

    @on(OptionList.OptionSelected)
    def _insert(self, event: OptionList.OptionSelected) -> None:
        """Put an item below the cursor's line, once; never outside the record of the past."""
        brief = self.query_one(TextArea)
        index = event.option_index
        line = format_item(self.left_out[index])
        row = find_insertion_row(brief.text.split("\n"), brief.cursor_location[0])
        brief.insert(f"\n{clean_for_display(line)}", (row, len(brief.document.get_line(row))))
        brief.move_cursor((row + 1, 0))
        event.option_list.replace_option_prompt_at_index(
            index, Text(f"✓ {clean_for_display(line)}")
        )
        event.option_list.disable_option_at_index(index)
        event.option_list.action_cursor_down()

    def action_next_tab(self) -> None:
        """Show the next of the three tabs, and focus it."""
        tabs = self.query_one(TabbedContent)
        names = [pane.id or "" for pane in self.query(TabPane)]
        tabs.active = names[(names.index(tabs.active) + 1) % len(names)]
        self.call_after_refresh(self._focus_tab, tabs.active)

    def _focus_tab(self, name: str) -> None:
        """Focus a tab, unless another was shown since: its focus would bring it back."""
        tabs = self.query_one(TabbedContent)
        if tabs.active == name and (inside := self.query(f"#{name} Pane, #{name} LeftOutList")):
            inside.first().focus()

    def action_decide(self, action: Literal["start", "save"]) -> None:
        """Leave with a decision, once everything typed before it is in the brief."""
        if not isinstance(self.screen, Discard):
            self.query_one(TextArea).call_later(self._decide, action)

    def action_cancel(self) -> None:
        """Leave without storing anything; asks first where the brief was edited."""
        if isinstance(self.screen, Discard):
            self.screen.dismiss(False)
        else:
            self.query_one(TextArea).call_later(self._cancel)

    def _end_on_signal(self, order: int) -> None:
        self.end_signal = order
        self.exit()

    def _decide(self, action: Literal["start", "save"]) -> None:
        text = self.query_one(TextArea).text
        self.result = (action, self.brief if text == self.shown_brief else text)
        self.exit()

    def _cancel(self) -> None:
        if self.query_one(TextArea).text == self.shown_brief:
            self.exit()
        elif not isinstance(self.screen, Discard):
            self.push_screen(Discard(), self._on_discarded)

    def _on_discarded(self, yes: bool | None) -> None:
        if yes:
            self.exit()
