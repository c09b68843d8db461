"""What is typed into a program's input: which texts can be, and what a screen shows of one.

A first character may be a mode of the program, a last one may open a menu that takes the Enter.
Seen: Claude Code 2.1.332, Codex 0.171, Gemini CLI 0.61, pi 1.5.2, opencode 1.18, Copilot CLI 1.0.102,
oh-my-pi 18.2.
"""

import re

from tasuki.errors import NotPossible
from tasuki.harness.protocol import AgentControl, ScreenField, Screenshot, ScreenState
from tasuki.patterns import compile_pattern
from tasuki.text_safety import shorten_to_line

SURE_ROWS = 5
"""Rows that every program shows of its input. Of more, some may be out of sight."""
EXIT_WORDS = frozenset({"exit", "quit", ":q", ":q!", ":wq", ":wq!"})
"""Texts that end Claude Code, opencode or Copilot CLI."""

_COMMAND = compile_pattern(r"(/[A-Za-z][\w:.-]*)(?:\s|\Z)")
_UNKNOWN = compile_pattern(r"Un(?:known|recognized) command:? '?(/[\w:-]+)")
_OPENS_MENU = compile_pattern(r"[@#$:/\\]\S*\Z")
"""The end of a text at which a menu is open, or Enter begins another line."""
_ARGUMENTS = compile_pattern(r"[\[<].*[\]>]")
"""What Claude Code shows behind a command that takes some."""
_CHOICE = compile_pattern(r"[❯›●]\s*([1-9][0-9]?)\.(.*)")
_END = compile_pattern(r"(?:[1-9][0-9]?\.|[─━╌╰╭]|shift\+tab to ).*|")
"""The line after the words of a choice."""


def is_command(text: str) -> bool:
    """Tell whether a text looks like a command of a program: `/compact`, and not `/tmp/x`."""
    return bool(_COMMAND.match(text))


def is_unknown_command(text: str, screen: str) -> bool:
    """Tell whether a screen says that a program does not know a command. Seen: Claude Code, Codex."""
    name = _COMMAND.match(text)
    return name is not None and name[1] in _UNKNOWN.findall(screen)


def is_plain_argument(text: str) -> bool:
    """Tell whether every program takes its first prompt as words, or as the command that it is.

    Codex and Copilot CLI run one that begins with `!`, Claude Code drops one that is `/` and words.
    """
    words = text.strip()
    is_run = words.startswith("!") or _is_slash_only(words)
    return not is_run and words.lower() not in EXIT_WORDS


def _is_slash_only(words: str) -> bool:
    """Tell whether words begin with a slash and are no command: a path."""
    return words.startswith("/") and not is_command(words)


def prepare_text(text: str, control: AgentControl) -> str:
    """Return a text as it is typed, so that the program takes it as words; a command stays one.

    A blank in front of what would be run makes it words in some programs, a blank at the end closes
    a menu. Raises NotPossible where nothing does.
    """
    words = text.strip()
    if not squeeze_text(words):
        raise NotPossible("a terminal shows nothing of it")
    if words.lower() in EXIT_WORDS:
        raise NotPossible(f"{words!r} ends some programs: say it in a sentence, or stop the agent")
    is_code = words.startswith(tuple(control.code_signs))
    if is_code and not control.blank_shields:
        raise NotPossible(
            f"{shorten_to_line(words, 40)!r} would run as code, since it begins with {words[0]}: "
            "put a word in front"
        )
    if is_code or _is_slash_only(words):
        text = f" {text}"
    return f"{text} " if _OPENS_MENU.search(text) else text


def holds_text(
    shown: ScreenState, text: str, pasted: re.Pattern[str], *, needs_size: bool = False
) -> bool:
    """Tell whether an input holds exactly a text, however it is wrapped, or what stands for it.

    `needs_size`: only what tells the size of the text stands for it.

    `pasted` is that of the control. Of an input that is taller than its place the text's end counts.
    """
    typed, wanted = squeeze_text(shown.typed or ""), squeeze_text(text)
    if is_command(text) and typed.startswith(wanted) and _ARGUMENTS.fullmatch(typed, len(wanted)):
        return True
    if typed == wanted or (typed and not shown.is_whole and wanted.endswith(typed)):
        return True
    found = pasted.fullmatch(" ".join((shown.typed or "").split()))
    if not found:
        return False
    ends = text.count("\n")
    sizes = {
        "ends": {ends},
        "lines": {ends + 1},
        "chars": {len(text), len(text.encode("utf-16")) // 2 - 1},
    }
    counts = {name: int(count) for name, count in found.groupdict().items() if count}
    return bool(counts or not needs_size) and all(count in sizes[name] for name, count in counts.items())  # fmt: skip


def squeeze_text(text: str) -> str:
    """Return what every terminal shows of a text, without blanks: those go where lines are wrapped.

    tmux 3.3a drops the colours of emoji's skin.
    """
    import unicodedata

    return "".join(
        letter
        for letter in unicodedata.normalize("NFC", text)
        if unicodedata.category(letter)[0] not in "ZCM" and letter not in "🏻🏼🏽🏾🏿"
    )


def read_rows(
    screenshot: Screenshot, first: int, last: int, margin: int, hint: re.Pattern[str] | None = None
) -> str:
    """Return what is typed in rows of an input, without its margin; empty for a hint of the program.

    What is dim is none, and neither are words that match `hint`.
    """
    rows = (screenshot.solid or screenshot.text).splitlines()[first:last]
    words = "\n".join(row[margin:].rstrip() for row in rows).strip()
    return "" if hint and hint.fullmatch(words) else words


def read_marked_choice(screenshot: Screenshot) -> ScreenField | None:
    """Read the choice that a dialog marks, with the words in it; None where none is marked."""
    lines = [line.strip("│┃ \t\xa0") for line in (screenshot.solid or screenshot.text).splitlines()]
    marked = [(n, match) for n, line in enumerate(lines) if (match := _CHOICE.fullmatch(line))]
    if not marked:
        return None
    place, match = marked[-1]
    words = [match[2]]
    for line in lines[place + 1 :]:
        if _END.fullmatch(line):
            break
        words.append(line)
    return ScreenField(match[1], " ".join(" ".join(words).split()))
