"""Whose an exit code is: that of one step of a command line, where nothing else can have made it."""

import re
from collections.abc import Mapping, Sequence

from tasuki.draft.runs.ended_line import ECHO, EndedLine, find_echoed_text, is_harmless
from tasuki.draft.runs.summaries import Summary
from tasuki.patterns import compile_pattern

_TRANSPARENT = compile_pattern(
    r"(?:tee|tail|cat|ts|sed|awk|perl|python\S*|less|more|Out-String|Tee-Object)\b"
)
"""Filters that read to the end: they do not end what writes to them."""


def find_own_code(
    line: EndedLine, number: int, found: Mapping[int, Sequence[Summary]]
) -> int | None:
    """Find the exit code of one step, None where nothing proves it."""
    step, code = line.steps[number], line.code
    if step.command.is_negated or step.command.in_block or step.command.in_background:
        return None
    if (step.started and step.started.hides_code) or _HIDES_CODE.search(step.command.text):
        return None
    printed = _find_printed_code(line, number)
    passes = line.passes_codes_on and all(_TRANSPARENT.match(one.text) for one in step.filters)
    if printed is not None or (step.filters and not passes):
        return printed
    if not step.filters and (marked := _find_marked_code(line, number, found)) is not None:
        return marked
    if code is None:
        return None
    after = [_find_operator(line, n) for n in range(number + 1, len(line.steps))]
    is_chain = all(one == "&&" for one in after)
    if code == 0:
        return 0 if is_chain else None
    is_either = after[:1] == ["||"]
    later = () if is_either else line.steps[number + 1 :]
    is_own = (is_either or is_chain) and was_reached(line, number, found)
    return code if is_own and all(map(is_harmless, later)) else None


def was_reached(line: EndedLine, number: int, found: Mapping[int, Sequence[Summary]]) -> bool:
    """Return whether everything that a step waited for with `&&` has passed."""
    for n in range(number, 0, -1):
        if _find_operator(line, n) != "&&":
            break
        before = line.steps[n - 1]
        verdicts = {one.verdict for one in found.get(n - 1, ())}
        if not is_harmless(before) and ("passed" not in verdicts or "failed" in verdicts):
            return False
    return True


def _find_operator(line: EndedLine, number: int) -> str:
    """Return what stands before a step, `&&` where the shell stops at a failure anyway."""
    operator = line.steps[number].command.operator
    return "&&" if line.stops[number] and operator in (";", "\n") else operator


_GIT_STATUS = compile_pattern(r"git\s(?:-C \S+ )?status\b")
_STATUS_LINE = compile_pattern(
    r"(?m)^(?:On branch \S|## \S|(?: [MD]|[MADRC]|[MARC]M|\?\?) [\w./\"-]+$)"
)
_CODE_NAMES = r"\$\?|\$\{\?\}|\$LASTEXITCODE"
_PIPED_CODES = r"\$\{PIPESTATUS\[0\](?::-[^}]*)?\}|\$\{?pipestatus\[1\]\}?"
_ASSIGNED = compile_pattern(rf"\$?(\w+)\s*=\s*[\"']?(?:({_CODE_NAMES})|{_PIPED_CODES})[\"']?$")
_OWN = compile_pattern(rf"({_CODE_NAMES})|{_PIPED_CODES}")


NAMES_FAILURE = compile_pattern(r"(?i)fail|falha|fehl|\u00e9chou|fall[o\u00f3]|error")
_HIDES_CODE = compile_pattern(
    r"\s--(?:if-present|exit-zero|soft-fail|ignore-errors|no-fail|passWithNoTests|(?:issues-)?exit-code[= ]0)(?:\s|$)|\s-Dmaven\.test\.failure\.ignore(?!=false)|^g?make\s(?:.*\s)?-(?!-|C|j|f)\w*i"
)
"""Options with which a runner ends well although something failed, or may run nothing."""


def _find_printed_code(line: EndedLine, number: int) -> int | None:
    """Find the exit code of a step that the line itself prints after it."""
    rest = [one.command.text for one in line.steps[number + 1 :]]
    is_piped = bool(line.steps[number].filters)
    if not rest:
        return None
    name = _CODE_NAMES if not is_piped else _PIPED_CODES
    if assigned := _ASSIGNED.match(rest[0]):
        if is_piped and assigned[2]:
            return None
        name = rf"\$\{{?{assigned[1]}\}}?"
        texts = rest[1:]
        if any(re.match(rf"{assigned[1]}=", text) for text in texts):
            return None
        if re.fullmatch(rf"exit\s+[\"']?(?:{name})[\"']?", rest[-1]):
            return line.code
    else:
        texts = rest[:1]
    for text in texts:
        match = ECHO.match(text)
        printed_text = match[1] if match else text if re.fullmatch(name, text) else ""
        parts = re.split(name, printed_text, maxsplit=1)
        if len(parts) == 2 and not (is_piped and _OWN.search(parts[1])):
            before = re.split(r"[$`\"']|\\n", parts[0])[-1][-30:]
            after = re.split(r"[$`\"']|\\n", parts[1])[0][:30]
            start = re.escape(before) if before else "^"
            pattern = rf"(?m){start}(\d{{1,3}})(?!\d){re.escape(after)}"
            printed = re.findall(pattern, line.output)
            return int(printed[-1]) if printed else None
    return None


def _find_marked_code(
    line: EndedLine, number: int, found: Mapping[int, Sequence[Summary]]
) -> int | None:
    """Find how a step ended by what stands behind it: `&& echo OK || echo BAD`, or `&& go test`."""
    marks = {}
    for n in range(number + 1, len(line.steps)):
        if _find_operator(line, n) != "&&":
            break
        runner, lines = line.steps[n].runner, found.get(n, ())
        is_task = runner and runner.is_wrapper  # What failed in it may be another's.
        if any(one.tests or one.verdict == "passed" or not is_task for one in lines):
            return 0
        if _GIT_STATUS.match(line.steps[n].command.text) and _STATUS_LINE.search(line.output):
            return 0
    for one in line.steps[number + 1 : number + 3]:
        if one.command.operator not in ("&&", "||") or one.command.operator in marks:
            break
        marks[one.command.operator] = find_echoed_text(one.command.text)
        if not marks[one.command.operator]:
            break
    printed = {row.strip() for row in line.output.split("\n")}
    good, bad = marks.get("&&", ""), marks.get("||", "")
    if good == bad or len(marks) < 1:
        return None
    if bad and bad in printed:
        if printed <= {bad, ""} and not NAMES_FAILURE.search(bad):
            return None  # As in `|| echo "not installed"`.
        return 1 if was_reached(line, number, found) else None
    if good and good in printed:
        return 0
    return 0 if bad and not good and line.is_whole and line.code == 0 else None
