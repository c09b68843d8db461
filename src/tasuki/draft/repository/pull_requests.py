"""Pull requests of a thread, their checks, and what was published: by what programs printed."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec
from msgspec.structs import replace

from tasuki.draft.repository.checkouts import RepositoryCommand, RepositoryLine, is_proven
from tasuki.model import CheckSummary, PullRequest, Quote, ToolCall
from tasuki.patterns import compile_pattern

_ADDRESS = compile_pattern(
    r"https?://[^\s/]+/([^\s/]+/[^\s/]+)/(?:-/)?(?:pull|pulls|merge_requests)/(\d+)\b"
)
_EXISTS = compile_pattern(r"(?i)already exists")
_MERGED = compile_pattern(
    r"(?:Merged|Squashed and merged|Rebased and merged|already merged)[^\n#]*#(\d+)"
    r"|#(\d+)[^\n]{0,80}was already merged"
)
_CHANGED = compile_pattern(r"(Closed|Reopened) pull request ([^\s#]*)#(\d+)")
_LISTED = compile_pattern(r"(?m)^#?(\d+)\t[^\t\n]*\t([^\t\n]+)\t(OPEN|MERGED|CLOSED|DRAFT)\b")
_FIELD = compile_pattern(r"(?m)^(state|number|url):\t(\S+)")
_STATE_WORD = compile_pattern(r"\b(OPEN|MERGED|CLOSED)\b")
_NUMBERED_STATE = compile_pattern(
    r"(?m)^\W{0,3}(?:PR )?#?(\d+)\b[^\n]{0,120}?\b(OPEN|MERGED|CLOSED)\b"
)
_OBJECT = compile_pattern(r"\{[^{}\[\]]*\"(?:number|state|mergedAt)\":[^{}\[\]]*\}")
_KEY = compile_pattern(r'"(number|state|isDraft|mergedAt)":\s*"?([\w:.-]+)')
_NUMBER = compile_pattern(r"#?(\d+)|https?://\S+/pull/(\d+)\S*")
_MERGE_COMMIT = compile_pattern(r"Merge pull request #(\d+) from")
_SQUASHED = compile_pattern(r"(?m)^[^\n]*\(#(\d+)\)$")
_MAIN_BRANCHES = frozenset("main master trunk develop origin/main origin/master".split())
_NAMED = compile_pattern(r"(?i)(?:\bPR|pull request|#)\s*#?(\d+)")
_SAYS_MERGED = compile_pattern(
    r"(?i)\b(?:pr|pull request|it|branch|#\d+)\b[^.?!\n]{0,30}\b(?:is|was|got|has been|are) (?:now |already )?merged\b(?! with)"
    r"|\b(?:i|we)(?:'ve| have| just| already)* merged\b|^merged\b"
)
_DOUBT = compile_pattern(
    r"(?i)\b(?:if|once|when|after|until|unless|before|should|not|isn't|wasn't)\b|n't\b|\?"
)
_CHECK_ROW = compile_pattern(r"(?m)^([^\t\n]+)\t(pass|fail|pending|skipping|cancel)\t")
_RUN_ROW = compile_pattern(
    r"(?m)^(completed|in_progress|queued)\t(\w*)\t[^\t\n]*\t([^\t\n]+)\t([^\t\n]+)\t"
)
_RESULTS = {"success": "pass", "failure": "fail", "": "pending"}
_SAYS_OPENED = compile_pattern(r"(?i)\b(?:created|opened|raised|submitted)\b")
_PUBLISHED = compile_pattern(
    r"(?m)^(?:\+ (?P<npm>(?:@[\w.-]+/)?[\w.-]+@\d[\w.+-]*)$"
    r"|\s*Published (?P<cargo>\S+ v\d\S*) at |View at:\n(?P<pypi>https://\S+)"
    r"|Successfully registered gem: (?P<gem>.+)$|(?P<release>https://\S+/releases/tag/\S+)$)"
)
_PUBLISHES = compile_pattern(r"\b(?:publish|twine upload|gh release create|gem push)\b")
_HANDLES = frozenset("merge close reopen ready edit comment review checkout".split())
"""Commands of `gh pr` by which a thread works on a pull request that it may not have made."""
_LOOKS = frozenset("view checks diff".split())
"""Commands that look at one, which matters where it is open."""
_STATES = {"OPEN": "open", "MERGED": "merged", "CLOSED": "closed", "DRAFT": "draft"}
MOST_NAMED_CHECKS = 3


class PullRequestLog:
    """Follows the commands and outputs of one thread that mention pull requests."""

    def __init__(self) -> None:
        self.pulls: dict[tuple[str, int], PullRequest] = {}
        """By repository, empty where it is not known, and number."""
        self.checks: CheckSummary | None = None
        self._is_made = False
        """One was just made by a tool that did not say its number."""

    def list_pulls(self) -> tuple[PullRequest, ...]:
        """List them, the one that was seen last at the end."""
        return tuple(sorted(self.pulls.values(), key=lambda pull: pull.ref))

    def read_line(
        self,
        ref: int,
        line: RepositoryLine,
        commands: Sequence[RepositoryCommand],
        output: str,
        branch: str,
    ) -> None:
        """Read what one command line did and printed. `branch` is the one in use."""
        asked: list[tuple[int, RepositoryCommand]] = []
        for command in commands:
            if command.program == "git" and command.verb == "log":
                self._read_log(ref, command, output, branch)
            elif command.program == "gh" and command.verb == "pr" and command.words:
                number = self._find_number(command, branch)
                asked.append((number, command))
                self._read_pull(ref, line, command, number, output, branch)
            elif command.program == "gh" and command.verb == "run":
                self._read_runs(ref, command, output, branch)
        if asked:
            self._read_outputs(ref, asked, output)
        for number, command in asked:
            known = self._find_pull(number, _find_repository(command.words))
            verb = command.words[0]
            if known and verb in (_HANDLES | _LOOKS):
                known = replace(known, handled=known.handled or verb in _HANDLES, looked_at=True)
                self.pulls[known.repository, number] = known

    def _find_pull(self, number: int, repository: str = "") -> PullRequest | None:
        """Find a pull request that is known; without its repository the newest of that number."""
        same = [p for p in self.list_pulls() if p.number == number]
        fits = [p for p in same if not repository or p.repository in ("", repository)]
        return fits[-1] if fits else None

    def _find_number(self, command: RepositoryCommand, branch: str) -> int:
        """Find the pull request that a command is about; that of the branch in use without a number."""
        for word in command.words[1:]:
            if match := _NUMBER.fullmatch(word):
                return int(match[1] or match[2])
        if any(not word.startswith("-") for word in command.words[1:2]):
            return 0
        own = [p.number for p in self.list_pulls() if branch and p.branch == branch]
        return own[-1] if own else 0

    def _read_pull(
        self,
        ref: int,
        line: RepositoryLine,
        command: RepositoryCommand,
        number: int,
        output: str,
        branch: str,
    ) -> None:
        """Read what a command of `gh pr` was called to do."""
        verb, words = command.words[0], command.words
        of = _find_repository(words)
        if verb == "create":
            found = _ADDRESS.findall(output)
            if found and "--web" not in words and not _EXISTS.search(output):
                state = "draft" if {"--draft", "-d"} & set(words) else "open"
                named = (value for word, value in pairwise(words) if word in ("--head", "-H"))
                head = next(named, branch).rpartition(":")[2]
                made = int(found[-1][1])
                self._note(made, state, ref, found[-1][0], created=True, branch=head)
        known = self._find_pull(number, of)
        if verb == "checks":
            self._read_checks(ref, f"#{number}" if number else "", output)
        elif not number or not is_proven(line, command.number):
            return
        elif verb == "merge" and not {"--auto", "--disable-auto"} & set(words):
            self._note(number, "merged", ref, of)
        elif verb in ("close", "reopen"):
            self._note(number, "closed" if verb == "close" else "open", ref, of)
        elif verb == "ready":
            self._note(number, "draft" if "--undo" in words else "open", ref, of)
        elif known:
            self._note(number, "", ref, of)

    def _read_outputs(
        self, ref: int, asked: Sequence[tuple[int, RepositoryCommand]], output: str
    ) -> None:
        """Read sentences, tables, fields and JSON that `gh pr` prints."""
        for one, other in _MERGED.findall(output):
            self._note(int(one or other), "merged", ref)
        for word, of, number in _CHANGED.findall(output):
            self._note(int(number), "closed" if word == "Closed" else "open", ref, of)
        named = {_find_repository(c.words) for _, c in asked}
        of = named.pop() if len(named) == 1 else ""
        for number, branch, state in _LISTED.findall(output):
            self._note(int(number), _STATES[state], ref, of, branch=branch)
        for number, state in _NUMBERED_STATE.findall(output):
            if self._find_pull(int(number)) or any(int(number) == n for n, _ in asked):
                self._note(int(number), _STATES[state], ref, of)
        views = [(n, c) for n, c in asked if c.words[0] in ("view", "status", "list")]
        one = views[0][0] if len(views) == 1 else 0
        fields = dict(_FIELD.findall(output))
        if fields.get("number", "").isdigit() and fields.get("state") in _STATES:
            self._note(int(fields["number"]), _STATES[fields["state"]], ref, of)
        objects = _list_objects(output)
        for found in objects:
            self._read_object(ref, found, one, of)
        states = set(_STATE_WORD.findall(output))
        asks = one and any("state" in word for word in views[0][1].words)  # Without its key.
        if asks and not objects and len(states) == 1:
            self._note(one, _STATES[states.pop()], ref, of)

    def _read_object(self, ref: int, found: dict[str, str], one: int, of: str) -> None:
        number = int(found["number"]) if found.get("number", "").isdigit() else one
        if not number:
            return
        state = _STATES.get(found.get("state", ""), "")
        if found.get("mergedAt", "null") not in ("null", ""):
            state = "merged"
        is_draft = state == "open" and found.get("isDraft") == "true"
        self._note(number, "draft" if is_draft else state, ref, of)

    def _read_log(self, ref: int, command: RepositoryCommand, output: str, branch: str) -> None:
        """Read the log of the main branch: what it holds was merged."""
        found = _MERGE_COMMIT.findall(output)
        of_main = branch in _MAIN_BRANCHES and not command.names
        if of_main or _MAIN_BRANCHES.intersection(command.names):
            found += _SQUASHED.findall(output)
        for number in map(int, found):
            if self._find_pull(number):
                self._note(number, "merged", ref)

    def read_words(self, ref: int, text: str) -> None:
        """Read whether the user says of one pull request that it is merged."""
        if len(text) > 600 or not _SAYS_MERGED.search(text) or _DOUBT.search(text):
            return
        named = [int(n) for n in _NAMED.findall(text)]
        left = [p.number for p in self.list_pulls() if p.state in ("open", "draft")]
        numbers = named or (left if len(left) == 1 else [])
        for number in numbers:
            if self._find_pull(number):
                self._note(number, "merged", ref)

    def read_report(self, ref: int, text: str) -> None:
        """Read the report of a sub-agent: the pull requests that it says it opened."""
        for row in text.split("\n"):
            if _SAYS_OPENED.search(row) and not _DOUBT.search(row):
                for of, number in _ADDRESS.findall(row):
                    self._note(int(number), "open", ref, of, created=True)

    def read_connector(self, ref: int, call: ToolCall) -> None:
        """Read a call of a connector's tool, such as `create_pull_request` of a server of MCP."""
        name = call.name.lower().replace("-", "_")
        if "pull_request" not in name and "merge_request" not in name:
            return
        found = _ADDRESS.findall(call.output)
        keys = (n for key, n in _KEY.findall(call.output) if key == "number" and n.isdigit())
        of, text = found[0] if found else ("", next(keys, 0))
        number = int(text)
        if "create" in name:
            self._is_made = not number
            if number:
                self._note(number, "open", ref, of, created=True)
        elif "merge" in name and re.search(r'"merged":\s*true', call.output):
            asked = re.search(r'"pull_?[nN]umber":\s*(\d+)', call.detail)
            if asked or number:
                self._note(int(asked[1]) if asked else number, "merged", ref, of)

    def _read_checks(self, ref: int, name: str, output: str) -> None:
        """Read the table of `gh pr checks`, the last one of those that `--watch` prints."""
        again = output.rfind("Refreshing checks status")
        rows = _CHECK_ROW.findall(output[again + 1 :])
        rows = list(dict(rows).items()) if again >= 0 else rows  # The end is printed once more.
        objects = [] if rows else _list_objects(output)
        rows = rows or [(o.get("name", ""), o["bucket"]) for o in objects if "bucket" in o]
        if rows:
            self.checks = _summarize(ref, name, rows)
        elif self.checks and self.checks.name == name:
            self.checks = None  # It was looked at again, in a form that nobody can count.

    def _read_runs(self, ref: int, command: RepositoryCommand, output: str, branch: str) -> None:
        """Read the newest run of each workflow of the branch in use in `gh run list`."""
        newest: dict[str, str] = {}
        for _, conclusion, workflow, of in _RUN_ROW.findall(output):
            if of == branch and command.words[:1] == ["list"]:
                newest.setdefault(workflow, _RESULTS.get(conclusion, conclusion))
        if newest:
            self.checks = _summarize(ref, f"`{branch}`", list(newest.items()))
        elif command.words[:1] in (["view"], ["watch"]):
            self.checks = None  # It shows one run, newer than what was counted.

    def _note(
        self,
        number: int,
        state: str,
        ref: int,
        repository: str = "",
        *,
        created: bool = False,
        branch: str = "",
    ) -> None:
        """Keep a pull request's newest state; an unknown state leaves the old one."""
        old = self._find_pull(number, repository)
        if old is None and self._is_made and not state:
            self._is_made, state, created = False, "open", True
        if old:
            repository = repository or old.repository
            del self.pulls[old.repository, number]
        self.pulls[repository, number] = PullRequest(
            number,
            state or (old.state if old else ""),  # type: ignore[arg-type]
            ref if state or old is None else old.ref,
            created or bool(old and old.created),
            branch or (old.branch if old else ""),
            bool(old and old.handled),
            repository,
            bool(old and old.looked_at),
        )


def _find_repository(words: Sequence[str]) -> str:
    """Find the repository that a command of gh names, by an option or by an address."""
    for word, value in zip(words, (*words[1:], ""), strict=True):
        if word in ("-R", "--repo") or word.startswith("--repo="):
            return "/".join((word.partition("=")[2] or value).split("/")[-2:])
        if match := _ADDRESS.match(word):
            return match[1]
    return ""


def _list_objects(output: str) -> list[dict[str, str]]:
    """List what JSON in an output says of pull requests: `number`, `state`, `isDraft`, `mergedAt`."""
    try:
        whole = msgspec.json.decode(output.strip())
    except (msgspec.DecodeError, UnicodeEncodeError):
        return [dict(_KEY.findall(text)) for text in _OBJECT.findall(output)]
    found = whole if isinstance(whole, list) else [whole]
    return [
        {k: "null" if v is None else str(v).replace("True", "true") for k, v in one.items()}
        for one in found
        if isinstance(one, dict)
    ]


def _summarize(ref: int, name: str, rows: Sequence[tuple[str, str]]) -> CheckSummary:
    counts = Counter(result for _, result in rows)
    failed = tuple(one for one, result in rows if result == "fail")
    return CheckSummary(name, counts["pass"], failed, counts["pending"], ref)


def read_published(ref: int, call: ToolCall) -> Iterator[Quote]:
    """Yield what a command published: packages and releases that a program named."""
    if call.status in ("ok", "unknown") and _PUBLISHES.search(call.command):
        has_release = "gh release create" in call.command
        for match in _PUBLISHED.finditer(call.output):
            if has_release or not match["release"]:
                yield Quote(text=next(g for g in match.groups() if g).strip(), ref=ref)
