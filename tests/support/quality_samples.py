"""A thread and a good handoff document of it, as tests of quality start from them."""

from tasuki_testing import ThreadBuilder

GOAL = "make the upload retries configurable and cover them with a test"
SECRET = "ghp_" + "a8Kd93jfLq02mZx7Yt5Rw1Vb6Nc4Hs0PeU2Q"


def uploads(cwd: str = "/home/dev/uploader") -> ThreadBuilder:
    """A thread with a wish, a reversal, a red test, an uncommitted file, todos and a commit."""
    return (
        ThreadBuilder("claude", cwd)
        .user("Retry uploads, at most 4 attempts in all. Never touch src/upload/queue.py.")
        .assistant("I look at the client first.")
        .read("src/upload/client.py", "def upload(part): ...\n")
        .edit("src/upload/client.py", "def upload(part): ...", "def upload(part, attempts=4): ...")
        .shell("git commit -am 'Retry uploads'", "[main 1a2b3c4] Retry uploads\n 1 file changed\n")
        .user("No, revert the jitter idea, we keep a fixed delay of 250 ms between attempts.")
        .create("tests/upload/test_retry.py", "def test_retry_budget(): ...")
        .shell("pytest -q tests/upload", "E   assert 5 == 4\n1 failed in 0.31s\n", 1)
        .todos(("Write the retry test", "in_progress"), ("Document the delay", "pending"),
               ("Raise attempts in the client", "completed"))
    )  # fmt: skip


GOOD = """\
Goal: make the delay configurable.

**Background**
Uploads are retried in src/upload/client.py, committed as 1a2b3c4.

CURRENT STATE
- tests/upload/test_retry.py is new and not committed
- `pytest -q tests/upload` fails: assert 5 == 4
- writing the retry test is under way

What the user wants:
* at most 4 attempts in all
* never touch src/upload/queue.py
* no jitter: "we keep a fixed delay of 250 ms between attempts"

## Decisions
A fixed delay.

## Files
- client.py

## How to test
    pytest -q tests/upload

## Next steps
1. Document the delay
"""
