"""The document of an agent: its path, whether it is there, what it lacks, what is typed."""

import os
import re
import threading
import time
from pathlib import Path

import pytest
from fleet_rows import ID, agent, handoff

from tasuki.config.settings import LoadedSettings, Settings
from tasuki.fleet import prompts
from tasuki.fleet.handoff import documents
from tasuki.fleet.handoff.outgoing_steps import write_from_thread
from tasuki.fleet.store.failures import StepFailed
from tasuki_testing import ThreadBuilder

NOW = 1_760_000_000.0
SLUG = "developer-con-1"


def code(failure: pytest.ExceptionInfo[StepFailed]) -> str:
    """The name of a failure."""
    return failure.value.code


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A path that was reserved for a handoff."""
    return documents.reserve_path(tmp_path, SLUG, "5e55104d-0000", NOW, ID)


def test_fr3_the_path_is_time_and_session(tmp_path: Path, path: Path) -> None:
    """FR3: `data/personas/{slug}/handoffs/{YYYYMMDDTHHmmss}-{first 8 of the session}.md`."""
    stamp = time.strftime("%Y%m%dT%H%M%S", time.localtime(NOW))

    assert path == tmp_path / "data/personas" / SLUG / "handoffs" / f"{stamp}-5e55104d.md"


def test_fr4_the_folder_is_made(path: Path) -> None:
    """FR4: the folder is there for the agent to write into; the document itself is not."""
    assert (path.parent.is_dir(), path.exists()) == (True, False)


def test_two_in_one_second_get_different_names(tmp_path: Path, path: Path) -> None:
    """Two handoffs in one second get different names, reserved exclusively."""
    other = documents.reserve_path(tmp_path, SLUG, "5e55104d-0000", NOW, "f" * 32)

    assert other.name == path.name.replace(".md", "-2.md")


def test_many_at_once_get_different_names(tmp_path: Path) -> None:
    """Whoever asks at the same time, no name is given twice."""
    found: list[Path] = []
    threads = [
        threading.Thread(
            target=lambda n=n: found.append(
                documents.reserve_path(tmp_path, SLUG, "5e55104d", NOW, f"{n:032x}")
            )
        )
        for n in range(24)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(set(found)) == 24


def test_the_same_handoff_gets_its_path_again(tmp_path: Path, path: Path) -> None:
    """After a crash behind the reservation the same handoff gets the same path, at another second."""
    assert documents.reserve_path(tmp_path, SLUG, "5e55104d", NOW + 5, ID) == path


def test_a_folder_that_leads_elsewhere_is_refused(tmp_path: Path) -> None:
    """A persona's folder that is a link out of the root is no place for a document."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "root/data/personas").mkdir(parents=True)
    (tmp_path / "root/data/personas" / SLUG).symlink_to(elsewhere)

    with pytest.raises(StepFailed) as failure:
        documents.reserve_path(tmp_path / "root", SLUG, "5e55104d", NOW, ID)

    assert code(failure) == "document_unsafe"


def test_a_hostile_session_is_no_path(tmp_path: Path) -> None:
    """Of a session's id only letters and digits get into the name."""
    made = documents.reserve_path(tmp_path, SLUG, "../../../etc/passwd", NOW, ID)

    assert re.fullmatch(r"\d{8}T\d{6}-etcpassw\.md", made.name)


def test_fr9_a_missing_document_is_a_failure(path: Path) -> None:
    """FR9: without the file the flow halts, by name."""
    with pytest.raises(StepFailed) as failure:
        documents.read_document(path)

    assert code(failure) == "document_missing"


@pytest.mark.parametrize(
    "content",
    [
        "",
        " \n\t\n",
        "\ufeff",
        "\ufeff \u200b\n",
        "#\n\n##\n",
        "# Handoff\n\n## Next steps\n",
        "\u00a0\n---\n",
        "```\n```",
        "<!-- to be written\nlater -->",
        "# Handoff\n\n1. \n2. \n",
        "> \n- [ ] \n",
        "&nbsp;\n&#8203;\n",
        "\u2800\U000e0041\n",
        "…",
    ],
)
def test_fr10_an_empty_document_is_a_failure(path: Path, content: str) -> None:
    """FR10: an empty file, one of blanks, invisible characters or headings alone is no document anywhere."""
    path.write_text(content, "utf-8")

    with pytest.raises(StepFailed) as failure:
        documents.read_document(path)

    assert (code(failure), documents.is_document_ready(path)) == ("document_empty", False)


@pytest.mark.parametrize(
    "content", ["x", "# A\n\n- b", "#hashtag", "1", "2. 3", "済", "<!-- a --> b"]
)
def test_a_word_is_a_document(path: Path, content: str) -> None:
    """Whatever says something can be used, however little it is."""
    path.write_text(content, "utf-8")

    assert (documents.read_document(path), documents.is_document_ready(path)) == (content, True)


def test_a_document_that_grows_is_waited_for(path: Path) -> None:
    """A file that is still written to is read once it stays as it is."""
    path.write_text("# one\n")

    def grow() -> None:
        with path.open("a") as file:
            for number in range(10):
                file.write(f"line {number}\n")
                file.flush()
                time.sleep(0.1)

    writer = threading.Thread(target=grow)
    writer.start()
    text = documents.read_document(path)
    writer.join()

    assert text.endswith("line 9\n")


def test_a_document_that_never_stays_fails(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that goes on growing is a failure of its own."""
    monkeypatch.setattr(documents, "GROWING_SECONDS", 0.6)
    path.write_text("x")
    stop = threading.Event()

    def grow() -> None:
        while not stop.wait(0.05):
            with path.open("a") as file:
                file.write("x")

    writer = threading.Thread(target=grow)
    writer.start()
    try:
        with pytest.raises(StepFailed) as failure:
            documents.read_document(path)
    finally:
        stop.set()
        writer.join()

    assert code(failure) == "document_growing"


@pytest.mark.parametrize("what", ["link", "folder", "pipe", "huge"])
def test_what_is_no_ordinary_file_is_not_read(tmp_path: Path, path: Path, what: str) -> None:
    """A link, a folder, a pipe or a huge file at the document's path is refused, and not followed."""
    if what == "link":
        secret = tmp_path / "secret"
        secret.write_text("key")
        path.symlink_to(secret)
    elif what == "folder":
        path.mkdir()
    elif what == "pipe":
        os.mkfifo(path)
    else:
        with path.open("wb") as file:
            file.truncate(documents.MOST_BYTES + 1)

    with pytest.raises(StepFailed) as failure:
        documents.read_document(path)

    assert code(failure) == "document_unsafe"


# -- what it lacks ---------------------------------------------------------------------


@pytest.fixture
def thread(tmp_path: Path) -> Path:
    """A thread in which two files were edited and a check failed."""
    built = ThreadBuilder("claude", cwd=str(tmp_path))
    built.user("Make the retries of the upload client configurable, and never touch vendor/")
    built.edit("src/upload/client.py", "RETRIES = 3", "RETRIES = config.retries")
    built.edit("src/upload/config.py", "", "retries: int = 3")
    built.shell("pytest tests/test_client.py", "E   assert 429 == 200\n1 failed", 1)
    built.assistant("The retries are read from the configuration; the 429 path fails still.")
    return built.write(tmp_path / built.file_name())


def test_d12_missing_facts_are_added_under_their_own_heading(path: Path, thread: Path) -> None:
    """D12: what the document lacks is appended from the thread; the agent's words stay to the letter."""
    own = "## What I was working on\n\nThe upload client.\n\n## Next steps\n\n- the 429 path"
    path.write_text(own)
    notes = documents.complete_document(path, agent(thread=str(thread)), handoff())
    text = path.read_text()

    assert text.startswith(own)
    assert documents.ADDED in text
    assert "src/upload/client.py" in text.partition(documents.ADDED)[2]
    assert any("added from the thread" in note for note in notes)


def test_what_tasuki_itself_asked_for_is_no_wish(path: Path, tmp_path: Path) -> None:
    """The document is compared with the thread as it was before it was asked for."""
    built = ThreadBuilder("claude", cwd=str(tmp_path))
    built.user("Never touch the vendor folder, and make the retries configurable")
    built.edit("src/client.py", "3", "config.retries").assistant("Done.")
    built.user(prompts.render_instruction(handoff(), path)).assistant("Written.")
    path.write_text("## What I was working on\n\nThe client.\n")
    thread = built.write(tmp_path / built.file_name())
    documents.complete_document(path, agent(thread=str(thread)), handoff())
    added = path.read_text().partition(documents.ADDED)[2]

    assert ("src/client.py" in added, "change nothing else" in added) == (True, False)


def test_what_was_added_is_not_added_again(path: Path, thread: Path) -> None:
    """After a crash behind the addition the document stays as it is."""
    path.write_text("## What I was working on\n\nThe upload client.\n")
    documents.complete_document(path, agent(thread=str(thread)), handoff())
    before = path.read_bytes()
    documents.complete_document(path, agent(thread=str(thread)), handoff())

    assert path.read_bytes() == before


def test_bytes_of_the_agent_stay(path: Path, thread: Path) -> None:
    """A document that is not quite UTF-8 keeps its bytes in front of what is added."""
    own = b"## What I was working on\n\ncaf\xe9\n"
    path.write_bytes(own)
    documents.complete_document(path, agent(thread=str(thread)), handoff())

    assert path.read_bytes().startswith(own)


def test_a_document_holds_no_secret_of_the_agent_or_of_the_thread(
    path: Path, tmp_path: Path
) -> None:
    """Neither in the agent's words, which stay otherwise, nor in what is added, nor in the notes."""
    token, password, key = "dtn_" + "0a1b2c3d" * 8, "Maple!kq7RtZ2w9", "fw_" + "aB3dE6gH" * 3
    built = ThreadBuilder("claude", cwd=str(tmp_path))
    built.user(f"Never put {token} into a file, and keep the retries configurable in src/client.py")
    built.shell("cat .env", f"DB_PASSWORD={password}").edit("src/client.py", "3", "config.retries")
    built.user(f"Please also deploy it with {token} on Friday evening").assistant("Done.")
    thread = built.write(tmp_path / built.file_name())
    words = (
        "## What I was working on\n\n- it logs in with {} and `deploy --key {}` in src/none.py\n"
    )
    path.write_text(words.format(password, key))
    notes = documents.complete_document(path, agent(thread=str(thread)), handoff())
    text = path.read_text()

    assert text.startswith(words.format("[REDACTED:password]", "[REDACTED:service-token]"))
    assert documents.ADDED in text
    assert any("Secrets redacted in the document" in note for note in notes)
    assert all(secret[4:16] not in text + repr(notes) for secret in (token, password, key))


def test_without_its_thread_a_document_is_kept_and_that_is_told(path: Path, tmp_path: Path) -> None:
    """A thread that is gone keeps no document back; the operator is told that it was not checked."""
    path.write_text("# Handoff\n\nAll is said.\n")
    notes = documents.complete_document(path, agent(thread=str(tmp_path / "gone.jsonl")), handoff())

    assert "could not be checked" in notes[0]


def test_d16_a_document_from_the_thread_says_so(path: Path, thread: Path) -> None:
    """D16: what is written from the thread is marked as such and holds what the thread says."""
    author, _ = write_from_thread(
        path, agent(thread=str(thread)), handoff(from_thread=True), LoadedSettings(Settings())
    )
    text = path.read_text()

    assert author == "thread (offline)"
    assert "The agent did not write this" in text
    assert "src/upload/client.py" in text


def test_d16_no_word_is_put_into_the_users_mouth(path: Path, thread: Path) -> None:
    """Where nobody gave a goal, the document has none."""
    write_from_thread(path, agent(thread=str(thread)), handoff(), LoadedSettings(Settings()))

    assert "## Goal" not in path.read_text()


def test_d16_without_a_thread_it_fails_by_name(path: Path) -> None:
    """An agent whose thread nobody knows cannot be handed off from it."""
    with pytest.raises(StepFailed) as failure:
        write_from_thread(path, agent(), handoff(), LoadedSettings(Settings()))

    assert code(failure) == "thread_missing"


def test_an_answer_that_is_not_written_down_yet_is_waited_for(path: Path, tmp_path: Path) -> None:
    """A harness shows its answer before its thread holds it; a thread of an agent without one is refused at once."""
    whole = ThreadBuilder("claude", cwd=str(tmp_path)).user("Fix the client").assistant("Done.")
    thread = whole.write(tmp_path / whole.file_name())
    text = thread.read_text()
    thread.write_text(text.splitlines(keepends=True)[0])
    writing = threading.Timer(0.3, thread.write_text, [text])
    with pytest.raises(StepFailed) as failure:
        write_from_thread(
            path, agent(thread=str(thread)), handoff(), LoadedSettings(Settings(author="offline"))
        )
    assert code(failure) == "thread_unusable"
    writing.start()
    write_from_thread(
        path,
        agent(thread=str(thread), last_words="Done."),
        handoff(),
        LoadedSettings(Settings(author="offline")),
    )
    assert "Fix the client" in path.read_text()


def test_a_full_disk_is_named_and_the_document_stays(path: Path, thread: Path) -> None:
    """Where the addition finds no room, the document stays whole and the failure says so."""
    import resource

    own = "## What I was working on\n\n" + "words " * 400
    path.write_text(own)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size, before[1]))
    try:
        with pytest.raises(StepFailed) as failure:
            documents.complete_document(path, agent(thread=str(thread)), handoff())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    assert (code(failure), path.read_text()) == ("no_room", own)


# -- what is typed ---------------------------------------------------------------------


def test_fr5_the_instruction_names_what_is_expected(path: Path) -> None:
    """FR5: the path, and work, progress, decisions, blockers, files and next steps."""
    text = prompts.render_instruction(handoff(), path)

    for words in (
        str(path), "first person", "What I was working on", "progress", "decisions made and why",
        "Blockers", "Files modified", "Next steps",
    ):  # fmt: skip
        assert words in text


def test_fr12_the_injection_prompt_points_to_predecessor_and_file(path: Path) -> None:
    """FR12: the predecessor, the file, the task's context, and the line that acknowledges."""
    of = handoff(context="the 429 path first")
    text = prompts.render_injection(of, agent(goal="make retries configurable"), path)

    for words in (
        "agent 7", SLUG, "5e55104d", str(path), "make retries configurable", "the 429 path first",
        "handoff ab12cd34", "context_limit",
    ):  # fmt: skip
        assert words in text


def test_what_is_typed_holds_no_control_characters(path: Path) -> None:
    """A reason with control sequences in it cannot end the paste and press keys."""
    text = prompts.render_instruction(handoff(reason="full\x1b[201~\rrm -rf /\x07"), path)

    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", text)


def test_each_attempt_is_known_by_its_own_words() -> None:
    """The turn of a second attempt is not taken for that of the first."""
    assert prompts.build_reference(handoff()) != prompts.build_reference(handoff(attempt=2))
