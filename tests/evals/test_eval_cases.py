"""`tasuki eval cases`: briefs are judged by yes and no, and the command prints what came of it."""

import json
from pathlib import Path
from typing import Any

import click
import pytest
from case_files import CASE, EVERYWHERE, OFFLINE, case_of, read_back, written
from click.testing import CliRunner, Result

from tasuki_evals.cases import case_runs, scenario
from tasuki_evals.cases.scenario import CaseFact, CaseStep, ChainLink
from tasuki_evals.cli.main import eval as group
from tasuki_evals.statistics import build_proportion, compute_wilson_bounds


def run(*arguments: str | Path) -> Result:
    """`tasuki eval cases` with these arguments; what it returns is the exit code."""
    given = ["cases", *map(str, arguments)]
    return CliRunner().invoke(group, given, standalone_mode=False)


def document(*arguments: str | Path) -> dict[str, Any]:
    """What `--json` prints."""
    result = run("--json", *arguments)
    assert result.exception is None, result.exception
    found: dict[str, Any] = json.loads(result.stdout)
    return found


# -- judging -------------------------------------------------------------------------------


def verdict(context: str, tmp_path: Path, **more: Any) -> case_runs.BriefVerdict:
    """The verdict on a brief for `CASE`."""
    case = scenario.read_case(written(tmp_path))
    thread = read_back(case, tmp_path)
    return case_runs.judge_brief(case, context, thread, case.goal, **more)


TRUE = """\
## What the user asked for and ruled
- "Never more than four attempts, the queue stays as it is." [#1]

## Relevant Files
- src/upload/client.py — edited 1× [#2]

## Relevant Commands
- `pytest -q tests/upload` — 3 passed in 0.1s [#3]
"""


def test_the_judge_can_say_yes_and_no(tmp_path: Path) -> None:
    """An empty brief misses everything, one that says all is complete and clean."""
    empty, full = verdict("", tmp_path), verdict(TRUE, tmp_path)

    assert (empty.missing_files, empty.missing_commands, empty.held_count) == (
        ("src/upload/client.py",),
        ("pytest -q tests/upload",),
        0,
    )
    assert empty.is_clean
    assert not empty.is_complete
    assert full.is_complete
    assert full.is_clean
    assert full.context[0].line.startswith('- "Never more than four')


@pytest.mark.parametrize(
    ("shown", "found"),
    [
        ("`pytest -q tests/upload`", True),
        ("`pytest  -q tests/upload`", True),
        ("`pytest -q tests/upload 2>&1 | tail -5`", True),
        ("`pytest -q tests/upload | tail`", True),
        ("`pytest -q tests/up …`", True),
        ("`pytest -q tests/upload/test_retry.py`", False),
        ("`pytest -q tests/upload -x`", False),
        ("`pytest -q`", False),
        ("it ran `pytest -q tests/upload`", False),
        ("also: `ls`, `pytest -q tests/upload`, `make`", True),
        ("also: `ls`, `make`", False),
    ],
)
def test_a_command_counts_by_its_own_characters(shown: str, found: bool, tmp_path: Path) -> None:
    """A command is there whole, cut with ` …`, or with its pipe behind it, and in no other way."""
    judged = verdict(TRUE.replace("`pytest -q tests/upload`", shown), tmp_path)

    assert (judged.missing_commands == ()) is found


def test_what_is_forbidden_is_seen_with_its_line(tmp_path: Path) -> None:
    """A forbidden line is a leak, and `unless` counts in the heading above it too."""
    fact = CaseFact("reversal", ("30 days",), "called off")
    leaking = verdict(TRUE + "- the password is swordfish", tmp_path)

    assert [leak.line for leak in leaking.forbidden] == ["- the password is swordfish"]
    assert not leaking.is_clean
    assert fact.matches_line("- after 30 DAYS", "## Key Decisions")
    assert not fact.matches_line("- after 30 days", "## Called off")
    assert not fact.matches_line("- 30 days was called off")


def test_a_brief_that_invents_or_is_too_long_does_not_pass(tmp_path: Path) -> None:
    """An invention and a character too many are each enough to fail."""
    long = f"{TRUE}\n## Session Metadata\n- "
    long += "x" * (case_runs.MAX_CHARACTERS - len(long))
    invented = verdict(TRUE.replace("client.py", "klient.py"), tmp_path)

    assert verdict(long, tmp_path).is_clean
    assert not verdict(long + "x", tmp_path).is_clean
    assert [one.text for one in invented.invented] == ["src/upload/klient.py"]


def chained(*survivors: int, of: int = 2) -> case_runs.CaseResult:
    """A chain in whose briefs so many of its constraints stand."""
    facts = tuple(CaseFact("constraint", (str(n),)) for n in range(of))
    link = ChainLink("g", (CaseStep(assistant="a"),))
    case = case_of(
        *EVERYWHERE,
        chain=(link,) * (len(survivors) - 1),
        expected_context=(*facts, CaseFact("number", ("9",))),
    )

    def judged(kept: int) -> case_runs.BriefVerdict:
        held = [
            case_runs.HeldFact("constraint", f.needs, "x" * (n < kept)) for n, f in enumerate(facts)
        ]
        other = case_runs.HeldFact("number", ("9",), "always there")
        return case_runs.BriefVerdict(
            entries=9, size=900, missing_files=(), missing_commands=(), context=(*held, other),
            forbidden=(), invented=(),
        )  # fmt: skip

    return case_runs.CaseResult(case, tuple(map(judged, survivors)))


@pytest.mark.parametrize(
    ("survivors", "passed"),
    [((2, 1, 1, 1, 2), True), ((1, 1, 1, 0, 1), True), ((2, 2, 2, 2, 1), False), ((0, 0, 0, 0, 0), False), ((2, 2, 2), True), ((2, 2, 1), False), ((2, 2, 2, 2, 2, 0), True)],
)  # fmt: skip
def test_a_chain_passes_if_no_constraint_is_lost_on_the_way(
    survivors: tuple[int, ...], passed: bool
) -> None:
    """After five handoffs, or at its end, no fewer stand in the brief than after one."""
    assert chained(*survivors).has_passed is passed
    assert chained(*survivors).survivor_counts == survivors


def test_chains_are_added_up_by_depth() -> None:
    """The figure of a depth is over all chains that go so deep."""
    found = case_runs.compute_chain_figures([chained(2, 1, 1, 0, 0), chained(1, 1)])

    assert [(f.depth, f.survived.hits, f.survived.of) for f in found] == [
        (1, 3, 4),
        (2, 2, 4),
        (3, 1, 2),
        (5, 0, 2),
    ]


@pytest.mark.parametrize(
    ("hits", "of", "low", "high"),
    [(8, 10, 0.4902, 0.9433), (0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (1, 1, 0.2065, 1.0), (0, 0, 0.0, 1.0), (48, 48, 0.9259, 1.0)],
)  # fmt: skip
def test_the_interval_is_that_of_wilson(hits: int, of: int, low: float, high: float) -> None:
    """The bounds are those that the score test gives, as tables print them."""
    assert compute_wilson_bounds(hits, of) == pytest.approx((low, high), abs=1e-4)


def test_a_share_of_nothing_is_no_number() -> None:
    """Nothing counted has no share, and more hits than counted is an error."""
    assert build_proportion(0, 0).share is None
    with pytest.raises(ValueError, match="no share"):
        compute_wilson_bounds(3, 2)


# -- the command ---------------------------------------------------------------------------


def test_json_is_the_same_at_every_run(tmp_path: Path) -> None:
    """Two runs print the same document, whatever the project's settings say."""
    written(tmp_path)
    once = run(tmp_path, "--json").stdout
    with pytest.MonkeyPatch.context() as here:
        here.chdir(tmp_path)
        (tmp_path / ".tasuki.toml").write_text("max_files = 0\nbudget = 300\n")
        again = run(tmp_path, "--json").stdout
    [case] = json.loads(once)["cases"]

    assert once == again
    assert case["passed"]
    assert case["briefs"][0]["context"][0]["needs"] == ["(4|four) attempts"]
    assert json.loads(once)["figures"]["passed"]["share"] == 1


def test_the_exit_code_tells_of_failures_only_when_asked(tmp_path: Path) -> None:
    """0 whatever the figures are, 1 with --fail-under and a smaller share."""
    written(tmp_path)
    lost = CASE.replace('id = "retry"', 'id = "lost"').replace("(4|four) attempts", "nowhere")
    written(tmp_path, lost, "lost")
    results = [run(tmp_path, *more) for more in ((), ("--fail-under", "0.5"), ("--fail-under", "0.51"))]  # fmt: skip

    assert [r.return_value for r in results] == [0, 0, 1]
    assert "missing: constraint (nowhere)" in results[0].stdout


def test_an_invention_fails_whatever_share_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --fail-under 0 the exit code is 1 only if something was invented."""
    path = written(tmp_path)
    assert run(path, "--fail-under", "0").return_value == 0

    made_up = case_runs.fidelity.InventedClaim("Relevant Files", "src/made/up.py", "path")
    monkeypatch.setattr(case_runs.fidelity, "find_invented", lambda *given: [made_up])
    result = run(path, "--fail-under", "0")

    assert result.return_value == 1
    assert "invented: path under Relevant Files: src/made/up.py" in result.stdout


def test_cases_are_chosen(tmp_path: Path) -> None:
    """--only, --smoke and --no-chains leave the others out; nothing left is an error."""
    written(tmp_path)
    plain = CASE.replace('id = "retry"', 'id = "plain"').replace("smoke = true", "")
    written(tmp_path, plain, "plain")
    link = (
        '\n[[chain]]\ngoal = "now the download side"\n[[chain.steps]]\nassistant = "I read it."\n'
    )
    written(tmp_path, plain.replace('"plain"', '"linked"') + link, "linked")

    def ids(*more: str) -> list[str]:
        return [case["id"] for case in document(tmp_path, *more)["cases"]]

    assert ids() == ["linked", "plain", "retry"]
    assert ids("--only", "plain", "--only", "retry") == ["plain", "retry"]
    assert ids("--smoke") == ["retry"]
    assert ids("--no-chains") == ["plain", "retry"]
    for more, said in ((["--only", "retyr"], "Did you mean retry"), (["--only", "plain", "--smoke"], "None of the 3")):  # fmt: skip
        assert said in str(run(tmp_path, *more).exception)
    assert isinstance(run(tmp_path, "--author", "agent").exception, click.UsageError)


def test_a_folder_that_exists_here_is_not_looked_at(tmp_path: Path) -> None:
    """What lies in the folder that a case names, should it exist, does not get into the brief."""
    elsewhere = tmp_path / "gone"
    case = scenario.read_case(written(tmp_path, CASE.replace("/home/dev/uploader", str(elsewhere))))
    once = case_runs.run_cases([case], OFFLINE)
    (elsewhere / "src" / "upload").mkdir(parents=True)
    (elsewhere / "src" / "upload" / "client.py").write_text("changed since")

    assert once == case_runs.run_cases([case], OFFLINE)


def test_threads_and_briefs_can_be_kept(tmp_path: Path) -> None:
    """--keep leaves the thread and the brief with its goal; of a chain, each of them."""
    link = (
        '\n[[chain]]\ngoal = "now the download side"\n[[chain.steps]]\nassistant = "I read it."\n'
    )
    keep = tmp_path / "kept"
    run(written(tmp_path, CASE + link), "--keep", keep)
    first, second = (keep / "retry" / f"thread-{n}" for n in (1, 2))

    assert "four attempts" in (first / "brief.md").read_text()
    assert (
        (first / "brief.md").read_text().endswith("add retries to the upload client and test them")
    )
    assert (second / "brief.md").read_text().endswith("now the download side")
    assert len(list(second.glob("*.jsonl"))) == 1


def test_nothing_is_kept_in_the_vault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run leaves the user's data folder as it was."""
    monkeypatch.setenv("TASUKI_DATA", str(tmp_path / "data"))
    run(written(tmp_path))

    assert not (tmp_path / "data").exists()


def test_the_offline_author_stands_up_to_all_cases() -> None:
    """85 % pass, nothing is invented, the ten facts are kept, and chains lose no constraint on their way."""
    found = document()
    failed = sorted(case["id"] for case in found["cases"] if not case["passed"])
    survived = [figure["hits"] for figure in found["chains"]]

    assert len(found["cases"]) >= 40
    assert found["figures"]["nothing_invented"]["share"] == 1
    assert found["figures"]["passed"]["share"] >= 0.85, failed
    assert "ten-facts" not in failed
    assert survived[0] > 0
    assert survived == [survived[0]] * 4


def test_the_offline_author_stands_up_to_the_smoke_cases() -> None:
    """Nothing is invented, and at least 85 % of the smoke cases pass."""
    found = document("--smoke")
    failed = {
        case["id"]: [
            *(f"{f['kind']}: {f['needs']}" for f in brief["context"] if not f["line"]),
            *brief["missing_files"], *brief["missing_commands"], *(leak["line"] for leak in brief["forbidden"]),
        ]
        for case in found["cases"] if not case["passed"] for brief in case["briefs"][:1]
    }  # fmt: skip
    told = json.dumps(failed, indent=2, ensure_ascii=False)

    assert found["figures"]["nothing_invented"]["share"] == 1
    assert found["figures"]["passed"]["share"] >= 0.85, told
