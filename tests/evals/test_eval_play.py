"""`tasuki eval play`: a draft taken apart, two side by side, and notes of what a brief lacked."""

import fcntl
import json
import multiprocessing
import os
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner
from fixture_threads import samples

from tasuki.draft import pipeline
from tasuki.draft.rank.relevance import TERMS
from tasuki.errors import StoreFailed, TasukiError, UsageError
from tasuki.vault import Vault
from tasuki_evals import playground
from tasuki_evals.cli.main import eval as measure
from tasuki_evals.playground import DraftCandidate, PlayNote
from tasuki_testing import ThreadBuilder

GOAL = "make the upload retries configurable and cover them with a test"
SECRET = "ghp_" + "a8Kd93jfLq02mZx7Yt5Rw1Vb6Nc4Hs0PeU2Q"
NOTE = PlayNote(note="lacks", goal="g", thread="/t", harness="claude", entries=3, handoff="a" * 32, author="offline")  # fmt: skip


def uploads() -> ThreadBuilder:
    """A thread with a wish, a wish that was taken back, files, a red and a green command."""
    return (
        ThreadBuilder("claude", "/home/dev/uploader")
        .user("Retry uploads, at most 4 attempts in all. Never touch src/upload/queue.py.")
        .assistant("The uploads fail because the server closes idle connections after 30 s.")
        .read("src/upload/client.py", "def upload(part): ...\n")
        .edit("src/upload/client.py", "def upload(part): ...", "def upload(part, attempts=4): ...")
        .user("Please always add random jitter to the delay between the attempts.")
        .assistant("I decided to use a fixed delay of 250 ms, since jitter hides failures.")
        .user("Forget the jitter, revert it; keep the delay between the attempts fixed.")
        .shell("pytest -q tests/upload", "E   assert 5 == 4\n1 failed in 0.31s\n", 1)
        .shell("make docs", "built\n")
    )


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder of the test's own, and no settings."""
    monkeypatch.setenv("TASUKI_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("TASUKI_CONFIG", "/dev/null")
    return tmp_path / "data"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The thread as a file."""
    return uploads().write(tmp_path / "t.jsonl")


def run(*arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output, and standard error or the message of an error."""
    done = CliRunner().invoke(measure, ["play", *arguments])
    if isinstance(done.exception, TasukiError):
        return done.exception.exit_code, done.stdout, str(done.exception)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout, done.stderr


def made(path: Path, goal: str = GOAL) -> pipeline.HandoffResult:
    """A draft of a thread."""
    from making import made as of

    return of(path, goal)


def candidates(path: Path, goal: str = GOAL) -> dict[str, list[DraftCandidate]]:
    """The candidates of a thread."""
    return playground.list_candidates(made(path, goal), str)


# -- one draft -------------------------------------------------------------------------


def test_a_draft_is_shown_with_all_its_candidates(path: Path) -> None:
    """Brief, statements, files, commands and lessons, in lines of 80 characters outside of the brief."""
    code, out, _ = run(str(path), GOAL)
    brief, _, rest = out.partition("## Next Goal (verbatim)")

    assert code == 0
    assert "Never touch src/upload/queue.py" in brief
    for title in ("\n== Statements (", "\n== Files (", "\n== Commands (2)", "\n== Lessons (1)"):
        assert title in rest
    assert max(map(len, rest.split("\n"))) <= 80


def test_a_vague_goal_is_let_through_and_none_is_not(path: Path) -> None:
    """`fix it` is what real users type; the report says what is wrong with it. No goal is refused."""
    code, out, _ = run(str(path), "fix it")

    assert code == 0
    assert "Accepted all the same: The goal 'fix it' does not say what to do." in out
    assert (3, "") == run(str(path), "  ")[:2]


@pytest.mark.parametrize("file", samples("claude")[:1] + samples("codex")[:1] + samples("pi")[:1])
def test_candidates_are_sorted_and_say_where_they_ended(file: Path) -> None:
    """The best come first; what is said to be in the brief is in it, and every kind has features."""
    draft = made(file)
    found = playground.list_candidates(draft, str)

    assert ["statements", "files", "commands", "lessons"] == list(found)
    for kind, items in found.items():
        assert items == sorted(items, key=lambda c: -c.score)
        assert all(c.features or c.score == 0 for c in items)
        for item in items:
            if item.place == "brief" and kind in ("statements", "files"):
                assert item.text in draft.context.replace("``", "`")
    assert any(c.place == "brief" for c in found["statements"])


def test_a_statement_that_was_taken_back_is_marked(path: Path) -> None:
    """What the user revoked is a candidate that can never get into a brief."""
    jitter = [c for c in candidates(path)["statements"] if "always add random jitter" in c.text]

    assert ["taken back"] == [c.place for c in jitter]


def test_features_tell_why_a_score_is_what_it_is(path: Path) -> None:
    """A statement has overlap, recency, rarity and weight; a file what each of its terms adds."""
    found = candidates(path)
    wish = next(c for c in found["statements"] if "Never touch" in c.text)
    client = next(c for c in found["files"] if c.text == "src/upload/client.py")

    assert {"overlap", "recency", "rarity", "weight"} <= wish.features.keys()
    assert ("constraint, user", (1,)) == (wish.what, wish.refs)
    assert set(client.features) <= set(TERMS)
    assert client.features["touched"] > 0
    assert client.adds == client.features
    assert sum(client.adds.values()) == pytest.approx(client.score, abs=0.01)
    assert (wish.adds, [c.adds for c in found["commands"]]) == ({}, [{}, {}])
    with pytest.raises(TypeError):
        playground.compute_features("a text", None)  # type: ignore[arg-type]


def test_what_found_no_room_is_told_with_the_reason(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under a small budget the lines left out are listed, with the budget as the reason."""
    monkeypatch.setenv("TASUKI_BUDGET", "400")
    _, out, _ = run(str(path), GOAL)

    assert "no room in 400 tokens" in out
    left = out.partition("== Left out")[2].partition("\n==")[0]
    assert left.count("\n  - ") >= 1


def test_25_of_a_kind_are_shown_unless_all_are_wanted(tmp_path: Path) -> None:
    """`--all` shows every candidate; without it the heading says how many there are."""
    builder = ThreadBuilder("claude").user("Touch them all, please")
    for n in range(40):
        builder.edit(f"src/file_{n}.py", "a", "b")
    path = str(builder.write(tmp_path / "many.jsonl"))

    assert "== Files (25 of 40: --all)" in run(path, GOAL)[1]
    assert "== Files (40)" in run(path, GOAL, "--all")[1]
    assert len(json.loads(run(path, GOAL, "--json")[1])["candidates"]["files"]) == 25


def test_json_holds_the_same(path: Path) -> None:
    """One versioned document with brief, what was left out and dropped, candidates, and no second draft."""
    found = json.loads(run(str(path), GOAL, "--json")[1])

    assert (1, None, None, GOAL) == (
        found["version"],
        found["against"],
        found["note"],
        found["goal"],
    )
    assert found["brief"].endswith(GOAL)
    assert {"text", "what", "refs", "score", "place", "features", "adds"} == set(
        found["candidates"]["files"][0]
    )
    assert {"left_out", "dropped", "tokens", "author"} <= found.keys()


def test_secrets_and_escapes_are_not_shown(tmp_path: Path) -> None:
    """Neither brief nor candidates hold a secret or a character that moves the cursor."""
    builder = uploads().user(f"Never print the token {SECRET} \x1b[2J in a log, always mask it")
    path = str(
        builder.shell(f"deploy --token {SECRET}", "boom: error\n", 1).write(tmp_path / "s.jsonl")
    )
    for flags in ([], ["--json"], ["--all"], ["--against", "budget=400"]):
        code, out, _ = run(path, f"mask the token {SECRET}", *flags)
        assert code == 0
        assert SECRET not in out
        assert "\x1b" not in out


def test_nothing_is_kept(path: Path, data: Path) -> None:
    """Playing leaves no handoff behind."""
    run(str(path), GOAL, "--against", "budget=400")

    assert not data.exists()


# -- two drafts ------------------------------------------------------------------------


def test_two_settings_stand_side_by_side(path: Path) -> None:
    """What only one brief holds stands in its column, what both hold below, each with its size."""
    code, out, _ = run(str(path), GOAL, "--against", "include_metadata=no")
    table, _, both = out.partition("\nBoth: ")

    assert code == 0
    assert "tokens, include_metadata=False" in out
    assert "Only A: " in table
    assert "Only B: 0 lines, 0 tokens" in table
    assert "SESSION METADATA" in table
    assert "Retry uploads, at most 4 attempts" in both
    assert max(map(len, out.partition("== ")[0].split("\n"))) <= 80


def test_lines_of_two_drafts_are_compared_under_their_headings(path: Path) -> None:
    """The same draft has all in common; of two goals each has lines of its own."""
    one, other = made(path).handoff.draft, made(path, "build the docs with make").handoff.draft
    same, differing = playground.compare_drafts(one, one), playground.compare_drafts(one, other)

    assert ((), ()) == (same.only_a, same.only_b)
    assert ("Session Metadata", "- Folder: `/home/dev/uploader`") in same.both
    assert {*differing.only_a, *differing.both} == set(same.both)
    assert playground.count_line_tokens(same.both) > 0


@pytest.mark.parametrize(
    ("against", "told"),
    [
        ("nobody", "neither an author (agent, model, offline) nor KEY=VALUE"), ("budgte=1", "budget"),
        ("budget=many", "budget must be a whole number"), ("budget=1", "at least 300 tokens"), ("=", "unknown setting"),
        ("include_skill=perhaps", "true or false"), ("providers=x", "a table"),
    ],
)  # fmt: skip
def test_a_setting_that_is_none_is_wrong_usage(against: str, told: str, path: Path) -> None:
    """The sentence names the key and what it takes."""
    code, _, error = run(str(path), GOAL, "--against", against)

    assert code == 2
    assert told in error


def test_an_author_is_a_setting_too() -> None:
    """A bare word is an author; keys may be written as the seed writes them."""
    assert playground.parse_overrides(["offline", "maxFiles=3"]) == {
        "author": "offline",
        "max_files": 3,
    }
    with pytest.raises(UsageError):
        playground.parse_overrides(["gpt"])


def test_an_author_that_cannot_write_says_why(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any model `--against model` is an error that offers the offline author."""
    for name in [n for n in os.environ if n.endswith(("_API_KEY", "_AUTH_TOKEN"))]:
        monkeypatch.delenv(name)
    code, _, error = run(str(path), GOAL, "--against", "model")

    assert code == 1
    assert "--author offline" in error


# -- notes -----------------------------------------------------------------------------


def test_a_note_becomes_a_case_to_be_completed(path: Path, data: Path) -> None:
    """Thread, goal, words, date and a handoff that is kept stand in the file of notes."""
    words = 'the wish about "retries" is missing\nand the queue'
    code, _, error = run(str(path), GOAL, "--note", words)
    (note,) = tomllib.loads((data / playground.NOTES_FILE_NAME).read_text())["note"]

    assert code == 0
    assert (words, GOAL, str(path), "claude", "offline") == (
        note["note"], note["goal"], note["thread"], note["harness"], note["author"],
    )  # fmt: skip
    assert note["expected_context"] == []
    assert Vault().get(note["handoff"]).goal.text == GOAL
    assert Vault().load_state(note["handoff"]) == "draft"
    assert note["id"] in error


def test_a_file_of_notes_can_be_named_and_grows(path: Path, tmp_path: Path) -> None:
    """Each note is added behind what stands there, also behind a line without an end."""
    file = tmp_path / "deep" / "notes.toml"
    file.parent.mkdir()
    file.write_text('# mine\n[[note]]\nid = "old"')
    for words in ("one", "two"):
        found = json.loads(run(str(path), GOAL, "--note", words, "--notes", str(file), "--json")[1])
        assert found["note"]["file"] == str(file)

    notes = tomllib.loads(file.read_text())["note"]
    assert ["old", None, None] == [n.get("id") if "note" not in n else None for n in notes]
    assert ["one", "two"] == [n["note"] for n in notes[1:]]


@pytest.mark.parametrize(
    "words", ['"""', "'''", "\\", "\x7f\x00\x1f", "a\r\nb", "]]\n[[note]]\nid = 1", "ünï 你好 🦀", "\u2028\u0085"]
)  # fmt: skip
def test_any_words_come_back_to_the_letter(words: str, tmp_path: Path) -> None:
    """Quotes, control characters and TOML itself are words like others."""
    file = tmp_path / "notes.toml"
    playground.append_note(PlayNote(words, words, words, "claude", 1, "h", "offline"), file)
    (note,) = tomllib.loads(file.read_text())["note"]

    assert (words, words, words) == (note["note"], note["goal"], note["thread"])


def _write(file: Path, who: int) -> None:
    for n in range(20):
        playground.append_note(
            PlayNote(f"{who}-{n} " + "x" * 3000, "g", "/t", "claude", 1, "h", "offline"), file
        )


def test_notes_of_several_at_once_do_not_mix(tmp_path: Path) -> None:
    """Four writers leave eighty whole notes, and one heading."""
    file = tmp_path / "notes.toml"
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write, args=(file, who)) for who in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)

    notes = tomllib.loads(file.read_text())["note"]
    assert sorted(n["note"].split()[0] for n in notes) == sorted(f"{w}-{n}" for w in range(4) for n in range(20))  # fmt: skip
    assert len({n["id"] for n in notes}) > 70
    assert file.read_text().count("# What briefs lacked") == 1


def test_a_note_waits_for_the_one_that_is_being_written(tmp_path: Path) -> None:
    """While somebody holds the file, nothing is added; afterwards the note is."""
    file = tmp_path / "notes.toml"
    with file.open("w") as held, ThreadPoolExecutor() as pool:
        fcntl.flock(held, fcntl.LOCK_EX)
        waiting = pool.submit(playground.append_note, NOTE, file)
        with pytest.raises(TimeoutError):
            waiting.result(0.2)
        assert file.read_bytes() == b""
        fcntl.flock(held, fcntl.LOCK_UN)
        id = waiting.result(10)

    assert [id] == [n["id"] for n in tomllib.loads(file.read_text())["note"]]


def test_a_damaged_file_of_notes_is_left_as_it_is(tmp_path: Path) -> None:
    """Behind an open quote a note would be lost, so it is refused with the reason."""
    file = tmp_path / "notes.toml"
    file.write_text('[[note]]\nnote = """never closed\n')
    with pytest.raises(StoreFailed, match=r"not valid TOML.*--notes FILE"):
        playground.append_note(NOTE, file)

    assert file.read_text() == '[[note]]\nnote = """never closed\n'


def test_notes_that_cannot_be_written_say_why(path: Path, tmp_path: Path) -> None:
    """A folder in the way, or below a file: the sentence says where and what else to do."""
    (tmp_path / "taken").write_text("")
    for file in (str(tmp_path / "taken" / "notes.toml"), "/proc/none/notes.toml"):
        code, _, error = run(str(path), GOAL, "--note", "x", "--notes", file)
        assert code == 1
        assert file in error
        assert "--notes FILE" in error

    assert run(str(path), GOAL, "--note", "x", "--notes", str(tmp_path))[0] == 2


def test_a_note_needs_words_and_a_file_a_note(path: Path, data: Path) -> None:
    """Wrong usage is told before anything is made."""
    assert run(str(path), GOAL, "--notes", "x.toml")[0] == 2
    assert run(str(path), GOAL, "--note", "  ")[0] == 2
    assert not data.exists()


def test_secrets_do_not_get_into_notes(path: Path, data: Path) -> None:
    """A token in the goal or in the note is replaced by its kind."""
    run(str(path), f"use the token {SECRET} for uploads", "--note", f"{SECRET} is missing")
    text = (data / playground.NOTES_FILE_NAME).read_text()

    assert SECRET not in text
    assert text.count("[REDACTED:github-token]") == 2
