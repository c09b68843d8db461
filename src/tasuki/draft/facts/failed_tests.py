"""The names of failing tests in the output of a test run.

Formats: go test, pytest, unittest, cargo test, jest, vitest, mocha, node --test, TAP.
"""

import re

from tasuki.patterns import compile_pattern

MOST_FAILED = 50
_FAILED = compile_pattern(
    r"^[ \t]*(?:"
    r"--- FAIL: (?P<go>\S+)"
    r"|FAILED (?P<pytest>\S+::\S+)"
    r"|(?:FAIL|ERROR): (?P<unittest>\w+) \("
    r"|test (?P<cargo>[\w:]+) \.\.\. FAILED"
    r"|● (?P<jest>[^\n]*? › [^\n]+?)"
    r"|not ok \d+ -? ?(?P<tap>[^\n#]+?)"
    r"|[✕✗✖×] (?P<marked>[^\n]+?)(?: \(?\d+ ?ms\)?)?"
    r")[ \t]*(?=$| - |\()",
    re.MULTILINE,
)
_HINTS = ("--- FAIL: ", "FAILED", "FAIL: ", "ERROR: ", "● ", "not ok ", "✕ ", "✗ ", "✖ ", "× ")
MAX_NAME = 120


def list_failed_tests(output: str) -> tuple[str, ...]:
    """Return the names of the tests that failed, each once; a parent of a failed subtest is left out."""
    if not any(hint in output for hint in _HINTS):
        return ()
    found = dict.fromkeys(
        (match[match.lastgroup or 0] or "").strip() for match in _FAILED.finditer(output)
    )
    names = [name for name in found if 2 < len(name) <= MAX_NAME]
    parents = {name.rpartition("/")[0] for name in names if "/" in name and "::" not in name}
    return tuple(name for name in names if name not in parents)[:MOST_FAILED]
