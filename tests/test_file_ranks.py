"""The rank of files: features, the weights of the package, and worth."""

from pathlib import Path

import msgspec
import pytest
from long_threads import long_thread
from making import thread_of

from tasuki.draft import features
from tasuki.draft.facts import derive
from tasuki.draft.features import FEATURES, Files, Weights
from tasuki.draft.rank import relevance_of
from tasuki.model import Goal
from tasuki.testing import ThreadBuilder

GOAL = "make the reconciliation of src/app/queue.py retry"


def files_of(builder: ThreadBuilder, folder: Path, goal: str = GOAL) -> Files:
    """The files of a built thread as candidates for a goal."""
    thread = thread_of(builder, folder)
    return relevance_of(thread, derive(thread, None, goal), Goal(goal)).files


def by_path(files: Files) -> dict[str, dict[str, float]]:
    """The features of every file."""
    return {f.path: files.features(f) for f in files.all}


def test_the_weights_name_exactly_the_features() -> None:
    """The file of weights has one number for each feature, in the same order, and none besides."""
    data = Path(features.__file__).with_name("rank_weights.json").read_bytes()
    document = msgspec.json.decode(data)

    assert list(document) == ["intercept", "features"]
    assert list(document["features"]) == list(FEATURES)
    assert all(isinstance(weight, float) for weight in document["features"].values())


def test_every_file_has_exactly_the_features(tmp_path: Path) -> None:
    """No feature is left out, none is unknown, and none but a count is above 1."""
    counts = {"edits", "reads", "said_often", "asked", "given", "printed_often", "company"}
    found = by_path(files_of(long_thread("claude"), tmp_path))

    assert len(found) > 5
    for each in found.values():
        assert list(each) == list(FEATURES)
        assert all(0 <= value <= 1 for name, value in each.items() if name not in counts)


@pytest.mark.parametrize("intercept", [None, 1e6, -1e6])
def test_a_worth_is_between_0_and_1(intercept: float | None, tmp_path: Path) -> None:
    """A worth is a chance, whatever the weights are."""
    files = files_of(long_thread("claude"), tmp_path)
    other = features.weights() if intercept is None else Weights({"edits": 1e6}, intercept)
    with features.using(other):
        worth = [files.worth(f) for f in files.all]

    assert all(0 < w < 1 for w in worth)


def test_other_weights_hold_for_a_while_only() -> None:
    """Weights put in place to be measured are gone afterwards, also after an error."""
    shipped = features.weights()
    with pytest.raises(ZeroDivisionError), features.using(Weights({}, 0.0)):
        assert features.weights().features == {}
        _ = 1 // 0

    assert features.weights() is shipped


def test_a_name_that_shares_the_goals_words_matches_better_than_a_folder(tmp_path: Path) -> None:
    """Forms of a word share its stem; in the file's name it counts more than in a folder's."""
    files = files_of(
        ThreadBuilder("claude")
        .user("go")
        .read("src/reconcile.py", "a")
        .read("reconcile/x.py", "a")
        .read("src/other.py", "a"),
        tmp_path,
        "the reconciliation is slow",
    )
    match = {f.path: files.match(f.path) for f in files.all}

    assert match["src/reconcile.py"] == 1.0
    assert 0 < match["reconcile/x.py"] < 1
    assert match["src/other.py"] == 0.0


def test_the_test_of_an_edited_file_is_its_partner(tmp_path: Path) -> None:
    """A test belongs to the module of its name, and an edited file is nobody's partner."""
    found = by_path(
        files_of(
            ThreadBuilder("claude")
            .user("go")
            .edit("src/upload.py", "a", "b")
            .read("tests/test_upload.py", "x")
            .read("tests/test_login.py", "x"),
            tmp_path,
        )
    )

    assert {p: f["partner"] for p, f in found.items()} == {
        "src/upload.py": 0.0,
        "tests/test_upload.py": 1.0,
        "tests/test_login.py": 0.0,
    }


def test_a_file_that_a_failed_check_printed_is_failing(tmp_path: Path) -> None:
    """The output of a failed test run marks the files it names; that of a passed one does not."""
    found = by_path(
        files_of(
            ThreadBuilder("claude")
            .user("go")
            .shell("pytest -q", "FAILED tests/test_red.py::x\n1 failed", 1)
            .shell("ruff check .", "All checks passed! tests/test_green.py"),
            tmp_path,
        )
    )

    assert found["tests/test_red.py"]["failing"] == 1.0
    assert found["tests/test_green.py"]["failing"] == 0.0


def test_what_was_touched_in_the_users_last_turn_and_before_it_differs(tmp_path: Path) -> None:
    """`turn` holds for what was read or edited behind the user's last message alone."""
    found = by_path(
        files_of(
            ThreadBuilder("claude").user("one").edit("a/x.py", "1", "2").user("two").read("a/y.py"),
            tmp_path,
        )
    )

    assert (found["a/x.py"]["turn"], found["a/y.py"]["turn"]) == (0.0, 1.0)
    assert (found["a/x.py"]["place"], found["a/y.py"]["place"]) == (0.5, 1.0)


def test_scratch_space_is_no_candidate_and_the_best_comes_first(tmp_path: Path) -> None:
    """Files under /tmp are not ranked; worth falls along the list."""
    files = files_of(long_thread("claude").edit("/tmp/try.py", "1", "2"), tmp_path)
    ranked = files.ranked()

    assert "/tmp/try.py" in {f.path for f in files.all}
    assert "/tmp/try.py" not in {f.path for _, f in ranked}
    assert [w for w, _ in ranked] == sorted((w for w, _ in ranked), reverse=True)
