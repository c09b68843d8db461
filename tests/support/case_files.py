"""Cases for the tests of `tasuki eval cases`."""

from pathlib import Path
from typing import Any

from tasuki.config.settings import LoadedSettings, Settings
from tasuki.harness import registry as harnesses
from tasuki.model import Thread
from tasuki_evals.cases import case_runs, scenario
from tasuki_evals.cases.scenario import CaseStep, ScenarioCase
from tasuki_evals.runs import build_settings

OFFLINE = build_settings(LoadedSettings(Settings()), case_runs.BUDGET)
CASE = """
id = "retry"
category = "happy"
about = "A number that was said once."
harness = "claude"
cwd = "/home/dev/uploader"
smoke = true
goal = "add retries to the upload client and test them"
expected_files = ["src/upload/client.py"]
expected_commands = ["pytest -q tests/upload"]

[[expected_context]]
kind = "constraint"
needs = ["(4|four) attempts"]

[[forbidden]]
kind = "secret"
needs = ["swordfish"]

[[thread]]
user = "Uploads get lost. Never more than four attempts, the queue stays as it is."
[[thread]]
edit = "src/upload/client.py"
old = "def upload(part): ..."
new = "def upload(part, attempts): ..."
[[thread]]
shell = "pytest -q tests/upload"
output = "3 passed in 0.1s"
[[thread]]
assistant = "The client takes a number of attempts now."
"""


def written(folder: Path, text: str = CASE, name: str = "retry") -> Path:
    """A case file."""
    path = folder / f"{name}.toml"
    path.write_text(text)
    return path


def read_back(case: ScenarioCase, folder: Path, link: int = 0, earlier: str = "") -> Thread:
    """The thread of a case, written and read by the real adapter."""
    path = scenario.build_thread(case, link, earlier).write(folder)
    return harnesses.detect_harness(path).read(path)


EVERYWHERE = (
    CaseStep(user="The upload loses parts, please look; four attempts are the most we allow."),
    CaseStep(assistant="I look at the client."),
    CaseStep(read="src/client.py", content="def upload(part): ...\n"),
    CaseStep(
        edit="src/client.py", old="def upload(part): ...", new="def upload(part, attempts): ..."
    ),
    CaseStep(create="tests/test_client.py", content="def test_upload(): ..."),
    CaseStep(shell="pytest -q tests/test_client.py", output="2 passed in 0.1s"),
    CaseStep(filler=30),
    CaseStep(assistant="All of it is on the branch `retries`."),
)


def case_of(*steps: CaseStep, **more: Any) -> ScenarioCase:
    """A case with these steps."""
    known = {
        "id": "made",
        "category": "edge",
        "about": "a",
        "harness": "claude",
        "goal": "add retries",
    }
    return ScenarioCase(**{**known, "thread": steps, **more})  # type: ignore[arg-type]  # fmt: skip
