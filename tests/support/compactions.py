"""A thread whose compaction has something to lose: rules, a failing test, commits, todos."""

from pathlib import Path

from msgspec.structs import replace

from tasuki.compaction.block import RestoreBlock, build_block
from tasuki.compaction.moment import find_last_compaction
from tasuki.harness import registry as harnesses
from tasuki.model import Thread
from tasuki_testing.builder import ThreadBuilder

CWD = "/home/dev/shop"
WHOLE_PATHS = ("claude", "gemini", "copilot", "opencode")
"""Harnesses whose file tools are given whole paths."""
RULES = (
    "Never push without asking me first.",
    "Always run `make check` before you commit.",
    "The cart must stay below 200 ms at the 99th percentile.",
    "Do not touch anything under legacy/, not even comments.",
    "Use Decimal for money, never float.",
)


def shop_thread(harness: str = "claude") -> ThreadBuilder:
    """An afternoon of work on a shop, up to its compaction."""
    builder = ThreadBuilder(harness, CWD)
    path = f"{CWD}/" if harness in WHOLE_PATHS else ""
    builder.user(f"Please speed up the cart. {RULES[0]} {RULES[1]}")
    builder.assistant("I look at the cart first.")
    builder.read(f"{path}src/shop/cart.py", "def total(items): ...\n")
    builder.read(f"{path}src/shop/prices.py", "RATE = 0.19\n")
    clean = "nothing to commit, working tree clean"
    builder.shell("git status", f"On branch feature/fast-cart\n{clean}\n")
    builder.user(f"{RULES[2]} {RULES[3]}")
    old, new = "def total(items): ...", "def total(items): return sum_of(items)"
    builder.edit(f"{path}src/shop/cart.py", old, new)
    builder.create(f"{path}tests/test_cart.py", "def test_total(): assert total([]) == 0\n")
    builder.shell("make check", "42 passed in 3.1s\nAll checks passed!\n")
    committed = "[feature/fast-cart 3f9a2c1] Sum the cart once\n 2 files changed\n"
    builder.shell("git add -A && git commit -m 'Sum the cart once'", committed)
    builder.user(f"Now the discounts. {RULES[4]}")
    builder.todos(
        ("Round discounts", "completed"),
        ("Cache the rates", "in_progress"),
        ("Write the changelog", "pending"),
    )
    builder.edit(f"{path}src/shop/discounts.py", "rate = 0.1", "rate = Decimal('0.1')")
    builder.create(f"{path}src/shop/rate_cache.py", "class RateCache: ...\n")
    failed = "FAILED tests/test_discounts.py::test_rounding - AssertionError: 9.99 != 10.00"
    builder.shell("pytest -q tests", f"{failed}\n1 failed, 41 passed in 2.9s\n", 1)
    builder.assistant("The rounding test fails: the discount is rounded before it is summed.")
    return builder


def read_shop(folder: Path, summary: str, harness: str = "claude") -> Thread:
    """The thread of that afternoon with its compaction."""
    return read_compacted(folder, shop_thread(harness), summary, harness)


def read_compacted(
    folder: Path, builder: ThreadBuilder, summary: str, harness: str = "claude"
) -> Thread:
    """A thread that ends with its compaction."""
    folder.mkdir(exist_ok=True)
    return harnesses.get_harness(harness).read(builder.compaction(summary).write(folder))


def compact_shop(
    folder: Path, summary: str, harness: str = "claude", *, begins_elsewhere: bool = False
) -> RestoreBlock:
    """The block behind a summary of that afternoon."""
    thread = read_shop(folder, summary, harness)
    report = replace(thread.report, lacks_beginning=begins_elsewhere)
    return block_of(replace(thread, report=report))


def block_of(thread: Thread) -> RestoreBlock:
    """The block behind the last compaction of a thread."""
    compaction = find_last_compaction(thread)
    assert compaction is not None
    return build_block(compaction)
