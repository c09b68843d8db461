"""Questions of Claude Code: what its hook tells of them, and its dialogs. Seen: 2.1.330.

A dialog stands below a line over the whole screen, its command between two dashed lines. A digit
takes a choice at once, but not in the dialog's first moment.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tasuki.harness.integration import get_text
from tasuki.harness.questions import AskedQuestion, ScreenQuestion, read_dialog
from tasuki.patterns import compile_pattern

_TOP = compile_pattern(r"[─▔]{20,}")
"""The line above a dialog. It begins at the edge of the screen, where no words of the agent do."""
_DASHES = compile_pattern(r" ?╌{20,}")
"""The lines above and below a command, or a change of a file."""
PLAN_QUESTION = "Carry out this plan?"


def parse_question(payload: Mapping[str, Any], asked: AskedQuestion | None) -> AskedQuestion | None:
    """Parse what a hook asks; `asked` is what the call of any tool would ask."""
    tool_input = payload.get("tool_input")
    if not isinstance(tool_input, Mapping):
        return asked
    tool = get_text(payload, "tool_name")
    if tool == "AskUserQuestion":
        return _parse_choices(tool_input) or asked
    if tool == "ExitPlanMode":
        return AskedQuestion(PLAN_QUESTION, get_text(tool_input, "plan"), "plan", shown="plan")
    return asked


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
    if first.get("multiSelect"):  # each digit ticks a box, and nothing of it is sent yet
        return AskedQuestion(text, "\n".join(labels), "choice", shown=text)
    return AskedQuestion(text, "", "choice", shown=text, labels=labels)


def read_question(screen: str) -> ScreenQuestion | None:
    """Read the dialog on a screen; None where there is none."""
    return read_dialog(screen, _TOP, _find_command)


def _find_command(lines: Sequence[str]) -> Sequence[str]:
    dashes = [number for number, line in enumerate(lines) if _DASHES.match(line)]
    return lines[dashes[-2] + 1 : dashes[-1]] if len(dashes) > 1 else ()
