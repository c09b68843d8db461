"""Threads that a converter wrote, with the tools of one program in the format of another.

The forms are those of session-migrate 0.12 and of Codex's own import (0.171), made here anew.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tasuki.draft.facts.derive import derive_facts
from tasuki.harness.registry import detect_harness
from tasuki.model import Thread

AT = "2026-01-05T09:00:{:02}.000Z"
UUID = "01a21805-a9bf-7742-95e4-{:012x}"
Record = dict[str, Any]


class Call(NamedTuple):
    """A call, its result, and whether its program called that an error."""

    name: str
    given: Any
    output: str
    failed: bool = False


ASKED = "Make the client retry, and never touch legacy/"
CLAUDE = [
    Call("Edit", {"file_path": "/p/a.py", "old_string": "one", "new_string": "two"}, "The file /p/a.py has been updated."),
    Call("Write", {"file_path": "/p/b.py", "content": "new"}, "File created successfully at: /p/b.py"),
    Call("Bash", {"command": "pytest -q"}, "Exit code 1\nFAILED test_a.py::test_x - assert\n1 failed in 0.1s", failed=True),
    Call("Bash", {"command": "pytest -q"}, "3 passed in 0.28s"),
    Call("Bash", {"command": "git commit -am 'Retry'"}, "[main 3be81f2] Retry\n 2 files changed, 3 insertions(+)"),
    Call("TodoWrite", {"todos": [{"content": "Retry", "status": "completed"}, {"content": "Cap", "status": "pending"}]}, "ok"),
]  # fmt: skip
_HEAD = "Chunk ID: a1\nWall time: 0.1 seconds\nProcess exited with code {}\nOriginal token count: 9\nOutput:\n"
CODEX = [
    Call("apply_patch", {"input": "*** Begin Patch\n*** Update File: /p/a.py\n@@\n-one\n+two\n*** Add File: /p/b.py\n+new\n*** End Patch"}, "Success."),
    Call("exec_command", {"cmd": "pytest -q"}, _HEAD.format(1) + "FAILED test_a.py::test_x - assert\n1 failed in 0.1s"),
    Call("exec_command", {"cmd": "pytest -q"}, _HEAD.format(0) + "3 passed in 0.28s"),
    Call("exec", {"input": 'const r = await tools.exec_command({cmd:"git commit -am \'Retry\'"}); text(JSON.stringify(r));'},
         'Script completed\nWall time 0.1 seconds\nOutput:\n\n{"chunk_id":"a","exit_code":0,"output":"[main 3be81f2] Retry\\n 2 files changed, 3 insertions(+)"}'),
    Call("update_plan", {"plan": [{"step": "Retry", "status": "completed"}, {"step": "Cap", "status": "pending"}]}, "Plan updated"),
]  # fmt: skip


def write_claude(calls: list[Call]) -> list[Record]:
    rows: list[tuple[str, Any]] = [("user", ASKED)]
    for n, call in enumerate(calls):
        rows.append(("assistant", [{"type": "tool_use", "id": f"t{n}", "name": call.name, "input": call.given}]))  # fmt: skip
        result = {"type": "tool_result", "tool_use_id": f"t{n}", "content": call.output, "is_error": call.failed}  # fmt: skip
        rows.append(("user", [result]))
    return [
        {"parentUuid": UUID.format(n) if n else None, "isSidechain": False, "type": kind, "cwd": "/p", "sessionId": "s",
         "version": "2.1.330", "message": {"role": kind, "content": content}, "uuid": UUID.format(n + 1), "timestamp": AT.format(n)}
        for n, (kind, content) in enumerate(rows)
    ]  # fmt: skip


def write_codex(calls: list[Call]) -> list[Record]:
    items: list[Record] = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": ASKED}]}
    ]
    for n, call in enumerate(calls):
        items.append({"type": "function_call", "name": call.name, "arguments": json.dumps(call.given), "call_id": f"t{n}"})  # fmt: skip
        items.append({"type": "function_call_output", "call_id": f"t{n}", "output": call.output})
    lines = [("session_meta", {"id": UUID.format(0), "cwd": "/p", "timestamp": AT.format(0)})]
    lines += [("response_item", item) for item in items]
    return [{"timestamp": AT.format(n), "type": t, "payload": p} for n, (t, p) in enumerate(lines)]


def write_pi(calls: list[Call]) -> list[Record]:
    messages: list[Record] = [{"role": "user", "content": ASKED}]
    for n, call in enumerate(calls):
        asked = {"type": "toolCall", "id": f"t{n}", "name": call.name, "arguments": call.given}
        messages.append({"role": "assistant", "content": [asked], "stopReason": "toolUse"})
        shown = [{"type": "text", "text": call.output}]
        messages.append({"role": "toolResult", "toolCallId": f"t{n}", "toolName": call.name, "content": shown, "isError": call.failed})  # fmt: skip
    head = {"type": "session", "version": 3, "id": UUID.format(0), "timestamp": AT.format(0), "cwd": "/p"}  # fmt: skip
    lines = [
        {"type": "message", "id": f"m{n}", "parentId": f"m{n - 1}" if n else None, "timestamp": AT.format(n), "message": m}
        for n, m in enumerate(messages)
    ]  # fmt: skip
    return [head, *lines]


def write_copilot(calls: list[Call]) -> list[Record]:
    events: list[tuple[str, Record]] = [
        ("session.start", {"sessionId": UUID.format(0), "startTime": AT.format(0), "context": {"cwd": "/p"}}),
        ("user.message", {"content": ASKED}),
    ]  # fmt: skip
    for n, call in enumerate(calls):
        asked = {"toolCallId": f"t{n}", "name": call.name, "arguments": call.given}
        ended: Record = {"toolCallId": f"t{n}", "success": not call.failed}
        ended |= {"error": {"message": call.output}} if call.failed else {"result": {"content": call.output}}  # fmt: skip
        events.append(("assistant.message", {"content": "", "toolRequests": [asked]}))
        events.append(("tool.execution_complete", ended))
    return [
        {"type": t, "data": d, "id": f"e{n}", "timestamp": AT.format(n)}
        for n, (t, d) in enumerate(events)
    ]


def write_opencode(calls: list[Call]) -> list[Record]:
    def message(number: int, role: str, part: Record) -> Record:
        info = {"id": f"msg_{number:03}", "role": role, "time": {"created": 1767603600000 + number}}
        return {"info": info, "parts": [{"id": f"prt_{number:03}", **part}]}

    messages = [message(0, "user", {"type": "text", "text": ASKED})]
    for n, call in enumerate(calls, 1):
        state = {"status": "error" if call.failed else "completed", "input": call.given}
        state |= {"error" if call.failed else "output": call.output}
        part = {"type": "tool", "tool": call.name, "callID": f"t{n}", "state": state}
        messages.append(message(n, "assistant", part))
    return [{"info": {"id": "ses_1", "directory": "/p", "time": {"created": 1}}, "messages": messages}]  # fmt: skip


WRITERS: list[Callable[[list[Call]], list[Record]]] = [
    write_claude, write_codex, write_pi, write_copilot, write_opencode,
]  # fmt: skip


def read(folder: Path, records: list[Record]) -> Thread:
    """The thread of some records, one a line."""
    path = folder / "events.jsonl"
    path.write_text("".join(json.dumps(r, separators=(",", ":")) + "\n" for r in records))
    return detect_harness(path).read(path)


@pytest.mark.parametrize("calls", [CLAUDE, CODEX], ids=["claude", "codex"])
@pytest.mark.parametrize("write", WRITERS, ids=lambda w: w.__name__.removeprefix("write_"))
def test_a_converted_thread_tells_the_same_work(
    write: Callable[[list[Call]], list[Record]], calls: list[Call], tmp_path: Path
) -> None:
    """Edits, the failed and the passed tests, the commit, the todo list and the user's words."""
    thread = read(tmp_path, write(calls))
    facts = derive_facts(thread).facts
    changes = [(c.path, c.kind, c.old, c.new) for e in thread.entries if e.tool for c in e.tool.changes]  # fmt: skip

    assert changes == [("/p/a.py", "edit", "one", "two"), ("/p/b.py", "create", "", "new")]
    assert [e.text for e in thread.entries if e.is_prompt] == [ASKED]
    runs = {e.tool.status for e in thread.entries if e.tool and e.tool.command == "pytest -q"}
    assert "error" in runs
    assert [(c.command, c.result) for c in facts.last_check] == [("pytest -q", "passed")]
    assert [(c.hash, c.subject) for c in facts.repository.commits] == [("3be81f2", "Retry")]
    assert [(t.text, t.status) for t in facts.todos] == [("Retry", "done"), ("Cap", "pending")]


def write_import(calls: list[Call]) -> list[Record]:
    """A thread of Claude Code as Codex imports it: calls and results are texts of the assistant."""
    lines: list[Record] = [{"type": "session_meta", "payload": {"id": UUID.format(7), "cwd": "/p", "timestamp": AT.format(0)}}]  # fmt: skip

    def say(role: str, kind: str, text: str) -> None:
        content = [{"type": kind, "text": text}]
        lines.append({"type": "response_item", "payload": {"type": "message", "role": role, "content": content}})  # fmt: skip

    def turn(id: str) -> None:
        lines.append({"type": "event_msg", "payload": {"type": "task_started", "turn_id": id}})

    turn("external-import-turn-1")
    lines.append({"type": "event_msg", "payload": {"type": "user_message", "message": ASKED}})
    say("user", "input_text", ASKED)
    for call in calls:
        path, command = call.given.get("file_path"), call.given.get("command")
        field = f"file: {path}" if path else f"command: {command}" if command else f"input: {json.dumps(call.given)}"  # fmt: skip
        say("assistant", "output_text", f"[external_agent_tool_call: {call.name}]\n{field}\n[/external_agent_tool_call]")  # fmt: skip
        mark = ": error" if call.failed else ""
        say("assistant", "output_text", f"[external_agent_tool_result{mark}]\n{call.output}\n[/external_agent_tool_result]")  # fmt: skip
    turn("external-import-turn-2")
    say("user", "input_text", "[Request interrupted by user]")
    lines.append({"type": "event_msg", "payload": {"type": "task_complete", "turn_id": "external-import-turn-2"}})  # fmt: skip
    return [{"timestamp": AT.format(n), **line} for n, line in enumerate(lines)]


def test_an_imported_thread_is_read_as_the_work_that_it_was(tmp_path: Path) -> None:
    """Its envelopes are calls, and the interruption that was copied is nobody's message."""
    thread = read(tmp_path, write_import(CLAUDE))
    facts = derive_facts(thread).facts

    assert [e.text for e in thread.entries if e.is_prompt] == [ASKED]
    assert [(f.path, len(f.edits)) for f in facts.files] == [("b.py", 1), ("a.py", 1)]
    assert [(c.command, c.result) for c in facts.last_check] == [("pytest -q", "passed")]
    assert [c.hash for c in facts.repository.commits] == ["3be81f2"]
    assert [t.status for t in facts.todos] == ["done", "pending"]


def test_an_imported_thread_counts_from_its_first_new_turn(tmp_path: Path) -> None:
    """Where the original is still there, it is the predecessor."""
    original = tmp_path / "original.jsonl"
    original.write_text("{}")
    record = {"source_path": str(original), "imported_thread_id": UUID.format(7)}
    register = {"records": [record]}
    (tmp_path / "external_agent_session_imports.json").write_text(json.dumps(register))
    new = [
        {"type": "event_msg", "payload": {"type": "task_started", "turn_id": "turn-3"}},
        {"type": "response_item", "payload": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Now the docs"}]}},
    ]  # fmt: skip
    thread = read(tmp_path, [*write_import(CLAUDE), *({"timestamp": AT.format(50), **n} for n in new)])  # fmt: skip

    assert thread.parent == str(original)
    assert [e.text for e in thread.entries] == ["Now the docs"]

    original.unlink()
    assert len(read(tmp_path, write_import(CLAUDE)).entries) == 7
