"""Questions that an agent asks its user: what its hook reports of one, and what its screen shows."""

import os
import shlex
from collections.abc import Container, Mapping
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from tasuki.harness.integration import get_text
from tasuki.patterns import compile_pattern

QuestionKind = Literal["permission", "choice", "plan", "free"]
"""permission: whether it may do something. choice: one of several answers, or some of them. plan:
whether to carry a plan out. free: anything else."""
SubjectKind = Literal["command", "fields", "change", "plan", "choice"]
FIELD_END = "\x1f"
_PATCH = compile_pattern(r"(?m)^\*\*\* (?:Add|Update|Delete) File: ")
_NAME = compile_pattern(r"[A-Za-z_$][\w$]*")
_CHANGE_KEYS = frozenset(
    {"file_path", "notebook_path", "content", "new_source", "old_string", "new_string"}
)


class DialogSubject(Struct, frozen=True):
    """What a question is about, as the dialog of its program shows it: the proof that both are the same."""

    kind: SubjectKind
    text: str = ""
    """The command; `key: value` for each field; what a file, or a part of it, becomes; a plan; a question."""
    before: str | None = None
    """What a change replaces; None where that is not known."""
    place: str = ""
    """The file of a change, or the tool, by the name that the dialog has for it."""
    labels: tuple[str, ...] = ()
    """The choices, where the question itself has some."""
    headings: tuple[str, ...] = ()
    """What its dialog begins with, one of these: no dialog about something else does."""


class AskedQuestion(Struct, frozen=True):
    """What a hook reports of a question.

    `text` is tasuki's sentence, or where it is a `choice` the agent's question. `labels` are its
    choices, where the hook names them.
    """

    text: str
    detail: str = ""
    """The command, the content or the text that it is about, whole."""
    kind: QuestionKind = "permission"
    subject: DialogSubject | None = None
    """None where no dialog proves that it is about the same."""
    labels: tuple[str, ...] = ()
    file: str = ""
    more: str = ""
    """What else a tool is called with."""
    words: str = ""
    """What the agent itself says about it."""


class ScreenChoice(Struct, frozen=True):
    """A choice of a dialog, and the keys, by tmux's names, that take it."""

    key: str
    label: str
    keys: tuple[str, ...] = ()
    is_ticked: bool = False
    """Its box is ticked, where several can be taken."""


class ScreenQuestion(Struct, frozen=True):
    """The question that a screen shows: the sentence, what stands above it, and the choices.

    `subject` are the rows of what it is about, where these stand by themselves, and are no part of
    `detail` then; `above` and `below` are the other rows of the dialog. `text_keys` are the keys after which words of one's own can be
    typed; None where no choice takes any. `is_whole` is false where the upper end of the dialog is
    not on the screen, `is_faithful` where the dialog may not show all that it asks about.
    `next_keys` are the keys that go on from a question with boxes, whose choices are ticked by
    theirs. `answers` is how many answers it shows before they are sent; 0 where it is no review.
    """

    text: str
    detail: str = ""
    choices: tuple[ScreenChoice, ...] = ()
    text_keys: tuple[str, ...] | None = None
    subject: tuple[str, ...] = ()
    above: tuple[str, ...] = ()
    below: tuple[str, ...] = ()
    is_whole: bool = True
    is_faithful: bool = True
    next_keys: tuple[str, ...] = ()
    answers: int = 0

    @property
    def takes_several(self) -> bool:
        """Whether several choices can be the answer."""
        return bool(self.next_keys)


def describe_tool_call(tool: str, tool_input: Mapping[str, Any], cwd: str = "") -> AskedQuestion:
    """Describe the question whether a tool may be called, with everything that it would do.

    `cwd` is the folder of the agent, from which dialogs name a file.
    """
    text, words = f"Allow {tool or 'it'}?", get_text(tool_input, "description")
    is_own = "__" not in tool  # and none of an MCP server, whose fields may have any meaning
    if is_own and (command := _join_command(tool_input.get("command"))):
        subject = None if _PATCH.search(command) else DialogSubject("command", command)
        more = _format_fields(tool_input, {"command", "description"})
        return AskedQuestion(text, command, subject=subject, more=more, words=words)
    notebook = get_text(tool_input, "notebook_path")
    file = get_text(tool_input, "file_path") or notebook
    detail, change = _describe_change(tool_input)
    if is_own and file and change:
        change = replace(change, place=notebook or name_file(file, cwd))
        more = _format_fields(tool_input, _CHANGE_KEYS)
        return AskedQuestion(text, detail, subject=change, file=file, more=more)
    import json

    fields = FIELD_END.join(f"{key}: {_format_value(value)}" for key, value in tool_input.items())
    place = " ".join(tool.split("__")[1:])
    detail = json.dumps(tool_input, indent=2, ensure_ascii=False) if tool_input else ""
    return AskedQuestion(text, detail, subject=DialogSubject("fields", fields, place=place))


def name_file(path: str, cwd: str) -> str:
    """Return the name of a file as seen from a folder, which is how dialogs name it."""
    return os.path.relpath(path, cwd) if os.path.isabs(path) and os.path.isabs(cwd) else path


def _join_command(command: object) -> str:
    if isinstance(command, list) and all(isinstance(word, str) for word in command):
        return shlex.join(command)
    return command if isinstance(command, str) else ""


def _describe_change(tool_input: Mapping[str, Any]) -> tuple[str, DialogSubject | None]:
    """Describe a change of a file: its new content, or the old and the new lines; None for none."""
    if content := get_text(tool_input, "content") or get_text(tool_input, "new_source"):
        return content, DialogSubject("change", content)
    old, new = get_text(tool_input, "old_string"), get_text(tool_input, "new_string")
    lines = [f"- {line}" for line in old.split("\n")] + [f"+ {line}" for line in new.split("\n")]
    return "\n".join(lines), DialogSubject("change", new, before=old) if old or new else None


def _format_fields(values: Mapping[str, Any], known: Container[str]) -> str:
    """Format what else a tool is called with, but for what is off."""
    import json

    return ", ".join(
        f"{key}: {json.dumps(value, ensure_ascii=False)}"
        for key, value in values.items()
        if key not in known and value not in (None, False)
    )


def _format_value(value: object, *, is_inner: bool = False) -> str:
    """Format a value as JavaScript writes it; a text that is in no other value as it is."""
    import json

    if isinstance(value, Mapping):
        keys = (k if _NAME.fullmatch(k) else json.dumps(k, ensure_ascii=False) for k in value)
        values = (_format_value(one, is_inner=True) for one in value.values())
        return f"{{{','.join(map(':'.join, zip(keys, values, strict=True)))}}}"
    if isinstance(value, list):
        return f"[{','.join(_format_value(one, is_inner=True) for one in value)}]"
    if isinstance(value, str) and not is_inner:
        return value
    return json.dumps(value, ensure_ascii=False)
