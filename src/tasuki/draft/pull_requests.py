"""Pull requests in the state that a program last printed. Format: gh 2.40–2.80."""

import re

from tasuki.model import PullRequest

_ADDRESS = re.compile(r"https?://[^\s/]+/[^\s/]+/[^\s/]+/pull/(\d+)\b(?!/new)")
_MERGED = re.compile(
    r"(?:Merged|Squashed and merged|Rebased and merged|already merged)[^\n#]*#(\d+)"
    r"|#(\d+)[^\n]{0,80}was already merged"
)
_CLOSED = re.compile(r"Closed pull request [^\n#]*#(\d+)")
_LISTED = re.compile(r"^#?(\d+)\t[^\t\n]*\t([^\t\n]+)\t(OPEN|MERGED|CLOSED|DRAFT)\b", re.MULTILINE)
_FIELD = re.compile(r"^(state|number|url):\t(\S+)", re.MULTILINE)
_JSON = re.compile(
    r'(?:"isDraft":\s*(?P<draft>true|false),[^{}\[\]]{0,400}?)?"number":\s*(?P<number>\d+)'
    r'(?:,[^{}\[\]]{0,400}?"state":\s*"(?P<state>OPEN|MERGED|CLOSED)")?'
)
"""Of `gh pr … --json`, whose keys stand in the order of the alphabet."""
_ASKED = re.compile(r"--state[ =](open|merged|closed)")
_NAMED = re.compile(
    r"gh pr (?:view|checks|diff|merge|ready|edit|comment|checkout) (?:-\S+ )*#?(\d+)\b"
)
_MERGE_COMMIT = re.compile(r"Merge pull request #(\d+) from")
_STATES = ("open", "draft", "merged", "closed")


class PullRequestLog:
    """Follows the commands and outputs of one thread that speak of pull requests."""

    def __init__(self) -> None:
        self.pulls: dict[int, PullRequest] = {}

    def read(self, ref: int, line: str, output: str, *, ok: bool, branch: str) -> None:
        """Take in what one command line printed. `branch` is the one in use."""
        if "gh " in line and " pr " in f"{line} ":
            self._read_gh(ref, line, output, ok, branch)
        if "git" in line and "Merge pull request" in output:
            for number in _MERGE_COMMIT.findall(output):
                if int(number) in self.pulls:
                    self._note(int(number), "merged", ref)

    def _read_gh(self, ref: int, line: str, output: str, ok: bool, branch: str) -> None:
        if "pr create" in line and ok and (addresses := _ADDRESS.findall(output)):
            state = "draft" if re.search(r"--draft|\s-d\b", line) else "open"
            self._note(int(addresses[-1]), state, ref, created=True, branch=branch)
            return
        for one, other in _MERGED.findall(output):
            self._note(int(one or other), "merged", ref)
        for number in _CLOSED.findall(output):
            self._note(int(number), "closed", ref)
        self._read_lists(ref, line, output, ok)
        if ok and (named := _NAMED.search(line)):
            self._note(int(named[1]), "open" if " ready " in line else "", ref)

    def _read_lists(self, ref: int, line: str, output: str, ok: bool) -> None:
        """Read the tables, fields and JSON that `gh pr list` and `gh pr view` print."""
        for number, branch, state in _LISTED.findall(output):
            self._note(int(number), state.lower(), ref, branch=branch)
        fields = dict(_FIELD.findall(output))
        if "state" in fields and fields.get("number", "").isdigit():
            self._note(int(fields["number"]), fields["state"].lower(), ref)
        for found in _JSON.finditer(output) if "gh pr" in line else ():
            state = (found["state"] or "").lower()
            is_draft = state == "open" and found["draft"] == "true"
            self._note(int(found["number"]), "draft" if is_draft else state, ref)
        if "gh pr list" in line and ok:
            asked = _ASKED.search(line)
            state = asked[1] if asked else "" if "--state" in line else "open"
            for number in _ADDRESS.findall(output):
                self._note(int(number), state, ref)

    def _note(
        self, number: int, state: str, ref: int, *, created: bool = False, branch: str = ""
    ) -> None:
        """Keep a pull request's newest state; an unknown one leaves the old."""
        old = self.pulls.get(number)
        self.pulls[number] = PullRequest(
            number,
            state if state in _STATES else old.state if old else "",  # type: ignore[arg-type]
            ref,
            created or bool(old and old.created),
            branch or (old.branch if old else ""),
        )
