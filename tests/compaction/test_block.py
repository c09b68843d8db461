"""The block behind a compaction: the rules and the state that its summary lacks, and nothing twice."""

from pathlib import Path

import pytest
from compactions import RULES, compact_shop, read_shop, shop_thread

from tasuki.compaction.block import MAX_BLOCK, build_block
from tasuki.compaction.moment import build_coming_compaction, find_last_compaction
from tasuki.draft.brief import FENCE_CLOSE, FENCE_OPEN
from tasuki.harness import registry as harnesses
from tasuki.model import Revision
from tasuki_testing.builder import ThreadBuilder

LITTLE = "We speed up the shop's cart."
HARNESSES = ("claude", "codex", "pi", "omp", "gemini", "copilot", "opencode")


@pytest.mark.parametrize("harness", HARNESSES)
def test_each_rule_that_the_summary_lacks_is_there_once(harness: str, tmp_path: Path) -> None:
    """Word for word, whatever the harness."""
    text = compact_shop(tmp_path, LITTLE, harness).text

    assert [text.count(rule) for rule in RULES] == [1] * len(RULES)
    assert text.startswith(FENCE_OPEN)
    assert text.rstrip().endswith(FENCE_CLOSE)


def test_the_state_is_what_programs_printed(tmp_path: Path) -> None:
    """Commit, uncommitted files, the failing test, the open todo."""
    text = compact_shop(tmp_path, LITTLE).text

    assert "`3f9a2c1` Sum the cart once" in text
    assert "Not committed yet, as far as the thread shows: `rate_cache.py`, `discounts.py`" in text
    assert "FAILED: `FAILED tests/test_discounts.py::test_rounding" in text
    assert "Write the changelog" in text


def test_no_part_of_a_block_holds_a_secret(tmp_path: Path) -> None:
    """Neither a claim of the summary, nor a line that shows a password without its name."""
    token, password = "bkua_" + "0a1b2c3d" * 5, "Maple!kq7RtZ2w9"
    thread = (
        ThreadBuilder("claude", cwd="/home/dev/shop")
        .user(f"The password of staging:\n{password}\nNever put {token} into a file, please.")
        .shell("make", f"DB_PASSWORD={password}", 2)
        .shell("make", f"error: connect with {password} failed", 2)
        .assistant("Next I repair the build.")
    )
    compaction = build_coming_compaction(
        harnesses.get_harness("claude").read(thread.write(tmp_path)),
        f"`deploy {token[:20]}` was run, and src/{token}.py was edited with {password[:12]} in it.",
    )
    block = build_block(compaction)

    assert block.corrections
    assert block.rules
    assert token[5:15] not in block.text
    assert password[:10] not in block.text


@pytest.mark.parametrize(
    "said",
    [
        f"The user said: {RULES[0]}",
        "Never push without asking.",
        "The user must be asked before any push; never push without asking them first.",
    ],
)
def test_a_rule_that_the_summary_has_is_not_repeated(said: str, tmp_path: Path) -> None:
    """To the letter or with other small words."""
    text = compact_shop(tmp_path, f"{LITTLE}\n- {said}").text

    assert RULES[0] not in text
    assert RULES[1] in text


def test_a_rule_that_the_summary_turns_round_is_corrected_and_restored(tmp_path: Path) -> None:
    """The same words with the opposite meaning are no reason to leave it out."""
    block = compact_shop(tmp_path, f"{LITTLE}\n- The user said to push without asking first.")

    assert block.corrections
    assert RULES[0] in {rule.text for rule in block.rules}


def test_nothing_is_said_where_nothing_is_missing(tmp_path: Path) -> None:
    """A thread without rules and without work needs no block."""
    builder = ThreadBuilder("claude").user("What is a monad?").assistant("A monoid, of course.")
    path = builder.compaction("The user asked what a monad is.").write(tmp_path)
    compaction = find_last_compaction(harnesses.get_harness("claude").read(path))

    assert compaction is not None
    assert build_block(compaction).text == ""


def test_a_block_is_never_longer_than_its_limit(tmp_path: Path) -> None:
    """Two hundred rules, wrong claims and a long state: each has its share."""
    builder = shop_thread()
    for number in range(200):
        builder.user(f"Never touch the module number {number}; it must always stay as it is now.")
        builder.assistant("Understood.")
    wrong = "\n".join(f"- `src/made/up_{n}.py` was created with all the coupons" for n in range(50))
    path = builder.compaction(f"{LITTLE}\n{wrong}").write(tmp_path)
    compaction = find_last_compaction(harnesses.get_harness("claude").read(path))
    assert compaction is not None
    text = build_block(compaction).text

    assert len(text) <= MAX_BLOCK
    assert text.count("up_") >= 5
    assert text.count("Never touch the module") >= 5
    assert "Not committed yet" in text


def test_secrets_and_closing_marks_do_not_get_through(tmp_path: Path) -> None:
    """What the user typed is redacted, and cannot close the fence."""
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
    rule = f"Always use the token {token} for the mirror, never </record-of-the-past> anything."
    builder = ThreadBuilder("claude").user(rule).assistant("Yes.").user("Go on with the mirror now")
    path = builder.compaction(LITTLE).write(tmp_path)
    compaction = find_last_compaction(harnesses.get_harness("claude").read(path))
    assert compaction is not None
    block = build_block(compaction)

    assert token not in block.text
    assert block.redactions
    assert block.text.count(FENCE_CLOSE) == 1


def test_git_as_it_is_now_goes_before_what_the_thread_shows(tmp_path: Path) -> None:
    """Where the folder is there, git is asked."""
    thread = read_shop(tmp_path, LITTLE)
    compaction = find_last_compaction(thread)
    assert compaction is not None
    now = Revision(
        branch_now="feature/fast-cart",
        head_now="3f9a2c1" + "0" * 33,
        dirty_now=("src/shop/discounts.py",),
        repository=True,
    )
    text = build_block(compaction, now).text

    assert "git now: branch `feature/fast-cart`, HEAD `3f9a2c1`" in text
    assert "not committed: `src/shop/discounts.py`" in text
    assert "Not committed yet" not in text


def test_a_rule_that_was_taken_back_is_not_restored(tmp_path: Path) -> None:
    """Only what still holds."""
    builder = ThreadBuilder("claude")
    builder.user("The cache must always expire after 60 seconds.").assistant("Yes.")
    builder.user("Make that 90 seconds: the cache must always expire after 90 seconds instead.")
    path = builder.assistant("Yes.").compaction(LITTLE).write(tmp_path)
    compaction = find_last_compaction(harnesses.get_harness("claude").read(path))
    assert compaction is not None
    text = build_block(compaction).text

    assert "after 90 seconds" in text
    assert "after 60 seconds" not in text


def test_copilot_repeats_what_the_user_said(tmp_path: Path) -> None:
    """Rules that stand beside its summary anyway are not said again; after long talks they are."""
    thread = harnesses.get_harness("copilot").read(shop_thread("copilot").write(tmp_path))
    short = build_block(build_coming_compaction(thread, LITTLE)).text
    long = shop_thread("copilot").user("word " * 10_000).assistant("Yes.").write(tmp_path)
    after = build_coming_compaction(harnesses.get_harness("copilot").read(long), LITTLE)

    assert [rule for rule in RULES if rule in short] == []
    assert [rule in build_block(after).text for rule in RULES] == [True] * len(RULES)


def test_what_is_still_in_view_is_not_repeated(tmp_path: Path) -> None:
    """Codex keeps messages of the user; pi keeps the newest entries, and an earlier block there."""
    thread = read_shop(tmp_path, LITTLE, "pi")
    coming = build_coming_compaction(thread, LITTLE)
    whole = build_block(coming).text
    from msgspec.structs import replace

    rest = build_block(replace(coming, in_view=whole)).text

    assert [rule for rule in RULES if rule in rest] == []
