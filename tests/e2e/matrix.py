"""Runs the matrix with every program and writes its tables into `workshop/matrix.md`.

.venv/bin/python tests/e2e/matrix.py [RESULTS ...]

RESULTS are JUnit files of runs that were made before, of which a later one counts for its cells:
scripts/test --all tests/e2e/test_matrix.py --junitxml RESULTS, with `TASUKI_E2E=all`.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree as Xml  # of our own test run

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "support"), str(Path(__file__).parent)]

import npm_programs  # noqa: E402
from agents import PROGRAMS  # noqa: E402
from handoffs import made  # noqa: E402

from tasuki.harness import registry as harnesses  # noqa: E402
from tasuki.harness.protocol import LaunchPlan, LaunchRequest  # noqa: E402

PAGE = ROOT / "workshop" / "matrix.md"
BEGIN, END = "<!-- matrix -->\n", "<!-- /matrix -->\n"
GOAL, BRIEF = "the goal of all this", "the brief of all this\n\n## Goal\n\nthe goal of all this"
MODES = ("sent", "unsent")


def results(path: Path) -> dict[tuple[str, str, str], str]:
    """What became of each cell: `✓`, `✗`, or `–` where it was skipped; by mode, source, successor."""
    found = {}
    for case in Xml.parse(path).iter("testcase"):
        test, _, parameters = case.get("name", "").partition("]")[0].partition("[")
        mode, pair = test.removeprefix("test_"), parameters.split("-")
        if mode in MODES and len(pair) == 2:
            kinds = {child.tag for child in case}
            state = "✗" if kinds & {"failure", "error"} else "–" if "skipped" in kinds else "✓"
            found[mode, pair[0], pair[1]] = state
    return found


def cells(found: dict[tuple[str, str, str], str]) -> str:
    """Sources down, successors across; in each cell sent and unsent."""
    names = list(PROGRAMS)
    titles = [harnesses.get_harness(name).title for name in names]
    lines = [
        "| from ↓ to → | " + " | ".join(titles) + " |",
        "|---" * (len(names) + 1) + "|",
    ]
    for source, title in zip(names, titles, strict=True):
        row = [" ".join(found.get((mode, source, to), "?") for mode in MODES) for to in names]
        lines.append(f"| **{title}** | " + " | ".join(row) + " |")
    return "\n".join(lines) + "\n"


def ways() -> str:
    """How each successor gets its first prompt, from its plan."""
    versions = npm_programs.versions()
    lines = ["| successor | version | sent | unsent | in every run |", "|---|---|---|---|---|"]
    for name in PROGRAMS:
        harness = harnesses.get_harness(name)
        sent, unsent = (
            way(harness.plan(LaunchRequest(made(goal=GOAL), BRIEF, "", str(ROOT), send=send)))
            for send in (True, False)
        )
        every = "yes" if npm_programs.in_every_run(name) else "`TASUKI_E2E=all`"
        row = (harness.title, versions[name], sent, unsent, every)
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines) + "\n"


def way(plan: LaunchPlan) -> str:
    """How a plan hands over: what holds the past, then how the first prompt gets in."""
    past = "session file, " if plan.files else ""
    what = "goal" if plan.files else "brief"
    if plan.paste:
        return f"{past}{what} pasted"
    if "--prefill" in plan.argv:
        return f"{past}`--prefill`"
    at = next(n for n, word in enumerate(plan.argv) if GOAL in word)
    inside = plan.argv[at].partition("=")[0] if plan.argv[at].startswith("--") else ""
    option = inside or plan.argv[at - 1]
    return f"{past}{what} as argument{f' of `{option}`' if option.startswith('-') else ''}"


def run(path: Path) -> None:
    """Run every cell; failures are told by the table."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "tests/e2e/test_matrix.py",
        "--all",
        f"--junitxml={path}",
    ]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "TASUKI_E2E": "all"}, check=False)


def main() -> int:
    """0 if every cell passed."""
    found: dict[tuple[str, str, str], str] = {}
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(name) for name in sys.argv[1:]]
        if not paths:
            paths = [Path(folder) / "results.xml"]
            run(paths[0])
        for path in paths:
            found |= results(path)
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    tables = f"{BEGIN}\n{cells(found)}\n{ways()}\n{END}"
    PAGE.write_text(f"{before}{tables}{after}", encoding="utf-8")
    return int(any(state == "✗" for state in found.values()))


if __name__ == "__main__":
    sys.exit(main())
