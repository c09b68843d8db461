"""Why a check failed: the line of its output that says so."""

from tasuki.draft.runs.command_kinds import list_simple_commands
from tasuki.draft.runs.runners import JUDGED, CheckKind
from tasuki.draft.runs.summaries import find_marked_line
from tasuki.draft.text.split import find_error_line
from tasuki.patterns import compile_pattern

_GO_FAILURE = compile_pattern(r"(?m)^\s{4,}(\w+_test\.go:\d+: \S.*)$")
_TELLS_SOMETHING = compile_pattern(r"[^\W\d_]{3}")
_FAILURES = compile_pattern(
    r"(?m)^(?:=+ (?:FAILURES|ERRORS) =+|failures:|---- \S.* stdout ----|FAIL {1,2}\S+\.\w+|(?:FAIL|ERROR): \w+ \(|\s*● .* › |\s*--- FAIL: )"
)
"""What stands before the reasons for which tests failed, behind what they logged."""
_PRINTS_TEXT = compile_pattern(
    r"(?:rg|e?grep|cat|sed|head|tail|nl|awk|git\s+(?:\S+\s+)*?(?:diff|show|log|grep))\b"
)


def find_reason(command: str, kind: CheckKind, output: str, line: str) -> str:
    """Return the line that says why a command failed; `line` is the one in which its check sums up."""
    is_test = kind == "test"
    failed = _GO_FAILURE.search(output) if is_test else None
    begin = _FAILURES.search(output) if is_test and line else None
    error = failed[1] if failed else find_error_line(output[begin.start() if begin else 0 :], line)
    parts = list_simple_commands(command)
    if kind in JUDGED and any(_PRINTS_TEXT.match(part.text) for part in parts if not part.is_piped):
        error = find_marked_line(kind, output) or line
    if not _TELLS_SOMETHING.search(error) or line.startswith("Diff in "):
        error = line
    return error
