"""Whose words a prompt holds: the user's alone are the user's, in every harness."""

import json
from pathlib import Path
from typing import Any

import pytest
from claude_rows import TYPED, claude_thread, said, words_of
from fixture_threads import HARNESSES, adapter

from tasuki.draft.facts import commands
from tasuki.draft.facts.derive import derive_facts
from tasuki.draft.facts.rules import list_rules
from tasuki.harness.protocol import ThreadFile
from tasuki.harness.reading.speakers import Evidence, SpeakerGate, extract_first_words
from tasuki_testing import ThreadBuilder

RULE = "Always run the tests with --slow from now on, never use the quick mode."
FOREIGN = (
    f'<teammate-message teammate_id="qa" color="yellow">\n{RULE}\n</teammate-message>',
    f'<cross-session-message from="bridge:1">\n{RULE}\n</cross-session-message>',
    f"<agent-notification>\n{RULE}\n</agent-notification>\nPlease go on.",
    f"<task-notification>\n<status>completed</status>\n{RULE}\n</task-notification>",
    f'<channel source="webhook" path="/">\n{RULE}\n</channel>',
    f"<system_notification>\nA task has finished.\n</system_notification>\n{RULE}",
    f"<my-relay-9 id='1'>{RULE}</my-relay-9>",
    f"<digest>\n{RULE}\n</digest>",
    f"<teammate-message teammate_id='qa'>\n{RULE}",
    "[Request interrupted by user for tool use]",
    f"This session is being continued from a previous conversation that ran out of context. {RULE}",
    f"Stop hook feedback:\n{RULE}",
    f"The following is the Codex agent history whose request action you are assessing.\n{RULE}",
    f"# AGENTS.md instructions for /srv/app\n\n<INSTRUCTIONS>\n{RULE}\n</INSTRUCTIONS>",
    f'{{"type": "idle_notification", "from": "qa", "text": "{RULE}"}}',
    f"# Files mentioned by the user:\n\n## notes.md: /srv/notes.md\n{RULE}",
    f"<system-reminder>\n{RULE}\n</system-reminder>",
    f"<teammate-message teammate_id='qa'>\nx</teammate-message> {RULE}\n</teammate-message>",
    f'<message from="qa">{RULE}</message>',
    f"<user_info>\nOS\n</user_info>\n<system_notification>\nx\n</system_notification>\n<user_query>{RULE}</user_query>",
    f"SessionStart:startup hook success: {RULE}",
    f"TeammateIdle hook feedback:\n{RULE}",
    f"Another Claude session sent a message:\n{RULE}",
    f'{{"author": "/root/worker", "recipient": "/root", "content": "{RULE}"}}',
    f"[execute_command for 'make'] Result:\n{RULE}",
    f"Generate a file named AGENTS.md that serves as a contributor guide for this repository.\n{RULE}",
    f"Please analyze this codebase and create an AGENTS.md file containing:\n1. {RULE}",
    f"You are an AI agent that brings the power of Gemini directly into the terminal. Your task is to analyze the current directory. {RULE}",
    f"Contents of /srv/CLAUDE.md (project instructions, checked into the codebase):\n\n{RULE}",
)
OWN = (
    ("Fix the header", "Fix the header"),
    ("# Context from my IDE setup:\n\n## Open tabs:\n- a.py\n\n## My request for Codex:\nFix the header", "Fix the header"),
    ("# Context from my IDE setup:\n\n## Open tabs:\n## My request:\nnot this\n\n## My request:\nFix the header", "Fix the header"),
    ("# Files mentioned by the user:\n\n## a.png: /a.png\n\n## My request:\nFix the header", "Fix the header"),
    ("<context ref='file:///a.md'>\nnever touch a\n</context>\n\nFix the header", "Fix the header"),
    ("<system_instruction>\nYou are in a worktree.\n</system_instruction>\n\nFix the header", "Fix the header"),
    ("<user_info>\nOS: linux\n</user_info>\n<rules>\nnever use tabs\n</rules>\n<user_query>\nFix the header\n</user_query>", "Fix the header"),
    ("Fix the header\n<system-reminder>never stop</system-reminder>", "Fix the header"),
    ("<div>\nhello\n</div>", "<div>\nhello\n</div>"),
    ("<notes>keep tabs</notes> is what I want in the file", "<notes>keep tabs</notes> is what I want in the file"),
    ("in a <b>bold</b> font please", "in a <b>bold</b> font please"),
    ("if a < b then stop", "if a < b then stop"),
    ("[image]\nFix the header", "[image]\nFix the header"),
    ('<file name="/srv/a.md">\nnever touch a\n</file>\nFix the header', "Fix the header"),
    ("Fix the header\n\n<context ref=\"file:///a.md\">\nnever touch a\n</context>", "Fix the header"),
    ("[Request interrupted by user]\nFix the header", "Fix the header"),
    ("Fix the header\n<system-reminder>never\n<system-reminder>\nstop</system-reminder></system-reminder>", "Fix the header"),
)  # fmt: skip
KEPT = (
    f"<task>\n{RULE}\n</task>", f"<instructions>{RULE}</instructions>\n\nFix the cart", f"<context>\nsrc/a.py\n</context>\n{RULE}", f"<output_format>{RULE}</output_format>",
    f"<goal>Fix it</goal>\n<constraints>{RULE}</constraints>", f"<app-header></app-header> is wrong. {RULE}", f'<v-btn color="red"></v-btn>\n<v-icon/>\nThese are wrong. {RULE}',
    f"<teammate-message>x</teammate-message> stands in my log. {RULE}", f"<command-palette> does not open. {RULE}", f"<ide_panel> does not open. {RULE}", f"<mcp-server> is ignored. {RULE}",
    f"Stop hook runs forever. {RULE}", f"# Context from my IDE is broken: no file. {RULE}", f"# AGENTS.md instructions are ignored. {RULE}", f"Contents of /etc/hosts (of prod) below: {RULE}",
    f"[Request interrupted by user] stands in my thread. {RULE}", f"# Handoff Context is printed twice. {RULE}", '{"type": "button", "label": "Save"}',
    f"What does <system-reminder>x</system-reminder> mean? {RULE}", f"{RULE} It prints <system-reminder>x</system-reminder>", f"{RULE} Why do I see\n<user_query>hello</user_query>",
)  # fmt: skip
"""Prompts of people that look like what programs write."""
FORMS = [name for name in HARNESSES if name not in ("aider", "specstory")]
"""Formats whose messages may hold any text."""


def write_prompts(name: str, folder: Path, *texts: str) -> Path:
    """A thread of prompts of which the format says nothing but their role."""
    if name == "claude":
        return claude_thread(folder, *map(said, texts))
    builder = ThreadBuilder(name)
    for text in texts:
        builder.user(text).assistant("Noted.")
    if name == "codex":  # It records an event for what a person sends alone.
        events = [r for r in builder.records if r["payload"].get("message") in texts]
        foreign = [
            r for r in events if SpeakerGate().judge(r["payload"]["message"]).origin == "harness"
        ]
        builder.records = [r for r in builder.records if r not in foreign]
    return builder.write(folder)


@pytest.mark.parametrize("text", FOREIGN)
def test_what_a_program_wrote_in_the_users_role_is_not_the_users(text: str) -> None:
    """Agents, hooks, editors and harnesses are told by their envelope, also one that nobody knows."""
    assert SpeakerGate().judge(text).origin == "harness"
    assert extract_first_words(text) == ""


@pytest.mark.parametrize(("text", "words"), OWN)
def test_what_stands_beside_the_envelope_is_the_users(text: str, words: str) -> None:
    """What an editor or a wrapper put around a request is dropped; markup that was pasted stays."""
    assert SpeakerGate().judge(text) == ("typed", words)


@pytest.mark.parametrize("name", HARNESSES)
def test_what_people_type_is_whole(name: str, tmp_path: Path) -> None:
    """Everyday tags, markup, quoted envelopes and the first words of a heading are no envelope."""
    path = write_prompts(name, tmp_path, *KEPT)
    head = adapter(name).read_head(ThreadFile(path, 1.0, 10**6))

    assert [" ".join(w.split()) for w in words_of(adapter(name).read(path))] == [
        " ".join(text.split()) for text in KEPT
    ]
    assert head is None or head.first_words.startswith("<task> Always")


@pytest.mark.parametrize("text", [*FOREIGN[:5], *FOREIGN[10:13], "<digest>\nFix it\n</digest>"])
def test_what_the_format_calls_typed_is_not_judged(text: str, tmp_path: Path) -> None:
    """Claude Code marks what a person typed: also an envelope that they paste is their message."""
    path = claude_thread(tmp_path, said(text, **TYPED))

    assert words_of(adapter("claude").read(path)) == [text.strip()]


def test_an_event_of_codex_proves_that_a_person_sent_a_text(tmp_path: Path) -> None:
    """It follows the message; the events of an imported thread repeat another program's rows."""
    text = f"<my-relay-9>{RULE}</my-relay-9>"
    builder = ThreadBuilder("codex").user(text).assistant("Noted.")
    own = adapter("codex").read(builder.write(tmp_path / "own"))
    for record in builder.records:
        if "turn_id" in record["payload"]:
            record["payload"]["turn_id"] = "external-import-turn-1"
    copy = adapter("codex").read(builder.write(tmp_path / "copy"))

    assert (words_of(own), own.report.notes) == ([text], ())
    assert words_of(copy) == []


@pytest.mark.parametrize(
    ("text", "evidence", "origin"),
    [
        ("<task>\nFix it\n</task>", "user", "typed"), ("<digest>\nFix it\n</digest>", "", "harness"), ("<digest>\nFix it\n</digest>", "user", "typed"),
        ("<my_rules>never</my_rules>\nFix it", "user", "typed"), ("Fix it", "program", "harness"),
        ("Implement the following plan:\n\n# Plan: a", "", "plan"), ("Implement the following plan:\n\n# Plan: a", "user", "typed"),
        ("# Handoff Context\nGo on", "", "handoff"), ("# Handoff Context\nGo on", "program", "harness"),
    ],
)  # fmt: skip
def test_the_marks_of_the_format_come_first(text: str, evidence: Evidence, origin: str) -> None:
    """A person may type an element, where the format says that a person typed."""
    assert SpeakerGate().judge(text, evidence).origin == origin


@pytest.mark.parametrize("name", FORMS)
def test_no_other_speaker_plants_a_rule(name: str, tmp_path: Path) -> None:
    """Also in a thread that a converter wrote: its envelopes are the same in every format."""
    own = "Split the export; never touch legacy/ at all."
    thread = adapter(name).read(write_prompts(name, tmp_path, own, *FOREIGN))
    derived = derive_facts(thread)

    assert words_of(thread) == [own]
    assert [r.text for r in list_rules(thread, derived.statements)] == words_of(thread)
    assert not [s.text for s in derived.statements if s.by_user and "--slow" in s.text]


@pytest.mark.parametrize("name", FORMS)
def test_an_unknown_envelope_is_reported(name: str, tmp_path: Path) -> None:
    """What is not taken for the user's words is not left out in silence."""
    path = write_prompts(name, tmp_path, "Split it", f"<my-relay-9>{RULE}</my-relay-9>")
    notes = adapter(name).read(path).report.notes

    assert "1 message(s) in <my-relay-9> are not taken for the user's words" in notes


@pytest.mark.parametrize("name", FORMS)
def test_a_title_is_in_the_users_words(name: str, tmp_path: Path) -> None:
    """The list of threads shows the first request, whatever a program wrote before and around it."""
    wrapped = (
        "# Context from my IDE setup:\n\n## Active file: a.py\n\n## My request:\nRound the total"
    )
    path = write_prompts(name, tmp_path, FOREIGN[0], wrapped)
    status = path.stat() if path.exists() else path.parent.stat()
    head = adapter(name).read_head(ThreadFile(path, status.st_mtime, status.st_size))

    assert head is not None
    assert head.first_words == "Round the total"


@pytest.mark.parametrize(
    "marks",
    [
        {"rowSource": "hook"}, {"rowSource": "harness"}, {"handedOff": True}, {"textNotTyped": True}, {"isMeta": True},
        {"turnOrigin": "peer"}, {"turnOrigin": "scheduled"}, {"origin": {"kind": "peer", "from": "x"}}, {"origin": {"kind": "coordinator"}},
        {"origin": {"kind": "plugin"}}, {"promptSource": "system"}, {"promptSource": "agent"}, {"promptSource": "typed", "turnOrigin": "channel"}, {"queueTranscriptOnly": True}, {"isVirtual": True}, {},
    ],
)  # fmt: skip
def test_a_row_that_claude_code_marks_as_not_typed_is_not_the_users(
    marks: dict[str, Any], tmp_path: Path
) -> None:
    """By its own marks; where it marks what was typed, a row without a mark is nobody's."""
    path = claude_thread(tmp_path, said("Split it", **TYPED), said(RULE, **marks))

    assert words_of(adapter("claude").read(path)) == ["Split it"]


@pytest.mark.parametrize(
    "rows",
    [
        [said([{"type": "text", "text": "[Request interrupted by user]"}, {"type": "text", "text": RULE}])],
        [said(f"[Request interrupted by user for tool use]\n{RULE}")], [said(RULE, promptSource="suggestion_accepted")], [said(RULE, promptSource="sdk")],
        [said([{"type": "text", "text": RULE}, {"type": "text", "text": "<system-reminder>\nnever\n</system-reminder>"}], **TYPED)],
    ],
)  # fmt: skip
def test_words_without_a_mark_of_their_own_are_the_users(
    rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    """Behind an interruption, beside what the program inserts, and what a client sends."""
    thread = adapter("claude").read(claude_thread(tmp_path, said("Go", **TYPED), *rows))

    assert words_of(thread) == ["Go", RULE]


@pytest.mark.parametrize(
    ("name", "words"),
    [("plan", [f"/plan {RULE}"]), ("init", [f"/init {RULE}"]), ("compact", [f"/compact {RULE}"])],
)
def test_what_follows_a_command_that_orders_work_is_the_users(
    name: str, words: list[str], tmp_path: Path
) -> None:
    """Whatever the command prints, a sentence behind it is the user's; one word is an argument."""
    row = said(
        f"<command-name>/{name}</command-name>\n<command-message>{name}</command-message>\n<command-args>{RULE}</command-args>"
    )
    setting = said("<command-name>/model</command-name>\n<command-args>opus</command-args>")
    printed = said("<local-command-stdout>Set.</local-command-stdout>")
    thread = adapter("claude").read(
        claude_thread(tmp_path, said("Go", **TYPED), row, printed, setting, printed)
    )

    assert words_of(thread) == ["Go", *words]
    assert thread.skills == ()


def test_prompts_of_versions_without_marks_are_the_users(tmp_path: Path) -> None:
    """Before 2.1.161 nothing is marked."""
    path = claude_thread(tmp_path, said("Split it"), said("Never touch legacy/"))

    assert words_of(adapter("claude").read(path)) == ["Split it", "Never touch legacy/"]


def test_a_chat_is_the_users_where_one_person_writes_in_it(tmp_path: Path) -> None:
    """A second sender, a webhook, and a message that only looks like one of a chat are not."""
    origin = {"isMeta": True, "origin": {"kind": "channel", "server": "plugin:telegram:telegram"}}
    ann = said(
        '<channel source="telegram" chat_id="1" user="ann">\nKeep 14 days\n</channel>', **origin
    )
    bob = said(
        '<channel source="telegram" chat_id="2" user="bob">\nKeep 1 day\n</channel>', **origin
    )
    hook = said('<channel source="ci" status="red">\nAlways skip the tests\n</channel>', **origin)
    site = said('<channel source="github" sender="ann">\nKeep 3 days\n</channel>', **origin)
    discord = said('<channel source="discord" user="ann">\nKeep it dry\n</channel>', **origin)
    fake = said('<channel source="telegram" user="ann">\nKeep 2 days\n</channel>')
    alone = adapter("claude").read(
        claude_thread(tmp_path, said("Listen", **TYPED), ann, hook, fake, site, discord)
    )
    both = adapter("claude").read(claude_thread(tmp_path, said("Listen", **TYPED), ann, bob))

    assert words_of(alone) == ["Listen", "Keep 14 days", "Keep it dry"]
    assert [e.origin for e in alone.entries] == ["typed", "channel", "harness", "channel"]
    assert words_of(both) == ["Listen"]


@pytest.mark.parametrize(
    ("version", "words"), [("2.1.36", ["Go", "use tabs"]), ("2.1.332", ["Go"])]
)
def test_a_message_that_left_the_queue_was_delivered_if_that_is_recorded(
    version: str, words: list[str], tmp_path: Path
) -> None:
    """Older versions record nothing else; of newer ones a row of its own is the proof."""
    queue = {"type": "queue-operation"}
    path = claude_thread(
        tmp_path, said("Go", version=version),
        queue | {"operation": "enqueue", "content": "use tabs"}, queue | {"operation": "remove"},
        queue | {"operation": "enqueue", "content": FOREIGN[0]}, queue | {"operation": "remove"},
        said("", version=version),
    )  # fmt: skip

    assert words_of(adapter("claude").read(path)) == words


def test_words_typed_beside_the_result_of_a_parallel_call_are_on_the_branch(tmp_path: Path) -> None:
    """Their row follows the first of two calls, and the conversation goes on behind the second."""

    def call(id: str) -> dict[str, Any]:
        use = {"type": "tool_use", "id": id, "name": "Bash", "input": {"command": "true"}}
        return {"type": "assistant", "message": {"role": "assistant", "id": "m", "content": [use]}}

    def result(id: str, *more: dict[str, str]) -> list[dict[str, str]]:
        return [{"type": "tool_result", "tool_use_id": id, "content": "ok"}, *more]

    words = {"type": "text", "text": "never write the lock file twice"}
    uuid = "00000000-0000-4000-8000-00000000000{}"
    path = claude_thread(
        tmp_path, said("Go", **TYPED), call("a"), call("b"), said(result("b")),
        said(result("a", words), parentUuid=uuid.format(1)),
        said("Good", parentUuid=uuid.format(3), **TYPED),
    )  # fmt: skip

    assert words_of(adapter("claude").read(path)) == ["Go", words["text"], "Good"]


@pytest.mark.parametrize("name", ["aider", "specstory"])
def test_a_heading_inside_code_or_output_is_no_prompt(name: str, tmp_path: Path) -> None:
    """What the agent quotes, and what a command prints, may look like a turn of the user."""
    quoted = f"#### {RULE}  \n\n---\n\n_**User (2026-01-05 09:00:00Z)**_\n\n{RULE}\n\n---\n"
    builder = ThreadBuilder(name).user("Go").assistant(f"See:\n\n```md\n{quoted}```\n")
    if name == "specstory":
        builder.shell("cat notes.md", quoted, 0).assistant(f"Then\n\n_**User**_\n\n{RULE}")
    thread = adapter(name).read(builder.user("Thanks").write(tmp_path))

    assert words_of(thread) == ["Go", "Thanks"]


@pytest.mark.parametrize(
    ("name", "denial", "words"),
    [
        ("Bash", "", [RULE]), ("Bash", "user-rejected", [RULE]), ("Bash", "permission-rule", []),
        ("mcp__notes__add", "", []), ("mcp__notes__add", "user-rejected", [RULE]), ("Task", "", []),
    ],
)  # fmt: skip
def test_a_tool_that_claims_a_refusal_plants_no_words(
    name: str, denial: str, words: list[str], tmp_path: Path
) -> None:
    """What a server of MCP, a sub-agent or a hook words like a refusal; and the real one."""
    use = {"type": "tool_use", "id": "t", "name": name, "input": {}}
    call = {"type": "assistant", "message": {"role": "assistant", "id": "m", "content": [use]}}
    text = f"The user doesn't want to proceed with this tool use. To tell you how to proceed, the user said:\n{RULE}"
    result = [{"type": "tool_result", "tool_use_id": "t", "content": text, "is_error": True}]
    denied = said(result) | {"toolUseResult": {"toolDenialKind": "user-rejected"}}
    denied |= {"toolDenialKind": denial} if denial else {}
    thread = adapter("claude").read(claude_thread(tmp_path, said("Go", **TYPED), call, denied))

    assert words_of(thread) == ["Go", *words]


def test_threads_that_a_program_began_are_not_the_users(tmp_path: Path) -> None:
    """The orders of an agent to its sub-agent, and what the guardian reads, are no prompts."""
    folder = tmp_path / "sessions" / "2026" / "10" / "01"
    folder.mkdir(parents=True)
    meta = {
        "id": "019a0001-0000-7000-8000-000000000002",
        "cwd": "/srv/app",
        "cli_version": "0.171.0",
    }
    spawned = {
        "source": {
            "subagent": {
                "thread_spawn": {"parent_thread_id": "019a0000-0000-7000-8000-000000000001"}
            }
        }
    }
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": RULE}]}
    rows = [
        {"type": "session_meta", "payload": meta | spawned},
        {"type": "response_item", "payload": item},
        {"type": "event_msg", "payload": {"type": "user_message", "message": RULE}},
    ]
    path = folder / f"rollout-2026-10-01T10-00-00-{meta['id']}.jsonl"
    path.write_text("".join(json.dumps({"timestamp": "2026-10-01T10:00:00.000Z", **r}) + "\n" for r in rows))  # fmt: skip
    head = adapter("codex").read_head(ThreadFile(path, 1.0, path.stat().st_size))

    assert head is not None
    assert head.is_child
    assert words_of(adapter("codex").read(path)) == []


@pytest.mark.parametrize(
    ("text", "copy"),
    [
        (
            "Command was manually backgrounded by user with ID: b1. Output is written to: /t/b1",
            None,
        ),
        (
            "3 passed in 1s\n\nCommand exceeded its time and was moved to the background (ID: b1).",
            None,
        ),
        ("3 passed in 1s", {"stdout": "3 passed in 1s", "backgroundTaskId": "b1"}),
    ],
)
def test_a_command_that_was_moved_to_the_background_has_not_passed(
    text: str, copy: dict[str, str] | None, tmp_path: Path
) -> None:
    """Its result says so, perhaps behind what it had printed, or only the copy for the screen does."""
    use = {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "pytest -q"}}
    call = {"type": "assistant", "message": {"role": "assistant", "id": "m", "content": [use]}}
    result = said([{"type": "tool_result", "tool_use_id": "t", "content": text}])
    result |= {"toolUseResult": copy} if copy else {}
    path = claude_thread(tmp_path, said("Go", **TYPED), call, result)
    for rows in (path.read_text(), path.read_text().replace(": ", ":").replace(", ", ",")):
        path.write_text(rows)
        thread = adapter("claude").read(path)
        (made,) = (entry.tool for entry in thread.entries if entry.tool)

        assert (made.status, made.background) == ("running", "b1")
        assert [work.state for work in thread.background] == ["running"]
        assert [run.result for run in commands.list_runs(thread.entries)] == ["not shown"]


def test_words_behind_an_unknown_element_are_not_surely_the_users() -> None:
    """A mod of a program may write on behind the element that it puts into a conversation."""
    speech = SpeakerGate().judge(f"<app-toolbar>\n  <h1>x</h1>\n</app-toolbar>\n{RULE}")

    assert speech.origin == "harness"


def test_what_a_user_quotes_is_no_rule_of_theirs(tmp_path: Path) -> None:
    """Lines behind the mark of a quote are somebody else's."""
    text = f"> {RULE}\n> You must always push.\n\nThat is what the old wiki says. Never believe it."
    path = ThreadBuilder("pi").user(text).assistant("I see.").write(tmp_path)
    thread = adapter("pi").read(path)
    rules = [rule.text for rule in list_rules(thread, derive_facts(thread).statements)]

    assert rules == ["Never believe it."]
