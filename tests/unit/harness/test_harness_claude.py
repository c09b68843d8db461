"""Claude Code: threads of 2.0 and 2.1 as they were captured, and what they may also hold."""

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from fixture_threads import by_ref, calls, corpus, one, said, samples, thread_file, unzipped
from handoffs import made

from tasuki.harness.claude.adapter import Claude
from tasuki.harness.claude.head import build_folder_name
from tasuki.harness.protocol import LaunchPlan, LaunchRequest
from tasuki.harness.registry import detect_harness
from tasuki.model import FileChange, Thread, Todo, ToolCall
from tasuki_testing import ThreadBuilder


def read(pattern: str) -> Thread:
    """A captured thread, by a part of its path."""
    return Claude().read(one("claude", pattern))


def tool(thread: Thread, ref: int) -> ToolCall:
    """The call of an entry."""
    call = by_ref(thread, ref).tool
    assert call is not None
    return call


def test_a_thread_of_2_0_is_read() -> None:
    """Calls, todos and a compaction of the older format."""
    thread = read("2.0.76/8a846500*.jsonl")

    assert (thread.version, thread.git_branch) == ("2.0.76", "main")
    assert said(thread) == [
        (1, "typed", "Create the greeter"),
        (7, "typed", "Edit the greeter"),
        (14, "typed", "Spawn a helper please"),
    ]
    assert calls(thread) == [
        (3, "Write", "/home/dev/proj/greet.py", "ok", None),
        (4, "Bash", "python3 greet.py && git status --short", "ok", 0),
        (5, "Bash", "python3 nosuch.py", "error", 2),
        (8, "Read", "/home/dev/proj/greet.py", "ok", None),
        (9, "Edit", "/home/dev/proj/greet.py", "ok", None),
        (10, "TodoWrite", "", "ok", None),
        (16, "Agent", "", "error", None),
    ]
    assert tool(thread, 10).todos == (Todo("Edit greeting", "done"), Todo("Add a test", "pending"))
    assert [e.ref for e in thread.entries if e.compacted] == list(range(1, 12))
    assert thread.report.unknown == {}


def test_a_thread_of_2_1_is_read() -> None:
    """The same work in the newer format, with the commit it began at."""
    thread = read("2.1.330-headless/22a608f2*.jsonl")

    assert (thread.version, thread.git_head, thread.model) == (
        "2.1.330",
        "75caee5",
        "claude-opus-5-5",
    )
    assert tool(thread, 9).changes == (
        FileChange(path="/home/dev/proj/greet.py", kind="edit", old="Hello", new="Good day"),
    )
    assert thread.context_tokens == 13697
    assert thread.report.unknown == {}


def test_a_long_session_in_the_terminal() -> None:
    """What the user typed, queued, refused and interrupted is told apart."""
    thread = read("2.1.330-tui/8b1603a1*3*.jsonl")

    assert [(ref, origin) for ref, origin, _ in said(thread)] == [
        (1, "typed"),
        (7, "typed"),
        (9, "typed"),
        (11, "typed"),
        (13, "typed"),
        (15, "queued"),
        (17, "typed"),
        (19, "typed"),
        (21, "typed"),
        (26, "typed"),
        (28, "typed"),
    ]
    assert said(thread)[3][2] == "/handoff noblock please"
    assert thread.skills == ("handoff",)
    assert calls(thread)[3] == (20, "Bash", "touch asked.txt", "refused", None)
    assert [n.after for n in thread.notices if n.kind == "interrupted"] == [18, 20]
    assert [n.text for n in thread.notices if n.kind == "error"] == [
        "API Error: 400 scripted bad request"
    ]
    assert [(e.ref, e.kind) for e in thread.entries if e.kind == "compaction"] == [
        (27, "compaction")
    ]


def test_the_record_of_a_sub_agent_is_a_sidechain() -> None:
    """Its file lies beside the thread, its words are no entries, its end was notified."""
    thread = read("2.1.330-tui/8b1603a1*3*.jsonl")

    assert [s.id for s in thread.sidechains] == ["a204228130d1e71a5"]
    assert [(b.label, b.state, b.ref) for b in thread.background] == [("Count files", "done", 23)]
    assert "SUBAGENT-TASK count the files" not in [e.text for e in thread.entries]


def test_an_automatic_compaction_is_marked() -> None:
    """The turn goes on after it."""
    thread = read("2.1.330-tui/7f00a334*.jsonl")

    assert [(e.ref, e.kind) for e in thread.entries if not e.compacted] == [
        (10, "compaction"),
        (11, "assistant"),
    ]


def test_a_thread_is_whole_without_its_first_half(tmp_path: Path) -> None:
    """A line whose parent is gone follows the line before it."""
    lines = one("claude", "2.0.76/8a846500*.jsonl").read_bytes().splitlines(keepends=True)
    path = tmp_path / "half.jsonl"
    path.write_bytes(b"".join(lines[len(lines) // 2 :]))

    assert said(Claude().read(path)) == [(5, "typed", "Spawn a helper please")]


@pytest.mark.parametrize("path", samples("claude"), ids=lambda p: p.name[:8])
def test_the_head_says_what_the_thread_says(path: Path) -> None:
    """Id, folder and context use come from both ends of the file."""
    head, thread = Claude().read_head(thread_file(path)), Claude().read(path)

    assert head is not None
    assert (head.id, head.cwd) == (thread.id, thread.cwd)
    assert head.context_tokens == thread.context_tokens


def test_a_title_may_come_late(tmp_path: Path) -> None:
    """An image before the words, or a command before the first words, leaves no thread without a title."""
    image = {"type": "image", "source": {"type": "base64", "data": "A" * 400_000}}
    words = {"type": "text", "text": "Make it look like this"}
    path = ThreadBuilder("claude").raw(
        type="user", sessionId="s", uuid="u", cwd="/srv", message={"role": "user", "content": [image, words]}
    ).assistant("ok").shell("ls", "x").write(tmp_path)  # fmt: skip
    head = Claude().read_head(thread_file(path))
    assert head
    assert (head.first_words, head.messages) == ("Make it look like this", 2)

    command = "<command-name>/review</command-name>\n<command-args>the parser</command-args>"
    path = (
        ThreadBuilder("claude", seed=2)
        .user(command)
        .assistant("ok " * 30_000)
        .assistant("no " * 30_000)
        .write(tmp_path)
    )
    head = Claude().read_head(thread_file(path))
    assert head
    assert (head.first_words, head.messages) == ("/review the parser", None)


@pytest.mark.parametrize("place", [".config/Claude", "Library/Application Support/Claude"])
def test_threads_of_claude_desktop_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Its local agent mode keeps those of each session in a folder of its own."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    folder = tmp_path / place / "local-agent-mode-sessions/o/a/local_1/.claude/projects/-mnt-shop"
    folder.mkdir(parents=True)
    path = ThreadBuilder("claude").user("Hi").write(folder)

    assert [f.path for f in Claude().list_files()] == [path]


def test_threads_are_found_by_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`CLAUDE_CONFIG_DIR` is honoured; records of sub-agents and empty files are not listed."""
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    folder = tmp_path / "projects" / build_folder_name(Path("/home/dev/my.proj"))
    folder.mkdir(parents=True)
    path = ThreadBuilder("claude", "/home/dev/my.proj").user("Hi").write(folder)
    (folder / "agent-1.jsonl").write_text("{}\n")
    (folder / "00000000-0000-0000-0000-000000000000.jsonl").touch()

    assert folder.name == "-home-dev-my-proj"
    assert [f.path for f in Claude().list_files()] == [path]


def request(**given: object) -> LaunchRequest:
    """What a user wants of a successor."""
    known = {"handoff": made(), "brief": "brief\nof two lines", "context": "past", "cwd": "/p"}
    return LaunchRequest(**{**known, **given})  # type: ignore[arg-type]


def begin_command(plan: LaunchPlan, *model: str) -> tuple[str, ...]:
    """How the command of a successor begins."""
    return ("claude", *model, "--session-id", plan.thread_id)


def test_an_unsent_brief_stands_in_the_input() -> None:
    """`--prefill`, and none of the variables that would make it a child session."""
    plan = Claude().plan(request())

    assert plan.argv == (*begin_command(plan), "--prefill", "brief\nof two lines")
    assert plan.paste == ""
    assert "CLAUDE_CODE_CHILD_SESSION" in plan.unset


def test_a_sent_brief_is_the_prompt() -> None:
    """With the model before it."""
    plan = Claude().plan(request(send=True, model="opus"))

    assert plan.argv == (*begin_command(plan, "--model", "opus"), "brief\nof two lines")


def test_the_id_of_the_successors_thread_is_chosen() -> None:
    """A new one for each start; none beside an option of the user that names a thread."""
    first, second = Claude().plan(request()), Claude().plan(request())
    assert UUID(first.thread_id) != UUID(second.thread_id)

    for option in ("--resume=x", "-r", "-c", "--continue", "--session-id"):
        plan = Claude().plan(request(arguments=(option,)))
        assert plan.argv == ("claude", option, "--prefill", "brief\nof two lines")
        assert plan.thread_id == ""


def test_the_way_back_and_the_sign_of_skills() -> None:
    """`claude --resume ID` and `/name`."""
    thread = Thread(harness="claude", id="abc", path="/x")

    assert Claude().build_resume_command(thread) == ("claude", "--resume", "abc")
    assert Claude().format_skill_command("review") == "/review"


@pytest.mark.parametrize("path", corpus("claude"), ids=lambda p: p.name[:8])
def test_threads_of_the_corpus_read_whole(path: Path, tmp_path: Path) -> None:
    """No line of a real thread is broken, and refs are unique and grow."""
    file = unzipped(path, tmp_path)
    thread = detect_harness(file).read(file)
    refs = [e.ref for e in thread.entries]

    assert thread.harness == "claude"
    assert thread.report.broken == ()
    assert refs == sorted(set(refs))


@pytest.mark.skipif(not corpus("claude"), reason="no corpus")
def test_refs_are_those_people_wrote_down(tmp_path: Path) -> None:
    """A real thread is numbered as a hand-written brief cites it."""
    (path,) = [p for p in corpus("claude") if p.name.startswith("124cf89f")]
    thread = Claude().read(unzipped(path, tmp_path))

    assert "git commit" in tool(thread, 324).command
    assert "c827f33" in tool(thread, 324).output


@pytest.mark.parametrize(
    ("prompt", "typed"),
    [
        ('\n\n<pasted_content id="1">\na\n b\n</pasted_content id="1">\n', "a\n b"),
        ('see \n\n<pasted_content id="1">\na\n</pasted_content id="1">\n and '
         '\n\n<pasted_content id="2">\nb\n</pasted_content id="2">\n', "see a and b"),
        ('<pasted_content id="1">\na\n</pasted_content id="2">', '<pasted_content id="1">\na\n</pasted_content id="2">'),
        ('<pasted_content id="' * 3, '<pasted_content id="' * 3),
        ("plain", "plain"),
    ],
)  # fmt: skip
def test_what_was_pasted_reads_as_typed(tmp_path: Path, prompt: str, typed: str) -> None:
    """2.1.330 marks it in the prompt; a brief that was pasted is a handoff all the same."""
    path = ThreadBuilder("claude").user(prompt).assistant("Yes.").write(tmp_path)
    assert Claude().read(path).entries[0].text == typed

    brief = '\n\n<pasted_content id="1">\n# Handoff Context\nx\n</pasted_content id="1">\n'
    path = ThreadBuilder("claude", seed=1).user(brief).assistant("Yes.").write(tmp_path)
    assert Claude().read(path).entries[0].origin == "handoff"


@pytest.mark.parametrize("leaf", ["of this thread", "of another", "of nothing"])
def test_only_a_summary_of_the_thread_itself_is_its_name(leaf: str, tmp_path: Path) -> None:
    """Claude Code writes the titles of the folder's other threads to the head of a new file."""
    path = ThreadBuilder("claude").user("Fix it").assistant("Done.").write(tmp_path)
    last = json.loads(path.read_text().splitlines()[-1])["uuid"]
    uuid = {"of this thread": last, "of nothing": None}.get(
        leaf, "0bb1eb2e-932f-43f2-8633-caa20c4f2022"
    )
    title = {"type": "summary", "summary": "Fix the importer", "leafUuid": uuid}
    path.write_text(f"{json.dumps(title)}\n{path.read_text()}")

    assert Claude().read(path).name == ("" if leaf == "of another" else "Fix the importer")
    assert Claude().read(path).report.broken == ()


def written(folder: Path, *turns: tuple[str, Any]) -> Path:
    """A thread of a prompt, then calls with their results: `(name, input)`, `(text, is_error)`."""
    rows: list[tuple[str, Any]] = [("user", "Go on")]
    calls = 0
    for first, second in turns:
        if isinstance(second, dict):
            calls += 1
            call = {"type": "tool_use", "id": f"toolu_{calls}", "name": first, "input": second}
            rows.append(("assistant", [call]))
        elif first.startswith("<task-notification>"):
            rows.append(("user", first))
        else:
            result = {"type": "tool_result", "tool_use_id": f"toolu_{calls}", "content": first}
            rows.append(("user", [{**result, "is_error": second}]))
    uuid = "00000000-0000-4000-8000-{:012x}"
    lines = [
        {
            "parentUuid": uuid.format(n) if n else None, "isSidechain": False, "cwd": "/proj", "sessionId": "s",
            "version": "2.1.330", "type": kind, "message": {"role": kind, "content": content},
            "uuid": uuid.format(n + 1), "timestamp": f"2026-11-01T10:00:{n:02}Z",
        }
        for n, (kind, content) in enumerate(rows)
    ]  # fmt: skip
    path = folder / f"{uuid.format(9)}.jsonl"
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    return path


def test_a_command_of_any_tool_is_a_command(tmp_path: Path) -> None:
    """Also of an editor's, whose words alone show how it ended."""
    path = written(
        tmp_path,
        ("PowerShell", {"command": "dotnet test"}), ("Passed!", False),
        ("mcp__acp__Bash", {"command": "make"}), ("Exited with code 2.Final output:\n\nno rule", False),
        ("mcp__acp__Bash", {"command": "git commit"}), ("Timed out. New output:\n\n[Y/n]", False),
    )  # fmt: skip

    assert [c[1:] for c in calls(Claude().read(path))] == [
        ("PowerShell", "dotnet test", "ok", 0),
        ("mcp__acp__Bash", "make", "error", 2),
        ("mcp__acp__Bash", "git commit", "aborted", None),
    ]
    assert calls(Claude().read_for_draft(path)) == calls(Claude().read(path))


def test_what_runs_in_the_background_ends_as_it_is_reported(tmp_path: Path) -> None:
    """By a notification, by a call that asks, by a call that stops it; a server says where it is."""
    note = "<task-notification>\n<task-id>b1</task-id>\n<status>failed</status>\n<summary>Background command failed with exit code 3</summary>\n</task-notification>"
    started = (
        "Command running in background with ID: {}. Output is being written to: /tmp/{}.output"
    )
    path = written(
        tmp_path,
        ("Bash", {"command": "make test", "run_in_background": True}), (started.format("b1", "b1"), False),
        ("Bash", {"command": "make docs", "run_in_background": True}), (started.format("b2", "b2"), False),
        ("Bash", {"command": "npm run dev", "run_in_background": True}), (started.format("b3", "b3"), False),
        ("Monitor", {"command": "tail -f x.log", "description": "the log"}), ("Monitor started (task b4, persistent).", False),
        ("TaskOutput", {"task_id": "b2"}), ("<status>completed</status>\n\n<exit_code>0</exit_code>\n\n<output>\n12 pages\n</output>", False),
        ("BashOutput", {"bash_id": "b3"}), ("<status>running</status>\n\n<stdout>\nLocal: http://localhost:5173/\n</stdout>", False),
        ("TaskStop", {"task_id": "b4"}), ('{"message":"Successfully stopped task: b4 (tail -f x.log)"}', False),
        ("Workflow", {"script": "export const meta = {}"}), ("Workflow launched in background. Task ID: w1\nSummary: waves", False),
        (note, None),
    )  # fmt: skip
    thread = Claude().read(path)
    states = {b.id: (b.kind, b.state, b.places) for b in thread.background}

    assert states["b1"] == ("command", "failed", ("/tmp/b1.output",))
    assert states["b2"] == ("command", "done", ("/tmp/b2.output",))
    assert states["b3"][1:] == ("running", ("/tmp/b3.output", "http://localhost:5173"))
    assert states["b4"][:2] == ("command", "done")
    assert [(b.label, b.state) for b in thread.background if b.kind == "agent"] == [
        ("Workflow", "running")
    ]
    assert [c[2:] for c in calls(thread)[:4]] == [
        ("make test", "error", 3),
        ("make docs", "ok", 0),
        ("npm run dev", "running", None),
        ("tail -f x.log", "aborted", None),
    ]
    assert "12 pages" in tool(thread, 3).output


@pytest.mark.parametrize(
    ("commands", "states"),
    [
        (["npm run dev > /tmp/dev.log 2>&1 &"], [("running", ("/tmp/dev.log",))]),
        (["python -m http.server 8123 &\ncurl -s http://localhost:8123/"], [("running", ("http://localhost:8123",))]),
        (["npm run dev &", "pkill -f vite"], [("done", ())]),
        (["npm run dev & sleep 3; kill $!"], []), (["npm run dev && make test"], []), (["make docs &"], []),
    ],
)  # fmt: skip
def test_a_server_that_a_shell_leaves_behind_runs(
    commands: list[str], states: list[tuple[str, tuple[str, ...]]], tmp_path: Path
) -> None:
    """Whatever ends processes afterwards may have ended it; other commands are no servers."""
    turns = [turn for c in commands for turn in (("Bash", {"command": c}), ("", False))]
    background = Claude().read(written(tmp_path, *turns)).background

    assert [(b.state, b.places) for b in background] == states


def test_a_long_output_is_read_from_its_own_file(tmp_path: Path) -> None:
    """Also where the thread was moved, and in its copy; without the file the preview is there."""
    text = "first line\n" + "x" * 30_000 + "\n1 failed, 899 passed in 3s\n"
    shown = "<persisted-output>\nOutput too large (29KB). Full output saved to: /elsewhere/tool-results/b1x2.txt\n\nPreview (first 2KB):\nfirst line\n"
    path = written(tmp_path, ("Bash", {"command": "pytest -v"}), (shown, False))
    outputs = path.with_suffix("") / "tool-results"
    outputs.mkdir(parents=True)
    (outputs / "b1x2.txt").write_text(text)
    for thread in (Claude().read(path), Claude().read_for_draft(path)):
        call = tool(thread, 2)
        assert call.output.endswith("1 failed, 899 passed in 3s\n")
        assert call.output_size == len(text)
        assert thread.sources == (str(path), str(outputs / "b1x2.txt"))
    parts = Claude().list_parts(path, "/proj")
    assert [p.name for p in parts] == [path.name, f"{path.stem}/tool-results/b1x2.txt"]

    (outputs / "b1x2.txt").unlink()
    assert tool(Claude().read(path), 2).output == shown
