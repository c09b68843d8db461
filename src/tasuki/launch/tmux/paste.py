"""Type into a pane exactly once: the pane itself is marked with what was pasted and submitted.

A text goes in three steps, each of them one call that may be repeated:

    load     the text into a buffer of tmux; harmless
    paste    the buffer into the input, and the mark `@tasuki_paste ID`
    enter    a carriage return, and the mark `@tasuki_enter ID` (`ID+` the second time)

After a crash anywhere the marks show what was done. Another paste mark: the text was never
pasted, unless `@tasuki_pasted` names it, which lists the last texts of a pane. The paste
mark alone: it is in the input. Both: it was submitted.

Condition, paste and mark are one command (`if-shell -F`) that the server carries out before
anything else. The client sends it whole, so that it happens whole or not at all, whenever
the client is killed, and a pane that ends cannot get between. The mark comes after the
paste: a command that fails stops those after it.
"""

import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from tasuki.errors import LaunchFailed, PaneGone
from tasuki.files import await_lock
from tasuki.launch.tmux.server import Tmux
from tasuki.patterns import compile_pattern
from tasuki.text_safety import clean_text

LOCK_SECONDS = 60.0
"""How long a sender waits for another one."""
PANE = compile_pattern(r"%[0-9]{1,9}")
_ID = compile_pattern(r"[A-Za-z0-9_-]{1,64}")
_KEY = compile_pattern(r"(?:[CMS]-){0,3}(?:[A-Za-z0-9]|[A-Z][A-Za-z0-9]{1,9})")
_REMEMBERED = 4000
"""Characters of ids of pasted texts that a pane remembers."""
_MARKS = (
    "#{pane_id}\t#{pane_dead}\t#{pane_input_off}\t#{pane_pid}\t#{@tasuki_paste}\t#{@tasuki_enter}"
)


class PaneMarks(Struct, frozen=True):
    """What was typed into a pane last: ids of texts, empty for none.

    `paste` was pasted, `enter` submitted; a `+` after it means that Enter was pressed twice.
    """

    paste: str = ""
    enter: str = ""


class PressedKey(Struct, frozen=True, tag="key"):
    """A key by tmux's name."""

    value: str


class TypedText(Struct, frozen=True, tag="text"):
    """Characters as from a keyboard."""

    value: str


class PastedText(Struct, frozen=True, tag="paste"):
    """A text that is pasted, bracketed where the program has asked for that."""

    value: str


PaneKey = PressedKey | TypedText | PastedText


class PaneInput:
    """Text and keys for the panes of one tmux server. `folder` holds the locks.

    Every `pid` is the process that the pane must have, 0 for any: after a restart of tmux the
    same pane id is another pane. Everything here raises PaneGone where the pane is gone, its
    program has ended or it has another process, and LaunchFailed where tmux is missing or the
    pane takes no input.
    """

    def __init__(self, tmux: Tmux, folder: Path) -> None:
        self.tmux = tmux
        self.folder = folder

    @contextmanager
    def lock(self, pane: str, seconds: float = LOCK_SECONDS) -> Iterator[None]:
        """Hold a pane alone, across threads and processes; LaunchFailed after `seconds`.

        The lock ends with the process that holds it.
        """
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            path = (
                self.folder / f"{Path(self.tmux.socket or 'default').name}{check_pane(pane)}.lock"
            )
            number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise LaunchFailed(
                f"{error.filename} cannot be used as a lock: {error.strerror}."
            ) from error
        try:
            if not await_lock(number, seconds):
                raise LaunchFailed(
                    f"Somebody else has been typing into the tmux pane {pane} for too long."
                )
            yield
        finally:
            os.close(number)

    def read_marks(self, pane: str, pid: int = 0) -> PaneMarks:
        """Read what was typed into a pane last."""
        return self._parse_marks(pane, pid, self._run(_build_marks_query(check_pane(pane))))

    def was_pasted(self, pane: str, id: str) -> bool:
        """Tell whether a text was ever pasted into a pane, also if another one was pasted later."""
        _name_buffer(id)  # It allows only letters without a meaning in a pattern.
        pattern = f"#{{m:*/{id}/*,#{{@tasuki_pasted}}}}"
        return self._run(("display-message", "-p", "-t", check_pane(pane), pattern)).strip() == "1"

    def _run(self, *commands: Sequence[str]) -> str:
        """Run commands that do no harm when they are repeated; return what they print."""
        return self.tmux.run(*commands)

    def load(self, id: str, text: str) -> None:
        """Put a text into the buffer of tmux from which it is pasted.

        Control characters other than newline and tab are removed first: one of them could end
        the paste and press keys of its own.
        """
        self.tmux.run(("load-buffer", "-b", _name_buffer(id), "-"), text=clean_text(text))

    def paste(self, pane: str, text: str, id: str, pid: int = 0) -> PaneMarks:
        """Load and paste a text as one piece, without Enter, unless it was pasted before.

        A pane that is scrolled back is reset: tmux would paste into it line by line.
        A program that has not asked for bracketed paste gets a carriage return for each newline:
        tmux 3.3a does not report whether it has asked.
        """
        self.load(id, text)
        buffer = _name_buffer(id)
        commands = (
            f"copy-mode -q -t {pane} ; paste-buffer -p -d -b {buffer} -t {pane} ; "
            f"set-option -p -t {pane} @tasuki_paste {id} ; "
            f'set-option -pF -t {pane} @tasuki_pasted "#{{=-{_REMEMBERED}:@tasuki_pasted}}/{id}/"'
        )
        wanted = (_build_unequal("@tasuki_paste", id),)
        # The second of two calls finds no buffer; so one is made, in order to be deleted.
        cleanup = f"set-buffer -b {buffer} x ; delete-buffer -b {buffer}"
        marks = self._run_if(pane, pid, wanted, commands, cleanup)
        if marks.paste != id:
            raise LaunchFailed(f"tmux has not pasted the text {id} into the pane {pane}.")
        return marks

    def enter(self, pane: str, id: str, pid: int = 0) -> PaneMarks:
        """Submit the text that was pasted last, if it is this one and was not submitted before.

        `id+` presses Enter for a second and last time, where the text is still in the input.
        The carriage return goes to the program even where the operator is scrolling.
        """
        text = id.removesuffix("+")
        buffer = f"{_name_buffer(text)}-enter"
        return self._run_if(
            pane,
            pid,
            (
                f"#{{==:#{{@tasuki_paste}},{text}}}",
                _build_unequal("@tasuki_enter", id),
                _build_unequal("@tasuki_enter", f"{text}+"),
            ),
            f'set-buffer -b {buffer} "\r" ; paste-buffer -r -d -b {buffer} -t {pane} ; '
            f"set-option -p -t {pane} @tasuki_enter {id}",
        )

    def forget(self, pane: str, id: str, pid: int = 0) -> None:
        """Remove the marks of a text that was taken back from the input."""
        _name_buffer(id)  # It allows only letters without a meaning in a pattern.
        commands = (
            f"set-option -p -u -t {pane} @tasuki_paste ; "
            f'set-option -pF -t {pane} @tasuki_pasted "#{{s|/{id}/||:@tasuki_pasted}}"'
        )
        self._run_if(pane, pid, (f"#{{==:#{{@tasuki_paste}},{id}}}",), commands)

    def press_keys(self, pane: str, *names: str, pid: int = 0) -> None:
        """Press keys by tmux's names (`Escape`, `C-u`); a pane that is scrolled back is reset."""
        self.type_keys(pane, [PressedKey(name) for name in names], pid)

    def type_keys(self, pane: str, keys: Sequence[PaneKey], pid: int = 0) -> None:
        """Type keys, texts and pastes in this order; a pane that is scrolled back is reset.

        They are typed all at once or not at all. Control characters in texts are removed.
        """
        commands = [f"copy-mode -q -t {check_pane(pane)}"]
        buffers = [f"tasuki-keys-{secrets.token_hex(6)}-{number}" for number in range(len(keys))]
        pasted = []
        for key, buffer in zip(keys, buffers, strict=True):
            match key:
                case PressedKey(name):
                    if not _KEY.fullmatch(name):
                        raise LaunchFailed(f"{name!r} is not a key of tmux.")
                    commands.append(f"send-keys -t {pane} {name}")
                case TypedText(text):
                    # Bytes as numbers: nothing in a text has a meaning for tmux.
                    text = clean_text(text).replace("\n", "\r")
                    if text:
                        commands.append(f"send-keys -t {pane} -H {text.encode().hex(' ')}")
                case PastedText(text):
                    self.tmux.run(("load-buffer", "-b", buffer, "-"), text=clean_text(text))
                    commands.append(f"paste-buffer -p -d -b {buffer} -t {pane}")
                    pasted.append(f"delete-buffer -b {buffer}")
        whole = " ; ".join(commands) if keys else ""
        self._run_if(pane, pid, (), whole, " ; ".join(pasted))

    def _run_if(
        self, pane: str, pid: int, conditions: Sequence[str], commands: str, otherwise: str = ""
    ) -> PaneMarks:
        """Run commands if the pane takes input and conditions hold; return its marks after that.

        tmux 3.3a itself ends, with all panes, when a text is pasted into a pane whose program has
        ended: nothing may come between that question and the paste.
        """
        wanted = [
            f"#{{==:#{{pane_id}},{check_pane(pane)}}}",
            "#{!=:#{pane_dead},1}",
            "#{!=:#{pane_input_off},1}",
            *([f"#{{==:#{{pane_pid}},{pid}}}"] if pid else []),
            *conditions,
        ]
        condition = wanted[0]
        for each in wanted[1:]:
            condition = f"#{{&&:{condition},{each}}}"
        act = ("if-shell", "-F", "-t", pane, condition, commands, *filter(None, [otherwise]))
        run = self._run if conditions else self.tmux.run  # Conditions prevent a repetition.
        return self._parse_marks(pane, pid, run(act, _build_marks_query(pane)))

    def _parse_marks(self, pane: str, pid: int, out: str) -> PaneMarks:
        id, dead, off, process, *marks = out.rstrip("\n").split("\t")
        if id != pane or dead == "1" or (pid and process != str(pid)):
            raise PaneGone(
                f"The agent's tmux pane {pane} is gone, or its program has ended. "
                "List the panes: tmux list-panes -a"
            )
        if off == "1":
            raise LaunchFailed(
                f"The tmux pane {pane} takes no input. Enable it: tmux select-pane -e -t {pane}"
            )
        return PaneMarks(*marks)


def check_pane(pane: str) -> str:
    """Return a pane's id, or raise LaunchFailed: it is used in commands to tmux."""
    if not PANE.fullmatch(pane):
        raise LaunchFailed(f"{pane!r} is not the id of a tmux pane; those look like %3.")
    return pane


def _name_buffer(id: str) -> str:
    if not _ID.fullmatch(id):
        raise LaunchFailed(f"{id!r} is not the id of a text: use only letters, digits, - and _.")
    return f"tasuki-{id}"


def _build_unequal(option: str, value: str) -> str:
    return f"#{{!=:#{{{option}}},{value}}}"


def _build_marks_query(pane: str) -> tuple[str, ...]:
    return ("display-message", "-p", "-t", pane, _MARKS)
