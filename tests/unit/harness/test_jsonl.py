"""Files that are damaged, growing, huge or gone."""

import contextlib
import json
import os
import threading
from pathlib import Path

import msgspec
import pytest
from fixture_threads import HARNESSES, adapter, form, holder, samples, thread_file

from tasuki.draft.claims.lookup import find_occurring
from tasuki.errors import ThreadNotFound, ThreadUnreadable
from tasuki.harness import registry
from tasuki.harness.reading.jsonl import (
    KEEP_HUGE,
    KEEP_WHOLE,
    ThreadLines,
    choose_keep_limit,
    clip,
    repair_line,
)
from tasuki.harness.reading.records import split_records
from tasuki.model import BrokenLine
from tasuki_testing import ThreadBuilder
from tasuki_testing.forms import JsonDocument, OpencodeDatabase

VALUE = msgspec.json.Decoder()


@pytest.mark.parametrize("name", [n for n in HARNESSES if n != "opencode"])
def test_a_byte_order_mark_changes_nothing(tmp_path: Path, name: str) -> None:
    """A file that begins with one is known, listed and read as it is without; a database has none."""
    path = max(samples(name), key=lambda p: p.stat().st_size)
    read = []
    for folder, mark in (("without", b""), ("with", b"\xef\xbb\xbf")):
        copy = tmp_path / folder / path.name
        copy.parent.mkdir()
        copy.write_bytes(mark + path.read_bytes())
        found = registry.detect_harness(copy)
        head, thread = found.read_head(thread_file(copy)), found.read(copy)
        assert head is not None
        told = (found.name, head.first_words, head.messages, head.name, head.context_tokens)
        shown = [(e.ref, e.kind, e.text, e.at) for e in thread.entries]
        read.append((*told, shown, thread.report.broken, thread.report.truncated_tail))

    assert read[0] == read[1]
    assert read[1][5]


def damaged(lines: list[bytes], kind: str) -> bytes:
    """The lines of a file, as programs that were killed or wrote at once leave them."""
    if kind == "glued":
        return b"".join(line + b"\n" * (n % 3 == 2) for n, line in enumerate(lines)) + b"\n"
    if kind == "NULs before":
        return b"".join(b"\0" * 900 + line + b"\n" for line in lines)
    if kind == "NULs inside":
        return b"".join(line[:40] + b"\0\0" + line[40:] + b"\0\n" for line in lines)
    if kind == "goes on in the next line":
        return b"".join(
            line[: len(line) // 2] + b"\n" + line[len(line) // 2 :] + b"\n" for line in lines
        )
    return b"".join(line[: n % len(line)] + line + b"\n" for n, line in enumerate(lines, 30))


@pytest.mark.parametrize(
    "kind", ["glued", "NULs before", "NULs inside", "goes on in the next line", "cut ones before"]
)
@pytest.mark.parametrize("name", ["claude", "codex", "pi", "omp", "gemini", "copilot"])
def test_whole_records_of_damaged_lines_are_read(tmp_path: Path, name: str, kind: str) -> None:
    """Whatever damages the lines of a thread, all records that are whole are read, in their order."""
    path, reader = max(samples(name), key=lambda p: p.stat().st_size), adapter(name)
    first, *lines = path.read_bytes().splitlines()
    copy = tmp_path / path.name
    copy.write_bytes(first + b"\n" + damaged(lines, kind))
    before, after = reader.read(path), reader.read(copy)

    assert [(e.kind, e.text, e.tool) for e in after.entries] == [
        (e.kind, e.text, e.tool) for e in before.entries
    ]
    assert bool(after.report.broken) == (kind == "cut ones before")
    assert after.report.broken or any("nothing is lost" in note for note in after.report.notes)


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":' * 50_000, b'{"type":1,' * 200_000, b'[{"id":1},' * 100_000, b'{"type":"x{"type":"x' * 20_000,
        b"\0" * 1_000_000, b'{"a":"' + b"x" * 1_000_000, b"}{" * 100_000, b'{"timestamp":{"timestamp":' * 20_000 + b"}",
    ],
    ids=range(8),
)  # fmt: skip
def test_no_line_is_too_damaged_to_be_given_up(line: bytes) -> None:
    """Nothing is found in lines that are made to break a reader, and the search ends."""
    assert split_records(line).records == []


@pytest.mark.parametrize("name", ["claude", "pi", "omp", "gemini", "copilot"])
def test_what_a_program_writes_twice_counts_once(tmp_path: Path, name: str) -> None:
    """Rows with known ids that come again, as after a second compaction, change nothing."""
    path, reader = max(samples(name), key=lambda p: p.stat().st_size), adapter(name)
    first, *lines = path.read_bytes().splitlines(keepends=True)
    copy = tmp_path / path.name
    copy.write_bytes(
        b"".join(
            (
                first,
                *lines,
                *(line for line in lines if b"rewind" not in line and not line.startswith(b'{"$')),
            )
        )
    )

    assert reader.read(copy).entries == reader.read(path).entries


def decoded(path: Path) -> tuple[ThreadLines, list[object]]:
    """The lines of a file after all were decoded, and what was decoded."""
    lines = ThreadLines(path)
    return lines, [v for _, line in lines if (v := lines.decode(VALUE, line)) is not None]


def written(folder: Path, content: bytes) -> Path:
    """A file with some content."""
    path = folder / "thread.jsonl"
    path.write_bytes(content)
    return path


def test_a_broken_line_is_reported_by_number(tmp_path: Path) -> None:
    """Blank lines count as lines; the others are read."""
    path = written(tmp_path, b'{"a":1}\n\n{"b":\n{"c":3}\n')
    lines, values = decoded(path)

    assert values == [{"a": 1}, {"c": 3}]
    assert lines.build_report().broken == (
        BrokenLine(line=3, reason="Input data was truncated", path=str(path)),
    )
    assert (lines.build_report().lines, lines.build_report().bytes) == (4, 23)


def test_a_truncated_tail_is_accepted(tmp_path: Path) -> None:
    """A file under way ends in the middle of a line."""
    lines, values = decoded(written(tmp_path, b'{"a":1}\n{"b":'))

    assert values == [{"a": 1}]
    assert (lines.build_report().truncated_tail, lines.build_report().broken) == (True, ())


def test_a_whole_last_line_needs_no_line_end(tmp_path: Path) -> None:
    """The last line may be complete without its line end."""
    lines, values = decoded(written(tmp_path, b'{"a":1}\n{"b":2}'))

    assert values == [{"a": 1}, {"b": 2}]
    assert not lines.build_report().truncated_tail


def test_many_broken_lines_are_counted_and_not_listed(tmp_path: Path) -> None:
    """Fifty are named, the rest is a number."""
    lines, values = decoded(written(tmp_path, b"{\n" * 70))

    assert values == []
    assert len(lines.build_report().broken) == 50
    assert lines.build_report().notes == ("20 more broken lines",)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b'"caf\xe9"', "caf\\xe9"),
        (b'"\xff\xfe"', "\\xff\\xfe"),
        (b'"a\\ud83d"', "a�"),
        (b'"\\udc00b"', "�b"),
        (b'"\\ud83d\\ude00"', "\U0001f600"),
        ('"schön"'.encode(), "schön"),
    ],
)
def test_strings_that_are_no_unicode_survive(line: bytes, text: str) -> None:
    """Foreign bytes are written out, halves of surrogate pairs replaced."""
    assert json.loads(repair_line(line)) == text


def test_deep_nesting_is_a_broken_line(tmp_path: Path) -> None:
    """A line nested ten thousand deep costs that line alone."""
    content = b"[" * 10_000 + b"]" * 10_000 + b'\n{"a":1}\n'
    lines, values = decoded(written(tmp_path, content))

    assert values == [{"a": 1}]
    assert [b.line for b in lines.build_report().broken] == [1]


def test_windows_line_ends_are_line_ends(tmp_path: Path) -> None:
    """A carriage return belongs to the line end."""
    assert decoded(written(tmp_path, b'{"a":1}\r\n{"b":2}\r\n'))[1] == [{"a": 1}, {"b": 2}]


@pytest.mark.parametrize("name", HARNESSES)
@pytest.mark.parametrize(
    "content", [b"", b"\n \n", b"\x00\x01\x02\xff" * 300, b"[" * 100_000, b"\xef\xbb\xbf"]
)
def test_what_is_no_thread_is_unreadable(name: str, content: bytes, tmp_path: Path) -> None:
    """Empty and binary files raise an error that names the file."""
    path = written(tmp_path, content)

    with pytest.raises(ThreadUnreadable, match=r"thread\.jsonl"):
        adapter(name).read(path)


@pytest.mark.parametrize("name", HARNESSES)
def test_a_vanished_file_is_unreadable(name: str, tmp_path: Path) -> None:
    """A file that is gone by the time it is read."""
    with pytest.raises(ThreadUnreadable, match="vanished"):
        adapter(name).read(tmp_path / "gone.jsonl")


def test_a_file_without_permission_is_unreadable(tmp_path: Path) -> None:
    """The reason is the system's own word."""
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    path = written(tmp_path, b"{}\n")
    path.chmod(0)

    with pytest.raises(ThreadUnreadable, match="Permission denied"):
        registry.get_harness("claude").read(path)


def test_the_harness_of_a_file_is_found_or_refused(tmp_path: Path) -> None:
    """What nobody knows is named; what is not there is another error."""
    for name in HARNESSES:
        assert {registry.detect_harness(p) for p in samples(name)} == {adapter(name)}
    with pytest.raises(ThreadUnreadable, match="not a thread of a known harness"):
        registry.detect_harness(written(tmp_path, b'{"hello":"world"}\n'))
    with pytest.raises(ThreadUnreadable, match="is empty"):
        registry.detect_harness(written(tmp_path, b"\n"))
    with pytest.raises(ThreadNotFound, match="No file"):
        registry.detect_harness(tmp_path / "gone.jsonl")


APPENDED = [
    name for name in HARNESSES if not isinstance(form(name), OpencodeDatabase | JsonDocument)
]
"""Formats whose files only ever grow."""


@pytest.mark.parametrize("name", APPENDED)
def test_a_file_can_be_read_while_it_grows(name: str, tmp_path: Path) -> None:
    """Every reading of a file under way is a beginning of the last one."""
    build = ThreadBuilder(name).user("Go")
    for number in range(200):
        build.assistant(f"Answer {number} " + "x" * 200)
    content = build.text().encode()
    path = written(tmp_path, content[: len(content) // 4])
    stop = threading.Event()

    def grow() -> None:
        with path.open("ab", buffering=0) as file:
            for at in range(len(content) // 4, len(content), 997):
                file.write(content[at : at + 997])
        stop.set()

    writer = threading.Thread(target=grow)
    writer.start()
    seen = [adapter(name).read(path)]
    while not stop.is_set():
        seen.append(adapter(name).read(path))
    writer.join()
    whole = [e.text for e in adapter(name).read(path).entries]

    assert len(whole) == 201
    for thread in seen:
        texts = [e.text for e in thread.entries]
        *before, last = texts or [""]  # In Markdown half a line is a line.
        assert before == whole[: len(before)]
        assert name in ("aider", "specstory") or last == whole[len(before)]
        assert not thread.report.broken


@pytest.mark.parametrize("name", HARNESSES)
def test_reading_leaves_the_file_alone(name: str) -> None:
    """Bytes and times of the captured threads stay as they are."""
    for path in samples(name):
        file = holder(path)
        before = (file.read_bytes(), file.stat().st_mtime_ns)
        adapter(name).read(path)

        assert (file.read_bytes(), file.stat().st_mtime_ns) == before


def test_long_outputs_are_cut_in_the_middle() -> None:
    """Head and tail say most; what was left out is said."""
    assert clip("short", 10) == "short"
    assert clip("a" * 60 + "b" * 60, 30) == ("a" * 20 + "\n… 90 characters left out …\n" + "b" * 10)


def test_huge_files_keep_less_of_each_output(tmp_path: Path) -> None:
    """Memory stays bounded by what is kept."""
    path = written(tmp_path, b"")
    assert choose_keep_limit(path) == KEEP_WHOLE
    with path.open("r+b") as file:
        file.truncate(300 << 20)

    assert choose_keep_limit(path) == KEEP_HUGE
    assert choose_keep_limit(tmp_path / "gone") == KEEP_WHOLE


def test_texts_are_found_in_the_bytes_of_a_thread(tmp_path: Path) -> None:
    """Whatever was clipped in memory, and however the harness escaped it."""
    path = written(tmp_path, b'{"t":"say \\"hi\\"\\n\\u00fcber alles"}\n{"t":"\xc3\xbcberall"}\n')
    wanted = {'say "hi"\nüber', "überall", "nowhere", ""}

    assert find_occurring([str(path)], wanted) == {'say "hi"\nüber', "überall"}
    assert find_occurring([str(tmp_path / "gone")], wanted) == set()


def test_a_text_across_two_blocks_is_found(tmp_path: Path) -> None:
    """Blocks overlap by the longest text wanted."""
    content = b"x" * ((1 << 20) - 3) + b"needle" + b"y" * 100

    assert find_occurring([str(written(tmp_path, content))], ["needle"]) == {"needle"}


def test_a_parent_is_read_up_to_its_end(tmp_path: Path) -> None:
    """A line that begins behind the end is not read."""
    path = written(tmp_path, b'{"a":1}\n{"b":2}\n{"c":3}\n')
    lines = ThreadLines(path, end=16)

    assert [offset for offset, _ in lines] == [0, 8]
    assert (lines.number, lines.bytes) == (2, 16)


def test_a_captured_thread_survives_any_single_cut(tmp_path: Path) -> None:
    """Wherever a file is cut off, it is read or refused, and no line counts as broken."""
    for name in HARNESSES:
        content = min((holder(p).read_bytes() for p in samples(name)), key=len)
        for at in range(0, len(content), max(len(content) // 60, 1)):
            path = written(tmp_path, content[:at])
            with contextlib.suppress(ThreadUnreadable):
                assert adapter(name).read(path).report.broken == ()


def test_a_thread_of_another_harness_is_refused() -> None:
    """An adapter does not make a thread out of another program's file."""
    for name in HARNESSES:
        for other in HARNESSES:
            if {name, other} != {"pi", "omp"} and adapter(name) is not adapter(other):
                with pytest.raises(ThreadUnreadable):
                    adapter(name).read(samples(other)[0])
