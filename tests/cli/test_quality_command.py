"""`tasuki check` as a command: its report, exit codes, and documents that are none."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from handoffs import made as kept_handoff
from quality_samples import GOOD, SECRET, uploads

from tasuki.cli.handoff.check import MOST_DOCUMENT_BYTES
from tasuki.cli.main import cli
from tasuki.errors import TasukiError
from tasuki.vault import Vault


def run(*arguments: str, input: str | bytes = "") -> tuple[int, str]:
    """Exit code, and output with the message of an error."""
    done = CliRunner().invoke(cli, ["check", *arguments], input=input, standalone_mode=False)
    if isinstance(done.exception, TasukiError):
        return done.exception.exit_code, str(done.exception)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        return getattr(done.exception, "exit_code", -1), str(done.exception)
    return done.return_value or 0, done.output


def test_the_report_fits_into_eighty_columns(tmp_path: Path) -> None:
    """The total comes first, then what is wrong, the worst first, in lines of 80 characters."""
    path = uploads().write(tmp_path / "t.jsonl")
    file = tmp_path / "handoff.md"
    file.write_text(f"# Context\n- see src/no/such.py\n- {SECRET}\n")
    code, output = run(str(file), "--thread", str(path))

    assert code == 0
    assert max(map(len, output.split("\n"))) <= 80
    parts = (
        "Total",
        "names no goal",
        "Secrets (1)",
        "Missing facts",
        "Not in the thread (1)",
        "Missing sections",
    )
    assert sorted(parts, key=output.index) == list(parts)
    assert "[#" in output


def test_fail_under_decides_the_exit_code(tmp_path: Path) -> None:
    """1 where the total is below the bound, else 0; the report is printed in both cases."""
    path = str(uploads().write(tmp_path / "t.jsonl"))

    assert run("-", "--thread", path, "--fail-under", "50", input=GOOD)[0] == 0
    code, output = run("-", "--thread", path, "--fail-under", "50", input="nothing")
    assert (1, True) == (code, "Total" in output)


def test_json_is_one_versioned_document_with_all_points(tmp_path: Path) -> None:
    """Each point has its kind, whether it holds, its line and its entries."""
    path = str(uploads().write(tmp_path / "t.jsonl"))
    found = json.loads(run("-", "--thread", path, "--json", input=GOOD)[1])
    told = next(p for p in found["facts"]["points"] if p["kind"] == "commit")

    assert (1, "-", "claude") == (found["version"], found["file"], found["thread"]["harness"])
    assert found["facts"]["percent"] == round(100 * found["facts"]["held"] / found["facts"]["of"])
    assert (True, 4) == (told["ok"], told["line"])


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"\x89PNG\r\n\x1a\n\x00\xff\xfe", "not UTF-8"), (b"a\x00b", "binary"), ("ä".encode("utf-16"), "not UTF-8"),
        (b"x" * (20 << 20), "larger than 1 MB"),
    ],
)  # fmt: skip
def test_what_is_no_text_is_refused_as_wrong_usage(
    content: bytes, told: str, tmp_path: Path
) -> None:
    """Binary files and 20 MB give exit code 2 and a sentence with the file's name."""
    path = str(uploads().write(tmp_path / "t.jsonl"))
    file = tmp_path / "document.md"
    file.write_bytes(content)
    code, output = run(str(file), "--thread", path)

    assert code == 2
    assert told in output
    assert "document.md" in output


def test_a_file_that_cannot_be_read_is_wrong_usage(tmp_path: Path) -> None:
    """A missing file and a folder give exit code 2, and a thread that is none 1."""
    path = str(uploads().write(tmp_path / "t.jsonl"))
    for name in (str(tmp_path / "none.md"), str(tmp_path)):
        code, output = run(name, "--thread", path)
        assert code == 2, output
        assert "Cannot read" in output

    assert run("-", "--thread", str(tmp_path / "none.jsonl"), input="x")[0] == 1
    assert run("-", input="x")[0] == 2


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_wrong_usage(tmp_path: Path) -> None:
    """The sentence says what is wrong."""
    path = str(uploads().write(tmp_path / "t.jsonl"))
    (file := tmp_path / "a.md").write_text("x")
    file.chmod(0)

    assert run(str(file), "--thread", path) == (2, f"Cannot read the document {file}: Permission denied. Name a text file, or -.")  # fmt: skip


def test_a_handoff_whose_thread_is_gone_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the thread nothing can be checked, and the sentence says which file is missing."""
    monkeypatch.setenv("TASUKI_DATA", str(tmp_path))
    handoff = kept_handoff()
    Vault().save(handoff, "brief")
    code, output = run("-", "--thread", handoff.id[:8], input="x")

    assert code == 1
    assert "/gone/t-1.jsonl" in output


@pytest.mark.parametrize(
    "text",
    ["x" * 900_000, '"' * 300_000 + "«" * 100_000, "[#" + "1, #" * 100_000, "## Next\n" + "`" * 300_000, "- [ ] do it\n" * 40_000,
     "a: " * 200_000, "\x1b[2J\x1b]0;title\x07" * 1000],
    ids=["one word", "quotes", "references", "backticks", "boxes", "labels", "escapes"],
)  # fmt: skip
def test_a_hostile_document_is_scored_all_the_same(text: str, tmp_path: Path) -> None:
    """Nothing in a document of up to 1 MB breaks the report or reaches the terminal."""
    assert len(text.encode()) <= MOST_DOCUMENT_BYTES
    path = str(uploads().write(tmp_path / "t.jsonl"))
    code, output = run("-", "--thread", path, input=text)

    assert code == 0
    assert "\x1b" not in output


def test_nothing_heavy_is_loaded(tmp_path: Path) -> None:
    """Scoring a document needs neither rich nor a model nor asyncio."""
    path = uploads().write(tmp_path / "t.jsonl")
    (file := tmp_path / "a.md").write_text(GOOD)
    program = (
        f"import sys; sys.argv = ['tasuki', 'check', {str(file)!r}, '--thread', {str(path)!r}]\n"
        "from tasuki.cli.main import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print('LOADED', *sys.modules)"
    )
    env = {"HOME": str(tmp_path), "TASUKI_DATA": str(tmp_path / "d"), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        (sys.executable, "-c", program), capture_output=True, text=True, timeout=60, env=env
    )
    loaded = set(done.stdout.partition("LOADED")[2].split())

    assert "tasuki.draft.quality.score" in loaded, done.stderr
    assert not {"rich", "textual", "pydantic", "mcp", "asyncio", "sqlite3"} & loaded
