"""Gemini CLI: event logs of 0.61, their compressions, rewinds and copies, and successors."""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from fixture_threads import by_ref, calls, corpus, one, said, thread_file, unzipped
from handoffs import made

from tasuki.errors import ThreadUnreadable
from tasuki.harness.gemini.adapter import Gemini
from tasuki.harness.protocol import LaunchRequest
from tasuki.harness.registry import detect_harness
from tasuki.model import Background, FileChange, Thread, ToolCall
from tasuki_testing import ThreadBuilder
from tasuki_testing.forms import JsonDocument

STEP_ONE = [
    (3, "write_file", "hello.txt", "ok", None),
    (5, "run_shell_command", "cat hello.txt && echo EXIT-OK", "ok", 0),
]


def read(name: str) -> Thread:
    """A captured session."""
    return Gemini().read(one("gemini", name))


def tool(thread: Thread, ref: int) -> ToolCall:
    """The call of an entry."""
    call = by_ref(thread, ref).tool
    assert call is not None
    return call


def built(build: ThreadBuilder, folder: Path) -> Thread:
    """A thread written down by a builder, and read."""
    return Gemini().read(build.write(folder))


def message(id: str, type: str, content: object, **more: object) -> dict[str, Any]:
    """A message as it stands in a log."""
    return {
        "id": id,
        "timestamp": "2026-01-05T10:00:00.000Z",
        "type": type,
        "content": content,
        **more,
    }


# -- what a log says -----------------------------------------------------------------------


def test_a_headless_session_is_read() -> None:
    """A message that comes again with its results is one message, and results are no prompts."""
    thread = read("headless.jsonl")

    assert said(thread) == [(1, "typed", "STEP-ONE please")]
    assert calls(thread) == STEP_ONE
    assert tool(thread, 3).changes == (
        FileChange(path="hello.txt", kind="create", new="hello from the fake model\n"),
    )
    assert tool(thread, 5).output == "hello from the fake model\nEXIT-OK"
    assert (thread.model, thread.context_tokens) == ("gemini-2.5-pro", 12005)
    assert (thread.started, thread.updated) == (
        "2026-11-21T20:45:47.183Z",
        "2026-11-21T20:45:48.649Z",
    )
    assert thread.report.unknown == {}


def test_the_folder_stands_in_the_context_of_a_session() -> None:
    """A session that was copied elsewhere still says where it ran."""
    assert read("headless.jsonl").cwd == "/home/dev/proj"


def test_a_compression_is_an_entry_and_what_it_kept_is_no_second_one() -> None:
    """The list is replaced by a snapshot and copies of the last messages, under new ids."""
    thread = read("compressed.jsonl")

    assert [e.ref for e in thread.entries] == list(range(1, 14))
    assert [(e.ref, e.kept_from) for e in thread.entries if e.kind == "compaction"] == [(9, 7)]
    assert by_ref(thread, 9).text.startswith("<state_snapshot><overall_goal>greeting file")
    assert by_ref(thread, 7).text == "STEP-SLOW"
    assert [e.compacted for e in thread.entries] == [True] * 8 + [False] * 5
    assert said(thread, "assistant")[-1][2].startswith("STEP-TWO-DONE")


def test_a_command_that_failed_is_a_failure() -> None:
    """Gemini CLI calls it a success; the exit code in the output says otherwise."""
    thread = read("everything.jsonl")

    assert (tool(thread, 48).status, tool(thread, 48).exit_code) == ("error", 3)
    assert tool(thread, 48).output == "out\nerr"
    assert [tool(thread, ref).status for ref in (9, 26, 49, 50)] == [
        "refused", "aborted", "error", "error",
    ]  # fmt: skip


def test_a_history_that_is_written_anew_makes_no_entries() -> None:
    """After a refusal all messages come again, with other ids, the first two of them joined."""
    thread = read("everything.jsonl")

    assert [s[2] for s in said(thread)[:4]] == [
        "STEP-ONE please\nsecond line", "STEP-REFUSE", "STEP-ASK",
        'asked "Which way?", the user chose "Right"',
    ]  # fmt: skip
    assert [e.ref for e in thread.entries[:14]] == list(range(1, 15))


def test_a_cancelled_prompt_and_its_work_stay() -> None:
    """Gemini CLI takes them out of the list, but the file it wrote was written."""
    thread = read("everything.jsonl")

    assert [by_ref(thread, ref).text for ref in (18, 19)] == ["STEP-SLOW again", "STEP-MIX"]
    assert tool(thread, 21).changes[0].path == "mix.txt"
    assert [(n.after, n.kind) for n in thread.notices] == [
        (9, "interrupted"),
        (18, "interrupted"),
        (21, "interrupted"),
        (25, "interrupted"),
        (31, "error"),
        (31, "note"),
    ]


def test_a_rewind_leaves_a_branch() -> None:
    """What was rewound keeps its numbers and is not in the thread."""
    thread = read("everything.jsonl")

    assert thread.abandoned == 10
    refs = [e.ref for e in thread.entries]
    assert refs == [*range(1, 51), *range(61, 73)]
    assert by_ref(thread, 61).text == "STEP-BG"


def test_who_speaks_is_told_apart() -> None:
    """Answers, commands of the user, and what Gemini CLI says in the user's name."""
    thread = read("everything.jsonl")

    told = [(ref, origin) for ref, origin, _ in said(thread) if origin != "typed"]
    assert told == [(13, "answer"), (16, "harness"), (36, "harness")]
    assert by_ref(thread, 13).text == 'asked "Which way?", the user chose "Right"'
    assert by_ref(thread, 16).text.startswith("System: Potential loop detected.")
    assert by_ref(thread, 36).text.startswith("User has manually exited Plan Mode.")
    assert by_ref(thread, 32).origin == "command"
    assert tool(thread, 32).command == "echo from the user; exit 4"
    assert (tool(thread, 32).exit_code, tool(thread, 32).output) == (4, "from the user")


def test_a_file_that_was_named_is_not_what_the_user_typed() -> None:
    """`@path` puts the file behind the prompt; the words stay as they were typed."""
    assert (29, "typed", "look at @src/login.py please STEP-AT") in said(read("everything.jsonl"))


def test_tools_are_told_by_what_they_do() -> None:
    """Kinds, paths, patterns and todos."""
    thread = read("everything.jsonl")

    assert [(tool(thread, r).name, tool(thread, r).kind) for r in range(40, 45)] == [
        ("read_file", "read"),
        ("list_directory", "search"),
        ("glob", "search"),
        ("grep_search", "search"),
        ("read_many_files", "read"),
    ]
    assert tool(thread, 43).detail == "TIMEOUT"
    assert tool(thread, 46).changes == (
        FileChange(path="src/login.py", kind="edit", old="TIMEOUT = 5", new="TIMEOUT = 25"),
    )
    assert (tool(thread, 12).kind, tool(thread, 12).detail) == ("ask", "Which way?")


def test_sub_agents_and_background_commands_have_their_state() -> None:
    """A sub-agent that never came to an end failed; a background command goes on."""
    thread = read("everything.jsonl")

    assert thread.background == (
        Background(id="14580", kind="command", label="sleep 300", state="running", ref=63),
        Background(id="invoke_agent__call_ca6c8b1af59c40d6a92f", kind="agent",
                   label="SUB-TASK review", state="failed", ref=67),
        Background(id="invoke_agent__call_fef8457eaa144f69ad77", kind="agent",
                   label="SUB-TASK investigate", state="done", ref=71),
    )  # fmt: skip
    assert (tool(thread, 63).status, tool(thread, 63).background) == ("running", "14580")


def test_the_end_of_a_background_command_is_seen_in_a_list(tmp_path: Path) -> None:
    """`list_background_processes` says what is over, and how it ended."""
    build = (
        ThreadBuilder("gemini").user("Go").background("make", "done").background("run", "failed")
    )
    thread = built(build, tmp_path)

    assert [b.state for b in thread.background] == ["done", "failed"]


def test_a_sub_agents_record_lies_beside_its_session(tmp_path: Path) -> None:
    """In a folder of the session's id; it is no thread of its own in a list."""
    chats = tmp_path / "proj" / "chats"
    session = "bbd65fc6-498a-4ed6-8afb-258005dc4248"
    record = chats / session / "bd096e90-6856-4db9-83fe-7acfa810e90f.jsonl"
    record.parent.mkdir(parents=True)
    path = shutil.copy(one("gemini", "everything.jsonl"), chats / "session-x.jsonl")
    shutil.copy(one("gemini", "agent-investigator.jsonl"), record)
    (chain,) = Gemini().read(path).sidechains

    assert (chain.path, chain.label) == (str(record), "SUB-TASK investigate")
    assert Gemini().read(record).entries[0].text.startswith("Your task is to do a deep")
    assert Gemini().read_head(thread_file(record)) is None


def test_a_skill_is_known_by_its_call() -> None:
    """`/name` before a prompt runs its lines together for the model; what was typed is kept."""
    thread = read("skill.jsonl")

    assert thread.skills == ("review",)
    assert said(thread) == [(2, "handoff", "/review # Handoff Context\nSTEP-K it")]
    assert calls(thread) == [(1, "activate_skill", "", "ok", None)]


def test_an_imported_session_names_its_source() -> None:
    """`--session-file` writes a new log, in which calls stand among the content."""
    thread = read("imported.jsonl")

    assert thread.parent == "/home/dev/session.jsonl"
    assert [e.kind for e in thread.entries[:3]] == ["compaction", "user", "assistant"]
    assert [c for c in calls(thread) if c[1] in ("run_shell_command", "replace", "!")] == [
        (6, "!", "echo from the user; exit 4", "error", 4),
        (19, "replace", "src/login.py", "ok", None),
        (21, "run_shell_command", "echo out; echo err >&2; exit 3", "error", 3),
        (23, "replace", "src/login.py", "error", None),
        (26, "run_shell_command", "sleep 300", "running", None),
    ]
    assert tool(thread, 13).output == "TIMEOUT = 5\n"


def test_a_resumed_session_goes_on_in_its_file() -> None:
    """The list is written anew at the start; its messages are those that are there."""
    thread = read("resumed.jsonl")

    assert [s[2] for s in said(thread)] == ["STEP-ONE", "STEP-TWO"]
    assert [e.ref for e in thread.entries] == list(range(1, 11))


def test_a_session_in_which_nobody_spoke_is_not_listed() -> None:
    """A resumed session leaves a second file that holds its context alone."""
    assert Gemini().read_head(thread_file(one("gemini", "unsent-stub.jsonl"))) is None


# -- what may happen to a log --------------------------------------------------------------


def test_a_repeated_id_updates_what_it_said(tmp_path: Path) -> None:
    """The last one wins, and only new calls are new entries."""
    reply = message("m1", "gemini", "Half", model="a")
    call = {"id": "c1", "name": "read_file", "args": {"file_path": "a.py"}, "status": "executing"}
    over = {**call, "status": "success", "result": "text"}
    build = ThreadBuilder("gemini").user("Go")
    build.raw(**reply).raw(**{**reply, "toolCalls": [call]}).user("And?")
    build.raw(**{**reply, "content": "Whole", "toolCalls": [over]})
    thread = built(build, tmp_path)

    assert [(e.ref, e.kind, e.text) for e in thread.entries] == [
        (1, "user", "Go"),
        (2, "assistant", "Whole"),
        (3, "tool", ""),
        (4, "user", "And?"),
    ]
    assert (tool(thread, 3).status, tool(thread, 3).output) == ("ok", "text")


def test_a_rewind_to_a_message_nobody_knows_leaves_everything(tmp_path: Path) -> None:
    """Gemini CLI then starts from an empty list."""
    build = ThreadBuilder("gemini").user("One").assistant("Two").raw(**{"$rewindTo": "nobody"})
    thread = built(build.user("Three"), tmp_path)

    assert [(e.ref, e.text) for e in thread.entries] == [(3, "Three")]
    assert thread.abandoned == 2


def test_messages_that_went_from_the_beginning_were_compacted(tmp_path: Path) -> None:
    """A list that begins later is a compaction, whatever stands in place of what went."""
    build = ThreadBuilder("gemini").user("One").assistant("Two").user("Three").assistant("Four")
    kept = [r for r in build.records if r.get("type") in ("user", "gemini")][-2:]
    summary = message("s", "user", "What was before, in short")
    build.raw(**{"$set": {"messages": [summary, *kept]}}).user("Five")
    thread = built(build, tmp_path)

    assert [(e.ref, e.kind, e.text) for e in thread.entries][4:] == [
        (5, "compaction", "What was before, in short"),
        (6, "user", "Five"),
    ]
    assert by_ref(thread, 5).kept_from == 3


def test_a_list_without_several_prompts_is_a_branch_that_was_left(tmp_path: Path) -> None:
    """One prompt may have been cancelled; two were taken back."""
    build = ThreadBuilder("gemini").user("One").assistant("Two").user("Three").user("Four")
    kept = [r for r in build.records if r.get("type") in ("user", "gemini")][:2]
    build.raw(**{"$set": {"messages": kept}}).user("Five")
    thread = built(build, tmp_path)

    assert [(e.ref, e.text) for e in thread.entries] == [(1, "One"), (2, "Two"), (5, "Five")]
    assert thread.abandoned == 2


def test_copies_that_show_only_later_are_left_out(tmp_path: Path) -> None:
    """Without the context at its beginning, a history written anew is known by the list after it."""
    build = ThreadBuilder("gemini").user("One").assistant("Two")
    copies = [message("c1", "user", [{"text": "One"}]), message("c2", "gemini", [{"text": "Two"}])]
    build.records = build.records[:1] + build.records[2:]  # no context
    for copy in copies:
        build.raw(**copy)
    build.raw(**{"$set": {"messages": copies}}).user("Three")
    thread = built(build, tmp_path)

    assert [(e.ref, e.text) for e in thread.entries] == [(1, "One"), (2, "Two"), (5, "Three")]


@pytest.mark.parametrize(
    "record",
    [
        {"$set": 5}, {"$set": []}, {"$set": {"messages": 5}}, {"$set": {"messages": [5]}},
        {"$set": {"messages": [{"id": 5}]}}, {"$set": {"sessionId": []}}, {"$rewindTo": 5},
        {"id": 5, "type": "user"}, {"id": "x", "type": "user", "content": 5},
        {"id": "x", "type": "gemini", "content": "", "toolCalls": 5},
        {"id": "x", "type": "gemini", "content": "", "toolCalls": [{"id": "c", "name": []}]},
        {"id": "x", "type": "gemini", "content": "", "tokens": {"total": "many"}},
    ],
)  # fmt: skip
def test_a_line_of_wrong_types_is_reported_and_nothing_else_is_lost(
    record: dict[str, Any], tmp_path: Path
) -> None:
    """The line is a broken one; its neighbours stay."""
    thread = built(ThreadBuilder("gemini").user("One").raw(**record).user("Two"), tmp_path)

    assert [e.text for e in thread.entries] == ["One", "Two"]
    assert [b.line for b in thread.report.broken] == [4]


@pytest.mark.parametrize(
    "record",
    [
        {"$set": {}}, {"$set": {"unheard": [[]]}}, {"$set": {"messages": [{}]}},
        {"id": "", "type": "user", "content": "no id"}, {"id": "x", "type": "unheard"},
        {"id": "x", "type": "user", "content": None}, {"id": "x", "type": "user", "content": {}},
        {"id": "x", "type": "user", "content": [{"functionResponse": {"name": "nobody"}}]},
        {"id": "x", "type": "gemini", "content": "", "toolCalls": []},
        {"id": "x", "type": "gemini", "content": "", "tokens": {"total": 10**40}},
    ],
)  # fmt: skip
def test_a_line_that_says_nothing_says_nothing(record: dict[str, Any], tmp_path: Path) -> None:
    """Empty patches, messages without id or content, results of nobody's calls."""
    thread = built(ThreadBuilder("gemini").user("One").raw(**record).user("Two"), tmp_path)

    assert [e.text for e in thread.entries] == ["One", "Two"]
    assert thread.report.broken == ()
    assert thread.context_tokens is None


def test_calls_without_ids_and_arguments_are_calls(tmp_path: Path) -> None:
    """A name is enough; two without an id are two."""
    nameless = [
        {"name": "read_file", "args": 5},
        {"name": "glob", "status": "error", "result": "x"},
    ]
    build = ThreadBuilder("gemini").user("Go")
    thread = built(build.raw(**message("m", "gemini", "", toolCalls=nameless)), tmp_path)

    assert [(c[1], c[3]) for c in calls(thread)] == [("read_file", "running"), ("glob", "error")]


def test_a_log_without_its_first_line_is_unreadable(tmp_path: Path) -> None:
    """The first line names the session; without it nobody knows whose it is."""
    lines = one("gemini", "headless.jsonl").read_bytes().splitlines(keepends=True)
    path = tmp_path / "session-x.jsonl"
    path.write_bytes(b"".join(lines[1:]))

    with pytest.raises(ThreadUnreadable, match="holds no Gemini CLI session"):
        Gemini().read(path)
    assert Gemini().read_head(thread_file(path)) is None


# -- successors ----------------------------------------------------------------------------


def request(**given: object) -> LaunchRequest:
    """What a user wants of a successor."""
    known = {"handoff": made(), "brief": "the whole brief", "cwd": "/home/dev/proj"}
    return LaunchRequest(**{**known, "context": "the past", **given})  # type: ignore[arg-type]


def test_a_successor_gets_the_brief_unsent() -> None:
    """Gemini CLI has no way to start with an unsent prompt: the brief is pasted."""
    plan = Gemini().plan(request())

    assert plan.argv == ("gemini",)
    assert (plan.paste, plan.files) == ("the whole brief", ())
    assert plan.note.startswith("Gemini CLI starts empty")


def test_a_brief_that_is_sent_is_an_argument() -> None:
    """A prompt that looks like a flag is tied to its option."""
    plan = Gemini().plan(request(send=True, model="gemini-x", arguments=("-y",)))
    dashed = Gemini().plan(request(send=True, brief="- a list"))

    assert plan.argv == ("gemini", "--model", "gemini-x", "-y", "-i", "the whole brief")
    assert dashed.argv == ("gemini", "--prompt-interactive=- a list")
    assert (plan.paste, plan.note) == ("", "")


def test_the_way_back_leaves_the_original_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--session-file` opens a copy; `--resume` may cost the session its file."""
    monkeypatch.setenv("GEMINI_CLI_HOME", str(tmp_path))
    thread = Thread(harness="gemini", id="abc", path="/x/session-1.jsonl")

    assert Gemini().build_resume_command(thread) == (
        "gemini",
        "--session-file",
        "/x/session-1.jsonl",
    )
    assert Gemini().format_skill_command("review") == ""
    assert Gemini().list_skill_folders(Path("/p"))[2:] == (
        tmp_path / ".gemini" / "skills",
        tmp_path / ".agents" / "skills",
    )


# -- the corpus ----------------------------------------------------------------------------


@pytest.mark.parametrize("path", corpus("gemini-cli"), ids=lambda p: p.name[:20])
def test_threads_of_the_corpus_read_whole(path: Path, tmp_path: Path) -> None:
    """No message of a real session is broken or unknown, and its folder is found."""
    file = unzipped(path, tmp_path)
    thread = detect_harness(file).read(file)
    head = Gemini().read_head(thread_file(file))

    assert thread.harness == "gemini"
    assert (thread.report.broken, thread.report.unknown) == ((), {})
    assert [e.ref for e in thread.entries] == list(range(1, len(thread.entries) + 1))
    assert hashlib.sha256(thread.cwd.encode()).hexdigest() in file.read_text()
    assert {c[3] for c in calls(thread)} <= {"ok", "error", "aborted", "refused"}
    assert head is not None
    assert (head.id, head.cwd) == (thread.id, thread.cwd)
    units = JsonDocument().units(file)
    assert sum(e.kind == "tool" for e in thread.entries) == sum(
        len(json.loads(u).get("toolCalls", ())) for u in units[1:]
    )
