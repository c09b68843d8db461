"""Patterns that are compiled once for an installation, and what becomes of a file that cannot be used."""

import marshal
import re
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tasuki import patterns
from tasuki.patterns import PatternCache

ROOT = Path(__file__).parents[2]
SAMPLES: list[tuple[str | bytes, int]] = [
    (r"(?P<name>[A-Z]+)-(\d+)", 0),
    (r"^\s*[-*•]\s+(?=\S)", re.MULTILINE),
    ("[\udc80-\udcff]|ſ", re.IGNORECASE),
    (rb'"type": ?"([a-z-]+)"', 0),
    ("same", 0),
    (b"same", 0),
]


def kept(path: Path) -> PatternCache:
    """A cache whose file holds all samples."""
    cache = PatternCache(str(path))
    for pattern, flags in SAMPLES:
        cache.compile(pattern, flags)
    cache.save()
    return PatternCache(str(path))


def test_a_kept_pattern_is_the_same(tmp_path: Path) -> None:
    """A pattern from the file equals a compiled one: its text, flags, groups and names."""
    cache = kept(tmp_path / "p")
    for pattern, flags in SAMPLES:
        one, other = cache.compile(pattern, flags), re.compile(pattern, flags)
        assert (one, one.flags, one.groups, one.groupindex) == (other, other.flags, other.groups, other.groupindex)  # fmt: skip
        assert one.pattern == pattern


def test_nothing_is_compiled_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in the file is not compiled again; what is not, is."""
    cache, compiled = kept(tmp_path / "p"), []
    monkeypatch.setattr(patterns, "_compile_parts", lambda pattern, *_: compiled.append(pattern))
    for pattern, flags in [*SAMPLES, ("another", 0)]:
        cache.compile(pattern, flags)
    assert compiled == ["another"]


def sealed(content: object) -> bytes:
    """A file with some content, whose checksum is right."""
    data = marshal.dumps(content)
    return zlib.crc32(data).to_bytes(4, "big") + data


def opened(data: bytes) -> tuple[Any, dict[Any, Any]]:
    """What a file says of its Python, and the patterns in it."""
    python, known = marshal.loads(data[4:])
    return python, known


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[: len(data) // 2],
        lambda data: b"",
        lambda data: b"\xff" * 400,
        lambda data: data[:135] + bytes([data[135] ^ 1]) + data[136:],
        lambda data: sealed(7),
        lambda data: sealed((opened(data)[0], 7)),
        lambda data: sealed((("3.99", 1, 4, 4, "little"), opened(data)[1])),
        lambda data: sealed(
            (opened(data)[0], dict.fromkeys(opened(data)[1], (0, b"1234", 0, {}, (None,))))
        ),
    ],
    ids=["cut", "empty", "noise", "one bit", "another thing", "no table", "another Python", "wrong code"],
)  # fmt: skip
def test_a_file_that_cannot_be_used_is_replaced(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    """A damaged file, or one of another Python, changes no pattern, and is written anew."""
    path = tmp_path / "p"
    kept(path)
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    cache = PatternCache(str(path))
    assert [cache.compile(p, f) for p, f in SAMPLES] == [re.compile(p, f) for p, f in SAMPLES]
    cache.save()
    assert opened(path.read_bytes()) == opened(whole)


def test_where_none_can_be_kept(tmp_path: Path) -> None:
    """No folder, no place, or no wish to write: patterns are compiled, and nothing is left behind."""
    for cache in (
        PatternCache(""),
        PatternCache(str(tmp_path / "missing" / "p")),
        PatternCache(str(tmp_path / "p"), is_written=False),
    ):
        assert cache.compile("a+") == re.compile("a+")
        cache.save()
    assert not list(tmp_path.iterdir())


def test_a_command_finds_its_patterns_the_next_time(tmp_path: Path) -> None:
    """The files lie among the compiled modules, one a package; the second start compiles no pattern."""
    spy = (
        "from tasuki import patterns\n"
        "import tasuki.cli.handoff.run, tasuki.harness.claude.read\n"
        "caches = patterns._CACHES\n"
        "print(sum(len(x._known) for x in caches.values()), any(x._is_changed for x in caches.values()),"
        " caches['tasuki.draft.facts'].path, 'tasuki.fleet' in caches)"
    )
    env = {"PYTHONPYCACHEPREFIX": str(tmp_path), "PATH": "/usr/bin:/bin"}
    said = []
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", spy], env=env, capture_output=True, text=True, check=True)  # fmt: skip
        said.append(done.stdout.split())
    (first, was_changed, path, is_all), (second, is_changed, _, _) = said
    assert (was_changed, is_changed, first) == ("True", "False", second)
    assert (int(first) > 100, is_all) == (True, "False")
    assert Path(path).is_relative_to(tmp_path)
    assert Path(path).is_file()


def test_fixed_patterns_are_kept() -> None:
    """No module compiles a pattern at its import by `re` itself."""
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sorted((ROOT / "src" / "tasuki").rglob("*.py"))
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if re.match(r"_?[A-Z][A-Z_]*(?:: [^=]+)? = re\.compile\(", line)
    ]
    assert not found


def test_an_order_to_end_during_the_writing_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal that arrives while the file is written at the exit: no traceback, no unfinished file."""
    cache = PatternCache(str(tmp_path / "p"))
    cache.compile("some", 0)

    def end(*_: object) -> None:
        raise SystemExit(143)

    monkeypatch.setattr(patterns.os, "replace", end)
    cache.save()
    assert not list(tmp_path.iterdir())
