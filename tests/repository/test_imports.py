"""Start-up: nothing heavy is loaded before it is needed."""

import subprocess
import sys
from pathlib import Path

import pytest

import tasuki
from tasuki_testing import story

HEAVY = (
    "dbos", "sqlalchemy", "pydantic_ai", "pydantic", "mcp", "litestar", "uvicorn", "jinja2", "textual", "rich",
    "apprise", "acp", "asyncio", "http.server", "urllib.request", "unittest", "xml", "email",
)  # fmt: skip

LIGHT = ("pathlib", "shlex", "urllib.parse", "json")
"""Not even these, of the standard library, where only the version is asked for."""

UNNEEDED = (
    "secrets", "tempfile", "shutil", "subprocess", "json", "unicodedata", "platformdirs", "logging", "sqlite3",
)  # fmt: skip
"""Not these where a brief is printed, since each of them takes milliseconds."""


@pytest.mark.parametrize(
    "arguments", [("--version",), ("--help",), ("config",), ("handoff", "--help"), ("eval", "questions", "--help"), ("handoff", "--print", "--from", "{}", "cover the parser with tests")]
)  # fmt: skip
def test_nothing_heavy_is_imported(arguments: tuple[str, ...], tmp_path: Path) -> None:
    """`tasuki --version` and a printed handoff load none of the heavy packages."""
    path = story("claude").write(tmp_path)
    program = (
        f"import sys; sys.argv = ['tasuki', *{[a.format(path) for a in arguments]!r}]\n"
        "from tasuki.cli.main import main\n"
        "try: main()\n"
        "except SystemExit as e: code = e.code\n"
        "sys.stderr.write('LOADED ' + ' '.join(sys.modules))\n"
        "sys.exit(code)"
    )
    done = subprocess.run(
        (sys.executable, "-c", program),
        capture_output=True, text=True, timeout=60, env={"HOME": str(tmp_path), "TASUKI_DATA": str(tmp_path / "d"), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    loaded = set(done.stderr.rpartition("LOADED ")[2].split())

    assert done.returncode == 0, done.stderr
    assert loaded, done.stderr
    more = LIGHT if arguments == ("--version",) else UNNEEDED if "--print" in arguments else ()
    unwanted = (*HEAVY, *more)
    assert [name for name in unwanted if name in loaded] == []


def test_the_public_names_are_exactly_these() -> None:
    """What users may import from the package itself."""
    names = (
        "Entry Goal Handoff PreparedHandoff TasukiError Thread ThreadHead __version__ check_goal find_threads load_handoff "
        "prepare_handoff read_thread redact start_successor"
    )
    assert tasuki.__all__ == names.split()
    assert len(tasuki.__all__) <= 20


@pytest.mark.parametrize("name", tasuki.__all__)
def test_every_public_name_says_what_it_is(name: str) -> None:
    """Each can be imported from the package, and has a docstring of its own."""
    value = getattr(tasuki, name)

    assert isinstance(value, str) or value.__doc__
