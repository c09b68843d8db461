"""The labelled answers in `bench/judged`: whole, honest, and judged again by one command."""

import hashlib
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from tree import ROOT

pytest.importorskip("pydantic_ai")

from fakes.model_server import ModelRequest, ModelServer, ModelStep

from tasuki_evals.cases import scenario
from tasuki_evals.cases.scenario import ScenarioCase
from tasuki_evals.cli.main import eval as group
from tasuki_evals.judge import labels
from tasuki_evals.judge.judge import format_answer
from tasuki_evals.judge.labels import JudgeLabel, SavedBrief

FOLDER = ROOT / "bench" / "judged"
COMMAND = ROOT / "bench" / "judge_agreement.py"
KINDS = {
    "recall",
    "decision",
    "artifact-files",
    "artifact-commands",
    "artifact-check",
    "continuation",
}
ASIDE = {"actions-cache", "tiny-nginx", "zig-arena"}
"""Cases whose answer the scripted judge sees the other way round."""


@pytest.fixture(scope="module")
def kept() -> list[SavedBrief]:
    """The briefs of the set with their items."""
    return labels.read_saved_run(FOLDER)


@pytest.fixture(scope="module")
def known() -> dict[tuple[str, str], JudgeLabel]:
    """The labels of the set, by case and probe."""
    read = labels.read_labels(FOLDER / labels.LABELS)
    found = {(label.case, label.probe): label for label in read}
    assert len(found) == len(read), "an answer is labelled twice"
    return found


@pytest.fixture(scope="module")
def cases() -> dict[str, ScenarioCase]:
    """The project's cases by their ids."""
    return {case.id: case for case in scenario.load_cases([])}


# -- the set -------------------------------------------------------------------------------


def test_every_brief_has_one_answer(kept: list[SavedBrief], cases: dict[str, ScenarioCase]) -> None:
    """Sixty briefs: one of each case, and ten more with another budget, each with one probe."""
    names = [one.brief.case for one in kept]

    assert len(set(names)) == len(names) == 60
    assert [len(one.items) for one in kept] == [1] * 60
    assert {name for name in names if "@" not in name} == set(cases)
    assert {name.partition("@")[0] for name in names} == set(cases)


def test_the_kinds_are_mixed_evenly(kept: list[SavedBrief]) -> None:
    """Ten answers of each kind of probe."""
    ids = [one.items[0].probe.id for one in kept]
    counted = Counter(re.sub(r"-\d+$", "", id) for id in ids)

    assert counted == dict.fromkeys(KINDS, 10)


def test_briefs_are_what_their_hashes_say(kept: list[SavedBrief]) -> None:
    """Text, brief and item carry one hash, and answers cite what stands in their brief alone."""
    for one in kept:
        (item,) = one.items
        digest = hashlib.sha256(one.brief.text.encode()).hexdigest()
        cited = {int(n) for n in re.findall(r"#(\d+)\b", one.brief.text)}

        assert one.brief.sha256 == item.brief_sha256 == digest, one.brief.case
        assert item.case == one.brief.case
        assert item.answer
        assert set(item.answer.refs) <= cited, one.brief.case


def test_every_answer_is_labelled_with_a_reason(
    kept: list[SavedBrief], known: dict[tuple[str, str], JudgeLabel]
) -> None:
    """Each label belongs to this brief and this answer, and has a verdict, a critique and a reader."""
    assert set(known) == {(one.brief.case, one.items[0].probe.id) for one in kept}
    for one in kept:
        (item,) = one.items
        label = known[item.case, item.probe.id]

        assert label.brief_sha256 == item.brief_sha256, item.case
        assert label.answer_sha256 == labels.hash_answer(item), item.case
        assert label.label in ("pass", "fail"), item.case
        assert len(label.critique.split()) >= 8, item.case
        assert label.is_by_a_person, item.case


def test_right_and_wrong_answers_are_balanced(known: dict[tuple[str, str], JudgeLabel]) -> None:
    """Between half and seven tenths pass, and both verdicts occur in every kind."""
    passed = [label for label in known.values() if label.label == "pass"]
    by_kind: dict[str, set[str]] = {}
    for label in known.values():
        by_kind.setdefault(re.sub(r"-\d+$", "", label.probe), set()).add(label.label)

    assert 0.5 <= len(passed) / len(known) <= 0.7
    assert by_kind == {kind: {"pass", "fail"} for kind in KINDS}


def test_no_question_gives_its_answer_away(
    kept: list[SavedBrief], cases: dict[str, ScenarioCase]
) -> None:
    """A question on a planted fact does not hold that fact."""
    for one in kept:
        probe = one.items[0].probe
        if probe.kind in ("recall", "decision"):
            case = cases[one.brief.case.partition("@")[0]]
            fact = case.expected_context[int(probe.id.rpartition("-")[2]) - 1]

            assert fact.matches_line(probe.truth.replace("\n", " ")), probe.truth
            assert not fact.matches_line(probe.question), probe.question


def test_what_comes_next_is_judged_by_the_case(
    kept: list[SavedBrief], cases: dict[str, ScenarioCase]
) -> None:
    """The truth of a continuation is the criterion that its case has today."""
    asked = [one for one in kept if one.items[0].probe.kind == "continuation"]
    for one in asked:
        case = cases[one.brief.case.partition("@")[0]]

        assert one.items[0].probe.truth == case.pass_criteria.strip()


# -- judging it again ----------------------------------------------------------------------


class LabelReader:
    """A scripted judge that gives the label of each answer, but for a few the other one."""

    def __init__(self, kept: list[SavedBrief], known: dict[tuple[str, str], JudgeLabel]) -> None:
        self.verdicts = {}
        for one in kept:
            (item,) = one.items
            assert item.answer
            found = known[item.case, item.probe.id].label
            other = {"pass": "fail", "fail": "pass"}
            verdict = other[found] if item.case in ASIDE else found
            self.verdicts[format_answer(item.answer)] = verdict

    def __call__(self, request: ModelRequest) -> str:
        asked = request.turns[1].text
        match = re.search(r"<(thread-\w+)-answer>\n(.*?)\n</\1-answer>", asked, re.DOTALL)
        assert match, asked
        said = {"critique": "So the script has it.", "refs": []}
        return json.dumps({**said, "verdict": self.verdicts[match[2]]})


@pytest.fixture
def settings(
    tmp_path: Path, kept: list[SavedBrief], known: dict[tuple[str, str], JudgeLabel]
) -> Iterator[Path]:
    """A file of settings with the scripted judge as `local/scripted`, which answers meanwhile."""
    judge = LabelReader(kept, known)
    with ModelServer(default=ModelStep(reply=judge)) as server:
        file = tmp_path / "config.toml"
        file.write_text(
            f'model = "local/scripted"\n[providers.local]\nbase_url = "{server.url}/v1"\nwindow = 32000\n'
        )
        yield file


def run_command(settings: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`bench/judge_agreement.py` with these settings, and no others of this machine."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("TASUKI_")}
    env = {**kept, "TASUKI_CONFIG": str(settings), "HOME": str(settings.parent)}
    command = [sys.executable, str(COMMAND), "--model", "local/scripted", *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)


def test_the_command_prints_the_agreement_of_a_judge(settings: Path) -> None:
    """Agreement with its interval, kappa and the four counts, beside judges that need no model."""
    done = run_command(settings)

    assert done.returncode == 0, done.stderr
    assert "| local/scripted | 57/60, 95% (86%–98%) | 0.90 | 34 | 1 | 2 | 23 | 0 |" in done.stdout
    assert (
        "| passes everything | 36/60, 60% (47%–71%) | 0.00 | 36 | 24 | 0 | 0 | 0 |" in done.stdout
    )
    assert "| fails everything | 24/60, 40% (29%–53%) | 0.00 | 0 | 0 | 36 | 24 | 0 |" in done.stdout
    assert "| passes what shares half of the truth's words |" in done.stdout
    assert "60 labelled answers, 36 of them `pass`." in done.stdout
    assert (
        "zig-arena decision-3\n    judge: fail: So the script has it.\n    label: pass:"
        in done.stdout
    )
    assert "60/60, " in done.stderr


@pytest.mark.long
def test_what_was_not_judged_in_time_has_no_verdict(settings: Path) -> None:
    """Without a minute nothing is asked, and the row of the judge says that all sixty lack a verdict."""
    done = run_command(settings, "--minutes", "0")

    assert done.returncode == 0, done.stderr
    assert "| local/scripted | – | – | – | – | – | – | 60 |" in done.stdout


@pytest.mark.long
def test_a_part_of_the_set_is_counted_as_a_part(settings: Path) -> None:
    """With `--limit` the line below the table counts those answers alone."""
    done = run_command(settings, "--limit", "2")

    assert done.returncode == 0, done.stderr
    assert "\n2 labelled answers, " in done.stdout
    assert "2/2, " in done.stderr


@pytest.mark.parametrize("limit", ["-5", "0"])
def test_a_limit_below_one_is_refused(settings: Path, limit: str) -> None:
    """No answers, or fewer than none, are a mistake and not a slice from the other end."""
    done = run_command(settings, f"--limit={limit}")

    assert done.returncode == 2
    assert f"{limit} is no number of answers; write 1 or more" in done.stderr


def test_any_judge_is_measured_by_the_set(settings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`tasuki eval judge` on the folder asks for verdicts alone and compares them with the labels."""
    monkeypatch.setenv("TASUKI_CONFIG", str(settings))
    monkeypatch.delenv("TASUKI_MODEL", raising=False)
    arguments = ["judge", "--json", str(FOLDER), "--labels", str(FOLDER / "labels.jsonl")]
    done = CliRunner().invoke(group, arguments, standalone_mode=False)
    document = json.loads(done.stdout)

    assert document["agreement"]["hits"] == 57
    assert document["agreement"]["of"] == document["cost"]["requests"] == 60
    assert document["trusted"] is True
    assert {one["case"] for one in document["agreement"]["disagreements"]} == ASIDE
