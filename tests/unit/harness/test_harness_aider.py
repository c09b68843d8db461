"""aider: the history in a project's folder, what is whose in it, and its edits."""

from pathlib import Path

import pytest
from fixture_threads import by_ref, calls, corpus, one, said, thread_file, unzipped
from handoffs import made

from tasuki.draft.facts import commands
from tasuki.draft.facts.derive import derive_facts
from tasuki.draft.repository.reader import read_repository
from tasuki.errors import ThreadUnreadable, UsageError
from tasuki.harness.protocol import LaunchRequest
from tasuki.harness.registry import detect_harness
from tasuki.model import Entry, FileChange, Thread, ToolCall
from tasuki_aider.adapter import FILE, Aider

START = "\n# aider chat started at 2026-01-05 09:00:01\n\n"


def read() -> Thread:
    """The captured history: five ways to edit, three chats."""
    return Aider().read(one("aider", "chats-0.86.md"))


def tool(thread: Thread, ref: int) -> ToolCall:
    """The call of an entry."""
    call = by_ref(thread, ref).tool
    assert call is not None
    return call


def written(folder: Path, text: str, name: str = FILE) -> Path:
    """A history."""
    path = folder / name
    path.write_bytes(text.encode())
    return path


def test_what_the_user_said_is_there_to_the_letter() -> None:
    """Blanks, quotes, blank lines and headings of a prompt; the prompt of `/ask` only once."""
    assert said(read()) == [
        (2, "typed", 'Please raise the login timeout; keep it under 30 s  and "quote" it'),
        (10, "typed", "/ask what is in src?"),
        (14, "typed", "BAD-EDIT please"),
        (17, "typed", "a multi line\n\n# with heading"),
        (19, "typed", "STEP-SLOW please"),
        (21, "typed", "/undo"),
        (25, "typed", "WHOLE file please, make it 28"),
        (31, "typed", "UDIFF please, make it 29"),
    ]


def test_what_the_model_said_is_told_from_what_aider_says() -> None:
    """Its own headings and quotes are no prompts and no lines of aider; edits are kept apart."""
    assert by_ref(read(), 3).text == (
        "I raise the timeout and add a test.\n\nsrc/login.py\n\ntests/test_timeout.py\n\n"
        "#### A heading of the model's own\n\n> a quote by the model\n\nRun the tests:\n\n"
        '```bash\necho "1 failed: timeout"; false\n```'
    )


def test_edits_files_commits_and_commands_are_calls() -> None:
    """What aider says it did; whose end it does not tell is unknown."""
    assert calls(read()) == [
        (1, "add", "src/login.py", "ok", None),
        (4, "edit", "tests/test_timeout.py", "ok", None),
        (5, "edit", "src/login.py", "ok", None),
        (6, "commit", "git commit -- tests/test_timeout.py src/login.py", "ok", None),
        (7, "run", 'echo "1 failed: timeout"; false', "unknown", None),
        (8, "!", "echo user-run; false", "unknown", None),
        (9, "!", "echo bang", "unknown", None),
        (12, "!", 'python -c "raise SystemExit(2)"', "error", None),
        (24, "add", "src/login.py", "ok", None),
        (27, "edit", "src/login.py", "ok", None),
        (28, "commit", "git commit -- src/login.py", "ok", None),
        (30, "add", "src/login.py", "ok", None),
        (33, "edit", "src/login.py", "ok", None),
        (34, "commit", "git commit -- src/login.py", "ok", None),
    ]
    assert [by_ref(read(), ref).origin for ref in (7, 8, 9, 12)] == ["typed", *["command"] * 3]


def test_every_form_of_edit_is_a_change() -> None:
    """SEARCH/REPLACE, a new file, the whole file, a diff; one that failed is none."""
    thread = read()

    assert tool(thread, 4).changes == (
        FileChange(path="tests/test_timeout.py", kind="create", new="def test_timeout():\n    assert True"),
    )  # fmt: skip
    assert tool(thread, 5).changes == (
        FileChange(path="src/login.py", kind="edit", old="TIMEOUT = 5", new="TIMEOUT = 25"),
    )
    whole = "TIMEOUT = 28\n\n\ndef login():\n    return TIMEOUT"
    assert tool(thread, 27).changes == (FileChange(path="src/login.py", kind="edit", new=whole),)
    assert tool(thread, 33).changes == (
        FileChange(path="src/login.py", kind="edit", old="TIMEOUT = 28", new="TIMEOUT = 29"),
    )
    assert "NOT THERE" not in "".join(
        c.old for e in thread.entries if e.tool for c in e.tool.changes
    )


def test_a_new_chat_knows_nothing_of_the_one_before() -> None:
    """There the view ends, as at `/clear`, and nobody sums up what was before. The first line is none."""
    thread = read()

    assert [(e.ref, e.text) for e in thread.entries if e.kind == "compaction"] == [
        (22, ""), (23, ""), (29, ""),
    ]  # fmt: skip
    assert [e.ref for e in thread.entries if not e.compacted] == [29, 30, 31, 32, 33, 34]
    assert [by_ref(thread, ref).at for ref in (2, 25, 31)] == [
        "2026-11-22T02:29:09",
        "2026-11-22T02:32:06",
        "2026-11-22T02:32:37",
    ]


def test_interruptions_and_failed_edits_are_notices() -> None:
    """aider notes Control-C before the words that had come."""
    noted = [(n.after, n.kind) for n in read().notices if n.kind != "note"]

    assert noted == [(15, "error"), (15, "error"), (19, "interrupted")]
    assert by_ref(read(), 20).text.startswith("SLOW-START")
    assert not read().aborted


def test_model_version_and_context_are_those_of_the_last_chat() -> None:
    """Tokens sent and received with the last answer."""
    thread = read()

    assert (thread.model, thread.version) == ("openai/fake-model", "0.86.2")
    assert thread.context_tokens == 1236


def test_commits_are_known_to_the_brief() -> None:
    """`Commit <hash> <subject>` is a commit as much as git's own line."""
    found = derive_facts(read()).facts

    assert [q.text for q in found.revision.commits] == [
        "5d3b1a4 fix: raise the login timeout",
        "a0f3c90 Here is the file.",
        "865be0a As a diff.",
    ]
    assert [(c.hash, c.gone) for c in found.repository.commits] == [
        ("5d3b1a4", False),
        ("a0f3c90", False),
        ("865be0a", False),
    ]


def test_a_commit_is_of_the_files_that_aider_named(tmp_path: Path) -> None:
    """What it could not commit stays uncommitted when a later commit is of another file."""
    edits = "".join(
        f"{name}\n<source>python\n<<<<<<< SEARCH\nold\n=======\nnew\n>>>>>>> REPLACE\n</source>\n\n"
        for name in ("a.py", "b.py")
    )
    text = (
        f"{START}#### Fix both  \n\n{edits}> Applied edit to a.py  \n> Applied edit to b.py  \n"
        "> Unable to commit: Cmd('git') failed due to: exit code(128)  \n> cmdline: git commit -m fix -- a.py b.py  \n\n"
        "#### And a  \n\nSo.\n\n> Committing a.py before applying edits.  \n> Commit 1a2b3c4 fix: a  \n"
    )
    thread = Aider().read(written(tmp_path, text))

    assert [c.new for e in thread.entries if e.tool for c in e.tool.changes] == ["new", "new"]
    assert derive_facts(thread).facts.uncommitted == ("b.py",)


def test_a_text_that_speaks_of_a_commit_makes_none() -> None:
    """Only what aider itself says of its commit counts, not what a command prints."""
    call = ToolCall("", "Bash", "shell", command="cat notes.md", output="Commit 5d3b1a4 fix: raise", status="ok")  # fmt: skip

    assert read_repository([Entry(ref=1, kind="tool", tool=call)]).commits == ()


def test_a_command_of_unknown_end_is_neither_passed_nor_failed(tmp_path: Path) -> None:
    """Nothing is claimed about a check whose output and exit code nobody wrote down."""
    text = f"{START}\n#### Go on  \n\nI run it.\n\n> Running pytest -q  \n"
    runs = commands.list_runs(Aider().read(written(tmp_path, text)).entries)

    assert [c.result for c in commands.find_last_checks(runs)] == ["not shown"]
    assert [(c.command, c.known) for c in commands.build_command_facts(runs)] == [
        ("pytest -q", False)
    ]


def test_several_lines_of_aiders_own_are_one(tmp_path: Path) -> None:
    """Only the first has the mark, and only the last the blanks at its end; or all have the blanks."""
    text = f"{START}#### /map  \n> Here are files:\n\nsrc/a.py:\n    \n│def a()  \n\n#### Fix a  \n\nDone.\n"
    thread = Aider().read(written(tmp_path, text))

    assert [(e.kind, e.text) for e in thread.entries] == [("user", "Fix a"), ("assistant", "Done.")]
    assert thread.notices[-1].text == "Here are files:\n\nsrc/a.py:\n    \n│def a()"

    asks = "> touch .env    \necho A=1 >> .env  \n> Run shell commands? (Y)es/(N)o [Yes]: n  \n"
    asked = Aider().read(written(tmp_path, f"{START}#### Fix a  \n\nDone.\n\n{asks}\n#### No  \n"))

    assert [e.text for e in asked.entries] == ["Fix a", "Done.", "No"]
    assert [n.text for n in asked.notices][-1].endswith(": n")


def test_a_history_that_an_editor_cleaned_is_read(tmp_path: Path) -> None:
    """Where no line ends in blanks, the marks alone count, outside of code."""
    text = f"{START}> Aider v0.50\n\n#### Fix it\n#### please\n\nLike so:\n\n```md\n#### No prompt\n> no line\n```\n\n> Applied edit to a.py\n"
    thread = Aider().read(written(tmp_path, text))

    assert said(thread) == [(1, "typed", "Fix it\nplease")]
    assert by_ref(thread, 2).text == "Like so:\n\n```md\n#### No prompt\n> no line\n```"
    assert calls(thread) == [(3, "edit", "a.py", "ok", None)]


def test_windows_line_ends_and_a_byte_order_mark_are_read(tmp_path: Path) -> None:
    """And offsets are those of the file's own bytes."""
    text = f"\ufeff{START}#### Fix it  \n#### now  \n\nDone.\n".replace("\n", "\r\n")
    path = written(tmp_path, text)
    thread = detect_harness(path).read(path)

    assert [(e.text, e.offset) for e in thread.entries] == [
        ("Fix it\nnow", path.read_bytes().index(b"#### Fix")),
        ("Done.", path.read_bytes().index(b"Done.") - 2),
    ]


@pytest.mark.parametrize(
    "text",
    ["# notes\n", "# Chat\n\n#### Heading\n\n> quote  \n", "#### A heading  \n", "a # aider chat started at noon"],
)  # fmt: skip
def test_other_markdown_is_no_history(tmp_path: Path, text: str) -> None:
    """A file of another name must begin as aider begins one."""
    path = written(tmp_path, text, "README.md")

    assert not Aider().is_thread_file(path, path.read_bytes())
    with pytest.raises(ThreadUnreadable, match=r"README\.md holds no chat of aider"):
        Aider().read(path)


@pytest.mark.parametrize(
    "text", ["\0" * 999, "> \n" * 5000, "<<<<<<< SEARCH\n" * 5000, "```\n" * 5001, "#### \n" * 99, "x" * 999_999]
)  # fmt: skip
def test_any_text_behind_the_first_line_is_read(tmp_path: Path, text: str) -> None:
    """Nothing in a history stops the reader, and it stays quick."""
    path = written(tmp_path, f"{START}#### Go  \n\n{text}\n> Applied edit to a.py  \n")

    assert said(Aider().read(path))[0] == (1, "typed", "Go")


# -- files ---------------------------------------------------------------------------------


def test_the_history_of_a_project_is_that_of_its_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looked for upwards, as far as the repository goes; another file may be named."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("AIDER_CHAT_HISTORY_FILE", raising=False)
    below = tmp_path / "proj" / "src"
    below.mkdir(parents=True)
    (tmp_path / "proj" / ".git").mkdir()
    path = written(tmp_path / "proj", f"{START}#### Go  \n")
    written(tmp_path, f"{START}#### Out of reach  \n")

    assert [f.path for f in Aider().list_files(below)] == [path]
    monkeypatch.chdir(below)
    assert [f.path for f in Aider().list_files()] == [path]
    monkeypatch.setenv("AIDER_CHAT_HISTORY_FILE", str(written(tmp_path, START, "chats.md")))
    assert [f.path.name for f in Aider().list_files(below)] == ["chats.md", FILE]


def test_the_id_is_that_of_the_folder(tmp_path: Path) -> None:
    """The same by whatever way the folder is named, and the same tomorrow."""
    path = written(tmp_path, f"{START}#### Go  \n")
    link = tmp_path.parent / f"{tmp_path.name}-link"
    link.symlink_to(tmp_path)
    thread = Aider().read(path)

    assert thread.id.startswith("aider-")
    assert len(thread.id) == len("aider-") + 8
    assert Aider().read(link / FILE).id == thread.id
    assert thread.cwd == str(tmp_path)


def test_the_head_of_a_long_history_tells_the_newest_chat(tmp_path: Path) -> None:
    """The beginning of the file says whose it is, its end what was said last."""
    filler = "".join(f"\n#### Question {n}  \n\n{'Answer ' * 40}\n\n" for n in range(600))
    text = (
        f"{START}{filler}# aider chat started at 2026-02-01 08:00:00\n\n#### Now this  \n\nYes.\n"
    )
    head = Aider().read_head(thread_file(written(tmp_path, text)))

    assert head is not None
    assert (head.first_words, head.messages) == ("Now this", None)
    assert Aider().read_head(thread_file(written(tmp_path, "# aider chat\n"))) is None


def test_no_successor_is_started_in_aider(tmp_path: Path) -> None:
    """The error names harnesses that can; the way back names the history itself."""
    request = LaunchRequest(handoff=made(), brief="b", context="c", cwd=str(tmp_path))

    with pytest.raises(UsageError, match="--to claude"):
        Aider().plan(request)
    assert Aider().build_resume_command(Thread(harness="aider", id="x", path="/p/h.md")) == (
        "aider",
        "--chat-history-file",
        "/p/h.md",
        "--restore-chat-history",
    )


@pytest.mark.parametrize("path", corpus("aider"), ids=lambda p: p.parent.name[:20])
def test_threads_of_the_corpus_read_whole(path: Path, tmp_path: Path) -> None:
    """Prompts, edits and chats are as many as the marks of a real history say."""
    file = unzipped(path, tmp_path)
    thread = detect_harness(file).read(file)
    lines = file.read_text().splitlines()
    applied = [line for line in lines if line.startswith("> Applied edit to ")]

    assert thread.harness == "aider"
    assert len([c for c in calls(thread) if c[1] == "edit"]) == len(applied)
    assert sum(e.kind == "compaction" for e in thread.entries) == 5
    typed = [text for _, _, text in said(thread) if not text.startswith("/")]
    prompts = {line[4:].strip() for line in lines if line.startswith("####")}
    assert {line.strip() for text in typed for line in text.split("\n")} <= prompts
    prose = "".join(e.text for e in thread.entries if e.kind == "assistant")
    assert ">>>>>>> REPLACE" not in prose
