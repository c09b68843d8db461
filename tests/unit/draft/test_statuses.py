"""What an author says of outcomes is compared with the calls that it cites and with the facts."""

import pytest
from making import thread_of

from tasuki.draft.checks.statuses import StatusCheck
from tasuki.draft.facts.derive import derive_facts
from tasuki.testing import ThreadBuilder

PULL = "https://github.com/o/app/pull/15"


@pytest.fixture
def check(tmp_path) -> StatusCheck:  # type: ignore[no-untyped-def]
    """A thread: tests fail (3), pass (5), a commit (6), a pull request that is open (7), a later edit (8), a server (9)."""
    thread = thread_of(
        ThreadBuilder("claude", cwd="/home/dev/app")
        .user("Make the retries configurable in the upload client; no new dependencies, please")
        .edit("src/upload/client.py", "a = 1", "a = 2")
        .shell("pytest -q tests", "1 failed\nE  TimeoutError: late", 1)
        .edit("src/upload/client.py", "a = 2", "a = 3")
        .shell("pytest -q tests", "3 passed in 0.1s")
        .shell("git add -A && git commit -m 'feat: retries'", "[retries abc1234] feat: retries\n 1 file changed")
        .shell("gh pr create --title retries", PULL)
        .edit("src/upload/server.py", "b = 1", "b = 2")
        .shell("pytest -q tests", "2 failed\nE  KeyError: 'b'", 1)
        .assistant("The schema of the record is old, so parsing fails."),
        tmp_path,
    )  # fmt: skip
    return StatusCheck(thread, derive_facts(thread))


@pytest.mark.parametrize(
    ("text", "refs"),
    [
        ("The tests of the client passed.", (3,)),
        ("The tests failed after the retries were added.", (5,)),
        ("All tests pass now.", ()),
        ("Pull request #15 was merged.", (7,)),
        ("PR #15 was closed, and the branch is gone.", (7,)),
        ("`src/upload/server.py` is committed.", (6,)),
        ("The server was restarted by the user after the schema changed.", (9,)),
        ("The user asked for a migration of the schema.", (1,)),
        ("The agent removed `src/upload/client.py`.", (4,)),
    ],
)
def test_what_the_thread_refutes_is_found(
    check: StatusCheck, text: str, refs: tuple[int, ...]
) -> None:
    """An outcome, a state or an act of the user that the record contradicts."""
    assert check.find_refuted(text, refs)


@pytest.mark.parametrize(
    ("text", "refs"),
    [
        ("The tests of the client failed with `TimeoutError: late`.", (3,)),
        ("The tests passed after the second edit.", (5,)),
        ("All tests must pass before the next release.", ()),
        ("The tests do not pass yet.", (5,)),
        ("Pull request #15 is open.", (7,)),
        ("PR #15 was not merged.", (7,)),
        ("`src/upload/client.py` was committed as `abc1234`.", (6,)),
        ("`src/upload/server.py` is not committed.", (8,)),
        ("The user wants no new dependencies.", (1,)),
        ("The user asked that the retries be configurable.", (1,)),
        ("An option was removed from `src/upload/client.py`.", (4,)),
        ("Nothing of the upload client was removed.", (4,)),
    ],
)
def test_what_the_thread_bears_out_stands(
    check: StatusCheck, text: str, refs: tuple[int, ...]
) -> None:
    """True sentences with the same words are not refuted."""
    assert check.find_refuted(text, refs) == ""


def test_a_cause_must_be_in_what_is_cited(check: StatusCheck) -> None:
    """Of a reason that the cited entries do not speak of it is said so."""
    assert check.find_missing_cause("Parsing fails because of the nightly deployment.", (10,))
    assert (
        check.find_missing_cause("Parsing fails because the schema of the record is old.", (10,))
        == ""
    )
    assert check.find_missing_cause("Parsing fails.", (10,)) == ""


def test_without_a_push_or_a_commit_nothing_was_pushed_or_committed(tmp_path) -> None:  # type: ignore[no-untyped-def]
    """What no call did is refuted, also without a citation."""
    thread = thread_of(
        ThreadBuilder("claude").user("Fix it").edit("a.py", "a = 1", "a = 2").assistant("Fixed."),
        tmp_path,
    )
    check = StatusCheck(thread, derive_facts(thread))

    assert check.find_refuted("The fix was pushed.", ()) == "the thread shows no push"
    assert check.find_refuted("The fix is committed.", ()) == "the thread shows no commit"
    assert check.find_refuted("The fix is not committed, and was never pushed.", ()) == ""
