"""Questions of Claude Code: what its hook tells of them, and its dialogs. Seen: 2.1.330, 2.1.332.

A dialog stands below a line over the whole screen, its command between two dashed lines. A digit
takes a choice at once, but not in the dialog's first moment. Where several can be chosen, it ticks
a box, and the right arrow goes on: to the next question of the same call, and behind the last one to
the answers, which are sent with `1. Submit answers`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from tasuki.harness.dialogs import DialogRows, read_dialog, read_menu
from tasuki.harness.integration import get_text
from tasuki.harness.questions import AskedQuestion, DialogSubject, ScreenQuestion
from tasuki.patterns import compile_pattern

_TOP = compile_pattern(r"[─▔]{20,}")
"""The line above a dialog. It begins at the edge of the screen, where no words of the agent do."""
_DASHES = compile_pattern(r"(?:  )?╌{20,}")
"""The lines above and below a command, or a change of a file; above and below a plan indented."""
_BAR = compile_pattern(r"←\s.*✔ Submit\s+→|[☐☒] .*")
"""The header of a question, or of the questions of one call."""
_ANSWER = compile_pattern(r"(?m)^\s*●")
_HEADINGS = {
    "AskUserQuestion": ("☐", "☒", "←"), "Bash": ("Bash command",), "Edit": ("Edit file",), "ExitPlanMode": ("Ready to code?",),
    "NotebookEdit": ("Edit notebook",), "PowerShell": ("PowerShell command",), "Read": ("Read file",),
    "WebFetch": ("Fetch",), "Write": ("Create file", "Overwrite file"),
}  # fmt: skip
"""What the dialog about a tool begins with; that of another one with `Tool use`."""
_SHOWN = {"Read": ("Read", "file_path", False), "WebSearch": ("Web Search", "query", True)}
"""Tools that a dialog shows as a call: by which name, with which of their fields, and whether quoted."""
PLAN_QUESTION = "Carry out this plan?"
REVIEW_QUESTION = "Submit these answers?"
REVIEW_TITLE = "Review your answers"
MOST_LINE_CHARACTERS = 300
"""A longer question is shown whole below its beginning."""
MANY = 99
"""Answers of a review that is longer than the screen."""
_REVIEW_CHOICES = ("Submit answers", "Cancel")


def parse_question(payload: Mapping[str, Any], asked: AskedQuestion | None) -> AskedQuestion | None:
    """Parse what a hook asks; `asked` is what the call of any tool would ask."""
    tool_input = payload.get("tool_input")
    if not isinstance(tool_input, Mapping):
        return asked
    tool = get_text(payload, "tool_name")
    if tool == "AskUserQuestion":
        asked = _parse_choices(tool_input) or asked
    elif tool == "ExitPlanMode":
        plan = get_text(tool_input, "plan")
        subject = DialogSubject("plan", plan) if plan else None
        asked = AskedQuestion(PLAN_QUESTION, plan, "plan" if plan else "free", subject)
    elif asked and (shown := _SHOWN.get(tool)):
        name, key, is_quoted = shown
        value = get_text(tool_input, key)
        words = f'"{value}"' if is_quoted else value
        asked = replace(asked, subject=DialogSubject("fields", f"{name}({words})"))
    if asked is None or asked.subject is None:
        return asked
    headings = _HEADINGS.get(tool, ("Tool use",))
    return replace(asked, subject=replace(asked.subject, headings=headings))


def _parse_choices(tool_input: Mapping[str, Any]) -> AskedQuestion | None:
    """Parse the first of its questions; the next one is read from the screen."""
    questions = tool_input.get("questions")
    first = questions[0] if isinstance(questions, list) and questions else None
    if not isinstance(first, Mapping) or not (text := get_text(first, "question")):
        return None
    options = first.get("options")
    labels = tuple(
        " — ".join(filter(None, (get_text(one, "label"), get_text(one, "description"))))
        for one in (options if isinstance(options, list) else [])
        if isinstance(one, Mapping)
    )
    detail = text if len(text) > MOST_LINE_CHARACTERS or "\n" in text else ""
    return AskedQuestion(
        text, detail, "choice", DialogSubject("choice", text, labels=labels), labels
    )


def read_question(screen: str) -> ScreenQuestion | None:
    """Read the dialog on a screen; None where there is none."""
    question = read_dialog(screen, _TOP, _find_subject, next_keys=("Right",))
    if question is None:
        return read_menu(screen, _TOP)
    if tuple(one.label for one in question.choices) != _REVIEW_CHOICES:
        head, _, rest = question.detail.partition("\n")
        return replace(question, detail=rest.lstrip("\n")) if _BAR.fullmatch(head) else question
    above, title, shown = screen.rpartition(REVIEW_TITLE)
    answers = (shown if title else above).partition("1. Submit answers")[0].rstrip(" \n❯")
    lines = [line.strip() for line in answers.splitlines() if line.strip()]
    count = len(_ANSWER.findall(answers)) if title else 0
    return replace(question, text=REVIEW_QUESTION, detail="\n".join(lines), answers=count or MANY)


def _find_subject(rows: Sequence[str]) -> DialogRows:
    dashes = [number for number, row in enumerate(rows) if _DASHES.fullmatch(row.rstrip())]
    if len(dashes) < 2:
        return DialogRows()
    start, end = dashes[-2] + 1, dashes[-1]
    return DialogRows(start, end, tuple(row.rstrip() for row in rows[start:end]))
