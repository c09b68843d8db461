"""The contracts that every harness adapter must keep, except those on plans.

A contract takes a `Trial` and raises AssertionError. Those on broken input change the units
of copies of the samples; those on content read the `story`, which holds known events.
"""

import contextlib
from pathlib import Path

from tasuki.draft.claims.lookup import find_occurring
from tasuki.errors import ThreadUnreadable
from tasuki.harness.protocol import CallerIdentity
from tasuki.model import Entry, Thread
from tasuki_testing.builder import STORY_SUMMARY, STORY_TODOS
from tasuki_testing.forms import Trial, register_contract

ORIGINS = {"typed", "queued", "channel", "answer", "harness", "command", "handoff", "plan"}
MEGABYTE = 1_000_000


# -- what a thread contains ----------------------------------------------------------------


@register_contract(1)
def check_knows_its_files(trial: Trial) -> None:
    """A harness recognises its own files by their first 8 KiB, and no others."""
    for path in (*trial.samples, trial.story):
        assert trial.harness.is_thread_file(path, trial.read_head(path)), path.name
    for other in (b"", b"{}\n", b'{"messages":[]}', b"# notes\n", b"\x00\x01\x02"):
        assert not trial.harness.is_thread_file(Path("/x/notes.txt"), other), other


@register_contract(2)
def check_thread_identity(trial: Trial) -> None:
    """A thread has its harness, id, path, folder, sources and both times."""
    for path in (*trial.samples, trial.story):
        thread = trial.read(path)
        assert thread.harness == trial.harness.name, thread.harness
        assert thread.id and thread.cwd, path.name
        assert thread.path == str(path), thread.path
        assert str(trial.form.file(path)) in thread.sources, thread.sources
        assert "" < thread.started <= thread.updated, (thread.started, thread.updated)


@register_contract(3)
def check_numbers_entries(trial: Trial) -> None:
    """Refs begin at 1 or later, are unique, and grow; abandoned entries keep theirs."""
    for path in (*trial.samples, trial.story):
        thread = trial.read(path)
        refs = [e.ref for e in thread.entries]
        assert refs == sorted(set(refs)), path.name
        assert not refs or refs[0] >= 1, path.name
        assert not refs or refs[-1] <= len(refs) + thread.abandoned, path.name


@register_contract(4)
def check_never_renumbers(trial: Trial) -> None:
    """Appending to a file changes no earlier ref."""
    for path in (*trial.samples, trial.story):
        lines = trial.form.units(path)
        alone = trial.write_copy(lines, path)
        whole = {e.ref: _build_identity(e) for e in trial.read(alone).entries}
        for part in (len(lines) // 3, len(lines) // 2, len(lines) - 2):
            prefix = trial.write_copy(lines[: max(part, 2)], path)
            with contextlib.suppress(ThreadUnreadable):
                for entry in trial.read(prefix).entries:
                    known = whole.get(entry.ref, _build_identity(entry))
                    assert known == _build_identity(entry), f"#{entry.ref} of {path.name}"


@register_contract(5)
def check_kinds_and_origins(trial: Trial) -> None:
    """Every entry has its kind's content, and user entries an origin."""
    for path in (*trial.samples, trial.story):
        for entry in trial.read(path).entries:
            assert entry.kind in ("user", "assistant", "tool", "compaction"), entry.kind
            assert entry.origin in ORIGINS, entry.origin
            assert (entry.tool is not None) == (entry.kind == "tool"), entry.ref
            assert entry.text.strip() or entry.kind in ("tool", "compaction"), entry.ref
            assert entry.tool is None or entry.tool.name, entry.ref
    user_entries = [(e.origin, e.text) for e in trial.read(trial.story).entries if e.kind == "user"]
    typed = [text for origin, text in user_entries if origin == "typed"]
    assert typed == ["Please fix the login timeout; keep it under 30 s — not more", "Go on"], (
        user_entries
    )
    assert user_entries[0][0] == "handoff", user_entries[0]


@register_contract(6)
def check_keeps_user_words(trial: Trial) -> None:
    """What the user typed is kept verbatim."""
    for path in (*trial.samples, trial.story):
        thread = trial.read(path)
        texts = [e.text for e in thread.entries if e.kind == "user" and e.origin == "typed"]
        lines = {line for t in texts if not t.startswith("/") for line in t.splitlines() if line}
        # The suffix is that of the file, so that its copy is searched alike.
        flat_name = Path(f"flat{trial.form.file(path).suffix}")
        flat = trial.write_raw(b"".join(trial.form.units(path)), flat_name)
        flats = [str(flat), *(s for s in thread.sources if s != str(trial.form.file(path)))]
        assert not lines - find_occurring(flats, lines), path.name


@register_contract(7)
def check_ties_calls_to_results(trial: Trial) -> None:
    """A call holds its command, output, exit code and status."""
    failed, passed = _find_story_calls(trial, "pytest")
    assert failed.tool and passed.tool
    kinds = (failed.tool.kind, passed.tool.kind)
    assert kinds == ("shell",) * 2, f"{failed.tool.name!r} is of kind {kinds[0]!r}, not 'shell'"
    assert failed.tool.command == "pytest -q tests/test_login.py", failed.tool.command
    assert "1 failed: timeout" in failed.tool.output, failed.tool.output
    assert (failed.tool.status, failed.tool.exit_code) == ("error", 1), failed.tool.status
    assert (passed.tool.status, passed.tool.exit_code) == ("ok", 0), passed.tool.status


@register_contract(8)
def check_shows_changes(trial: Trial) -> None:
    """Edits and new files have paths and texts."""
    calls = [e.tool for e in trial.read(trial.story).entries if e.tool]
    changes = [c for call in calls for c in call.changes]
    assert [c.path for c in changes] == ["src/login.py", "tests/test_timeout.py"], changes
    assert [c.kind for c in changes] == ["edit", "create"], changes
    assert (changes[0].old, changes[0].new) == ("TIMEOUT = 5", "TIMEOUT = 25"), changes[0]
    assert changes[1].new.startswith("def test_timeout"), changes[1]


@register_contract(9)
def check_shows_todos(trial: Trial) -> None:
    """A todo list or plan has the state of each item."""
    lists = [e.tool.todos for e in trial.read(trial.story).entries if e.tool and e.tool.todos]
    assert lists, "no todos"
    assert [t.text for t in lists[-1]] == [text for text, _ in STORY_TODOS], lists[-1]
    assert [t.status for t in lists[-1]] == ["done", "in_progress", "pending"], lists[-1]


@register_contract(10)
def check_marks_compacted(trial: Trial) -> None:
    """Entries before the last compaction are kept, and marked; it holds its summary."""
    for path in (*trial.samples, trial.story):
        entries = trial.read(path).entries
        last = max((i for i, e in enumerate(entries) if e.kind == "compaction"), default=0)
        assert [e.compacted for e in entries] == [i < last for i in range(len(entries))], path.name
    entries = trial.read(trial.story).entries
    summary = next((e for e in entries if e.kind == "compaction"), None)
    assert summary is not None and STORY_SUMMARY in summary.text, "no summary"
    assert sum(e.compacted for e in entries) == 4, [e.ref for e in entries if e.compacted]


@register_contract(11)
def check_notes_interruptions(trial: Trial) -> None:
    """An interruption is a notice at its place, and `aborted` if nothing followed."""
    thread = trial.read(trial.story)
    marks = [n.after for n in thread.notices if n.kind == "interrupted"]
    going_on = next(e.ref for e in thread.entries if e.text == "Go on")
    assert marks == [going_on - 1], marks
    assert not thread.aborted
    lines = trial.form.units(trial.story)
    later = next(i for i, line in enumerate(lines) if b"Go on" in line)
    cut = later - 1 if b'"task_started"' in lines[later - 1] else later
    assert trial.read(trial.write_copy(lines[:cut], trial.story)).aborted, "not aborted"


@register_contract(12)
def check_knows_running(trial: Trial) -> None:
    """Sub-agents and background commands have their state."""
    thread = trial.read(trial.story)
    agents = [b.state for b in thread.background if b.kind == "agent"]
    assert agents == ["done"], agents
    (server,) = _find_story_calls(trial, "npm")
    assert server.tool and server.tool.status == "running", server.tool
    commands = [b for b in thread.background if b.kind == "command"]
    assert all(b.state == "running" and b.ref == server.ref for b in commands), commands


@register_contract(13)
def check_separates_sidechains(trial: Trial) -> None:
    """A sub-agent's own words are not entries of the thread."""
    for entry in trial.read(trial.story).entries:
        assert "SIDECHAIN-WORDS" not in entry.text, entry.ref
    for path in trial.samples:
        thread = trial.read(path)
        assert thread.path not in [s.path for s in thread.sidechains], path.name


# -- damaged files -------------------------------------------------------------------------


@register_contract(14)
def check_reports_unknown_lines(trial: Trial) -> None:
    """A line of an unknown type is counted and changes nothing else."""
    for path in trial.samples:
        lines = trial.form.units(path)
        before = trial.read(trial.write_copy(lines, path))
        lines.insert(len(lines) // 2, trial.form.strange)
        after = trial.read(trial.write_copy(lines, path))
        counted = sum(after.report.unknown.values()) - sum(before.report.unknown.values())
        assert counted == 1, after.report.unknown
        assert _list_entries(after) == _list_entries(before), path.name


@register_contract(15)
def check_survives_broken_lines(trial: Trial) -> None:
    """A broken line is skipped and reported with its number."""
    for path in trial.samples:
        lines = trial.form.units(path)
        before = trial.read(trial.write_copy(lines, path))
        index = len(lines) // 2
        lines.insert(index, trial.form.broken)
        after = trial.read(trial.write_copy(lines, path))
        found = [b.line for b in after.report.broken]
        assert found == [index + 1], f"broken lines {found}, not [{index + 1}], the unit put in"
        assert after.report.broken[0].reason, "no reason"
        assert _list_entries(after) == _list_entries(before), path.name


@register_contract(16)
def check_accepts_truncated_tail(trial: Trial) -> None:
    """A cut-off last line means that the file is still being written, not that it is broken."""
    for path in trial.samples:
        content = trial.form.file(path).read_bytes().rstrip(b"\n")
        last = len(content.splitlines()[-1])
        thread = trial.read(trial.write_raw(content[: len(content) - last // 2], path))
        report, where = thread.report, f"{path.name} cut in its last line"
        assert report.truncated_tail, f"`truncated_tail` is false: {where}"
        assert not report.broken, f"the cut line is reported as broken: {report.broken}"


@register_contract(17)
def check_survives_foreign_bytes(trial: Trial) -> None:
    """Bytes that are not UTF-8 lose neither their line nor its neighbours."""
    before = trial.read(trial.story)
    after = trial.read(_write_reworded(trial, b"look \xff\xfe the code"))
    assert not after.report.broken, after.report.broken
    assert len(after.entries) == len(before.entries), len(after.entries)
    said = next(e.text for e in after.entries if e.kind == "assistant")
    assert said.startswith("I look ") and said.endswith(" the code first."), said


@register_contract(18)
def check_reads_megabyte_line(trial: Trial) -> None:
    """A line of 1 MB is read as one line."""
    thread = trial.read(_write_reworded(trial, b"look " + b"x" * MEGABYTE))
    said = next(e.text for e in thread.entries if e.kind == "assistant")
    assert len(said) >= MEGABYTE, len(said)
    assert not thread.report.broken, thread.report.broken


@register_contract(19)
def check_reports_unreadable(trial: Trial) -> None:
    """A file that is empty, half-written or missing raises ThreadUnreadable with its path."""
    beginning = trial.read_head(trial.samples[0])[:40]
    for content in (b"", b"\n\n", beginning, b"no thread at all\n"):
        _assert_unreadable(trial, trial.write_raw(content, trial.samples[0]))
    _assert_unreadable(trial, trial.folder / "gone.jsonl")
    _assert_unreadable(trial, trial.folder)


@register_contract(20)
def check_never_writes(trial: Trial) -> None:
    """Reading changes neither bytes nor times nor the folder."""
    path = trial.write_copy(trial.form.units(trial.samples[0]), trial.samples[0])
    file = trial.form.file(path)
    before = (file.read_bytes(), file.stat().st_mtime_ns, sorted(file.parent.iterdir()))
    trial.read(path)
    trial.harness.read_head(trial.build_thread_file(path))
    after = (file.read_bytes(), file.stat().st_mtime_ns, sorted(file.parent.iterdir()))
    assert after == before, path.name


@register_contract(21)
def check_head_matches_thread(trial: Trial) -> None:
    """A head agrees with the thread: id, folder, name, first words."""
    for path in (*trial.samples, trial.story):
        thread = trial.read(path)
        head = trial.harness.read_head(trial.build_thread_file(path))
        assert head is not None, path.name
        assert (head.harness, head.id, head.cwd) == (thread.harness, thread.id, thread.cwd), head
        assert head.path == str(path) and head.bytes == trial.build_thread_file(path).bytes, head
        said = {" ".join(e.text.split())[:120] for e in thread.entries if e.kind == "user"}
        assert not head.first_words or thread.abandoned or head.first_words in said, head
    for content in (b"", b"\xff{\n"):
        file = trial.build_thread_file(trial.write_raw(content, trial.story))
        assert trial.harness.read_head(file) is None


@register_contract(25)
def check_resumes_thread(trial: Trial) -> None:
    """A resume command names the thread; a skill command begins with its sign. Both may be empty."""
    thread = trial.read(trial.story)
    if command := trial.harness.build_resume_command(thread):
        assert command[0] == trial.harness.program, command
        assert any(thread.id in part or thread.path in part for part in command[1:]), command
    skill = trial.harness.format_skill_command("review")
    assert not skill or (skill[0] in "/$@" and skill.endswith("review")), skill


@register_contract(26)
def check_lists_existing(trial: Trial) -> None:
    """Listing threads works in every folder, and names existing files; the adapter names itself."""
    for folder in (None, trial.folder):
        for file in trial.harness.list_files(folder):
            assert trial.form.file(file.path).exists(), file
    assert trial.harness.name and trial.harness.title, "no name or no title"
    assert isinstance(trial.harness.caller, CallerIdentity), "`caller` is no Caller"
    folders = trial.harness.list_skill_folders(trial.folder)
    assert isinstance(folders, tuple), "`skill_folders` is no tuple"


def _build_identity(entry: Entry) -> tuple[str, str, str, str]:
    tool = entry.tool
    return entry.kind, entry.text, tool.id if tool else "", tool.command if tool else ""


def _list_entries(thread: Thread) -> list[tuple[int, str, str]]:
    return [(e.ref, e.kind, e.text) for e in thread.entries]


def _find_story_calls(trial: Trial, program: str) -> list[Entry]:
    entries = trial.read(trial.story).entries
    return [e for e in entries if e.tool and e.tool.command.startswith(program)]


def _assert_unreadable(trial: Trial, path: Path) -> None:
    try:
        trial.read(path)
    except ThreadUnreadable as exc:
        assert str(path) in str(exc), exc
    else:
        raise AssertionError(f"{path.name} was read")


def _write_reworded(trial: Trial, words: bytes) -> Path:
    """Write the story with other words of the assistant."""
    units = trial.form.units(trial.story)
    return trial.write_copy([u.replace(b"look at the code", words) for u in units], trial.story)
