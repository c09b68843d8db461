"""The pull request of an agent's branch, and its checks, by the program `gh` of its host.

`gh` asks GitHub with the operator's own sign-in. It is run only where somebody looks at it, and its
answer is kept for a minute.
"""

import json
import os
import shutil
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from tasuki.draft.redact.redactor import Redactor
from tasuki.fleet.changes.work_tree import WorkTree, WorkUnknown
from tasuki.fleet.handoff.git_commands import number_settings

GH_SECONDS = 6.0
"""How long `gh` may take."""
KEPT_SECONDS = 60.0
MOST_KEPT = 500
MOST_CHECKS = 50
FIELDS = "number,title,state,isDraft,url,statusCheckRollup"
NO_PROGRAM = "Pull requests are shown where the program gh is installed and signed in."
NOT_SIGNED_IN = "gh is not signed in. Sign in on the agent's host: gh auth login"
NONE = "There is no pull request for this branch."
_PASSED = frozenset({"SUCCESS", "NEUTRAL", "SKIPPED"})
_RUNNING = frozenset({"", "PENDING", "EXPECTED", "QUEUED", "IN_PROGRESS", "WAITING", "REQUESTED"})


class PullRequestCheck(Struct, frozen=True):
    """One check of a pull request."""

    name: str
    state: str
    """passed, failed or running."""
    url: str = ""
    """An address that begins with https://; empty for none."""


class PullRequest(Struct, frozen=True):
    """A pull request and its checks; `number` is 0 where there is none, and `note` says why."""

    number: int = 0
    title: str = ""
    state: str = ""
    """open, draft, merged or closed."""
    url: str = ""
    checks: tuple[PullRequestCheck, ...] = ()
    note: str = ""

    def count(self, state: str) -> int:
        """Count the checks in a state."""
        return sum(check.state == state for check in self.checks)


class PullRequests:
    """Asks `gh` for pull requests, at most once a minute for each folder and branch."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[float, PullRequest]] = {}
        self._locks: dict[tuple[str, str], threading.Lock] = defaultdict(threading.Lock)

    def find(self, cwd: str) -> PullRequest:
        """Find the pull request of the branch of a folder; a note where there is none."""
        if not shutil.which("gh"):
            return PullRequest(note=NO_PROGRAM)
        try:
            tree = WorkTree(cwd)
        except WorkUnknown as error:
            return PullRequest(note=Redactor().redact(str(error)))
        if not tree.branch:
            return PullRequest(note="HEAD is on no branch, so there is no pull request.")
        place = (tree.top, tree.branch)
        with self._locks[place]:  # one question for all who look at once
            moment, known = self._known.get(place, (0.0, PullRequest()))
            if moment and time.monotonic() - moment < KEPT_SECONDS:
                return known
            found = _ask(tree)
            if len(self._known) >= MOST_KEPT:
                self._known.clear()
                self._locks.clear()
            self._known[place] = (time.monotonic(), found)
        return found


def _ask(tree: WorkTree) -> PullRequest:
    try:
        done = subprocess.run(
            ["gh", "pr", "view", "--json", FIELDS],
            cwd=tree.top, env=_build_environment(), stdin=subprocess.DEVNULL, capture_output=True,
            timeout=GH_SECONDS, check=False, start_new_session=True,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return PullRequest(note=f"gh did not answer within {GH_SECONDS:.0f} s.")
    except OSError as error:
        return PullRequest(note=f"gh could not be run: {error.strerror}.")
    if done.returncode:
        return PullRequest(note=_explain(done.stderr.decode("utf-8", "replace")))
    try:
        return _parse(json.loads(done.stdout))
    except (ValueError, TypeError, AttributeError, RecursionError):
        return PullRequest(
            note="gh said what tasuki does not understand. Its version may be too old."
        )


def _build_environment() -> dict[str, str]:
    """Return an environment in which `gh` asks nothing, and its git runs no program of the repository."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    numbered = number_settings((("core.fsmonitor", "false"), ("core.hooksPath", "/dev/null")))
    return {
        **kept, **numbered, "GH_PROMPT_DISABLED": "1", "GH_NO_UPDATE_NOTIFIER": "1", "NO_COLOR": "1",
        "GH_PAGER": "cat", "PAGER": "cat", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0",
    }  # fmt: skip


def _explain(said: str) -> str:
    if "auth login" in said or "authentication" in said.lower():
        return NOT_SIGNED_IN
    none = ("no pull requests found", "no git remotes", "none of the git remotes")
    if any(words in said for words in none):
        return NONE
    return f"gh failed: {Redactor().redact_line(said, 200)}" if said else "gh failed."


def _parse(said: Mapping[str, Any]) -> PullRequest:
    """Parse what `gh` says. Raises ValueError, TypeError, AttributeError where it is of another form."""
    redactor, known = Redactor(), msgspec.convert(said, dict[str, Any])
    state = str(known.get("state", "")).lower()
    checks = known.get("statusCheckRollup") or ()
    return PullRequest(
        int(known["number"]) if known.get("number") else 0,
        redactor.redact_line(str(known.get("title", "")), 200),
        "draft" if known.get("isDraft") and state == "open" else state,
        _check_address(known.get("url")),
        tuple(_parse_checks(checks[:MOST_CHECKS], redactor)),
    )


def _parse_checks(
    checks: Iterable[Mapping[str, Any]], redactor: Redactor
) -> Iterable[PullRequestCheck]:
    for check in checks:
        said = str(check.get("conclusion") or check.get("state") or "").upper()
        state = "passed" if said in _PASSED else "running" if said in _RUNNING else "failed"
        name = str(check.get("name") or check.get("context") or "check")
        address = _check_address(check.get("detailsUrl") or check.get("targetUrl"))
        yield PullRequestCheck(redactor.redact_line(name, 100), state, address)


def _check_address(address: object) -> str:
    """Return an address that a page may link to; empty for any other."""
    text = address if isinstance(address, str) and len(address) < 2000 else ""
    return text if text.startswith("https://") and text.isprintable() and " " not in text else ""
