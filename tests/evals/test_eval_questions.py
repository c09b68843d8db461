"""Question sets: what is a good one, when a question counts as answered, and which brief is asked."""

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from long_threads import long_thread, summary, written

from tasuki.cli.main import cli
from tasuki.config.settings import LoadedSettings, Settings
from tasuki.errors import ThreadNotFound, UsageError
from tasuki.harness import registry as harnesses
from tasuki_evals import question_runs
from tasuki_evals.cli.main import eval as group
from tasuki_evals.question_runs import QuestionOptions, QuestionReport, ask_questions
from tasuki_evals.question_sets import (
    SetQuestion,
    find_cited_refs,
    judge_answer,
    load_questions,
    strip_goal,
)

GOAL = "Turn 4: please go on with the work on the module, step 4"


def lines_before(path: Path, text: str) -> int:
    """How many lines of a thread file stand before the first one that holds a text."""
    return next(n for n, x in enumerate(path.read_text().split("\n")) if text in x)


def question(*patterns: str, kind: str = "state", id: str = "") -> dict[str, Any]:
    """A question as a set has it."""
    return {"id": id, "kind": kind, "question": f"What of {patterns}?", "patterns": patterns}


def case(path: Path, *asked: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A case that is cut before the goal."""
    usual = {"file": path.name, "lines": lines_before(path, GOAL), "goal": GOAL}
    return {**usual, "questions": asked, **more}


def written_set(folder: Path, *cases: dict[str, Any]) -> Path:
    """A question set on disk."""
    path = folder / "questions.json"
    path.write_text(json.dumps({"about": "made up", "threads": cases}))
    return path


def ask(folder: Path, *cases: dict[str, Any], workers: int = 1, **options: Any) -> QuestionReport:
    """What a set finds in a folder."""
    asked = load_questions(written_set(folder.parent, *cases))
    return ask_questions(asked, "set", [folder], QuestionOptions(**options), workers=workers)


def command(*arguments: str | Path) -> Result:
    """`tasuki eval questions …`, its streams apart."""
    words = ["questions", *map(str, arguments), "--workers", "1"]
    return CliRunner().invoke(group, words, standalone_mode=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder for threads."""
    path = tmp_path / "threads"
    path.mkdir()
    return path


# -- when a question is answered -------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "opened", "verdict"),
    [
        ("alpha and\nbeta", "", "direct"),
        ("beta, alpha", "gamma", "direct"),
        ("alpha", "beta", "hop"),
        ("", "alpha beta", "hop"),
        ("alpha", "", "no"),
        ("alpha", "gamma", "no"),
    ],
)
def test_every_pattern_must_match(text: str, opened: str, verdict: str) -> None:
    """In the brief, or in the brief with what it cites; either pattern alone is not enough."""
    assert judge_answer(SetQuestion("?", "state", ("alpha", "(?i)BETA")), text, opened) == verdict


def test_a_point_in_a_pattern_matches_a_newline() -> None:
    """Patterns are searched with DOTALL, also across the border to what is opened."""
    asked = SetQuestion("?", "state", ("alpha.{1,3}beta",))

    assert judge_answer(asked, "alpha\nbeta") == "direct"
    assert judge_answer(asked, "alpha\n", "\nbeta") == "hop"


def test_only_references_in_brackets_are_cited() -> None:
    """`[#12]` and `[#12, #15]` are; the number of a pull request in a sentence is none."""
    assert find_cited_refs("a [#12, #3] b [#3] see #90, (#7) and [see 8] [#1") == [3, 12]
    assert find_cited_refs("[#900, #3000, #64] [#31]") == [31, 64, 900, 3000]


def test_the_goal_is_taken_out() -> None:
    """With its section, and where it is quoted; a goal of a word or two is left where it stands."""
    goal = "make the upload client retry"
    brief = f"## Context\n- asked: {goal}\n- yes, 12 of 12\n## Next Goal (verbatim)\n{goal}\nmore"

    assert strip_goal(brief, f" {goal}\n") == "## Context\n- asked: \n- yes, 12 of 12\n"
    assert strip_goal(brief, "yes") == brief[: brief.index("## Next Goal")]


# -- sets ------------------------------------------------------------------------------

GOOD = {"file": "a.jsonl", "lines": 3, "goal": "go on", "questions": [question("x")]}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("no json", "it is not JSON"),
        ('{"about": ' + "[" * 100_000, "it is not JSON"),
        ("[]", "Expected `object`, got `array`"),
        ('{"threads": []}', r"length >= 1 - at `\$.threads`"),
        (json.dumps({"threads": [{**GOOD, "lines": 0}]}), r"`\$.threads\[0\].lines`"),
        (json.dumps({"threads": [{**GOOD, "goal": ""}]}), r"`\$.threads\[0\].goal`"),
        (json.dumps({"threads": [{**GOOD, "questions": []}]}), r"`\$.threads\[0\].questions`"),
        (json.dumps({"threads": [{**GOOD, "questions": [question()]}]}), r"questions\[0\].patterns"),
        (json.dumps({"threads": [GOOD, GOOD]}), "two cases are called 'a.jsonl:3'. Name each"),
    ],
)  # fmt: skip
def test_a_bad_set_says_where(text: str, told: str, tmp_path: Path) -> None:
    """What is wrong, at which place of the file, and where the format is described."""
    path = tmp_path / "set.json"
    path.write_text(text)

    with pytest.raises(UsageError, match=told) as error:
        load_questions(path)
    assert str(path) in str(error.value)
    assert "Name each" in told or "workshop/evaluation.md" in str(error.value)


def test_a_set_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    """Neither a missing file nor a folder is a set."""
    with pytest.raises(UsageError, match="there is no such file"):
        load_questions(tmp_path / "absent.json")
    with pytest.raises(UsageError, match="Is a directory"):
        load_questions(tmp_path)


def test_a_pattern_that_does_not_compile_is_told_with_its_question(tmp_path: Path) -> None:
    """Before any thread is read: the question, the case, the reason and the pattern."""
    bad = question("good", "(open", id="commits")
    path = written_set(tmp_path, {**GOOD, "questions": [question("x"), bad]})

    with pytest.raises(UsageError) as error:
        load_questions(path)
    assert "a pattern of the question 'commits' of a.jsonl:3 does not compile" in str(error.value)
    assert str(error.value).endswith("Correct it: (open")


# -- threads ---------------------------------------------------------------------------


def test_threads_are_found_by_path_or_by_name(folder: Path) -> None:
    """Also gzipped, whatever the set says; the path decides between files of one name."""
    (folder / "a").mkdir()
    (folder / "b").mkdir()
    path = written(folder / "a", "claude")
    other = folder / "b" / path.name
    other.write_text(path.read_text().replace("retry", "again"))
    first = case(path, question("x"), file=f"b/{path.name}.gz")
    asked = load_questions(written_set(folder.parent, first))
    ((_, source),) = question_runs.find_threads(asked, "set", [folder])

    assert source.path == other
    asked = load_questions(written_set(folder.parent, case(path, question("x"))))
    with pytest.raises(UsageError, match="2 files match"):
        question_runs.find_threads(asked, "set", [folder])
    other.unlink()
    zipped = path.with_name(f"{path.name}.gz")
    zipped.write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    assert question_runs.find_threads(asked, "set", [folder])[0][1].path == zipped
    assert question_runs.find_threads(asked, "set", [zipped])[0][1].path == zipped
    assert ask(folder, {**first, "file": zipped.name}).cases


def test_threads_that_are_not_there_are_an_error(folder: Path) -> None:
    """How many cases, which files, where they were looked for; an empty folder is one too."""
    path = written(folder, "claude")
    cases = [case(path, question("x"))] + [{**GOOD, "file": f"no/{n}.jsonl"} for n in range(5)]

    with pytest.raises(ThreadNotFound) as error:
        ask(folder, *cases)
    assert str(error.value) == (
        f"5 of the 6 cases of set have no thread in {folder}: no/0.jsonl, no/1.jsonl, no/2.jsonl, "
        "and 2 more. Name the folder that holds them."
    )
    path.unlink()
    with pytest.raises(UsageError, match="There is no file in"):
        ask(folder, *cases)
    with pytest.raises(ThreadNotFound, match="No file or folder"):
        ask(folder / "absent", *cases)


def test_a_case_that_cannot_be_asked_is_left_out_with_its_reason(folder: Path) -> None:
    """Too few lines, no summary, no thread: the others are asked, and the command ends with 1."""
    path = written(folder, "claude")
    (folder / "text.jsonl").write_text("hello\n" * 9)
    cases = (
        case(path, question("maxAttempts"), thread="good"),
        case(path, question("x"), thread="short", lines=100_000),
        case(path, question("x"), thread="plain", summary_line=4),
        {**GOOD, "file": "text.jsonl", "thread": "text"},
    )
    report = ask(folder, *cases)
    told = {one.name: one.reason for one in report.left_out}
    done = command(written_set(folder.parent, *cases), folder)

    assert [one.name for one in report.cases] == ["good"]
    assert re.fullmatch(r"the thread has \d+ lines, but the set cuts it after 100000", told["short"])  # fmt: skip
    assert "none follows the cut" in told["plain"]
    assert told["text"].startswith("it is not a thread of a known harness (")
    assert done.return_value == 1
    assert "tasuki: Not asked: short: the thread has" in done.stderr
    assert "1 question on 1 thread, answered" in done.stdout


# -- what is asked ---------------------------------------------------------------------


def test_nothing_after_the_cut_answers(folder: Path) -> None:
    """What stands in the first lines can be found, what comes after them cannot, by any method."""
    path = written(folder, "claude")
    asked = (question(r"limitOf3\b"), question(r"limitOf4\b"), question("step 4"))
    (found,) = ask(folder, case(path, *asked), budget=50_000).cases

    assert found.methods["last"].verdicts == ("direct", "no", "no")
    assert found.methods["mix"].verdicts == ("direct", "no", "no")
    assert all(one.verdicts[1:] == ("no", "no") for one in found.methods.values())


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every brief says one thing and cites two entries, one of which the thread does not have."""
    make = question_runs.runs.pipeline.make_handoff

    def made(*arguments: Any, **named: Any) -> Any:
        found = make(*arguments, **named)
        found.context = f"The loop takes maxAttempts [#36, #99999].\n{GOAL}\n"
        return found

    monkeypatch.setattr(question_runs.runs.pipeline, "make_handoff", made)


@pytest.mark.usefixtures("brief")
def test_hops_go_through_what_the_brief_cites(folder: Path) -> None:
    """A brief cites entries, which hold more than it says; baselines open nothing."""
    asked = (question("takes max"), question(r"_loop\(maxAttempts=4\)"), question("step 4"))
    (found,) = ask(folder, case(written(folder, "claude"), *asked), budget=100).cases

    assert found.methods["tasuki"].verdicts == ("direct", "hop", "no")
    assert found.methods["tasuki"].tokens == 11
    others = [a.verdicts for m, a in found.methods.items() if m != "tasuki"]
    assert {v for verdicts in others for v in verdicts} <= {"direct", "no"}


def test_entries_are_opened_as_tasuki_read_prints_them(folder: Path) -> None:
    """The same text, secrets redacted; refs that the thread does not have are passed over."""
    builder = long_thread("claude")
    builder.user("the key is ghp_0123456789abcdefghijABCDEFGHIJ012345").assistant("I see")
    path = builder.write(folder)
    thread = harnesses.detect_harness(path).read(path)
    last = thread.entries[-2].ref
    opened = question_runs.open_entries(thread, [2, 4, last, 9_999])
    printed = CliRunner().invoke(cli, ["read", f"{path}#2,4,{last}"])

    assert printed.exit_code == 0
    assert opened == printed.stdout
    assert "ghp_0123456789" not in opened


def test_a_compaction_gives_every_method_the_length_of_the_summary(folder: Path) -> None:
    """At least 500 tokens, unless a budget is asked for; the summary itself is asked uncut, alone
    and with something behind it."""
    long = "The plan has many parts. " * 120 + "And the answer is fortyTwo."
    builder = long_thread("claude", turns=4).compaction(long)
    builder.user("go on").shell("pytest -q tests/app", "ok")
    path = builder.write(folder)
    at = lines_before(path, "The plan has many parts")
    asked = {
        "file": path.name, "lines": at - 1, "summary_line": at, "goal": "go on",
        "questions": [question("fortyTwo")],
    }  # fmt: skip
    (found,) = ask(folder, asked).cases
    (fixed,) = ask(folder, asked, budget=900).cases

    assert found.budget == len(long) // 4
    assert fixed.budget == 900
    assert found.methods["native summary"] == fixed.methods["native summary"]
    assert found.methods["native summary"].verdicts == ("direct",)
    assert found.methods["native summary"].tokens == (len(long) + 3) // 4
    uncut = {m: a for m, a in found.methods.items() if m.startswith("native")}
    assert {a.verdicts for a in uncut.values()} == {("direct",)}
    assert {a.verdicts for m, a in found.methods.items() if m not in uncut} == {("no",)}
    assert all(a.tokens <= 900 for m, a in fixed.methods.items() if m not in uncut)


def test_a_short_summary_still_gives_500_tokens(folder: Path) -> None:
    """A mark of a line would leave no room for any brief."""
    path = written(folder, "claude", compact=(2, 5))
    at = lines_before(path, "step 5 comes next")
    cut = case(path, question("step 5 comes next"), lines=at - 1, summary_line=at)
    (found,) = ask(folder, cut).cases

    assert len(summary(5)) // 4 < 500
    assert found.budget == 500
    assert found.methods["native summary"].verdicts == ("direct",)


def test_the_budget_is_that_of_the_settings(folder: Path) -> None:
    """Without `--budget`; a curve adds others and changes nothing at the usual one."""
    cut = case(written(folder, "claude"), question("x"))
    loaded = LoadedSettings(Settings(budget=777))
    (plain,) = ask(folder, cut, loaded=loaded).cases
    (curved,) = ask(folder, cut, loaded=loaded, curve=(300, 600)).cases

    assert plain.budget == 777
    assert plain.methods.items() <= curved.methods.items()
    assert curved.methods["last@300"].tokens <= 300 < curved.methods["last@600"].tokens <= 600
    assert curved.methods["tasuki@300"].tokens <= 300


def test_the_command_takes_the_budget_of_the_settings(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A setting of the user counts here too."""
    monkeypatch.setenv("TASUKI_BUDGET", "777")
    cut = case(written(folder, "claude"), question("x"))
    found = json.loads(command(written_set(folder.parent, cut), folder, "--json").stdout)

    assert (found["budget"], found["cases"][0]["budget"]) == (None, 777)


def test_figures_do_not_depend_on_the_processes(folder: Path) -> None:
    """One worker or two, the same report."""
    paths = [written(folder, "claude"), written(folder, "codex", seed=1), written(folder, "pi", 2)]
    cases = [case(p, question("maxAttempts"), question("x{9}")) for p in paths]

    assert ask(folder, *cases) == ask(folder, *cases, workers=2)
    assert len(ask(folder, *cases).cases) == 3


# -- the command -----------------------------------------------------------------------


@pytest.mark.usefixtures("brief")
def test_the_command_prints_totals_and_kinds(folder: Path) -> None:
    """Totals by method, then by kind; with `-v` what is not answered directly, by thread."""
    path = written(folder, "claude")
    cut = case(
        path, question("takes max", kind="value"), question(r"_loop\(maxAttempts=4\)"),
        question("never_there", kind="tried"), question("nor_there", kind="tried"),
    )  # fmt: skip
    done = command(written_set(folder.parent, cut), folder, "--budget", "400", "-v")
    quiet = command(written_set(folder.parent, cut), folder, "--budget", "400")
    lines = [re.split(r"\s{2,}", line.strip()) for line in done.stdout.splitlines()]

    assert done.return_value == 0
    assert "4 questions on 1 thread, answered" in done.stdout
    assert next(line[1:4] for line in lines if line[0] == "tasuki") == ["1", "1", "2"]
    assert next(line[2] for line in lines if line[0] == "last") == "–"
    assert ["state", "1", "0 + 1"] in [line[:3] for line in lines]
    assert ["value", "1", "1"] in [line[:3] for line in lines]
    assert f"{path.name}:{cut['lines']}" in done.stdout.splitlines()
    assert "  no   tried       What of ('never_there',)?" in done.stdout
    assert "  hop  state       What of" in done.stdout
    assert done.stdout.startswith(quiet.stdout)
    assert "never_there" not in quiet.stdout


def test_the_curve_is_a_table_by_budget(folder: Path) -> None:
    """Each budget once, the smallest first."""
    cut = case(written(folder, "claude"), question("limitOf0"), question("Turn 0"))
    path = written_set(folder.parent, cut)
    done = command(path, folder, "--curve", "8000,100, 8000", "--budget", "100")
    table = done.stdout[done.stdout.index("Directly, by budget") :].splitlines()

    assert table[1].split() == ["100", "8,000"]
    assert next(line.split()[1:] for line in table if "last" in line) == ["0", "2"]


@pytest.mark.parametrize("curve", ["a", "1000,", "99", "1000;2000", "100001", "-500", "²00"])
def test_a_curve_that_is_none_is_wrong_usage(curve: str, folder: Path) -> None:
    """Said with the form that is wanted, before any work."""
    done = CliRunner().invoke(group, ["questions", "absent.json", str(folder), "--curve", curve])

    assert done.exit_code == 2
    assert "write 1000,2000,4000" in " ".join(done.stderr.split())


def test_json_has_every_verdict_and_no_word_of_the_thread(folder: Path) -> None:
    """Versioned; totals, kinds and verdicts in the order of the questions."""
    cut = case(written(folder, "claude"), question("limitOf3"), question("never_there"))
    path = written_set(folder.parent, cut)
    done = command(path, folder, "--json", "--budget", "3000", "--curve", "500")
    found = json.loads(done.stdout)
    (one,) = found["cases"]

    assert (found["version"], found["set"], found["budget"]) == (1, "questions.json", 3000)
    assert found["methods"]["last"]["direct"] == 1
    assert found["methods"]["last"]["kinds"] == {"state": {"direct": 1, "hop": 0, "no": 1}}
    assert one["methods"]["last"]["verdicts"] == ["direct", "no"]
    assert "mix@500" in found["methods"]
    assert (found["curve"], found["left_out"]) == ([500], [])
    assert "limitOf" not in done.stdout
    assert str(folder) not in done.stdout


def test_nothing_is_kept_in_the_vault(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Briefs are made, asked and forgotten."""
    monkeypatch.setenv("TASUKI_DATA", str(tmp_path / "data"))
    cut = case(written(folder, "claude"), question("x"))

    assert command(written_set(tmp_path, cut), folder).return_value == 0
    assert (
        not list((tmp_path / "data").rglob("*handoff*")) if (tmp_path / "data").exists() else True
    )
