"""Nothing outside a harness's own folder names it: what is known of one, its adapter says."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tree import ROOT

from tasuki.harness import registry

PACKAGE = ROOT / "src" / "tasuki"
WORDS = {name for name in registry.list_names() if name != "tasuki"}
"""The names of all harnesses; `tasuki` is the program itself."""
NAME = re.compile(
    rf"(?<![a-z])(?:{'|'.join(sorted(WORDS))})(?![a-z])|claudecode|coding_agent", re.IGNORECASE
)
SENTENCE = re.compile(r"\s\S+\s")
"""Help, messages and descriptions may name programs: people read them."""
ALLOWED = {
    "config/settings.py": "pi's settings file may hold tasuki's settings",
    "config/validation.py": "pi's settings file may hold tasuki's settings",
    "draft/models/known_providers.py": "names of providers and models; settings of pi that name more",
    "draft/models/providers.py": "names of providers and models",
    "draft/facts/files.py": "folders of programs in paths",
    "draft/rank/guides.py": "file names of guides, folders of programs in paths",
    "draft/repository/reader.py": "the words in which aider reports a commit",
    "draft/claims/checker.py": "words for an agent in prose",
    "draft/redact/patterns.py": "names of models",
    "session/pi_store": "tasuki's own sessions are files in pi's format",
    "session/acp/recorder.py": "tasuki's own sessions are files in pi's format",
    "session/agent_session/handoff.py": "tasuki's own sessions are files in pi's format",
}
"""Files and folders that may name programs, and why."""


def list_names(source: str) -> Iterator[tuple[int, str]]:
    """Line and word of each identifier, import and short text that names a harness."""
    if not NAME.search(source):
        return
    tree = ast.parse(source)
    docstrings = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)
    }  # fmt: skip
    for node in ast.walk(tree):
        words: list[str] = []
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            is_read = id(node) in docstrings or SENTENCE.search(node.value)
            words = [] if is_read else [node.value]
        elif isinstance(node, ast.Name):
            words = [node.id]
        elif isinstance(node, ast.Attribute):
            words = [node.attr]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            words = [node.name]
        elif isinstance(node, ast.ImportFrom):
            words = [node.module or "", *(alias.name for alias in node.names)]
        named = (word for word in words if NAME.search(word.replace("session.pi_store", "")))
        yield from ((getattr(node, "lineno", 0), word) for word in named)


@cache
def list_places() -> tuple[tuple[str, int, str], ...]:
    """Each place outside of harness/ that names one: file, line, word."""
    files = (path.relative_to(PACKAGE) for path in sorted(PACKAGE.rglob("*.py")))
    return tuple(
        (file.as_posix(), *found)
        for file in files
        if file.parts[0] != "harness"
        for found in list_names((PACKAGE / file).read_text(encoding="utf-8"))
    )


def find_reason(place: str) -> str:
    """Which entry allows a file to name harnesses; empty for none."""
    return next((name for name in ALLOWED if Path(place).is_relative_to(name)), "")


def test_nothing_outside_of_its_folder_names_a_harness() -> None:
    """What another place needs to know of a program is an attribute or a function of its adapter."""
    named = [f"{file}:{line} {word}" for file, line, word in list_places() if not find_reason(file)]

    assert [] == named


def test_every_allowed_place_is_needed() -> None:
    """A file that names no program any more is taken off the list."""
    used = {find_reason(file) for file, _, _ in list_places()}

    assert set(ALLOWED) == used - {""}


def test_the_search_finds_names_in_code_and_not_in_prose() -> None:
    """A name in a condition, an import or a variable is found; one in a sentence is none."""
    source = (
        'import os\nfrom tasuki.harness.codex import x\n"""About Codex."""\n'
        'if name == "claude" or os.environ["CODEX_HOME"]:\n    print("start Claude Code again")\n'
    )

    assert [2, 4, 4] == sorted(line for line, _ in list_names(source))
