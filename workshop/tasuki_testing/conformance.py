"""Running the contracts against a harness adapter.

from tasuki_testing import check_harness

def test_my_harness(tmp_path):
    check_harness(MyHarness(), [Path("captured.jsonl")], tmp_path)
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tasuki.harness.protocol import Harness
from tasuki_testing import contracts, plan_contracts  # noqa: F401  they fill CONTRACTS
from tasuki_testing.builder import story
from tasuki_testing.forms import CONTRACTS, Form, JsonLines, Trial


def check_harness(
    harness: Harness, samples: Sequence[Path], folder: Path | None = None,
    story_path: Path | None = None, *, form: Form | None = None,
    lacks: Mapping[int, str] | None = None,
) -> None:  # fmt: skip
    """Check an adapter against every contract; AssertionError names the first broken one.

    `samples` are real files; `folder` is an empty one to work in, by default a temporary one.
    `story_path` is the story in the harness's own format; the built-in harnesses need none.
    `form` says what the files are made of, by default JSON lines. `lacks` names contracts that
    the format itself cannot keep, each with the reason; one that is kept nevertheless is an
    error.
    """
    if folder is None:
        with TemporaryDirectory() as temporary:
            check_harness(harness, samples, Path(temporary), story_path, form=form, lacks=lacks)
        return
    assert not isinstance(harness, type), f"give an instance: {harness.__name__}()"
    assert samples, "give at least one real file in `samples`"
    for lacking, why in (lacks or {}).items():
        assert lacking in CONTRACTS, f"`lacks` names contract {lacking}, and there is none"
        assert why, f"`lacks` gives no reason for contract {lacking}"
    story_path = story_path or story(harness.name).write(_create_folder(folder / "story"))
    form = form or JsonLines()
    for number in sorted(CONTRACTS):
        work = _create_folder(folder / f"contract-{number}")
        trial = Trial(harness=harness, samples=samples, story=story_path, folder=work, form=form)
        if reason := (lacks or {}).get(number):
            _check_lack(number, trial, reason)
        else:
            check_contract(number, trial)


def _check_lack(number: int, trial: Trial, reason: str) -> None:
    try:
        CONTRACTS[number](trial)
    except Exception:
        return
    raise AssertionError(f"contract {number} is kept; it is no longer true that {reason}")


def check_contract(number: int, trial: Trial) -> None:
    """Check an adapter against one contract."""
    function = CONTRACTS[number]
    words = " ".join((function.__doc__ or "").split())
    try:
        function(trial)
    except Exception as exc:
        kind = "" if isinstance(exc, AssertionError) else f"{type(exc).__name__}: "
        raise AssertionError(f"contract {number}: {words} ({kind}{exc})") from exc


def _create_folder(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
