"""`tasuki check`: scores of documents that tasuki, a person or another tool wrote."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from fixture_threads import samples
from making import brief_of, thread_of
from quality_samples import GOAL, GOOD, SECRET, uploads

from tasuki.cli.main import cli
from tasuki.draft.authors.author import AuthorTask
from tasuki.draft.facts.derive import derive_facts
from tasuki.draft.quality import score
from tasuki.draft.quality.document_reader import parse_handoff_document
from tasuki.draft.quality.needed_facts import DocumentLookup
from tasuki.draft.quality.score import DocumentQuality, QualityShare
from tasuki.model import Goal
from tasuki_testing import ThreadBuilder, story


def scored(
    text: str, folder: Path, builder: ThreadBuilder | None = None, goal: str = ""
) -> DocumentQuality:
    """The quality of a document for a built thread."""
    thread = thread_of(builder or uploads(), folder)
    wanted = goal or parse_handoff_document(text).goal
    task = AuthorTask(thread, derive_facts(thread, None, wanted), Goal(text=wanted), {})
    return score.score_document(text, thread, task, goal)


def missing(of: DocumentQuality) -> dict[str, str]:
    """Facts that a document lacks: text and why, by kind."""
    return {p.kind: f"{p.text} {p.why}" for p in of.facts.points if not p.ok}


def unsupported(of: DocumentQuality) -> list[tuple[str, str, int]]:
    """Claims that do not stand: kind, text, line."""
    return [(p.kind, p.text, p.line) for p in of.claims.points if not p.ok]


# -- what scores high, what low --------------------------------------------------------


@pytest.mark.parametrize("harness", ["claude", "codex", "pi", "gemini"])
def test_the_briefs_of_tasuki_score_high(harness: str, tmp_path: Path) -> None:
    """A brief that tasuki makes of a thread in which everything happens gets 85 points or more."""
    builder = story(harness)
    path = builder.write(tmp_path / builder.file_name())
    result = scored(brief_of(path, GOAL), tmp_path, builder)

    assert result.total >= 85, (missing(result), unsupported(result))


@pytest.mark.parametrize("path", samples("claude")[:2] + samples("codex")[:2] + samples("pi")[:2])
def test_the_briefs_of_captured_threads_score_high(path: Path) -> None:
    """Every claim in a brief of a captured thread stands in it, and most facts are told."""
    done = CliRunner().invoke(
        cli, ["check", "-", "--thread", str(path), "--json"], input=brief_of(path, GOAL)
    )
    found = json.loads(done.stdout)

    assert found["total"] >= 80, done.stdout
    assert found["claims"]["percent"] >= 97


@pytest.mark.parametrize("text", ["", " \n\t\r\n", "\ufeff"])
def test_an_empty_document_scores_nothing(text: str, tmp_path: Path) -> None:
    """What holds no words has no section, no fact and no claim."""
    result = scored(text, tmp_path)

    assert (0, 0, 0) == (result.total, result.facts.held, result.claims.of)
    assert not result.has_goal


def test_a_document_of_another_thread_scores_low(tmp_path: Path) -> None:
    """A good document of one thread is worth little for another one."""
    other = ThreadBuilder("claude").user("Draw the logo in assets/logo.svg; never use red.")
    other.assistant("I draw it.").create("assets/logo.svg", "<svg/>").shell(
        "npm test", "3 passing\n"
    )

    assert scored(GOOD, tmp_path, other).total <= 20


def test_a_document_in_any_words_and_without_references_can_score_high(tmp_path: Path) -> None:
    """A person's own document with headings of four styles is measured by what it tells."""
    result = scored(GOOD, tmp_path)

    assert result.total >= 90, (missing(result), unsupported(result))
    assert result.sections.held >= 7


def test_size_counts_for_nothing(tmp_path: Path) -> None:
    """Prose that claims nothing leaves the total as it is, however long it is."""
    long = GOOD + "\n## Notes\n" + "It was a calm day and the work went on as it does.\n\n" * 200

    assert scored(long, tmp_path).total == scored(GOOD, tmp_path).total


def test_line_ends_do_not_matter(tmp_path: Path) -> None:
    """A document with the line ends of Windows or of old Macs is scored as the same one of Unix."""
    unix = scored(GOOD, tmp_path)

    assert unix == scored(GOOD.replace("\n", "\r\n"), tmp_path)
    assert unix == scored(GOOD.replace("\n", "\r"), tmp_path)


def test_the_total_is_the_formula() -> None:
    """(sections + 4 × facts) / 5 × claims, less what is deducted, and never under 0."""
    half, whole, none = QualityShare(1, 2, ()), QualityShare(3, 3, ()), QualityShare(0, 0, ())

    assert score.compute_total(whole, half, whole, 0) == 60
    assert score.compute_total(whole, half, half, 0) == 30
    assert score.compute_total(whole, half, half, 25) == 5
    assert score.compute_total(half, none, none, 0) == 50
    assert score.compute_total(none, QualityShare(0, 4, ()), none, 50) == 0


# -- sections --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "heading",
    [
        "# Key decisions", "###Decisions###", "**Design choices**", "**2. Decisions:**", "Decisions:", "3. Key Decisions:",
        "DECISIONS", "Decisions\n=========", "Rationale\n---", "<key_decisions>", "## Entscheidungen", "## 决定", "__Trade-offs__",
    ],
)  # fmt: skip
def test_a_heading_of_any_style_begins_a_section(heading: str) -> None:
    """What a title means is told by its words, whatever marks it as a title."""
    document = parse_handoff_document(
        f"# Summary\nwork\n\n{heading}\n- a fixed delay\n\n# Files\n- a.py"
    )

    line = next(x for x in document.lines if x.text == "a fixed delay")
    assert "decisions" in line.kinds
    assert {"context", "decisions", "files"} <= document.kinds


def test_a_heading_without_a_line_is_no_section() -> None:
    """A title that nothing follows, or with a rule alone, does not count."""
    assert parse_handoff_document("# Decisions\n\n---\n\n# Files\n- a.py\n\n## Risks\n").kinds == {
        "files"
    }


def test_a_sub_heading_stays_in_its_section() -> None:
    """Items under a title that says nothing belong to the section around it; a known one is its own."""
    document = parse_handoff_document("## Progress\n### Tuesday\n- a\n### Next\n- b\n## Other\n- c")

    assert [{"state"}, {"next"}, set()] == [set(x.kinds) for x in document.lines]


def test_the_goal_is_found_or_given(tmp_path: Path) -> None:
    """A goal section, next steps, or `--goal` make a goal; without them there is none."""
    assert scored("## Next steps\n- write it", tmp_path).has_goal
    assert scored("## Objective\nwrite it", tmp_path).has_goal
    assert scored("## Files\n- a.py", tmp_path, goal="write it").has_goal
    assert not scored("## Files\n- a.py", tmp_path).has_goal


def test_only_sections_that_the_thread_has_something_for_are_asked_for(tmp_path: Path) -> None:
    """A thread without a command needs no section of commands."""
    talk = ThreadBuilder("claude").user("What is a monad?").assistant("A monoid of endofunctors.")
    kinds = {p.text for p in scored("nothing", tmp_path, talk).sections.points}

    assert {"goal", "context"} <= kinds
    assert not {"commands", "files", "state"} & kinds


# -- facts -----------------------------------------------------------------------------


def test_missing_facts_are_named_with_their_entries(tmp_path: Path) -> None:
    """A document that tells nothing lacks each kind of fact, what costs most first, with #refs."""
    result = scored("# Summary\nWe worked.", tmp_path)
    found = [(p.kind, p.ok) for p in result.facts.points]

    assert result.facts.held == 0
    assert [k for k, _ in found][:2] == ["check", "reversal"]
    assert {"check", "reversal", "wish", "todo", "file", "commit"} == {k for k, _ in found}
    assert all(p.refs for p in result.facts.points)


def test_a_red_test_that_is_called_green_is_missing(tmp_path: Path) -> None:
    """The last check counts with its result; the line that says otherwise is named."""
    wrong = GOOD.replace("fails: assert 5 == 4", "passes now")
    line = wrong[: wrong.index("passes now")].count("\n") + 1

    assert missing(scored(GOOD, tmp_path)).get("check") is None
    assert f"says otherwise, line {line}" in missing(scored(wrong, tmp_path))["check"]


@pytest.mark.parametrize(
    ("said", "told"),
    [("all tests pass", True), ("the suite is green, 0 failures", True), ("tests do not pass", False), ("tests were run", False)],
)  # fmt: skip
def test_a_green_test_is_told_in_plain_words(said: str, told: bool, tmp_path: Path) -> None:
    """That the tests pass may be said without the command; a negation is no pass."""
    green = (
        ThreadBuilder("claude").user("Run the tests, please").shell("pytest -q", "4 passed in 1s\n")
    )

    assert told is ("check" not in missing(scored(f"# Status\n{said}", tmp_path, green)))


def test_a_file_is_told_by_its_path_or_a_name_that_only_it_has(tmp_path: Path) -> None:
    """A basename that two files share tells neither; the end of a path that only one has does."""
    two = ThreadBuilder("claude").user("Rename it in both, please").assistant("Sure.")
    two.edit("api/v1/client.py", "a", "b").edit("web/client.py", "a", "b").edit(
        "web/only.py", "a", "b"
    )

    def lacking(text: str) -> int:
        return sum(p.kind == "file" and not p.ok for p in scored(text, tmp_path, two).facts.points)

    assert lacking("client.py") == 3
    assert lacking("only.py and v1/client.py") == 1
    assert lacking("/home/dev/proj/api/v1/client.py, web/client.py, web/only.py") == 0


def test_of_committed_files_only_the_last_edited_are_asked_for(tmp_path: Path) -> None:
    """Eight files that were committed cost four facts; uncommitted ones count all eight."""
    builder = ThreadBuilder("claude").user("Rename it everywhere, please")
    for n in range(8):
        builder.edit(f"src/part_{n}.py", "a", "b")
    before = [p.kind for p in scored("none", tmp_path, builder).facts.points]
    builder.shell("git commit -am x", "[main abcdef1] Rename it\n")
    after = [p.kind for p in scored("none", tmp_path, builder).facts.points]

    assert (8, 4) == (before.count("file"), after.count("file"))


def test_a_wish_is_told_by_its_words_or_by_a_part_to_the_letter(tmp_path: Path) -> None:
    """Most telling words in one line, or five words in a row; spread over a document they tell nothing."""
    wish = "Never write to the ledger table directly, use the posting service instead, since auditors look there"
    builder = ThreadBuilder("claude").user(wish).assistant("Understood.")

    def told(text: str) -> bool:
        return "wish" not in missing(scored(text, tmp_path, builder))

    assert told("- writes to the ledger table go through the posting service, auditors look")
    assert told("- wish: never write to the ledger")
    assert not told("- the ledger\n\n- a table\n\n- a posting\n\n- the service")


# -- claims ----------------------------------------------------------------------------


def test_what_the_thread_does_not_hold_is_named_with_its_line(tmp_path: Path) -> None:
    """An invented path, command, name, number and quote are each a claim without support."""
    text = (
        "# Files\n- src/upload/invented.py\n# Commands\n- `make deploy-all`\n# Context\n"
        '- `retry_harder()` waits 7531 ms\n- The user said "please use seven attempts always"\n'
    )
    found = unsupported(scored(text, tmp_path))

    assert ("path", "src/upload/invented.py", 2) in found
    assert ("command", "make deploy-all", 4) in [
        (k.replace("value", "command"), t, n) for k, t, n in found
    ]
    assert ("value", "retry_harder()", 6) in found
    assert ("value", "7531", 6) in found
    assert ("quote", "please use seven attempts always", 7) in found


def test_words_of_the_agent_are_not_the_users(tmp_path: Path) -> None:
    """A quote given to the user must be theirs, also where the agent said it."""
    result = scored('# Summary\nThe user said "I look at the client first"', tmp_path)

    assert [p.why for p in result.claims.points if not p.ok] == ["the user did not write this"]


def test_a_plan_may_name_what_is_not_there_yet(tmp_path: Path) -> None:
    """A next step that makes a file invents nothing; the goal claims nothing at all."""
    text = "# Next steps\n- Create src/upload/backoff.py\n- Fix src/upload/nowhere.py\n# Goal\nUse src/x/y.py"

    assert unsupported(scored(text, tmp_path)) == [("path", "src/upload/nowhere.py", 3)]


def test_code_is_looked_up_line_by_line_without_comments(tmp_path: Path) -> None:
    """A block of code stands where its lines do; comments of the document's author are no claims."""
    text = (
        "# Context\n```python\n# what it is now\ndef upload(part, attempts=4): ...  # capped\ndef gone(): ...\n```\n"
        "```\n├── src/upload/client.py  ← edited\n```"
    )

    assert unsupported(scored(text, tmp_path)) == [("value", "def gone(): ...", 5)]


def test_a_reference_to_no_entry_is_a_claim_without_support(tmp_path: Path) -> None:
    """`[#999]` of a thread with a dozen entries is named."""
    assert unsupported(scored("# Summary\n- Uploads are retried [#1, #999]", tmp_path)) == [
        ("reference", "#999", 2)
    ]


# -- done, secrets, leftovers ----------------------------------------------------------


def test_a_pending_item_whose_todo_is_done_is_named(tmp_path: Path) -> None:
    """Under next steps, with an empty box, or behind `Pending:`; what is open, or ticked, is not."""
    text = (
        "# Next steps\n- raise the attempts in the client\n- document the delay\n# Notes\n"
        "- [ ] Raise attempts in client\n- [x] Raise attempts in the client\nTodo: raise attempts in client; document the delay"
    )
    result = scored(text, tmp_path)

    assert [p.line for p in result.finished] == [2, 5, 7]
    assert result.deducted == 15


def test_what_only_resembles_something_done_is_pending(tmp_path: Path) -> None:
    """An item that an open todo says as well, or that shares one word with a commit, is not called done."""
    builder = uploads().todos(
        ("Raise attempts in the client", "completed"), ("Raise attempts in the server", "pending")
    )
    text = "# Next steps\n- raise attempts in the server\n- retry downloads of large archives"

    assert scored(text, tmp_path, builder).finished == ()


def test_a_pending_item_that_a_later_commit_speaks_of_is_named(tmp_path: Path) -> None:
    """What was to do when it was said, and was committed later, is done."""
    builder = ThreadBuilder("claude").user("What is left?")
    builder.assistant("Still to do: teach `parse_header` about `chunked_body` uploads.").edit(
        "a.py", "a", "b"
    )
    builder.shell("git commit -am x", "[main abcdef1] Teach parse_header about chunked_body\n")
    text = "## TODO\n- teach `parse_header` about `chunked_body` uploads\n- write the docs"

    assert [p.line for p in scored(text, tmp_path, builder).finished] == [2]


def test_a_secret_is_told_by_kind_and_line_and_never_shown(tmp_path: Path) -> None:
    """Neither for people nor for programs does the output hold the secret, wherever it stands."""
    path = uploads().write(tmp_path / "t.jsonl")
    text = f"{GOOD}\n## Notes\n- the token is {SECRET}\n- run `deploy --key {SECRET}`\n"
    line = text[: text.index(SECRET)].count("\n") + 1
    for flags in ([], ["--json"], ["--all"]):
        done = CliRunner().invoke(cli, ["check", "-", "--thread", str(path), *flags], input=text)
        assert SECRET not in done.output
        assert SECRET[5:] not in done.output

    result = scored(text, tmp_path)
    assert [p.line for p in result.secrets] == [line, line + 1]
    assert result.secrets[0].text == "github-token"
    assert result.deducted == 20


@pytest.mark.parametrize(
    "text",
    [
        "TODO", "- TBD.", "Status: <fill in the status>", "- [insert file names here]", "- {{ goal }}", "lorem ipsum dolor sit amet",
        "- path/to/file.ts", "Respond only with JSON, no prose.", "As an AI language model I cannot know.", "<analysis>",
        "- file: path/to/your/file", "- ...",
    ],
)  # fmt: skip
def test_a_placeholder_or_an_instruction_to_the_author_is_named(text: str, tmp_path: Path) -> None:
    """What was meant to be filled in, or was meant for the author, has no place in a handoff."""
    assert [p.line for p in scored(f"# Context\n{text} ", tmp_path).leftovers] == [2]


@pytest.mark.parametrize(
    "text",
    [
        "TODO: write the retry test", "- none", "the `<your-name>` tag", 'it prints "TODO"', "- [your link](http://x.y)", "vec![T; n] and List<String>",
        "Task 8: implement the default output format",
    ],
)  # fmt: skip
def test_honest_lines_are_no_placeholders(text: str, tmp_path: Path) -> None:
    """An item that begins with TODO, code, quotes and `none` are left alone."""
    assert scored(f"# Context\n{text}", tmp_path).leftovers == ()


@pytest.mark.parametrize(
    ("wish", "document", "told"),
    [
        ("Never use port 23.", "never use port 80", False),
        ("Never use port 23.", "The user said: port 23 is never used.", True),
        ("Keep the timeout at 2.5 seconds", "keep the timeout at 2 seconds", False),
        ("Keep the timeout at 2.5 seconds", "the timeout is to be kept at 2.5 seconds", True),
        ("1. Never touch the vendored folder", "never touch the vendored folder", True),
    ],
)
def test_a_wish_with_a_number_is_told_with_that_number(
    wish: str, document: str, told: bool
) -> None:
    """A line that says the same of another number does not tell it."""
    found = DocumentLookup(parse_handoff_document(f"## Rules\n\n- {document}\n"), "").find_said(
        wish
    )

    assert (found is not None) == told
