"""Case files are read strictly, and their threads are written in the format of every harness."""

import re
from pathlib import Path

import pytest
from case_files import CASE, EVERYWHERE, OFFLINE, case_of, read_back, written

from tasuki.errors import UsageError
from tasuki_evals.cases import case_runs, filler, scenario
from tasuki_evals.cases.scenario import CaseFact, CaseStep, ChainLink
from tasuki_testing.thread_formats import FORMATS

# -- reading -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "key", "said"),
    [
        ('category = "happy"', 'category = "funny"', "category", "funny"),
        ("smoke = true", "smoke = 1", "smoke", "bool"),
        ("smoke = true", "smokes = true", "", "smokes"),
        ('harness = "claude"', 'harness = "clod"', "harness", "claude"),
        ('harness = "claude"', "", "", "harness"),
        ('id = "retry"', 'id = "other"', "id", "retry"),
        ('cwd = "/home', 'cwd = "home', "cwd", "absolute path"),
        ('goal = "add retries to the upload client and test them"', 'goal = ""', "goal", "empty"),
        ('needs = ["(4|four) attempts"]', 'needs = ["(4|four attempts"]', "expected_context[0].needs[0]", "regular"),
        ('needs = ["(4|four) attempts"]', "needs = []", "expected_context[0].needs", "at least one"),
        ('needs = ["(4|four) attempts"]', 'needs = ["x*"]', "expected_context[0].needs", "empty line"),
        ('needs = ["swordfish"]', 'needs = ["a"]\nunless = "["', "forbidden[0].unless", "regular"),
        ('assistant = "The client', 'says = "The client', "thread[3]", "says"),
        ('output = "3 passed in 0.1s"', 'content = "3 passed"', "thread[2].content", "does not belong"),
        ('output = "3 passed in 0.1s"', 'user = "and"', "thread[2]", "user and shell"),
        ('output = "3 passed in 0.1s"', 'code = "1"', "thread[2].code", "int"),
        ('old = "def upload(part): ..."', "", "thread[1].edit", "old"),
        ('assistant = "The client takes a number of attempts now."', "filler = 0", "thread[3].filler", "between"),
        ('assistant = "The client takes a number of attempts now."', "interrupted = false", "thread[3].interrupted", "true|True|Invalid"),
        ('assistant = "The client takes a number of attempts now."', 'todos = [["a", "done"]]', "thread[3].todos[0][1]", "done"),
        ('harness = "claude"', 'harness = "aider"\nchain = [{goal = "g", steps = [{todos = [["a", "pending"]]}]}]', "chain[0].steps[0].todos", "do not support it"),
        ("[[thread]]", "[[thread]", "", "TOML"),
    ],
)  # fmt: skip
def test_an_error_in_a_case_names_file_and_key(
    tmp_path: Path, old: str, new: str, key: str, said: str
) -> None:
    """A wrong value, an unknown key, a broken expression or step: the message says where."""
    assert old in CASE
    path = written(tmp_path, CASE.replace(old, new, 1))

    with pytest.raises(UsageError, match=said) as raised:
        scenario.load_cases([path])

    assert str(path) in str(raised.value)
    assert f"{key}: " in str(raised.value) or f"{key} " in str(raised.value) or not key


def test_what_is_no_case_file_is_told(tmp_path: Path) -> None:
    """A missing file, a folder without cases and an id that comes twice are errors."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one, two = written(tmp_path / "a"), written(tmp_path / "b")

    for paths, said in (([tmp_path / "none.toml"], "no such file"), ([tmp_path], "no case"), ([one, two], "is also the id of")):  # fmt: skip
        with pytest.raises(UsageError, match=said):
            scenario.load_cases(paths)
    assert [case.id for case in scenario.load_cases([one, one.parent])] == ["retry"]


def test_the_cases_of_the_project_can_be_run() -> None:
    """Each of the project's own files is a case, some are smoke, and no goal tells a fact."""
    cases = scenario.load_cases()

    assert {"ten-facts"} <= {case.id for case in cases}
    assert any(case.smoke for case in cases)
    told = [(c.id, f.kind) for c in cases for f in c.expected_context if f.matches_line(c.goal)]
    assert told == []


def test_the_example_of_the_format_is_a_case(tmp_path: Path) -> None:
    """What the README shows is a case that passes, and its chain can be run."""
    text = (scenario.CASES_FOLDER / "README.md").read_text()
    example, chain = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    whole = example + chain[chain.index("[[chain]]") :]
    cases = [scenario.read_case(written(tmp_path, t, "retry-budget")) for t in (example, whole)]
    alone, linked = case_runs.run_cases(cases, OFFLINE)

    assert alone.has_passed
    assert len(linked.verdicts) == 2


def test_ten_facts_are_of_ten_kinds() -> None:
    """The ten-facts case has eight kinds of context, a file and a command, in about 150 entries."""
    case = next(case for case in scenario.load_cases() if case.id == "ten-facts")
    entries = sum(step.filler or 1 for step in case.thread)

    assert len({fact.kind for fact in case.expected_context}) == 8
    assert len(case.expected_files) == len(case.expected_commands) == 1
    assert 130 <= entries <= 170


# -- building ------------------------------------------------------------------------------


@pytest.mark.parametrize("harness", sorted(FORMATS))
def test_a_case_can_be_told_in_every_harness(harness: str) -> None:
    """Every harness has a thread written, read, handed off and judged, and nothing is invented."""
    facts = (CaseFact("constraint", ("four attempts",)),)
    case = case_of(
        *EVERYWHERE, harness=harness, expected_files=("src/client.py",), expected_context=facts
    )
    [result] = case_runs.run_cases([case], OFFLINE)

    assert result.first.invented == ()
    assert (result.first.held_count, result.first.missing_files) == (1, ())
    assert 0 < result.first.size <= case_runs.MAX_CHARACTERS


@pytest.mark.parametrize("harness", ["claude", "codex", "opencode"])
def test_filler_is_so_many_entries(harness: str, tmp_path: Path) -> None:
    """`filler = N` adds N entries, the same ones at every run."""
    case = case_of(CaseStep(user="hello"), CaseStep(filler=137), harness=harness)
    (tmp_path / "again").mkdir()
    once, again = read_back(case, tmp_path), read_back(case, tmp_path / "again")

    assert len(once.entries) == 138
    assert [e.text for e in once.entries] == [e.text for e in again.entries]


def test_filler_leaves_the_truth_of_a_case_alone() -> None:
    """It runs no check, commits nothing, answers what is asked, and edits no file of the case."""
    doings = list(
        filler.FillerProject("name", ("src/a/client.ts", "README.md")).generate_work(2000)
    )
    commands = {texts[0].split()[0:2][0] for kind, texts in doings if kind == "shell"}
    spoken = [(kind, texts[0]) for kind, texts in doings if kind in ("user", "assistant")]
    asked = [n for n, (kind, text) in enumerate(spoken) if kind == "user" and text not in filler.TEXTS["thanks"]]  # fmt: skip

    assert len(doings) == 2000
    assert commands <= {"rg", "git", "ls", "wc", "tail", "pwd"}
    assert not [t for k, t in doings if k == "shell" and "commit" in t[0]]
    assert all(spoken[n + 1][0] == "assistant" for n in asked)
    assert {t[0].rpartition(".")[2] for k, t in doings if k == "edit"} == {"ts"}
    assert "src/a/client.ts" not in {t[0] for k, t in doings if k in ("edit", "read")}


def test_filler_never_says_what_is_looked_for() -> None:
    """No line of it satisfies a fact of the case, even one that ordinary talk would satisfy."""

    def avoids(line: str) -> bool:
        return "callers" in line or "line" in line

    doings = filler.FillerProject("name", ("src/main.py",), avoids).generate_work(400)
    lines = [line for _, texts in doings for text in texts for line in text.split("\n")]

    assert len(lines) > 400
    assert [line for line in lines if avoids(line)] == []


@pytest.mark.parametrize("harness", ["claude", "codex", "pi", "omp", "gemini", "opencode"])
def test_a_link_begins_with_brief_and_goal(harness: str, tmp_path: Path) -> None:
    """The thread of a link begins with the earlier brief, and the goal that it was made for is in it."""
    link = ChainLink("and the download side", (CaseStep(assistant="I read the downloader."),))
    case = case_of(*EVERYWHERE, harness=harness, chain=(link,))
    brief = "# Handoff Context\nwords\n\n<record-of-the-past>\n## Key Decisions\n- a\n</record-of-the-past>\n"
    entries = read_back(case, tmp_path, 1, brief).entries
    apart = harness in ("pi", "omp")

    assert entries[0].origin == "handoff"
    assert "- a\n" in entries[0].text
    assert ("add retries" in entries[0].text) is not apart
    assert [e.text for e in entries[1:]] == ["add retries"] * apart + ["I read the downloader."]
