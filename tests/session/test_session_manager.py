"""Sessions that tasuki keeps: the tree, what the model is shown of it, and those of others."""

import os
import shutil
from contextlib import closing
from pathlib import Path

import pytest
from fixture_threads import one
from session_files import (
    build_context_at,
    compact,
    edit,
    go_back,
    lines,
    make_artifact,
    say,
    session,
    succeed,
)

from tasuki.errors import ThreadUnreadable
from tasuki.harness.pi_v3.adapter import Pi
from tasuki.session.pi_store.manager import SessionManager, get_default_folder, list_sessions
from tasuki.session.pi_store.messages import (
    Json,
    build_assistant_message,
    build_model_messages,
    build_text_block,
    build_tool_call,
    build_tool_result,
    build_user_message,
    extract_text,
)
from tasuki.typed_prompts import HANDOFF_CLOSING

__all__ = ["session"]


def said(messages: list[Json]) -> list[tuple[str, str]]:
    """Roles and texts as the model gets them."""
    return [(m["role"], extract_text(m)) for m in build_model_messages(messages)]


# -- the tree and what the model is shown --------------------------------------------------


def test_nothing_is_on_the_disk_before_the_first_flush(session: SessionManager) -> None:
    """A session that was never flushed leaves no trace; then its file is whole and the user's."""
    say(session, "one", "two")

    assert not session.folder.exists()
    assert not session.has_file
    session.flush()
    header, first, second = lines(session)
    assert header["type"] == "session"
    assert (header["id"], header["version"]) == (session.id, 3)
    assert (first["parentId"], second["parentId"]) == (None, first["id"])
    assert session.path.stat().st_mode & 0o777 == 0o600
    assert session.folder.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in session.folder.iterdir()] == [session.path.name]


def test_every_entry_is_in_the_file_before_it_counts(session: SessionManager) -> None:
    """After the first flush each entry is one line more, linked to the leaf."""
    session.flush()
    ids = say(session, "one", "two")
    ids.append(session.append_custom_message("handoff", "the past", {"a": 1}))

    assert [record["id"] for record in lines(session)[1:]] == ids
    assert [record["parentId"] for record in lines(session)[1:]] == [None, *ids[:-1]]
    assert session.tree.leaf == ids[-1]
    assert session.count_messages() == 2


def test_what_was_written_is_read_again(session: SessionManager) -> None:
    """Header, entries, leaf and context are the same in a process that opens the file."""
    say(session, "one", "two")
    session.flush()
    session.append_entry("model_change", provider="anthropic", modelId="claude")
    session.append_entry("label", targetId=session.tree.entries[0]["id"], label="here")
    session.append_custom_entry("notes", {"secret": "never shown"})
    session.close()

    again = SessionManager.open(session.path)

    assert again.header == session.header
    assert again.tree.entries == session.tree.entries
    assert again.tree.leaf == session.tree.leaf
    assert again.build_session_context() == session.build_session_context()
    assert said(again.build_session_context()) == [("user", "one"), ("assistant", "two")]
    assert again.notes == []


def test_a_branch_leaves_the_other_one_in_the_file(session: SessionManager) -> None:
    """Going back hangs the next entry there; the summary of what was left speaks to the model."""
    first, second, third, _ = say(session, "one", "two", "three", "four")
    session.tree.leaf = second
    other = say(session, "another three")[0]

    assert [entry["id"] for entry in session.tree.get_branch()] == [first, second, other]
    assert len(session.tree.entries) == 5
    go_back(session, first, "Three was tried.")
    assert said(session.build_session_context())[0] == ("user", "one")
    assert "Three was tried." in said(session.build_session_context())[1][1]
    assert session.tree.entries[-1]["fromId"] == other
    assert [text for _, text in said(build_context_at(session, third))] == ["one", "two", "three"]
    session.tree.leaf = None
    assert session.tree.get_branch() == []


def test_a_compaction_keeps_its_summary_and_its_tail(session: SessionManager) -> None:
    """The model gets the newest summary first, then what was kept, then what came after."""
    ids = say(session, "one", "two", "three", "four")
    compact(session, "The first half.", ids[1])
    say(session, "five")
    compact(session, "All of it.", ids[2])
    say(session, "six")

    shown = said(session.build_session_context())

    assert "<summary>\nAll of it.\n</summary>" in shown[0][1]
    assert shown[1:] == [
        ("user", "three"), ("assistant", "four"), ("user", "five"), ("user", "six"),
    ]  # fmt: skip


def test_a_compaction_that_keeps_nothing_stands_alone(session: SessionManager) -> None:
    """A compaction of pi that names itself as the first kept entry keeps none; of those kept, the
    system prompt is left out, for the compaction holds a newer one."""
    system = session.append_message({"role": "system", "content": "old prompt"})
    say(session, "one", "two")
    id = compact(session, "All of it.", system)
    shown = said(session.build_session_context())
    assert [role for role, _ in shown] == ["user", "user", "assistant"]

    session.tree.by_id[id]["firstKeptEntryId"] = id

    assert len(session.build_session_context()) == 1


def test_edits_of_the_context_are_respected(session: SessionManager) -> None:
    """An entry that was edited out is not shown, another is shown with other words."""
    ids = say(session, "one", "failed attempt", "two", "long answer")
    edit(session, ids[1], None)
    edit(session, ids[3], "short answer")

    assert said(session.build_session_context()) == [
        ("user", "one"), ("user", "two"), ("assistant", "short answer"),
    ]  # fmt: skip
    assert extract_text(session.tree.entries[3]["message"]) == "long answer"


def test_the_users_own_commands_reach_the_model_unless_hidden(session: SessionManager) -> None:
    """A command is told with its output and exit code; one behind `!!` is not."""
    command = {"role": "bashExecution", "command": "false", "output": "no", "exitCode": 1}
    session.append_message(command)
    session.append_message({**command, "excludeFromContext": True})

    assert said(session.build_session_context()) == [
        ("user", "Ran `false`\n```\nno\n```\n\nCommand exited with code 1")
    ]


def test_the_pi_adapter_reads_what_was_written(session: SessionManager) -> None:
    """Texts, calls with their results and the model are in the thread that the adapter makes."""
    say(session, "read the notes")
    call = build_tool_call("c1", "bash", {"command": "cat notes.txt"})
    session.append_message(
        build_assistant_message(
            [build_text_block("I look."), call], provider="p", model="m", stop="toolUse"
        )
    )
    session.append_message(build_tool_result("c1", "bash", "remember the milk"))
    session.append_custom_message("handoff", "<handoff-context>")
    session.flush()

    thread = Pi().read(session.path)

    assert [(e.kind, e.text) for e in thread.entries if e.kind != "tool"] == [
        ("user", "read the notes"), ("assistant", "I look."), ("user", "<handoff-context>"),
    ]  # fmt: skip
    (tool,) = [e.tool for e in thread.entries if e.tool]
    assert (tool.command, tool.output, tool.status) == ("cat notes.txt", "remember the milk", "ok")
    assert thread.model == "p/m"
    assert thread.report.unknown == {}
    assert thread.entries[-1].origin == "handoff"


# -- files of others -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["headless-pi73", "headless-pi87", "headless-pi15"])
def test_sessions_of_pi_are_opened_and_continued(name: str, tmp_path: Path) -> None:
    """What pi wrote is read, and what is added hangs on its last entry."""
    path = Path(shutil.copy(one("pi", f"{name}.jsonl"), tmp_path))
    before = path.read_bytes()
    with closing(SessionManager.open(path)) as session:
        leaf = session.tree.leaf
        session.append_message(build_user_message("and on"))

    assert path.read_bytes().startswith(before)
    assert session.tree.entries[-1]["parentId"] == leaf
    assert Pi().read(path).entries[-1].text == "and on"
    assert Pi().read(path).report.broken == ()


def test_a_branch_of_pi_is_the_context(tmp_path: Path) -> None:
    """Of a session with a compaction and two branches, the model gets the one of the last line."""
    session = SessionManager.open(one("pi", "tui15-compaction-branch-label.jsonl"))
    roles = [m["role"] for m in session.build_session_context()]

    assert roles == [
        "system", "user", "assistant", "toolResult", "assistant", "toolResult", "assistant",
        "branchSummary", "user", "assistant", "toolResult", "assistant",
    ]  # fmt: skip
    (label,) = [entry for entry in session.tree.entries if entry["type"] == "label"]
    left = build_context_at(session, label["id"])
    assert [m["role"] for m in left][:3] == ["compactionSummary", "assistant", "toolResult"]
    assert "STEP-ONE please" not in str(left)
    assert "FAKE-SUMMARY-MARKER" in left[0]["summary"]


def test_records_written_twice_count_once() -> None:
    """pi 0.73 adds header and entries again; they are the same entries."""
    session = SessionManager.open(one("pi", "handwritten-pi73-after.jsonl"))

    ids = [entry["id"] for entry in session.tree.entries]
    assert len(ids) == len(set(ids))
    assert [role for role, _ in said(session.build_session_context())] == [
        "user", "user", "assistant",
    ]  # fmt: skip


def test_the_first_header_counts(session: SessionManager) -> None:
    """A file has one header; what looks like another one further down is passed over."""
    session.flush()
    session.close()
    with session.path.open("a") as file:
        file.write('{"type":"session","version":3,"id":"another","cwd":"/elsewhere"}\n')

    assert SessionManager.open(session.path).header == session.header


def test_the_title_of_omp_is_no_entry() -> None:
    """A session of omp begins with a title slot, before its header."""
    session = SessionManager.open(one("omp", "headless.jsonl"))

    assert session.id
    assert all(entry["type"] != "title" for entry in session.tree.entries)
    assert said(session.build_session_context())[0][0] == "user"


def test_what_is_no_session_is_refused(tmp_path: Path) -> None:
    """A file without a header, and one whose entries have no ids, are refused with a reason."""
    path = tmp_path / "no.jsonl"
    path.write_text('{"type":"message","id":"a"}\n')
    with pytest.raises(ThreadUnreadable, match="has no session header"):
        SessionManager.open(path)
    path.write_text('{"type":"session","id":"x","cwd":"/p"}\n{"type":"message"}\n')
    with pytest.raises(ThreadUnreadable, match="version 1"):
        SessionManager.open(path)


# -- a fresh session, and what the old one made --------------------------------------------


def test_a_fresh_session_names_its_parent(session: SessionManager) -> None:
    """It has another header, id and file, no entries and no leaf; the old file stays as it is."""
    say(session, "one", "two")
    session.flush()
    old, content = session.path, session.path.read_bytes()
    session = succeed(session)

    assert session.path != old
    assert (session.tree.entries, session.tree.leaf, session.has_file) == ([], None, False)
    assert not session.path.exists()
    session.append_custom_message("handoff", f"<handoff-context>…\n\n{HANDOFF_CLOSING}")
    session.flush()
    assert lines(session)[0]["parentSession"] == str(old)
    assert [role for role, _ in said(session.build_session_context())] == ["user"]
    assert old.read_bytes() == content


def test_what_failed_after_a_fresh_session_goes_back(session: SessionManager) -> None:
    """The old session is in use again, can be added to, and of the new one nothing is left."""
    say(session, "one", "two")
    session.flush()
    fresh = succeed(session)
    fresh.append_custom_message("handoff", "lost")
    fresh.close()

    say(session, "three")
    assert len(lines(session)) == 4
    assert len(list(session.folder.iterdir())) == 1


def test_what_earlier_sessions_made_stays_readable(session: SessionManager) -> None:
    """A15: plans and scratch files of the sessions before are listed, the newest session's first."""
    make_artifact(session, "plan.md", "first plan")
    session.flush()
    first = session.path
    session = succeed(session)
    session.flush()
    second = session.path
    session = succeed(session)
    make_artifact(session, "plan.md", "third plan")

    assert session.find_lineage() == [second, first]
    assert [(path, path.read_text()) for path in session.list_artifacts()] == [
        (session.path.with_suffix("") / "plan.md", "third plan"),
        (first.with_suffix("") / "plan.md", "first plan"),
    ]


def test_a_lineage_that_bites_its_tail_ends(session: SessionManager) -> None:
    """Files that name each other as parents are each listed once."""
    files = []
    for _ in range(3):
        session.flush()
        files.append(session.path)
        session = succeed(session)
    text = files[0].read_text()
    files[0].write_text(text.replace('"cwd"', f'"parentSession":"{files[1]}","cwd"'))

    assert session.find_lineage() == [files[2], files[1], files[0]]
    assert SessionManager.open(files[1]).find_lineage() == [files[0]]


def test_sessions_are_listed_newest_first(session: SessionManager) -> None:
    """Each with its name and first words; one that holds the handoff alone is listed too."""
    say(session, "first words", "answer")
    session.flush()
    old = session.path
    session = succeed(session)
    session.append_custom_message("handoff", "the past")
    session.flush()
    os.utime(old, (1, 1))

    heads = list_sessions(session.cwd, session.folder)

    assert [(head.path, head.first_words) for head in heads] == [
        (str(session.path), ""), (str(old), "first words"),
    ]  # fmt: skip
    assert [head.id for head in heads][:1] == [session.id]


def test_sessions_lie_in_the_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each working directory has its folder there; one without sessions has none."""
    monkeypatch.setenv("TASUKI_DATA", str(tmp_path))

    assert get_default_folder("/home/me/proj") == tmp_path / "sessions" / "--home-me-proj--"
    assert list_sessions("/home/me/proj") == []
