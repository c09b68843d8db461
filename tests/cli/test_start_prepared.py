"""`tasuki start ID --prepare`: the successor's session file, for a program that runs already."""

import json
import resource
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hooks import ASKED, Session
from msgspec import structs

from tasuki import handoffs
from tasuki.handoffs import create_event, format_now
from tasuki.harness import registry as harnesses
from tasuki.model import Goal
from tasuki.vault import Vault, create_handoff_id

GOAL = "add the missing test for the parser"


class Prepared(Session):
    """A session of pi with a draft of its handoff."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, "pi")
        self.sessions = self.talk().thread.parent

    def run(self, *arguments: str, code: int = 0, **more: Any) -> subprocess.CompletedProcess[str]:
        """Run tasuki in the project; it ends with this code, and not by accident."""
        done = super().run(*arguments, **more)
        assert done.returncode == code, (done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        return done

    def draft(self, goal: str = GOAL) -> dict[str, Any]:
        """Make a draft, as the extension does."""
        made = self.run("handoff", "--from", str(self.thread), "--to", "pi", "--goal-file", "-", "--json",
                        text=goal)  # fmt: skip
        found: dict[str, Any] = json.loads(made.stdout)
        return found

    def prepare(self, id: str, edited: str = "", **more: Any) -> dict[str, Any]:
        """Have the successor's file written."""
        revised = ("--brief-file", "-") if edited else ()
        done = self.run("start", id[:8], "--to", "pi", "--prepare", *revised, text=edited, **more)
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def files(self) -> list[Path]:
        """The successors' files."""
        return [path for path in self.sessions.iterdir() if path != self.thread]

    @property
    def vault(self) -> Vault:
        """Where handoffs are kept."""
        return Vault(self.data / "handoffs")


@pytest.fixture
def session(tmp_path: Path) -> Prepared:
    """A session of pi with one turn."""
    return Prepared(tmp_path)


def test_the_file_holds_the_past_and_the_input_gets_the_goal(session: Prepared) -> None:
    """To the letter; the file names its predecessor, and the event says that it began inside."""
    goal = f'{GOAL}\n  - keep `id`, $HOME and "quotes"; </handoff-context>'
    draft = session.draft(goal)
    ready = session.prepare(draft["id"])

    assert (ready["id"], ready["text"]) == (draft["id"], goal)
    assert [str(path) for path in session.files()] == [ready["thread"]]
    thread = harnesses.get_harness("pi").read(Path(ready["thread"]))
    assert thread.parent == str(session.thread)
    assert ASKED in thread.entries[0].text
    (started,) = [e for e in session.vault.load_events(draft["id"]) if e.kind == "started"]
    assert started.detail["where"] == "inside"


@pytest.mark.parametrize("cut", ["\n## Next Goal (verbatim)\n", "# Handoff Context"])
def test_a_brief_without_its_headings_is_taken_as_it_is(session: Prepared, cut: str) -> None:
    """The user's edit is all there is; the goal stays where no other was said."""
    draft = session.draft()
    ready = session.prepare(draft["id"], draft["brief"].replace(cut, "\nmine: "))

    assert ready["id"] != draft["id"]
    assert ready["text"] == GOAL
    assert "mine: " in Path(ready["thread"]).read_text()


def test_a_goal_that_was_removed_in_the_edit_stays_the_first_one(session: Prepared) -> None:
    """A successor needs one, and it is unsent."""
    draft = session.draft()
    ready = session.prepare(draft["id"], draft["brief"].removesuffix(GOAL))

    assert ready["text"] == GOAL


@pytest.mark.parametrize("edited", ["\n", " \n\t\n", "\n\n\n"])
def test_an_empty_brief_is_refused(session: Prepared, edited: str) -> None:
    """Nothing is written: no file, no revision."""
    draft = session.draft()
    done = session.run("start", draft["id"], "--to", "pi", "--prepare", "--brief-file", "-",
                       text=edited, code=2)  # fmt: skip

    assert "The brief is empty" in done.stderr
    assert session.files() == []
    assert len(session.vault.list_handoffs()) == 1


def test_a_secret_in_an_edited_goal_is_not_handed_on(session: Prepared) -> None:
    """There is nobody to ask; nothing is written, and the draft stays."""
    draft = session.draft()
    done = session.run("start", draft["id"], "--to", "pi", "--prepare", "--brief-file", "-",
                       text=f"{draft['brief']} with AKIAIOSFODNN7EXAMPLE", code=3)  # fmt: skip

    assert "seems to contain a secret" in done.stderr
    assert session.files() == []
    assert len(session.vault.list_handoffs()) == 1


def test_a_secret_in_the_edited_past_is_redacted(session: Prepared) -> None:
    """As in every other brief."""
    draft = session.draft()
    edited = draft["brief"].replace(
        "</record-of-the-past>", "AKIAIOSFODNN7EXAMPLE\n</record-of-the-past>"
    )
    ready = session.prepare(draft["id"], edited)

    assert "AKIAIOSFODNN7EXAMPLE" not in Path(ready["thread"]).read_text()


def test_bytes_that_are_no_text_are_refused(session: Prepared) -> None:
    """The brief is kept to the letter, so none is guessed."""
    draft = session.draft()
    file = session.root / "brief"
    file.write_bytes(b"\xff\xfe")
    done = session.run(
        "start", draft["id"], "--to", "pi", "--prepare", "--brief-file", str(file), code=2
    )

    assert "is not UTF-8 text" in done.stderr
    assert session.files() == []


def test_an_unknown_handoff_is_told(session: Prepared) -> None:
    """With its id."""
    done = session.run("start", "deadbeef", "--to", "pi", "--prepare", code=1)

    assert "deadbeef" in done.stderr


@pytest.mark.parametrize("name", ["claude", "codex", "gemini", "opencode", "copilot"])
def test_a_harness_without_a_file_of_its_own_is_told(session: Prepared, name: str) -> None:
    """It is wrong usage, and the sentence says how it is started."""
    draft = session.draft()
    done = session.run("start", draft["id"], "--to", name, "--prepare", code=2)

    assert f"tasuki start {draft['id'][:8]}" in done.stderr
    assert session.files() == []


def test_a_damaged_brief_in_the_vault_is_told(session: Prepared) -> None:
    """A brief without its goal was not written by tasuki."""
    draft = session.draft()
    (brief,) = session.data.rglob("brief.md")
    brief.chmod(0o600)
    brief.write_text("gone")
    done = session.run("start", draft["id"], "--to", "pi", "--prepare", code=1)

    assert "is damaged" in done.stderr
    assert session.files() == []


def test_a_full_disk_leaves_no_half_file(session: Prepared) -> None:
    """The limit on file sizes stands for the disk; the draft can be started later."""
    draft = session.draft()

    def full() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (600, 600))

    session.env["PYTHONDONTWRITEBYTECODE"] = "1"
    done = session.run("start", draft["id"], "--to", "pi", "--prepare", before=full, code=1)

    assert "cannot be written" in done.stderr
    assert session.files() == []
    session.prepare(draft["id"])


def test_two_at_once_make_two_successors(session: Prepared) -> None:
    """Each has its own file; neither writes into the other's."""
    draft = session.draft()
    with ThreadPoolExecutor(4) as pool:
        ready = list(pool.map(lambda _: session.prepare(draft["id"]), range(4)))

    assert len({one["thread"] for one in ready}) == len(session.files()) == 4
    for path in session.files():
        assert ASKED in harnesses.get_harness("pi").read(path).entries[0].text


def test_what_changed_since_the_draft_is_said_in_the_brief(session: Prepared) -> None:
    """The folder is looked at again when a saved draft is started; the stored brief stays as it was."""
    draft = session.vault.get(session.draft()["id"])
    stored, id = session.vault.load_brief(draft.id), create_handoff_id()
    session.vault.save(structs.replace(draft, id=id, snapshot={"a.py": "gone"}), stored)
    Path(draft.predecessor.cwd, "a.py").write_text("new\n")
    offer = handoffs.load_handoff(session.vault, id)

    assert "## Changed since this brief was written\n- " in offer.brief
    assert "- new: a.py" in offer.context
    assert offer.brief.rstrip().endswith(GOAL)
    assert "Changed since the draft: new: a.py" in offer.warnings
    assert session.vault.load_brief(id) == stored


def test_a_handoff_without_a_goal_leaves_the_input_empty(session: Prepared) -> None:
    """A running session writes one where the user gave none."""
    draft = session.vault.get(session.draft()["id"])
    context = session.vault.load_brief(draft.id).partition("\n## Next Goal")[0]
    empty = structs.replace(draft, id=create_handoff_id(), created=format_now(), goal=Goal(text=""))
    session.vault.save(empty, context)
    session.vault.append_event(empty.id, create_event("drafted"))
    ready = session.prepare(empty.id)
    assert ready["text"] == ""
    assert ASKED in Path(ready["thread"]).read_text()

    offer = handoffs.load_handoff(session.vault, empty.id, "pi")
    offer.revise(context + "\nmore")
    assert "Next Goal" not in offer.brief


def test_the_successor_lies_where_the_thread_was_also_if_the_thread_is_gone(
    session: Prepared,
) -> None:
    """The brief holds what is needed."""
    draft = session.draft()
    session.thread.unlink()
    ready = session.prepare(draft["id"])

    assert Path(ready["thread"]).parent == session.sessions


def test_without_an_id_the_newest_draft_that_was_never_started_is_taken(session: Prepared) -> None:
    """It is named; what was started or only printed is none, and without any the message says what to do."""
    first, second = session.draft("the first goal of two"), session.draft("the second goal of two")
    session.vault.append_event(
        session.draft("only to be printed")["id"], create_event("printed", way="copy")
    )
    for draft, goal in ((second, "the second goal of two"), (first, "the first goal of two")):
        done = session.run("start", "--to", "pi", "--prepare")
        assert json.loads(done.stdout)["id"] == draft["id"]
        assert f"The newest draft is {draft['id'][:8]}: {goal}" in done.stderr

    done = session.run("start", "--to", "pi", "--prepare", code=1)
    assert "No draft waits to be started. Make one: tasuki handoff" in done.stderr


def test_a_draft_whose_work_has_begun_is_not_offered(session: Prepared) -> None:
    """A revision, or a second draft with the same goal, was started in its place."""
    goal = "the goal that is drafted twice"
    session.draft(goal)
    second = session.draft(goal)
    assert json.loads(session.run("start", second["id"], "--to", "pi", "--prepare").stdout)

    done = session.run("start", "--to", "pi", "--prepare", code=1)
    assert "No draft waits to be started." in done.stderr
