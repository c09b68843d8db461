"""Outputs that stay in the file of a thread until somebody asks for them: they are the same then."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from fixture_threads import corpus, samples, unzipped

from tasuki.errors import ThreadUnreadable
from tasuki.harness.claude.adapter import Claude
from tasuki.harness.reading import jsonl
from tasuki.harness.reading.unread import UnreadToolCall
from tasuki.model import Thread, ToolCall

UUID = "00000000-0000-4000-8000-{:012x}"


def written(folder: Path, *results: dict[str, Any]) -> Path:
    """A thread with one call of Bash for each result line, which is given as its message's content."""
    path = folder / "thread.jsonl"
    lines: list[bytes] = []
    content: Any = "Go on"
    number = 0

    def add(kind: str, content: Any) -> None:
        nonlocal number
        parent = UUID.format(number) if number else None
        number += 1
        record = {
            "parentUuid": parent, "isSidechain": False, "cwd": "/proj", "sessionId": "s", "version": "2.1.330",
            "gitBranch": "main", "type": kind, "message": {"role": kind, "content": content},
            "uuid": UUID.format(number), "timestamp": f"2026-11-01T10:00:{number:02}Z",
        }  # fmt: skip
        lines.append(json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass"))  # fmt: skip

    add("user", content)
    for index, result in enumerate(results):
        call = {"type": "tool_use", "id": f"toolu_{index}", "name": "Bash", "input": {"command": "ls"}}  # fmt: skip
        add("assistant", [call])
        add("user", [{"tool_use_id": f"toolu_{index}", "type": "tool_result", **result}])
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def shown(thread: Thread) -> list[dict[str, Any] | None]:
    """All fields of all calls, as anybody sees them."""
    fields = ToolCall.__struct_fields__
    return [{f: getattr(e.tool, f) for f in fields} if e.tool else None for e in thread.entries]


def left(thread: Thread) -> int:
    """How many outputs were left in the file."""
    return sum(isinstance(e.tool, UnreadToolCall) and bool(e.tool.place) for e in thread.entries)


@pytest.mark.parametrize("path", [*samples("claude"), *corpus("claude")], ids=lambda p: p.name[:8])
def test_a_thread_is_the_same_when_asked(path: Path, tmp_path: Path) -> None:
    """Every field of every call of real threads, and all else of these."""
    file = unzipped(path, tmp_path) if path.suffix == ".gz" else path
    whole, draft = Claude().read(file), Claude().read_for_draft(file)
    assert shown(draft) == shown(whole)
    for field in set(Thread.__struct_fields__) - {"entries"}:
        assert getattr(draft, field) == getattr(whole, field), field


@pytest.mark.parametrize(
    ("content", "is_left"),
    [
        ({"content": "plain \"quoted\" \\ text"}, True),
        ({"content": "ends in a backslash \\"}, True),
        ({"content": "fine", "is_error": False}, True),
        ({"content": 'looks like an end "}]},"uuid":"1" and a block },{"type":"text" and a key","x":"y'}, True),
        ({"content": "ünïcödé ✓ \u2028"}, True),
        ({"content": "x" * 30_000}, True),
        ({"content": ""}, False),
        ({"content": "Exit code 1", "is_error": True}, False),
        ({"content": "fine", "other": "key"}, True),
        ({"meta": {"content": "mine"}, "content": "fine"}, False),
        ({"meta": [{"content": "mine"}], "content": "mine"}, True),
        ({"content": [{"type": "text", "text": "in a list"}]}, False),
        ({"content": "Command running in background with ID: b1"}, False),
        ({}, False),
    ],
)  # fmt: skip
def test_what_is_left_in_the_file(content: dict[str, Any], is_left: bool, tmp_path: Path) -> None:
    """Only the text of a single result that went well; anything else is read at once."""
    path = written(tmp_path, content, {"content": "after"})
    draft = Claude().read_for_draft(path)
    assert left(draft) == is_left + 1
    assert shown(draft) == shown(Claude().read(path))
    assert draft.updated == Claude().read(path).updated


def test_several_blocks_are_read_at_once(tmp_path: Path) -> None:
    """Two results of one line, and words of the user behind a result."""
    path = written(tmp_path, {"content": "one"})
    text = path.read_text()
    more = text.replace('"content":"one"}]', '"content":"one"},{"type":"text","text":"and I say"}]')
    two = text.replace('"content":"one"}]', '"content":"one"},{"tool_use_id":"toolu_9","type":"tool_result","content":"two"}]')  # fmt: skip
    for changed in (more, two):
        assert changed != text
        path.write_text(changed)
        draft = Claude().read_for_draft(path)
        assert (left(draft), shown(draft)) == (0, shown(Claude().read(path)))


@pytest.mark.parametrize("again", ["two", "", [{"type": "text", "text": "two"}], None])
@pytest.mark.parametrize("first", ["one", [{"type": "text", "text": "one"}]])
@pytest.mark.parametrize("errors", [(False, False), (True, False), (False, True)])
def test_the_last_of_two_results_counts(
    first: Any, again: Any, errors: tuple[bool, bool], tmp_path: Path
) -> None:
    """A call whose result is written twice, in whatever form."""
    path = written(
        tmp_path,
        {"content": first, "is_error": errors[0]},
        {"content": again, "is_error": errors[1]},
    )
    path.write_text(path.read_text().replace('"tool_use_id":"toolu_1"', '"tool_use_id":"toolu_0"'))
    assert shown(Claude().read_for_draft(path)) == shown(Claude().read(path))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"content":"one"}]}', '"is_error":false}]},"content":"top"'),
        ('"parentUuid":', '"pre":{"content":[{"content":"x"}]},"parentUuid":'),
        ('"content":"one"', '"content":"\\u0041sync agent launched. agentId: q"'),
    ],
)
def test_a_text_that_is_elsewhere_is_read_at_once(old: str, new: str, tmp_path: Path) -> None:
    """Keys of the same name elsewhere in the line, and a special beginning that is escaped."""
    path = written(tmp_path, {"content": "one"})
    changed = path.read_text().replace(old, new)
    assert changed != path.read_text()
    path.write_text(changed)
    assert shown(Claude().read_for_draft(path)) == shown(Claude().read(path))


def test_bytes_that_are_no_text_are_shown_as_ever(tmp_path: Path) -> None:
    """Half a character and invalid UTF-8 are written out as in a thread that is read at once."""
    path = written(tmp_path, {"content": "half \ud83d here"}, {"content": "NOTUTF"})
    path.write_bytes(path.read_bytes().replace(b"NOTUTF", b"a \xff\xfe b"))
    assert shown(Claude().read_for_draft(path)) == shown(Claude().read(path))


def test_what_is_far_from_the_end_is_cut_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a huge file the outputs far from its end are cut short, asked for or not."""
    path = written(tmp_path, *[{"content": f"{n} " * 400} for n in range(20)])
    monkeypatch.setattr(jsonl, "HUGE", 1_000)
    monkeypatch.setattr(jsonl, "NEAR", 10_000)
    whole, draft = Claude().read(path), Claude().read_for_draft(path)
    sizes = {len(e.tool.output) for e in whole.entries if e.tool}
    assert len(sizes) > 1
    assert shown(draft) == shown(whole)


def test_a_file_that_is_gone_or_changed(tmp_path: Path) -> None:
    """A thread that was deleted meanwhile is still there; of one that was written over, an error says so."""
    path = written(tmp_path, {"content": "one"}, {"content": "two"})
    draft = Claude().read_for_draft(path)
    path.rename(tmp_path / "moved")
    assert draft.entries[1].tool
    assert draft.entries[1].tool.output == "one"

    (tmp_path / "moved").write_bytes(b"something else")
    assert draft.entries[2].tool
    with pytest.raises(ThreadUnreadable, match=r"was changed while it was read\. Try again"):
        _ = draft.entries[2].tool.output


def test_the_file_is_closed_with_the_thread(tmp_path: Path) -> None:
    """No file stays open when nobody needs the thread any more."""
    path = written(tmp_path, {"content": "one"})

    def opened() -> int:
        links = (Path("/proc/self/fd") / name for name in os.listdir("/proc/self/fd"))
        return sum(os.path.realpath(link) == str(path.resolve()) for link in links)

    draft = Claude().read_for_draft(path)
    assert opened() == 1
    del draft
    assert opened() == 0
