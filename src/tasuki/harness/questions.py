"""Questions that an agent asks its user: what its hook reports of one, and what its screen shows.

Dialogs of Claude Code, Codex and Gemini CLI end in numbered choices, one of them marked: a question,
then `❯ 1. Yes`, then `2. No`.
"""

import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from tasuki.harness.integration import get_text
from tasuki.patterns import compile_pattern

QuestionKind = Literal["permission", "choice", "plan", "free"]
"""permission: whether it may do something. choice: one of several answers, or some of them. plan:
whether to carry a plan out. free: anything else."""
MOST_BELOW = 5
"""Lines below the choices of a dialog: hints, an edge."""
MOST_CHOICES = 20

_CHOICE = compile_pattern(r"(?P<mark>[❯›●]?)\s*(?P<number>[1-9][0-9]?)\.\s+(?P<label>\S.*)")
_BOX = compile_pattern(r"\[(?P<tick>[ x✓✔])\] (?P<label>.+)")
"""A choice of which several can be taken."""
_TEXT_CHOICE = compile_pattern(
    r"Type something|Type here|Tell Claude what to change|Enter a custom value"
)
"""A choice that opens a field for words of one's own."""
_RULE = compile_pattern(r"[─━╌┄▔▁═╭╮╰╯┌┐└┘\s]+")
_EDGES = "│┃ \t\xa0"
_PATCHED = compile_pattern(r"(?m)^\*\*\* (?:Add|Update|Delete) File: (.+)$")


class AskedQuestion(Struct, frozen=True):
    """What a hook reports of a question.

    `shown` is what the program's dialog shows of it. `labels` are the choices, where the hook names
    them.
    """

    text: str
    detail: str = ""
    """The command, the file or the text that it is about, whole."""
    kind: QuestionKind = "permission"
    shown: str = ""
    is_command: bool = False
    """The dialog shows `shown` by itself, and nothing else with it."""
    labels: tuple[str, ...] = ()


class ScreenChoice(Struct, frozen=True):
    """A choice of a dialog, and the keys, by tmux's names, that take it."""

    key: str
    label: str
    keys: tuple[str, ...] = ()
    is_ticked: bool = False
    """Its box is ticked, where several can be taken."""


class ScreenQuestion(Struct, frozen=True):
    """The question that a screen shows: the sentence, what stands above it, and the choices.

    `command` is the command in it, where that stands by itself, with its lines as they are wrapped.
    `text_keys` are the keys after which words of one's own can be typed; None where no choice
    takes any. `is_whole` is false where the upper end of the dialog is not on the screen.
    `next_keys` are the keys that go on from a question with boxes, whose choices are ticked by
    theirs. `answers` is how many answers it shows before they are sent; 0 where it is no review.
    """

    text: str
    detail: str = ""
    command: str = ""
    choices: tuple[ScreenChoice, ...] = ()
    text_keys: tuple[str, ...] | None = None
    is_whole: bool = True
    next_keys: tuple[str, ...] = ()
    answers: int = 0

    @property
    def takes_several(self) -> bool:
        """Whether several choices can be the answer."""
        return bool(self.next_keys)


# -- hooks -----------------------------------------------------------------------------


def describe_tool_call(tool: str, tool_input: Mapping[str, Any]) -> AskedQuestion:
    """Describe the question whether a tool may be called, with everything that it would do."""
    file, about = get_text(tool_input, "file_path"), get_text(tool_input, "description")
    words = ": ".join(filter(None, (f"Allow {tool or 'it'}", file or about)))
    text = f"{words.rstrip(' ?.')}?"
    command = _join_command(tool_input.get("command"))
    if patched := _PATCHED.findall(command):
        return AskedQuestion(text, command, shown=os.path.basename(patched[0].strip()))
    if command:
        return AskedQuestion(text, command, shown=command, is_command=True)
    if file:
        return AskedQuestion(text, _describe_edit(tool_input) or file, shown=os.path.basename(file))
    if url := get_text(tool_input, "url"):
        return AskedQuestion(text, url, shown=url)
    import json

    detail = json.dumps(tool_input, indent=2, ensure_ascii=False) if tool_input else ""
    return AskedQuestion(text, detail, shown=tool.rpartition("__")[2])


def _join_command(command: object) -> str:
    if isinstance(command, list) and all(isinstance(word, str) for word in command):
        return shlex.join(command)
    return command if isinstance(command, str) else ""


def _describe_edit(tool_input: Mapping[str, Any]) -> str:
    """Describe a change of a file: its new content, or the old and the new lines."""
    if content := get_text(tool_input, "content"):
        return content
    old, new = get_text(tool_input, "old_string"), get_text(tool_input, "new_string")
    lines = [f"- {line}" for line in old.splitlines()] + [f"+ {line}" for line in new.splitlines()]
    return "\n".join(lines)


# -- screens ---------------------------------------------------------------------------


def read_dialog(
    screen: str,
    top: re.Pattern[str],
    find_command: Callable[[Sequence[str]], Sequence[str]],
    next_keys: tuple[str, ...] = (),
) -> ScreenQuestion | None:
    """Read the dialog with numbered choices at the end of a screen; None where there is none.

    `top` matches the line above a dialog. `find_command` finds in the lines of one those of the
    command that it is about. A digit takes a choice. Where several can be taken, a digit ticks its
    box and `next_keys` go on; without these no choice is offered.
    """
    lines = screen.rstrip().splitlines()
    found = _find_choices([line.strip(_EDGES) for line in lines])
    if found is None:
        return None
    first, labels, marked = found
    start = next((n for n in range(first - 1, -1, -1) if top.match(lines[n])), None)
    above = lines[0 if start is None else start + 1 : first]
    command = "\n".join(line.strip(_EDGES) for line in find_command(above))
    text, detail = _split_body(above)
    is_whole = start is not None
    if any(_BOX.match(label) for label in labels):
        boxes = _read_boxes(labels, marked) if next_keys else ()
        keys = next_keys if boxes else ()
        return ScreenQuestion(text, detail, command, boxes, None, is_whole, keys)
    choices, text_keys = _sort_choices(labels)
    return ScreenQuestion(text, detail, command, choices, text_keys, is_whole)


def _find_choices(lines: Sequence[str]) -> tuple[int, list[str], int] | None:
    """Find the last numbered choices: the line of the first one, the labels, which is marked."""
    matches = {n: match for n, line in enumerate(lines) if (match := _CHOICE.fullmatch(line))}
    if not matches:
        return None
    last = max(matches)
    wanted = int(matches[last]["number"])
    if not 2 <= wanted <= MOST_CHOICES:
        return None
    places: list[int] = []
    for number in range(last, -1, -1):
        if number in matches and int(matches[number]["number"]) == wanted:
            places.insert(0, number)
            wanted -= 1
            if not wanted:
                break
    marked = [number for number, place in enumerate(places) if matches[place]["mark"]]
    if wanted or len(marked) != 1:
        return None
    labels = [
        _join_label(matches[place]["label"], lines[place + 1 : end])
        for place, end in zip(places, [*places[1:], len(lines)], strict=True)
    ]
    below = [line for line in lines[last + 1 :] if line and not _RULE.fullmatch(line)]
    return (places[0], labels, marked[0]) if len(below) <= MOST_BELOW else None


def _join_label(label: str, below: Sequence[str]) -> str:
    """Join a label with the lines below that continue it."""
    words = [label]
    for line in below:
        if not line or _RULE.fullmatch(line):
            break
        words.append(line)
    return " ".join(" ".join(words).split())


def _sort_choices(
    labels: Sequence[str],
) -> tuple[tuple[ScreenChoice, ...], tuple[str, ...] | None]:
    """Sort the choices: those that are taken by a key, and the keys of the one that takes words."""
    choices: list[ScreenChoice] = []
    text_keys: tuple[str, ...] | None = None
    for number, label in enumerate(labels, 1):
        if number > 9:
            break
        if _TEXT_CHOICE.match(label):
            text_keys = (str(number),)
        else:
            choices.append(ScreenChoice(str(number), label, (str(number),)))
    return tuple(choices), text_keys


def _read_boxes(labels: Sequence[str], marked: int) -> tuple[ScreenChoice, ...]:
    """Read the choices with boxes; none where digits would be typed into a field of its own."""
    boxes = {number: box for number, label in enumerate(labels, 1) if (box := _BOX.match(label))}
    boxes = {number: box for number, box in boxes.items() if not _TEXT_CHOICE.match(box["label"])}
    if marked + 1 not in boxes or max(boxes) > 9:
        return ()
    return tuple(
        ScreenChoice(str(number), box["label"], (str(number),), box["tick"] != " ")
        for number, box in boxes.items()
    )


def _split_body(lines: Sequence[str]) -> tuple[str, str]:
    """Split what stands above the choices: the sentence that asks, and the rest."""
    body = [line.strip(_EDGES) for line in lines]
    body = ["" if _RULE.fullmatch(line) else line for line in body]
    asking = [n for n, line in enumerate(body) if line.endswith("?")]
    filled = [n for n, line in enumerate(body) if line]
    if not filled:
        return "", ""
    place = asking[-1] if asking else filled[-1]
    rest = "\n".join(line for n, line in enumerate(body) if n != place and line)
    return body[place], rest
