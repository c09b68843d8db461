"""The terminals of agents as the operator sees them: screen and rows above it, without secrets.

A reader keeps what it read of a pane last. So a pane that stands still costs one question to tmux,
and one that changes is searched for secrets from its first changed row on.
"""

import hashlib
import secrets
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from tasuki.draft.redact.screen import find_row_secrets, hide_rows
from tasuki.errors import NotPossible, PaneGone
from tasuki.fleet.store.models import FleetAgent
from tasuki.launch.tmux.panes import TmuxPanes
from tasuki.launch.tmux.terminal import TerminalCapture, TerminalRow, render_row
from tasuki.text_safety import count_columns

MOST_ABOVE = 2000
"""Rows above the screen that are shown."""
CHECKED_ROWS = 8
"""Rows above the screen by which it is seen that nothing else above them has changed."""
MOST_GROWN = 300
"""New rows above the screen that are added to those that are known."""
CONTEXT_ROWS = 80
"""Rows before a changed one that are searched with it: a secret may begin in one of them."""
MOST_PANES = 12
"""Panes of which the rows above the screen are kept in memory."""
_FRAMES = "|\u2502\u2503\u2551"


class TerminalView(Struct, frozen=True):
    """What a browser needs in order to show a terminal as it is now.

    `lines` are rows with their styles as escape sequences; one that ends without a newline goes on
    in the next. Those above the screen are numbered for as long as `epoch` stays, and the first
    here has the number `start`; `known` tells that `start` is the number that was asked from.
    `screen` are the last ones; `cursor` is a column and a row of the screen, from 0.
    """

    epoch: str
    tag: str
    columns: int
    rows: int
    cursor: tuple[int, int] | None
    start: int
    known: bool
    above: Sequence[str] = ()
    screen: Sequence[str] = ()


class KnownTerminal(Struct, frozen=True):
    """What a browser shows already: the `tag` of its view, and the number after its last row above."""

    epoch: str = ""
    tag: str = ""
    above: int = -1


class _Pane:
    """What was read of a pane last. `rows` are those above and the screen, `first` its number."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.epoch = ""
        self.first = 0
        self.history = 0
        self.capture: TerminalCapture | None = None
        self.above: list[TerminalRow] = []
        self.rows: list[TerminalRow] = []
        self.hidden: list[dict[int, str]] = []
        self.shown: list[str] = []
        self.tag = ""


class TerminalReader:
    """Reads the terminals of agents on this host; from any thread."""

    def __init__(self, panes: TmuxPanes) -> None:
        self.panes = panes
        self._panes: OrderedDict[str, _Pane] = OrderedDict()
        self._lock = threading.Lock()

    def read_terminal(self, agent: FleetAgent, known: KnownTerminal) -> dict[str, Any]:
        """Read the terminal of an agent, a `TerminalView` as JSON values.

        It is only `{"tag"}` where that is known. Raises NotPossible for no pane, LaunchFailed.
        """
        if not agent.pane:
            raise NotPossible("Agent has no tmux pane")
        pane = self._find_pane(f"{agent.pane} {agent.pid}")
        with pane.lock:
            try:
                self._refresh(pane, agent)
            except PaneGone as error:
                raise NotPossible(describe_gone_pane(agent)) from error
            if known.tag == pane.tag:
                return {"tag": pane.tag}
            view: dict[str, Any] = msgspec.to_builtins(_build_view(pane, known))
            return view

    def _find_pane(self, key: str) -> _Pane:
        with self._lock:
            pane = self._panes.setdefault(key, _Pane())
            self._panes.move_to_end(key)
            while len(self._panes) > MOST_PANES:
                self._panes.popitem(last=False)
            return pane

    def _refresh(self, pane: _Pane, agent: FleetAgent) -> None:
        id, capture = agent.pane, self.panes.capture_terminal(agent.pane, CHECKED_ROWS)
        _check_process(capture, agent)
        if capture == pane.capture:
            return
        above = self._extend_above(pane, id, capture)
        screen, taken = capture, capture
        if above is None:
            screen = self.panes.capture_terminal(id, MOST_ABOVE)
            above = self._replace_above(pane, screen)
            taken = msgspec.structs.replace(screen, above=screen.above[-CHECKED_ROWS:])
        excess = max(0, len(above) - MOST_ABOVE)
        _drop_first(pane, excess)
        pane.above, pane.history, pane.capture = above[excess:], screen.history, taken
        _hide_secrets(pane, [*pane.above, *screen.screen], screen.columns)
        end, shown = pane.first + len(pane.above), pane.shown[len(pane.above) :]
        state = (pane.epoch, end, screen.columns, screen.cursor, shown)
        pane.tag = hashlib.sha256(repr(state).encode("utf-8", "replace")).hexdigest()[:20]

    def _extend_above(
        self, pane: _Pane, id: str, capture: TerminalCapture
    ) -> list[TerminalRow] | None:
        """Return the rows above the screen where they are those that are known and some new ones."""
        old, grown = pane.capture, capture.history - pane.history
        if old is None or old.columns != capture.columns or not 0 <= grown <= MOST_GROWN:
            return None
        if grown:
            capture_grown = self.panes.capture_terminal(id, grown + CHECKED_ROWS)
            if capture_grown.history != capture.history:
                return None  # it grows on; all of it is read at once
            capture = msgspec.structs.replace(capture, above=capture_grown.above)
        rows = capture.above[-(grown + CHECKED_ROWS) :]
        same, new = rows[: len(rows) - grown], rows[len(rows) - grown :]
        if pane.above[len(pane.above) - len(same) :] != list(same):
            return None
        return [*pane.above, *new]

    def _replace_above(self, pane: _Pane, capture: TerminalCapture) -> list[TerminalRow]:
        """Return all rows above the screen; their numbers stay where the known ones go on."""
        new = list(capture.above)
        shift = _find_shift(pane.above, new)
        same_shape = pane.capture is not None and pane.capture.columns == capture.columns
        if shift is None or not same_shape or not pane.epoch:
            pane.epoch, pane.first = secrets.token_hex(6), 0
            pane.rows, pane.hidden, pane.shown = [], [], []
        else:
            _drop_first(pane, shift)
        return new


def read_screen(panes: TmuxPanes, agent: FleetAgent) -> str:
    """Return what the pane of an agent shows as plain lines, without secrets.

    A line that the terminal has wrapped is one line. Raises NotPossible for no pane.
    """
    if not agent.pane:
        raise NotPossible("Agent has no tmux pane")
    try:
        capture = panes.capture_terminal(agent.pane, CONTEXT_ROWS)
        _check_process(capture, agent)
    except PaneGone as error:
        raise NotPossible(describe_gone_pane(agent)) from error
    rows = (*capture.above, *capture.screen)
    texts, ties = [row.text for row in rows], join_rows(rows, capture.columns)
    text = hide_rows(texts, ties, find_row_secrets(texts, ties), len(capture.above))
    return "\n".join(line.rstrip() for line in text.rstrip().split("\n"))


def _check_process(capture: TerminalCapture, agent: FleetAgent) -> None:
    """Raise PaneGone for the pane of another program: tmux gives an id again after a restart."""
    if agent.pid and capture.pid != agent.pid:
        raise PaneGone(describe_gone_pane(agent))


def describe_gone_pane(agent: FleetAgent) -> str:
    """Say that the pane of an agent cannot be read any more."""
    return f"The tmux pane {agent.pane} of agent {agent.id} is gone, or its program has ended."


def _drop_first(pane: _Pane, count: int) -> None:
    pane.first += count
    del pane.rows[:count], pane.hidden[:count], pane.shown[:count]


def _find_shift(old: Sequence[TerminalRow], new: Sequence[TerminalRow]) -> int | None:
    """Return how many of the old rows are gone from the beginning of the new ones; None for all."""
    if not old:
        return 0
    for shift in range(len(old) if new else 0):
        length = min(len(old) - shift, len(new))
        if old[shift] == new[0] and old[shift : shift + length] == new[:length]:
            return shift
    return None


def _hide_secrets(pane: _Pane, rows: list[TerminalRow], columns: int) -> None:
    """Search the rows from the first changed one on, and write those anew in which that matters.

    A secret that is only recognised now, in rows above the screen, begins a new epoch.
    """
    changed = next(
        (n for n, (old, new) in enumerate(zip(pane.rows, rows, strict=False)) if old != new),
        min(len(pane.rows), len(rows)),
    )
    start = max(0, changed - CONTEXT_ROWS)
    searched = rows[start:]
    found = find_row_secrets([row.text for row in searched], join_rows(searched, columns))
    hidden, shown = pane.hidden[:changed], pane.shown[:changed]
    for number, (row, secret) in enumerate(zip(searched, found, strict=True), start):
        if number >= changed:
            hidden.append(secret)
            shown.append(render_row(row, secret))
        elif secret.keys() - hidden[number].keys():
            hidden[number] = {**secret, **hidden[number]}
            shown[number] = render_row(row, hidden[number])
            pane.epoch = secrets.token_hex(6) if number < len(pane.above) else pane.epoch
    pane.rows, pane.hidden, pane.shown = rows, hidden, shown


def join_rows(rows: Sequence[TerminalRow], columns: int) -> list[str]:
    """Return what ties each row to the next: the terminal wrapped it, or it reaches the edge."""
    ties = []
    for row, following in zip(rows, [*rows[1:], TerminalRow("")], strict=True):
        text = row.text.rstrip()
        is_full = (
            count_columns(text) >= max(1, columns - 1)
            and text[-1] not in _FRAMES
            and following.text.strip() != ""
            and following.text[0] not in _FRAMES
        )
        ties.append("wrapped" if row.continues else "full" if is_full else "")
    return ties


def _build_view(pane: _Pane, known: KnownTerminal) -> TerminalView:
    assert pane.capture
    end = pane.first + len(pane.above)
    is_known = known.epoch == pane.epoch and pane.first <= known.above <= end
    start = known.above if is_known else pane.first
    return TerminalView(
        pane.epoch, pane.tag, pane.capture.columns, len(pane.capture.screen), pane.capture.cursor,
        start, is_known, pane.shown[start - pane.first : len(pane.above)],
        pane.shown[len(pane.above) :],
    )  # fmt: skip
