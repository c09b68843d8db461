"""What a summary claims is checked against the thread: what is wrong is corrected, and nothing else."""

from pathlib import Path

import pytest
from compactions import block_of, compact_shop, read_compacted, shop_thread

from tasuki_testing import ThreadBuilder

FALSE = (
    "HEAD is now `0a1b2c3` (Sum the cart once).",
    "The latest commit is 9e8d7c6 and it is pushed.",
    "Current branch: `main`",
    "We are on branch `feature/slow-cart`.",
    "All tests pass.",
    "The test suite is green (42 passed).",
    "All 57 tests are passing now.",
    "`src/shop/prices.py` was modified to use Decimal.",
    "Created `src/shop/coupons.py` with the coupon logic.",
    "The discount code lives in `lib/shop/discounts.py`.",
    "All changes are committed.",
    "`src/shop/discounts.py` is committed.",
    "The commit was pushed to origin.",
    "Nothing has been committed yet.",
    'User said: "feel free to push whenever you are done"',
    'User: "Always push without asking me first."',
    "The user wants the cart to stay below 500 ms.",
    "User asked to use float for money, never Decimal.",
    "The user said we may touch anything under legacy/.",
    "User rule: push without asking first.",
    "✅ Write the changelog",
    "[x] Write the changelog - done",
    "Pending: Round discounts",
    "I ran `npm run build` and it succeeded.",
    "Working tree is clean.",
    "The lint run failed; `make check` is still failing.",
    "The new class `PriceCache` in rate_cache.py holds the rates.",
    "The cart uses `compute_grand_total()` now.",
    "tests/test_cart.py is not committed yet.",
    "Budget: the cart must stay below 2000 ms at the 99th percentile.",
    "The user does not want `make check` to be run before commits.",
    "The user allowed edits in legacy/.",
    "Money is stored as float, as the user asked.",
    "The rounding test `test_rounding` passes.",
)
"""Each of them is wrong about the afternoon in `shop_thread`."""
TRUE = (
    "The user asked to speed up the cart.",
    "HEAD is `3f9a2c1` (Sum the cart once).",
    'Commit 3f9a2c1 "Sum the cart once" on feature/fast-cart.',
    "Current branch: `feature/fast-cart`",
    "We are working on branch feature/fast-cart.",
    "`make check` passed before the commit (42 passed).",
    "1 test fails: `test_rounding` in tests/test_discounts.py (9.99 != 10.00).",
    "Tests are failing: 1 failed, 41 passed.",
    "Modified `src/shop/cart.py`: `total` uses `sum_of`.",
    "Created `tests/test_cart.py`.",
    "Created `src/shop/rate_cache.py` with class `RateCache`.",
    "`src/shop/discounts.py` is edited and not committed.",
    "`src/shop/prices.py` was only read.",
    "Not pushed yet; the user wants to be asked first.",
    'User: "Never push without asking me first."',
    "The user said never to push without asking.",
    "User rule: run `make check` before every commit.",
    "The cart must stay below 200 ms (p99).",
    "The user forbids changes under legacy/.",
    "Use Decimal for money, not float.",
    "✅ Round discounts",
    "Pending: Write the changelog",
    "In progress: Cache the rates",
    "I ran `pytest -q tests`.",
    "Next: fix the rounding so that all tests pass, then run `make check` and commit.",
    "Once the tests pass, commit and ask the user before pushing.",
    "The discount is rounded before it is summed, so the rounding test fails.",
    "Should create `src/shop/coupons.py` later if the user wants it.",
    "The user wants everything in cart.py and discounts.py fast.",
    "Uncommitted changes: src/shop/discounts.py, src/shop/rate_cache.py.",
    "No push has happened.",
    "tests/test_cart.py is committed in 3f9a2c1.",
    "src/shop/cart.py — sums once",
    "User asked for discounts next and told me to use Decimal rather than float.",
)
"""Each of them is right."""
HEAD = "Summary of the work.\n\n## Current state\n"


@pytest.mark.parametrize("claim", FALSE)
def test_a_false_claim_is_corrected(claim: str, tmp_path: Path) -> None:
    """The block quotes it, or the name in it, under its own heading."""
    block = compact_shop(tmp_path, f"{HEAD}- {claim}")

    assert block.corrections
    assert "## Wrong in the summary" in block.text


@pytest.mark.parametrize("claim", TRUE)
def test_a_true_claim_is_left_alone(claim: str, tmp_path: Path) -> None:
    """A block that contradicts what is right would be worse than none."""
    block = compact_shop(tmp_path, f"{HEAD}- {claim}")

    assert block.corrections == ()


def test_ten_false_claims_among_true_ones_are_all_found(tmp_path: Path) -> None:
    """The true ones beside them change nothing."""
    planted = FALSE[:1] + FALSE[2:6] + FALSE[7:12]
    lines = [line for pair in zip(TRUE, [*planted, *[""] * 100], strict=False) for line in pair]
    block = compact_shop(tmp_path, HEAD + "\n".join(f"- {line}" for line in lines if line))

    assert len(block.corrections) >= 10
    assert not [c for c in block.corrections if c.claim in TRUE]


def test_a_thread_without_its_beginning_proves_no_absence(tmp_path: Path) -> None:
    """What the thread does not hold may be in the one that it goes on from."""
    summary = f'{HEAD}- `src/shop/coupons.py` has the coupons.\n- User: "we ship this on Friday"'
    whole = compact_shop(tmp_path, summary)
    part = compact_shop(tmp_path, summary, begins_elsewhere=True)

    assert len(whole.corrections) == 2
    assert part.corrections == ()


@pytest.mark.parametrize(
    ("command", "output", "code"),
    [
        ("pytest -q tests 2>&1 | wc -l", "42", 0),
        ("pytest -q tests > log.txt 2>&1; echo done", "done", 0),
        ("make check 2>&1 | tail -1", "see the log", 0),
        ("timeout 60 pytest -q tests", "", 124),
    ],
)
def test_a_run_without_a_result_contradicts_nothing(
    command: str, output: str, code: int, tmp_path: Path
) -> None:
    """The tests failed before; how they ended last is not in the thread, and the model has seen it."""
    builder = shop_thread().edit("/home/dev/shop/src/shop/discounts.py", "0.1", "0.2")
    thread = read_compacted(
        tmp_path, builder.shell(command, output, code), f"{HEAD}- All tests pass."
    )

    assert block_of(thread).corrections == ()


@pytest.mark.parametrize(
    ("output", "code"),
    [("bash: pytest: command not found", 127), ("ERROR: file or directory not found: tests", 4)],
)
def test_a_run_that_did_not_start_is_no_failure(output: str, code: int, tmp_path: Path) -> None:
    """What passed last has passed, whatever could not be started afterwards."""
    builder = shop_thread().shell("pytest -q tests", "42 passed in 3s")
    thread = read_compacted(
        tmp_path, builder.shell("pytest -q tests", output, code), f"{HEAD}- All tests pass."
    )

    assert block_of(thread).corrections == ()


ONE_FAILED = "1 failed, 3 passed in 1s\nFAILED tests/test_cart.py::test_round - assert 1 == 2"


@pytest.mark.parametrize(
    ("runs", "claim", "is_wrong"),
    [
        ([(".venv/bin/pytest -q tests/test_cart.py", 1), ("make test", 0)], "All 42 tests pass.", False),
        ([("npx jest src/cart.test.ts", 1), ("npm test", 0)], "All 42 tests pass.", False),
        ([("cd backend && pytest -q tests/test_cart.py", 1), ("pytest -q backend/tests", 0)], "All 42 tests pass.", False),
        ([("pytest -q", 1), ("pytest -q tests/test_other.py", 0)], "All tests pass.", True),
        ([("pytest -q", 1), ("pytest -q tests/test_other.py", 0)], "The tests are still failing.", False),
        ([("pytest -q", 1), ("pytest -q", 0)], "The tests are still failing.", True),
        ([("pytest -q", 0), ("cd /srv/lib && pytest -q", 1)], "All tests pass.", False),
        ([("pytest -q", 0), ("pytest -q tests/test_cart.py", 1)], "All tests pass.", True),
        ([("pytest -q", 0), ("git stash && pytest -q; git stash pop", 1)], "All tests pass.", False),
        ([("npm run build", 1), ("cd docs && npm run build", 0)], "The build is still broken.", False),
        ([("npm run build", 1), ("npm run build", 0)], "The build is still broken.", True),
        ([("pytest -q", 1), ("pytest -q tests/test_other.py", 0)], "`pytest -q` fails.", False),
    ],
)  # fmt: skip
def test_a_claim_is_held_against_the_run_that_it_is_about(
    runs: list[tuple[str, int]], claim: str, is_wrong: bool, tmp_path: Path
) -> None:
    """Not against one in another folder, of another part, or on files that were put back."""
    builder = ThreadBuilder("claude").user("Round the cart")
    for command, code in runs:
        builder.shell(command, ONE_FAILED if code else "42 passed in 2s", code)

    assert bool(block_of(read_compacted(tmp_path, builder, HEAD + claim)).corrections) == is_wrong


def test_an_edit_that_was_put_back_takes_its_failed_run_with_it(tmp_path: Path) -> None:
    """As where one tries whether a test notices a fault."""
    builder = ThreadBuilder("claude").user("Round the cart").shell("pytest -q", "42 passed in 2s")
    builder.edit("src/cart.py", "a < b", "a > b").shell("pytest -q", ONE_FAILED, 1)
    builder.edit("src/cart.py", "a > b", "a < b")

    assert block_of(read_compacted(tmp_path, builder, f"{HEAD}All tests pass.")).corrections == ()


@pytest.mark.parametrize(
    ("code", "claim"),
    [
        (0, "All 1,042 unit tests pass."),
        (0, "There are no failing tests, and zero checks are currently failing."),
        (0, "The new test is correct: it fails on the old ordering, verified."),
        (0, "Cargo compiles dependencies for long stretches."),
        (1, "`pytest -q` passes except for the pre-existing, unrelated network failure."),
        (1, "`pytest -q` (all cart packages pass) and the binary runs."),
        (1, "It compares all sessions' work against the committed tree."),
        (1, "Everything is unstaged, and nothing has been committed."),
    ],
)
def test_words_that_only_look_like_a_claim_are_left_alone(
    code: int, claim: str, tmp_path: Path
) -> None:
    """A number with a comma, a denial, an excuse, a part, an adjective."""
    output = ONE_FAILED if code else "1042 passed in 9s"
    builder = ThreadBuilder("claude").user("Round the cart").edit("src/cart.py", "a", "b")
    builder.shell("pytest -q", output, code)

    assert block_of(read_compacted(tmp_path, builder, HEAD + claim)).corrections == ()
