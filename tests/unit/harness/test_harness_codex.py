"""Codex: rollouts of 0.53, 0.111, 0.118 and 0.169, forks, polls, patches and sub-agents."""

import json
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import zstandard
from fixture_threads import by_ref, calls, corpus, one, said, thread_file, unzipped
from handoffs import made

from tasuki.errors import ThreadUnreadable
from tasuki.harness.codex.adapter import Codex
from tasuki.harness.codex.head import find_rollout
from tasuki.harness.plans import TOO_LONG
from tasuki.harness.protocol import LaunchRequest
from tasuki.harness.registry import detect_harness
from tasuki.model import Entry, FileChange, Notice, Thread, Todo, ToolCall
from tasuki_testing import ThreadBuilder

GREET = (
    'def greet(name):\n    return f"Hello, {name}!"\n\n\n'
    'if __name__ == "__main__":\n    print(greet("world"))'
)
OTHER_ID = "fffefdfc-0000-4000-8000-000000000001"
GREETER_CALLS = [
    (3, "apply_patch", "greet.py", "ok", 0),
    (4, "exec_command", "python3 greet.py && git status --short", "ok", 0),
    (5, "exec_command", "python3 nosuch.py", "error", 2),
]


def read(pattern: str) -> Thread:
    """A captured rollout, by a part of its path."""
    return Codex().read(one("codex", pattern))


def tool(thread: Thread, ref: int) -> ToolCall:
    """The call of an entry."""
    call = by_ref(thread, ref).tool
    assert call is not None
    return call


def test_a_rollout_of_0_53_is_read() -> None:
    """The oldest format: command arrays, results as JSON, a plan."""
    thread = read("0.53/**/*.jsonl")

    assert thread.version == "0.53.0"
    assert (
        thread.git_branch,
        thread.git_head,
    ) == ("main", "dee30b6b2bea2ebf6d79190f1079dc2afc1ab5d0")
    assert (
        thread.model,
        thread.context_tokens,
        thread.context_window,
    ) == ("fake/gpt-5-codex", 4958, 258400)
    assert said(thread) == [(1, "typed", "Create the greeter"), (7, "typed", "Edit the greeter")]
    assert calls(thread) == [
        (3, "apply_patch", "greet.py", "ok", 0),
        (4, "shell", "python3 greet.py && git status --short", "ok", 0),
        (5, "shell", "python3 nosuch.py", "error", 2),
        (8, "shell", "cat greet.py", "ok", 0),
        (9, "apply_patch", "greet.py", "ok", 0),
        (10, "update_plan", "", "ok", None),
    ]
    assert (Todo("Edit greeting", "done"), Todo("Add a test", "in_progress")) == tool(
        thread, 10
    ).todos
    assert (FileChange(path="greet.py", kind="create", new=GREET),) == tool(thread, 3).changes


def test_the_harness_own_header_is_no_output() -> None:
    """Chunk ids and wall times are left out; the exit code is kept as a number."""
    thread = read("0.111/**/*.jsonl")

    assert thread.version == "0.111.0"
    assert tool(thread, 4).output == "Hello, world!\n?? greet.py\n"
    assert calls(thread)[:3] == GREETER_CALLS


def test_a_rollout_of_0_169_is_read() -> None:
    """The newest format: what the user typed is marked, the rest of user role is context."""
    thread = read("0.169-headless/**/*d114*.jsonl")

    assert len(thread.entries) == 10
    assert said(thread) == [(1, "typed", "Create the greeter"), (7, "typed", "Edit the greeter")]
    assert calls(thread)[:3] == GREETER_CALLS
    assert [n.kind for n in thread.notices] == ["context"]
    assert thread.report.unknown == {}


def test_a_fork_begins_with_its_parent() -> None:
    """A fork holds only its own part; the parent's entries come first and numbering goes on."""
    parent, fork = read("0.169-headless/**/*d114*"), read("0.169-headless/**/*d6e0*")

    assert parent.id == fork.parent
    assert [e.text for e in parent.entries] == [e.text for e in fork.entries[:10]]
    assert said(fork)[2:] == [(11, "typed", "HANDOFF-ASK as JSON")]
    assert [e.source for e in fork.entries] == [1] * 10 + [0, 0]
    assert (fork.path, parent.path) == fork.sources
    assert list(range(1, 13)) == [e.ref for e in fork.entries]


def test_a_fork_stops_where_its_parent_was_forked(tmp_path: Path) -> None:
    """What the parent did after the fork is not the fork's past."""
    fork = tmp_path / one("codex", "**/*d6e0*").name
    parent = tmp_path / one("codex", "**/*d114*").name
    fork.write_bytes(one("codex", "**/*d6e0*").read_bytes())
    more = ThreadBuilder("codex").user("Later words").text()
    parent.write_text(one("codex", "**/*d114*").read_text() + more)

    assert "Later words" not in [e.text for e in Codex().read(fork).entries]
    assert "Later words" in [e.text for e in Codex().read(parent).entries]


def test_a_parent_is_found_by_the_day_its_id_tells(tmp_path: Path) -> None:
    """A fork of a later day, or of an archived thread, finds its parent."""
    later = tmp_path / "sessions" / "2026" / "12" / "24"
    day = tmp_path / "sessions" / "2026" / "11" / "21"
    archived = tmp_path / "archived_sessions"
    for folder in (later, day, archived):
        folder.mkdir(parents=True)
    fork, parent = one("codex", "**/*d6e0*"), one("codex", "**/*d114*")
    path = later / fork.name
    path.write_bytes(fork.read_bytes())
    for folder in (day, archived):
        (folder / parent.name).write_bytes(parent.read_bytes())

        assert Codex().read(path).sources == (str(path), str(folder / parent.name))
        (folder / parent.name).unlink()


def test_a_fork_without_its_parent_says_so(tmp_path: Path) -> None:
    """A missing parent is reported, and the fork's own part is read."""
    fork = tmp_path / "rollout-x.jsonl"
    fork.write_bytes(one("codex", "**/*d6e0*").read_bytes())

    thread = Codex().read(fork)

    assert [text for _, _, text in said(thread)] == ["HANDOFF-ASK as JSON"]
    assert thread.report.notes == (
        "the parent thread 01a1ffee-d114-7062-8af8-954b3c22b9ad was not found",
    )


def test_a_long_session_in_the_terminal() -> None:
    """Steered words are queued, skills are named, an interruption and errors are noticed."""
    thread = read("0.169-tui/**/*e078*")

    assert said(thread) == [
        (1, "typed", "Create the greeter"),
        (7, "typed", "A multi-line prompt\nsecond line\nthird line"),
        (9, "typed", "Please addctx: what is next?"),
        (11, "typed", "$handoff noblock please"),
        (13, "typed", "Hold the line please"),
        (14, "queued", "Queued prompt A"),
        (16, "typed", "Slow words please"),
        (19, "typed", "Edit the greeter"),
        (23, "typed", "Fail with 400 now"),
    ]
    assert thread.skills == ("handoff",)
    assert [(n.after, n.kind) for n in thread.notices if n.kind in ("interrupted", "error")] == [
        (16, "interrupted"),
        (23, "error"),
    ]
    assert not thread.aborted


def test_a_compaction_holds_its_summary_and_what_was_kept() -> None:
    """Codex keeps the user's messages in view, which are listed; the rest is marked."""
    thread = read("0.169-tui/**/*e078*")

    assert said(thread, "compaction") == [
        (18, "harness", "SUMMARY-MARK greeter built in greet.py; pending: add a test.")
    ]
    assert Notice(18, "note", "compaction #18 kept in view: #1, #7, #9, #11, #13, #14, #16") in (
        thread.notices
    )
    assert list(range(1, 18)) == [e.ref for e in thread.entries if e.compacted]


def test_a_turn_aborted_last_marks_the_thread() -> None:
    """A thread whose last turn was interrupted is aborted."""
    assert read("0.169-tui/**/*456a*").aborted


def test_a_tool_of_an_mcp_server_has_its_server_in_its_name() -> None:
    """The namespace tells tools of several servers apart."""
    thread = read("0.169-headless/**/*d9c1*")

    assert calls(thread) == [(2, "mcp__tiny__handoff_note", "", "ok", None)]
    assert tool(thread, 2).output == "stored: note from model"
    assert tool(thread, 2).detail == '{"text":"note from model"}'


def test_polls_belong_to_the_command_they_ask_about(tmp_path: Path) -> None:
    """The first call gets exit code and output of a command that took longer."""
    build = ThreadBuilder("codex").user("Test it").background("make test", "failed")
    thread = Codex().read(build.write(tmp_path))

    assert calls(thread) == [
        (2, "exec_command", "make test", "error", 1),
        (3, "write_stdin", "", "error", 1),
    ]
    assert tool(thread, 2).output == "finished\n"
    assert [b.state for b in thread.background] == ["failed"]


def test_a_late_exit_code_ends_a_command(tmp_path: Path) -> None:
    """A command that nobody polled is over once the program noted its exit code."""
    build = ThreadBuilder("codex").user("Serve").background("make serve")
    id = build.records[-2]["payload"]["call_id"]
    ended = {"type": "exec_command_end", "call_id": id, "aggregated_output": "x", "exit_code": 0}
    build.raw(timestamp="2026-01-05T09:01:00.000Z", type="event_msg", payload=ended)
    thread = Codex().read(build.write(tmp_path))

    assert calls(thread) == [(2, "exec_command", "make serve", "ok", 0)]
    assert [b.state for b in thread.background] == ["done"]


def test_sub_agents_have_their_states(tmp_path: Path) -> None:
    """Agents that were waited for are done or failed; the others run."""
    build = ThreadBuilder("codex").user("Review").agent("Read the docs")
    build.agent("Read the code", "failed").agent("Run everything", "running")
    thread = Codex().read(build.write(tmp_path))

    assert [(b.label, b.state) for b in thread.background] == [
        ("Read the docs", "done"),
        ("Read the code", "failed"),
        ("Run everything", "running"),
    ]


def test_the_record_of_a_sub_agent_is_a_sidechain(tmp_path: Path) -> None:
    """A rollout beside the thread that bears the agent's id is the agent's own."""
    thread_path = ThreadBuilder("codex").user("Go").agent("Read the docs").write(tmp_path)
    (agent,) = Codex().read(thread_path).background
    own = tmp_path / f"rollout-2026-01-05T09-00-09-{agent.id}.jsonl"
    own.write_text(ThreadBuilder("codex", seed=1).user("Read the docs").text())

    assert [(agent.id, str(own))] == [(s.id, s.path) for s in Codex().read(thread_path).sidechains]


def test_a_patch_inside_a_shell_command_is_an_edit(tmp_path: Path) -> None:
    """`apply_patch <<'EOF'` changes files like the tool of that name."""
    patch = "*** Begin Patch\n*** Update File: a.py\n@@ def f\n-x\n+y\n*** End Patch"
    command = f"cd src && apply_patch <<'EOF'\n{patch}\nEOF"
    thread = Codex().read(ThreadBuilder("codex").user("Go").shell(command).write(tmp_path))

    assert (FileChange(path="a.py", kind="edit", old="x", new="def f\ny"),) == tool(
        thread, 2
    ).changes
    assert (tool(thread, 2).kind, tool(thread, 2).command) == ("edit", "")


def test_calls_of_an_aborted_turn_are_aborted(tmp_path: Path) -> None:
    """A call without result does not run on after its turn was interrupted."""
    build = ThreadBuilder("codex").user("Go").shell("sleep 100")
    del build.records[-1]
    thread = Codex().read(build.interruption().user("Stop that").write(tmp_path))

    assert calls(thread) == [(2, "exec_command", "sleep 100", "aborted", None)]


def test_turns_that_were_taken_back_are_left_out(tmp_path: Path) -> None:
    """A rolled-back turn keeps its refs but is not in the thread."""
    build = ThreadBuilder("codex").user("One").assistant("First").user("Two").assistant("Second")
    rolled = {"type": "thread_rolled_back", "num_turns": 1}
    build.raw(timestamp="2026-01-05T09:01:00.000Z", type="event_msg", payload=rolled).user("Three")
    thread = Codex().read(build.write(tmp_path))

    assert said(thread) == [(1, "typed", "One"), (5, "typed", "Three")]
    assert thread.abandoned == 2


def test_text_of_user_role_that_nobody_typed_is_not_typed(tmp_path: Path) -> None:
    """Where the record confirms typed messages, one without confirmation is the harness's."""
    build = ThreadBuilder("codex").user("Go on")
    content = [{"type": "input_text", "text": "A note of the program"}]
    message = {"type": "message", "role": "user", "content": content}
    build.raw(timestamp="2026-01-05T09:01:00.000Z", type="response_item", payload=message)
    thread = Codex().read(build.user("And on").write(tmp_path))

    assert said(thread) == [
        (1, "typed", "Go on"),
        (2, "harness", "A note of the program"),
        (3, "typed", "And on"),
    ]


def test_a_command_the_user_ran_is_the_users(tmp_path: Path) -> None:
    """`!make` in the terminal is a tool entry of origin command."""
    text = (
        "<user_shell_command>\n<command>\nmake\n</command>\n<result>\nExit code: 2\n"
        "Duration: 1 seconds\nOutput:\nNo rule\n</result>\n</user_shell_command>"
    )
    thread = Codex().read(ThreadBuilder("codex").user("Hi").user(text).write(tmp_path))

    assert calls(thread) == [(2, "!", "make", "error", 2)]
    assert by_ref(thread, 2).origin == "command"
    assert tool(thread, 2).output == "No rule"


def test_the_keys_of_a_record_may_stand_in_any_order(tmp_path: Path) -> None:
    """Rewritten rollouts are read like original ones."""
    path = tmp_path / "rollout-x.jsonl"
    path.write_text(
        '{"payload":{"cwd":"/p","id":"7"},"type":"session_meta","timestamp":"2026-01-05T09:00:00Z"}\n'
        '{"payload":{"role":"user","content":"Hi","type":"message"},"type":"response_item"}\n'
        '{"payload":{"content":null,"type":"reasoning"},"type":"response_item"}\n'
    )
    thread = Codex().read(path)

    assert (thread.id, thread.cwd, thread.report.unknown) == ("7", "/p", {})
    assert said(thread) == [(1, "typed", "Hi")]


def test_the_head_of_a_captured_rollout() -> None:
    """Id, folder, first typed words and context use come from both ends of the file."""
    path = one("codex", "0.169-tui/**/*e078*")
    head = Codex().read_head(thread_file(path))

    assert head is not None
    assert head.id == "01a1ffee-e078-79c2-adeb-43b45a191062"
    assert (head.cwd, head.first_words) == ("/home/dev/proj", "Create the greeter")
    assert (head.context_tokens, head.context_window) == (11353, 258400)
    assert head.messages is None
    whole = Codex().read_head(thread_file(one("codex", "0.111/**/*.jsonl")))
    assert whole is not None
    assert whole.messages == 5


def test_the_first_words_are_found_behind_long_instructions(tmp_path: Path) -> None:
    """Instructions of 150 kB before the first prompt do not hide it."""
    build = ThreadBuilder("codex")
    content = [{"type": "input_text", "text": "x" * 150_000}]
    message = {"type": "message", "role": "developer", "content": content}
    build.raw(timestamp="2026-01-05T09:01:00.000Z", type="response_item", payload=message)
    path = build.user('Say "hi"\nto them').assistant("y" * 30_000).write(tmp_path)
    head = Codex().read_head(thread_file(path))

    assert head is not None
    assert head.first_words == 'Say "hi" to them'


def test_a_head_with_very_long_instructions_is_read(tmp_path: Path) -> None:
    """The first line alone may be larger than what is read at first."""
    build = ThreadBuilder("codex")
    build.records[0]["payload"]["base_instructions"] = {"text": "x" * 120_000}
    head = Codex().read_head(thread_file(build.user("Hi").assistant("y" * 90_000).write(tmp_path)))

    assert head is not None
    assert (head.id, head.first_words) == (build.id, "Hi")


def test_an_agent_whose_id_tells_no_day_has_no_record(tmp_path: Path) -> None:
    """Ids of other kinds are looked for beside the thread alone."""
    build = ThreadBuilder("codex").user("Go").agent("Read the docs")
    text = build.text().replace(Codex().read(build.write(tmp_path)).background[0].id, OTHER_ID)
    path = tmp_path / "rollout-x.jsonl"
    path.write_text(text)

    assert [b.id for b in Codex().read(path).background] == [OTHER_ID]
    assert Codex().read(path).sidechains == ()


def test_rollouts_are_found_in_both_stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`CODEX_HOME` is honoured; archived rollouts are listed too, empty files are not."""
    day = tmp_path / "sessions" / "2026" / "01" / "05"
    archived = tmp_path / "archived_sessions"
    for folder in (day, archived):
        folder.mkdir(parents=True)
        ThreadBuilder("codex", seed=len(folder.name)).user("Hi").write(folder)
    (day / "rollout-empty.jsonl").touch()
    (day / "notes.jsonl").write_text("{}")
    monkeypatch.setenv("CODEX_HOME", str(tmp_path))

    assert {day, archived} == {f.path.parent for f in Codex().list_files()}
    assert len(list(Codex().list_files())) == 2


def test_no_store_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Codex never ran there is nothing to list."""
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "none"))

    assert list(Codex().list_files()) == []


def request(**given: object) -> LaunchRequest:
    """What a user wants of a successor."""
    goal = "Fix the login timeout"
    known = {"handoff": made(goal=goal), "brief": f"# Handoff Context\n{goal}", "cwd": "/p"}
    return LaunchRequest(**{**known, "context": "# Handoff Context", **given})  # type: ignore[arg-type]


def test_a_sent_brief_is_the_prompt_argument() -> None:
    """Codex takes its first prompt from the command line."""
    plan = Codex().plan(request(send=True, model="gpt-x", arguments=("--no-daemon",)))

    assert plan.argv == (
        "codex",
        "--model",
        "gpt-x",
        "--no-daemon",
        "# Handoff Context\nFix the login timeout",
    )
    assert (plan.paste, plan.note) == ("", "")


def test_an_unsent_brief_is_pasted() -> None:
    """Codex cannot start with an unsent prompt, and the plan says so."""
    plan = Codex().plan(request())

    assert plan.argv == ("codex",)
    assert plan.paste == "# Handoff Context\nFix the login timeout"
    assert plan.ready == "^› "
    assert plan.note.startswith("Codex starts empty; the brief is pasted into its input.")


def test_a_long_brief_is_pasted() -> None:
    """What does not fit an argument is pasted, and left for the user to send."""
    plan = Codex().plan(request(send=True, brief="é" * 60_000))

    assert plan.argv == ("codex",)
    assert (plan.paste, plan.note) == ("é" * 60_000, TOO_LONG)


def test_a_brief_that_looks_like_a_flag_stays_a_prompt() -> None:
    """Two dashes before it keep it from being read as an option."""
    assert Codex().plan(request(send=True, brief="- do this")).argv == ("codex", "--", "- do this")


def test_the_way_back_and_the_sign_of_skills() -> None:
    """`codex resume ID` and `$name`."""
    thread = Thread(harness="codex", id="abc", path="/x")

    assert Codex().build_resume_command(thread) == ("codex", "resume", "abc")
    assert Codex().format_skill_command("review") == "$review"


@pytest.mark.parametrize("path", corpus("codex"), ids=lambda p: p.name[:13])
def test_threads_of_the_corpus_read_whole(path: Path, tmp_path: Path) -> None:
    """No line of a real rollout is broken or unknown, and every result finds its call."""
    file = unzipped(path, tmp_path)
    thread = detect_harness(file).read(file)

    assert thread.harness == "codex"
    assert (thread.report.broken, thread.report.unknown) == ((), {})
    assert list(range(1, len(thread.entries) + 1)) == [e.ref for e in thread.entries]
    assert running(thread) == {b.ref for b in thread.background if b.state == "running"} - agents(
        thread
    )


def running(thread: Thread) -> set[int]:
    """Refs of calls that are still under way."""
    return {e.ref for e in thread.entries if e.tool and e.tool.status == "running"}


def agents(thread: Thread) -> set[int]:
    """Refs of calls that started sub-agents: they return at once."""
    return {b.ref for b in thread.background if b.kind == "agent"}


@pytest.mark.skipif(not corpus("codex"), reason="no corpus")
def test_refs_are_those_people_wrote_down(tmp_path: Path) -> None:
    """A real thread is numbered as a hand-written brief cites it."""
    (path,) = [p for p in corpus("codex") if p.name.startswith("019d7739")]
    thread = Codex().read(unzipped(path, tmp_path))
    goal = by_ref(thread, 352)

    assert goal.text.startswith("git-sync on ")
    assert sum(e.kind == "user" for e in thread.entries if e.ref < 352) == 32
    assert by_ref(thread, 295).text.startswith("❯ go run ./cmd/git-sync sync")
    assert by_ref(thread, 309).text == "fix it"
    assert tool(thread, 334).paths[0].endswith("internal/syncer/syncer.go")
    assert "0.629s" in tool(thread, 350).output
    assert "0.629s" in tool(thread, 348).output


def test_entries_say_where_they_stand() -> None:
    """The offset of an entry is that of the line that begins it."""
    path = one("codex", "0.53/**/*.jsonl")
    content = path.read_bytes()
    entry: Entry = by_ref(Codex().read(path), 7)

    assert b"Edit the greeter" in content[entry.offset :].splitlines()[0]


def test_a_packed_rollout_is_read_like_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is listed, once where both forms are there, known by its name, read, and its words are looked up."""
    monkeypatch.setenv("CODEX_HOME", str(tmp_path))
    folder = tmp_path / "sessions" / "2026" / "01" / "05"
    folder.mkdir(parents=True)
    build = ThreadBuilder("codex").user("Hi").assistant("word " * 40_000)
    plain = build.write(folder)
    thread = Codex().read(plain)
    head = Codex().read_head(thread_file(plain))
    packed = plain.with_name(f"{plain.name}.zst")
    packed.write_bytes(zstandard.ZstdCompressor().compress(plain.read_bytes()))

    assert [f.path for f in Codex().list_files()] == [plain]
    plain.unlink()
    assert [f.path for f in Codex().list_files()] == [packed]
    assert detect_harness(packed).name == "codex"
    assert Codex().read(packed).entries == thread.entries
    assert Codex().read(packed).path == str(packed)
    assert find_rollout(build.id, folder / "other.jsonl") == packed
    found = Codex().read_head(thread_file(packed))
    assert head
    assert found
    assert (found.id, found.first_words, found.modified) == (head.id, "Hi", head.modified)
    adapter = Codex()
    (source,) = adapter.read_for_draft(packed).sources
    assert b"word word" in Path(source).read_bytes()
    packed.write_bytes(packed.read_bytes()[:40])
    with pytest.raises(ThreadUnreadable, match=str(packed)):
        Codex().read(packed)


def in_code_mode(folder: Path, *records: tuple[str, dict[str, Any]]) -> Thread:
    """A rollout of these records: their type, and their payload."""
    lines: list[tuple[str, dict[str, Any]]] = [
        ("session_meta", {"id": OTHER_ID, "cwd": "/p", "timestamp": "2026-11-26T10:00:00Z"}),
        ("event_msg", {"type": "user_message", "message": "Go"}),
        *records,
    ]
    path = folder / "rollout.jsonl"
    rows = ({"timestamp": f"2026-11-26T10:00:{n:02}Z", "type": t, "payload": p} for n, (t, p) in enumerate(lines))  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return Codex().read(path)


def script(id: str, text: str) -> tuple[str, dict[str, Any]]:
    """A call of `exec`."""
    return "response_item", {"type": "custom_tool_call", "call_id": id, "name": "exec", "input": text}  # fmt: skip


def printed(id: str, *parts: str, state: str = "completed") -> tuple[str, dict[str, Any]]:
    """What a script printed."""
    head = f"Script {state}\nWall time 0.1 seconds\nOutput:\n"
    output = [{"type": "input_text", "text": part} for part in (head, *parts)]
    return "response_item", {"type": "custom_tool_call_output", "call_id": id, "output": output}


COUNTER = count()


def ended(kind: str, **fields: Any) -> tuple[str, dict[str, Any]]:
    """The outcome of one call of a script."""
    item = {"type": kind, "id": f"exec-{next(COUNTER)}", "status": "completed", **fields}
    return "event_msg", {"type": "item_completed", "item": item}


def test_each_call_inside_a_script_is_a_call(tmp_path: Path) -> None:
    """Its outcome is in the events between the script and its output, in their order."""
    patch = "*** Begin Patch\\n*** Update File: src/a.py\\n@@\\n-one\\n+two\\n*** End Patch"
    thread = in_code_mode(
        tmp_path,
        script("c1", f'await tools.exec_command({{cmd:"cat src/a.py"}}); await tools.apply_patch("{patch}"); await tools.exec_command({{cmd:"pytest -q"}});'),
        ended("CommandExecution", command=["bash", "-lc", "cat src/a.py"], exit_code=0, aggregated_output="one\n"),
        ended("FileChange", changes={"/p/src/a.py": {"type": "update", "unified_diff": "@@ -1 +1 @@\n-one\n+two\n"}}),
        ended("CommandExecution", command=["bash", "-lc", "pytest -q"], exit_code=1, status="failed", aggregated_output="1 failed\n"),
        ended("CommandExecution", command=["bash", "-lc", "ls"], exit_code=0, aggregated_output="src\n"),
        printed("c1", "done"),
        script("c2", "const p = make(); await tools.apply_patch(p)"),
        ended("FileChange", changes={"/p/b.py": {"type": "add", "content": "new"}}),
        printed("c2", "{}"),
        script("c3", 'await tools.update_plan({plan:[{step:"One",status:"completed"}]})'),
        printed("c3", "Script error:\nTypeError: tools.update_plan is not a function", state="failed"),
    )  # fmt: skip

    assert calls(thread) == [
        (1, "exec_command", "cat src/a.py", "ok", 0),
        (2, "apply_patch", "src/a.py", "ok", None),
        (3, "exec_command", "pytest -q", "error", 1),
        (4, "exec_command", "ls", "ok", 0),
        (5, "apply_patch", "/p/b.py", "ok", None),
        (6, "update_plan", "", "error", None),
    ]
    assert tool(thread, 2).changes == (FileChange("src/a.py", "edit", "one", "two"),)
    assert tool(thread, 5).changes == (FileChange("/p/b.py", "create", "", "new"),)
    assert tool(thread, 6).todos is None
    assert tool(thread, 1).output == "one\n"


def test_without_events_a_script_shows_what_it_printed(tmp_path: Path) -> None:
    """An exit code that it did not print is not known; parts that belong to nobody are shown apart."""
    both = 'const rs = await Promise.all(["a","b"].map(c => tools.exec_command({cmd:c})));'
    thread = in_code_mode(
        tmp_path,
        script("c1", 'const r = await tools.exec_command({cmd:"make"}); text(r.output)'),
        printed("c1", "built"),
        script("c2", 'const r = await tools.exec_command({cmd:"make"}); text(JSON.stringify(r))'),
        printed("c2", '{"exit_code":2,"output":"src/a.c:1: no\\n"}'),
        script("c3", both), printed("c3", '{"exit_code":0,"output":"A"}', '{"exit_code":1,"output":"B"}'),
        script("c4", both), printed("c4", "A and B"),
        script("c5", 'const r = await tools.exec_command({cmd:"make all"}); text(JSON.stringify(r))'),
        printed("c5", '{"session_id":77,"output":""}'),
        script("c6", 'const r = await tools.write_stdin({session_id:77,chars:""}); text(JSON.stringify(r))'),
        printed("c6", '{"exit_code":0,"output":"all built"}'),
        script("c7", 'const r = await tools.exec_command({cmd:"make docs"}); text(JSON.stringify(r))'),
        printed("c7", '{"session_id":78,"output":""}'),
        script("c8", 'const r = await tools.exec_command({cmd:"ls"}); text(r.output)'),
        ended("CommandExecution", command=["bash", "-lc", "make docs"], process_id="78", exit_code=2, status="failed"),
        printed("c8", "src"),
        script("c9", 'const r = await tools.exec_command({cmd:"make slow"}); text(r.output)'),
        printed("c9", state="running with cell ID 5"),
        ("response_item", {"type": "function_call", "call_id": "w", "name": "wait", "arguments": '{"cell_id":"5"}'}),
        printed("w", "slowly built"),
    )  # fmt: skip

    assert [(c[2], c[3], c[4]) for c in calls(thread)] == [
        ("make", "unknown", None), ("make", "error", 2), ("a", "ok", 0), ("b", "error", 1),
        ("a", "unknown", None), ("b", "unknown", None), ("", "ok", None), ("make all", "ok", 0), ("", "ok", 0),
        ("make docs", "error", 2), ("ls", "unknown", None), ("make slow", "unknown", None), ("", "ok", None),
    ]  # fmt: skip
    assert tool(thread, 2).output == "src/a.c:1: no\n"
    assert tool(thread, 7).output == "A and B"
    assert tool(thread, 8).output == "all built"
    assert tool(thread, 12).output == "slowly built"
    assert [b.state for b in thread.background] == ["done", "failed"]


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (["", "two\n"], [("", None), ("two\n", None)]),
        (["one", "exit=0", "two", "exit=3"], [("one", 0), ("two", 3)]),
        (["--- 1 ---", "one", "--- 2 ---", ""], [("one", None), ("", None)]),
        (['{"status":"one","log":"two","code":0}'], [("one", None), ("two", None)]),
        (['["one",{"exit_code":1,"output":"two"}]'], [("one", None), ("two", 1)]),
        (["one\ntwo"], [("", None), ("", None)]),
        (["one", "two", "three"], [("", None), ("", None)]),
    ],
)
def test_what_a_script_printed_belongs_to_the_call_that_it_is_of(
    parts: list[str], expected: list[tuple[str, int | None]], tmp_path: Path
) -> None:
    """Marks between outputs, and names and numbers around them, show whose they are; else nobody's."""
    both = 'const rs = await Promise.all(["a","b"].map(c => tools.exec_command({cmd:c})));'
    thread = in_code_mode(tmp_path, script("c1", both), printed("c1", *parts))

    found = [e.tool for e in thread.entries if e.tool and e.tool.kind == "shell"]
    assert [(call.output, call.exit_code) for call in found] == expected


def test_a_script_may_do_more_than_run_commands(tmp_path: Path) -> None:
    """One output is of the one command, whatever else was called; an exit code behind it is its."""
    plan = 'await tools.update_plan({plan:[]}); const r = await tools.exec_command({cmd:"a"});'
    thread = in_code_mode(
        tmp_path,
        script("c1", plan), printed("c1", '{"chunk_id":"x","exit_code":0,"output":"one"}'),
        script("c2", 'const r = await tools.exec_command({cmd:"b"});'), printed("c2", "", "EXIT=1"),
        script("c3", 'const r = await tools.exec_command({cmd:"c"});'), printed("c3", state="terminated"),
    )  # fmt: skip

    shown = [(c[2], c[3], c[4]) for c in calls(thread) if c[2]]
    assert shown == [("a", "ok", 0), ("b", "error", 1), ("c", "aborted", None)]
    assert tool(thread, 2).output == "one"


@pytest.mark.parametrize(
    ("last", "status", "state"),
    [
        ("compiled", "unknown", "unknown"),
        ('{"session_id":7,"output":"compiled"}', "running", "running"),
        ('{"exit_code":1,"output":"compiled"}', "error", "failed"),
        (
            'Warning: truncated output (original token count: 9)\nTotal output lines: 1\n\n{"chunk_id":"x","exit_code":0,"output":"compiled…3 tokens truncated…\\u00"}',
            "ok",
            "done",
        ),
        ('{"chunk_id":"x","exit_code":1}\vcompiled', "error", "failed"),
        ('compiled\v{"exit_code":0,"session_id":null}', "ok", "done"),
        ('MAKE\n{"wall_time_seconds":5.0,"exit_code":0,"output":"compiled"}', "ok", "done"),
        ("write_stdin failed: Unknown process id 7", "unknown", "unknown"),
    ],
)
def test_a_poll_tells_what_it_shows(last: str, status: str, state: str, tmp_path: Path) -> None:
    """Output alone shows neither that a command goes on nor that it ended."""
    poll = 'const r = await tools.write_stdin({session_id:7,chars:""}); text(r.output)'
    thread = in_code_mode(
        tmp_path,
        script("c1", 'const r = await tools.exec_command({cmd:"make"}); text(r)'),
        printed("c1", '{"session_id":7,"output":"began"}'),
        script("c2", poll), printed("c2", "some"),
        script("c3", poll), printed("c3", *last.split("\v")),
    )  # fmt: skip

    assert (tool(thread, 1).status, thread.background[0].state) == (status, state)
    assert tool(thread, 1).output.startswith("began\nsome")
    assert ("compiled" in tool(thread, 1).output) == ("compiled" in last)


def test_sub_agents_of_the_second_kind_end_with_their_final_answer(tmp_path: Path) -> None:
    """One that could not be spawned never ran; one that is asked again runs again."""

    def asked(id: str, name: str, given: str, output: str) -> list[tuple[str, dict[str, Any]]]:
        call = {"type": "function_call", "call_id": id, "name": name, "namespace": "collaboration", "arguments": given}  # fmt: skip
        return [
            ("response_item", call),
            ("response_item", {"type": "function_call_output", "call_id": id, "output": output}),
        ]

    answer = {"type": "agent_message", "author": "/root/a", "content": [{"type": "input_text", "text": "Message Type: FINAL_ANSWER\nPayload:\nFine."}]}  # fmt: skip
    thread = in_code_mode(
        tmp_path,
        *asked("c1", "spawn_agent", '{"task_name":"a","message":"Look"}', "omit agent_type"),
        *asked("c2", "spawn_agent", '{"task_name":"a","message":"Look"}', '{"task_name":"/root/a"}'),
        ("response_item", answer),
        *asked("c3", "spawn_agent", '{"task_name":"b","message":"Try"}', '{"task_name":"/root/b"}'),
        ("response_item", {**answer, "author": "/root/b"}),
        *asked("c4", "followup_task", '{"target":"b","message":"Again"}', ""),
    )  # fmt: skip

    assert [(b.id, b.state) for b in thread.background] == [("/root/a", "done"), ("/root/b", "running")]  # fmt: skip
