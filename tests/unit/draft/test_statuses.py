"""What an author says of outcomes is compared with the calls that it cites and with the facts."""

import pytest
from making import thread_of

from tasuki.draft.claims.statuses import StatusCheck
from tasuki.draft.facts.derive import derive_facts
from tasuki_testing import ThreadBuilder

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
        .assistant("The schema of the record is old, so parsing fails.")
        .assistant("Loaded in 41.7 seconds, saved in 0.482, complete to 96.9 percent."),
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
        ("The settings stay interactive, because they ask the user for a region.", (4,)),
        ("A missing limit fails the tests.", (5,)),
        ("The tests of the server still fail with `KeyError: 'b'`.", (9,)),
    ],
)
def test_what_the_thread_bears_out_stands(
    check: StatusCheck, text: str, refs: tuple[int, ...]
) -> None:
    """True sentences with the same words are not refuted."""
    assert check.find_refuted(text, refs) == ""


@pytest.mark.parametrize(
    ("text", "refs", "why"),
    [
        ("Parsing fails because of the nightly deployment.", (10,), "the cause, the nightly deployment, is not in the entries that it cites"),
        ("Parsing fails because `schema` had lost a column.", (10,), "the cause, `schema` had lost a column, is not in the entries that it cites"),
        ("Before the pull request the branch was rebased onto main.", (6,), "the entries that it cites do not say “rebased”"),
        ("A first summary was posted as a comment on the pull request.", (7,), "the entries that it cites do not say “posted”"),
        ("PR #9 was merged before the retries were added.", (2,), "the entries that it cites do not say “merged”"),
        ("The old client did not compile with the new retries.", (2,), "the entries that it cites show no failure"),
        ("The conflict of the pull request is in `src/billing/ledger.py`.", (7,), "the entries that it cites do not name `src/billing/ledger.py`"),
        ("`pytest` still reports two errors in the client.", (5,), "the entries that it cites show no failure"),
        ("The client still retries 17 times, and 12 tests cover it.", (5,), "the entries that it cites do not say 17"),
        ("Both tests of the client took 2.4 s.", (5,), "the entries that it cites do not say 2.4"),
        ("`client.py` takes `--dry-run` now.", (4,), "the entries that it cites do not name `--dry-run`"),
        ("The agent added a second client.", (4,), ""),
        ("`tests` came before `src/billing/ledger.py`.", (4,), "the entries that it cites do not name `src/billing/ledger.py`"),
        ("The retries came with version 2.4.1 of the client.", (6,), "the entries that it cites do not say 2.4.1"),
        ("No tests were run.", (6,), "the thread shows the opposite"),
        ("Nothing was committed.", (2,), "the thread shows the opposite"),
        ("No tests were run after the last edit of the server.", (8,), ""),
        ("Nothing was pushed yet.", (2,), ""),
        ("`pytest` still fails with `KeyError: 'b'`.", (9,), ""),
        ("3 passed in the end.", (5,), ""),
        ("Loading took 42 s, saving 0.5 s, at 97 %.", (11,), ""),
        ("The conflict is in `Ledger.settle`.", (7,), "the entries that it cites do not name `Ledger.settle`"),
        ("Parsing fails because the schema of the record is old.", (10,), ""),
        ("Parsing fails.", (10,), ""),
        ("The retries were committed; nothing was rebased.", (6,), ""),
        ("The branch has to be rebased onto main.", (6,), ""),
        ("`client.py` has the retries, `Ledger` does not.", (4,), ""),
        ("The tests of the client failed with `TimeoutError`.", (3,), ""),
        ("The retries of `src/billing/ledger.py` pass, too.", (5,), ""),
        ("Тесты упали из-за новой схемы.", (10,), ""),
    ],
)  # fmt: skip
def test_what_the_cited_entries_do_not_bear_is_found(
    check: StatusCheck, text: str, refs: tuple[int, ...], why: str
) -> None:
    """A cause, an act, a failure or a name; what is open or denied needs no proof."""
    assert check.find_unproven(text, refs) == why


@pytest.mark.parametrize(
    ("output", "is_found"),
    [
        ('{"title":"fail early","checks":[{"name":"test","conclusion":"SUCCESS"},{"conclusion":"NEUTRAL"}]}', True),
        ('{"title":"fail early","checks":[{"name":"test","conclusion":"SUCCESS"},{"conclusion":"FAILURE"}]}', False),
        ("fail-early\tpass\t2m\thttps://ci/1\nlint\tpass\t9s\thttps://ci/2", True),
        ("fail-early\tpass\t2m\thttps://ci/1\nlint\tfail\t9s\thttps://ci/2", False),
    ],
)  # fmt: skip
def test_a_table_of_checks_decides_whether_one_failed(
    tmp_path,
    output: str,
    is_found: bool,  # type: ignore[no-untyped-def]
) -> None:
    """Whatever words its names and titles hold."""
    thread = thread_of(
        ThreadBuilder("claude").user("How is the CI?").shell("gh pr checks 9", output), tmp_path
    )
    check = StatusCheck(thread, derive_facts(thread))

    assert bool(check.find_unproven("One check of the pull request failed.", (2,))) is is_found


def test_where_nothing_was_changed_the_agent_added_nothing(tmp_path) -> None:  # type: ignore[no-untyped-def]
    """What was only proposed is not done."""
    thread = thread_of(
        ThreadBuilder("claude").user("Is a retry hard?").assistant("No: add one to the client."),
        tmp_path,
    )
    check = StatusCheck(thread, derive_facts(thread))

    assert check.find_unproven("The agent added a retry.", (2,)) == "the thread shows no change"
    assert check.find_unproven("The agent proposed a retry and added nothing.", (2,)) == ""


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


def test_what_passed_later_does_not_still_fail(tmp_path) -> None:  # type: ignore[no-untyped-def]
    """Though the run that is cited failed."""
    thread = thread_of(
        ThreadBuilder("claude")
        .user("Mend the client.")
        .shell("pytest -q", "1 failed\nE  TimeoutError: late", 1)
        .edit("src/client.py", "a", "b")
        .shell("pytest -q", "3 passed in 0.1s"),
        tmp_path,
    )
    check = StatusCheck(thread, derive_facts(thread))

    assert (
        check.find_unproven("`pytest` still fails with `TimeoutError`.", (2,)) == "it passed in #4"
    )
    assert check.find_unproven("`pytest` failed with `TimeoutError`.", (2,)) == ""
