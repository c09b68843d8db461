"""Makes `thread.jsonl`: a short made-up session in the format of Claude Code 2.1."""

from pathlib import Path

from tasuki_testing import ThreadBuilder

CLIENT = "src/upload/client.py"
TESTS = "tests/test_client.py"

RETRY = """def upload(session, part, url):
    for attempt in range(MAX_ATTEMPTS):
        response = session.put(url, data=part.body, headers=part.headers)
        if response.status_code < 500:
            return response
        time.sleep(2 ** attempt)
    raise UploadFailed(part.number, response.status_code)
"""
FAILURE = """tests/test_client.py F..                                             [100%]
=================================== FAILURES ===================================
E       AssertionError: expected 3 attempts, got 1
tests/test_client.py:41: AssertionError
=========================== short test summary info ============================
FAILED tests/test_client.py::test_retries_on_503 - AssertionError: expected 3 attempts, got 1
========================= 1 failed, 2 passed in 0.31s ==========================
"""
PASSED = "tests/test_client.py ...   [100%]\n============ 3 passed in 0.28s ============\n"

thread = (
    ThreadBuilder("claude", cwd="/home/dev/uploader")
    .user(
        "Uploads of large files die when the gateway answers 503. Make the client retry. "
        "Don't touch the public signature of `upload()`, other teams import it."
    )
    .assistant("I'll look at the client first.")
    .read(CLIENT, "def upload(session, part, url):\n    return session.put(url, data=part.body)\n")
    .read(TESTS, "def test_upload_sends_body(): ...\n")
    .shell("git log --oneline -3", "a41c9e0 Split files into parts of 8 MiB\n77bd012 Initial\n")
    .assistant(
        "`upload()` returns whatever the gateway says, so a 503 is handed to the caller as a success. "
        "The gateway closes idle connections after 60 s, which is why only large files are hit."
    )
    .user("ok. keep the total wait under 30 seconds, the job runner kills us after that")
    .assistant(
        "I decided against `urllib3.Retry`: it cannot see the part number, and `UploadFailed` must carry it. "
        "Five attempts with 2 ** attempt seconds make 31 s at most, so four attempts it is: 15 s."
    )
    .edit(CLIENT, "    return session.put(url, data=part.body)\n", RETRY)
    .create(
        TESTS,
        "def test_retries_on_503(gateway):\n    gateway.fail_times(2)\n    assert gateway.attempts == 3\n",
    )
    .shell("pytest -q tests/test_client.py", FAILURE, 1)
    .assistant(
        "The fake gateway in `tests/conftest.py` closes the socket after a 503, so the session raises "
        "`ConnectionError` before the loop sees a status. The loop has to catch it."
    )
    .edit(
        CLIENT,
        "        response = session.put(url, data=part.body, headers=part.headers)\n",
        "        try:\n            response = session.put(url, data=part.body, headers=part.headers)\n"
        "        except ConnectionError:\n            continue\n",
    )
    .shell("pytest -q tests/test_client.py", PASSED)
    .shell(
        'git commit -am "Retry uploads on 5xx and dropped connections"',
        "[retry-uploads 3be81f2] Retry uploads on 5xx and dropped connections\n 2 files changed, 31 insertions(+)\n",
    )
    .user("does it also wait on 429? the gateway sends Retry-After there")
    .assistant(
        "No: 429 is below 500, so it is returned at once. The header is in seconds on this gateway, never a date."
    )
    .todos(
        ("Retry on 5xx", "completed"),
        ("Honour Retry-After on 429", "in_progress"),
        ("Make attempts configurable", "pending"),
        ("Document the limits in README", "pending"),
    )
    .edit(
        CLIENT,
        "        if response.status_code < 500:\n",
        "        if response.status_code == 429:\n            time.sleep(float(response.headers['Retry-After']))\n"
        "            continue\n        if response.status_code < 500:\n",
    )
    .shell("pytest -q tests/test_client.py", PASSED)
    .user(
        "hmm no, don't sleep as long as the header says without a cap, we had a Retry-After of 3600 once"
    )
    .assistant(
        "Right. It needs `min(retry_after, MAX_WAIT)`; I have not added it yet. "
        "Open question: should a Retry-After above the cap fail at once instead of trying early?"
    )
    .interruption()
)

if __name__ == "__main__":
    thread.write(Path(__file__).parent / "thread.jsonl")
