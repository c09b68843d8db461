"""Documents that programs put into a thread: whole, found and read by their refs, nobody's words."""

import json
from pathlib import Path
from typing import Any

import pytest
from fixture_threads import adapter

from tasuki.draft.facts.statements import extract_user_statements
from tasuki.model import Document, Thread
from tasuki.threads.blocks import split_blocks
from tasuki.threads.references import OpenedThread, read_entries, split_spec

GUIDE = "# Rules\n\nNever use zebra fonts.\n" + "They are striped. " * 80 + "\nThe end"


def read_claude(folder: Path, *rows: dict[str, Any]) -> Thread:
    """A thread of Claude Code with a prompt, some further rows and a reply."""
    common = {"isSidechain": False, "cwd": "/shop", "sessionId": "8" * 36, "version": "2.1.332"}
    prompt = {"type": "user", "message": {"role": "user", "content": "Add a footer"}}
    reply = {"type": "assistant", "message": {"content": [{"type": "text", "text": "Added."}]}}
    path, parent = folder / f"{'8' * 36}.jsonl", None
    with path.open("w") as file:
        for n, row in enumerate((prompt, *rows, reply)):
            whole = {
                "parentUuid": parent,
                **common,
                **row,
                "uuid": f"u{n}",
                "timestamp": f"2026-10-01T10:00:0{n}.000Z",
            }
            file.write(json.dumps(whole) + "\n")
            parent = f"u{n}"
    return adapter("claude").read(path)


def attached(kind: str, **fields: Any) -> dict[str, Any]:
    """A row with an attachment."""
    return {"type": "attachment", "attachment": {"type": kind, **fields}}


@pytest.mark.parametrize(
    ("row", "document"),
    [
        (attached("nested_memory", path="/shop/CLAUDE.md", content={"path": "/shop/CLAUDE.md", "type": "Project", "content": GUIDE}), Document("/shop/CLAUDE.md", GUIDE)),
        (attached("file", filename="/shop/a.md", content={"type": "text", "file": {"filePath": "/shop/a.md", "content": GUIDE}}), Document("/shop/a.md", GUIDE)),
        (attached("edited_text_file", filename="/shop/a.py", snippet="1\tx = 1"), Document("/shop/a.py", "1\tx = 1")),
        ({"type": "user", "isMeta": True, "message": {"content": f"<system-reminder>\nContents of /shop/CLAUDE.md (project instructions):\n\n{GUIDE}\n</system-reminder>"}}, Document("/shop/CLAUDE.md", GUIDE)),
    ],
)  # fmt: skip
def test_what_claude_code_puts_in_is_a_document(
    row: dict[str, Any], document: Document, tmp_path: Path
) -> None:
    """Memories, attached and edited files are kept whole, each once, and are no words of the user."""
    thread = read_claude(tmp_path, row, row)

    assert thread.documents == (document,)
    assert [s.text for s in extract_user_statements(thread.entries)] == ["Add a footer"]


@pytest.mark.parametrize(
    ("name", "text", "path"),
    [
        ("codex", f"# AGENTS.md instructions for /shop\n\n<INSTRUCTIONS>\n{GUIDE}\n</INSTRUCTIONS>", "/shop/AGENTS.md"),
        ("pi", f'<file name="/shop/a.md">\n{GUIDE}\n</file>\nAdd a footer', "/shop/a.md"),
        ("copilot", f'Add a footer\n<context ref="file:///shop/a.md">\n{GUIDE}\n</context>', "/shop/a.md"),
    ],
)  # fmt: skip
def test_what_is_around_a_prompt_is_a_document(
    name: str, text: str, path: str, tmp_path: Path
) -> None:
    """Guides of Codex, and files that editors and pi put beside a prompt."""
    from tasuki_testing import ThreadBuilder

    builder = ThreadBuilder(name).user(text).assistant("Read.").user("Go on")
    thread = adapter(name).read(builder.write(tmp_path / builder.file_name()))

    assert thread.documents == (Document(path, GUIDE),)
    said = " ".join(s.text for s in extract_user_statements(thread.entries))
    assert "zebra" not in said
    assert said.endswith("Go on")


def test_a_document_is_read_by_its_ref_and_found(tmp_path: Path) -> None:
    """`#d1` opens it whole; the index holds its words in a block of its own."""
    thread = read_claude(
        tmp_path, attached("file", filename="/shop/a.md", content={"content": GUIDE})
    )
    name, refs = split_spec("88888888#1,d1")
    read = [reading.text for reading in read_entries(OpenedThread(name, thread), refs)]

    assert read == ["Add a footer", f"/shop/a.md\n{GUIDE}"]
    blocks = list(split_blocks(thread.readable))
    assert [(b.first, "zebra" in b.text) for b in blocks] == [
        (1, False),
        (refs[1] if refs else 0, True),
    ]
