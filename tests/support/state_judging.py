"""The lines of *State of the work*, judged against labels that were made by reading the threads.

`state_labels.json` holds what was true at 100 cuts of threads of two corpora. `lines` is how many lines of
the unpacked file stand before the cut; other line numbers count from 0. Of a commit, `pushed` is
true where a program showed it on the remote, false where no push was seen, null where nobody can
tell ("no push seen" is no claim of more than that); `gone` commits were amended, rebased or reset away. `tree_clean` and `branch` are null where
nobody can tell. Of a check, `line` is that of its last run. A pull request is its number, its state
and whether the thread made it.

Each line that the program prints is `right`, `wrong`, or `unjudged` where no label covers it. A
line that speaks of two kinds of checks at once is judged once for each.
"""

import gzip
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from tasuki.draft.facts import state
from tasuki.draft.facts.derive import derive_facts
from tasuki.harness import registry
from tasuki.model import Item, Thread

LABELS = Path(__file__).with_name("state_labels.json")

Result = Literal["right", "wrong", "unjudged"]


class CommitLabel(Struct, frozen=True):
    """A commit of the thread."""

    hash: str
    branch: str | None
    pushed: bool | None
    gone: bool
    subject: str = ""


class CheckLabel(Struct, frozen=True):
    """The last run of one kind of check."""

    kind: Literal["test", "lint", "build"]
    line: int
    result: Literal["passed", "failed", "unclear"]
    edited_since: bool


class RunningLabel(Struct, frozen=True):
    """Something that was started and whose end is not recorded."""

    line: int
    label: str


class PullLabel(Struct, frozen=True, array_like=True):
    """A pull request that the thread names."""

    number: int
    state: Literal["open", "draft", "merged", "closed"]
    created_here: bool


class Cut(Struct, frozen=True):
    """What is true where a thread is cut."""

    file: str
    lines: int
    branch: str | None
    tree_clean: bool | None
    todo_in_progress: int
    todo_open: int
    refused: tuple[int, ...]
    uncommitted: tuple[str, ...]
    commits: tuple[CommitLabel, ...]
    checks: tuple[CheckLabel, ...]
    running: tuple[RunningLabel, ...]
    pull_requests: tuple[PullLabel, ...]
    unclear: tuple[str, ...] = ()
    """Files of which nobody can tell whether a commit holds them."""
    published: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """A short name for tables: the beginning of the file's name, and the line of the cut."""
        stem = self.file.rsplit("/", 1)[-1].partition(".")[0]
        return f"{stem.removeprefix('packages_coding-agent_test_fixtures_')[:13]}@{self.lines}"

    def live_commits(self, branch: str | None) -> list[CommitLabel]:
        """The commits of a branch that still exist."""
        return [c for c in self.commits if c.branch == branch and not c.gone]


class Verdict(Struct, frozen=True):
    """One printed line with what was said of it. `kind` is its label without names of branches."""

    cut: str
    kind: str
    text: str
    result: Result
    reason: str = ""


class Recall(Struct):
    """How many of the labelled facts were told."""

    told: int = 0
    labelled: int = 0

    @property
    def share(self) -> float:
        """Told of labelled, 0 to 1."""
        return self.told / self.labelled if self.labelled else 1.0


class Judgement(Struct, frozen=True):
    """All verdicts, and the recall of branches, live commits of the branch in use, and tests."""

    verdicts: list[Verdict]
    recall: dict[str, Recall]


def load_cuts() -> list[Cut]:
    """All labelled cuts."""
    return msgspec.json.decode(LABELS.read_bytes(), type=list[Cut])


def find_file(corpus: Path, cut: Cut) -> Path:
    """The packed thread of a cut, in the corpus or in the second one beside it."""
    return (corpus.parent if cut.file.startswith("corpus2/") else corpus) / cut.file


def read_cut(corpus: Path, cut: Cut) -> Thread:
    """The thread as it was at the cut."""
    with gzip.open(find_file(corpus, cut)) as packed:
        lines = [line for line, _ in zip(packed, range(cut.lines), strict=False)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, Path(cut.file).stem)
        path.write_bytes(b"".join(lines))
        return registry.detect_harness(path).read(path)


def judge_corpus(corpus: Path, cuts: Sequence[Cut]) -> Judgement:
    """Judge every state line of every cut."""
    found = Judgement([], {name: Recall() for name in ("branches", "commits", "tests")})
    for cut in cuts:
        thread = read_cut(corpus, cut)
        items = list(state.list_state_items(thread, derive_facts(thread, None, "").facts))
        verdicts = list(judge_items(cut, items, _line_of(corpus, cut, thread)))
        found.verdicts.extend(verdicts)
        _count_told(cut, items, verdicts, found.recall)
    return found


def _line_of(corpus: Path, cut: Cut, thread: Thread) -> Callable[[int], int]:
    """A function from an entry's reference to the line of the file that begins it."""
    with gzip.open(find_file(corpus, cut)) as packed:
        whole = packed.read()
    offsets = {e.ref: e.offset for e in thread.entries}
    return lambda ref: whole.count(b"\n", 0, offsets.get(ref, 0))


def judge_items(
    cut: Cut, items: Iterable[Item], line_of: Callable[[int], int]
) -> Iterator[Verdict]:
    """Judge the printed lines of one cut."""
    items = list(items)
    if any(item.label.startswith(CHANGED) for item in items):  # Both lines together are complete.
        cut = msgspec.structs.replace(cut, unclear=(*cut.unclear, *cut.uncommitted), uncommitted=())
    for item in items:
        for kind, (result, reason) in _judge_item(cut, item, line_of):
            yield Verdict(cut.name, kind, f"{item.label}: {item.text}", result, reason)


CHANGED = ("Changed or new in the folder", "Also changed or new in the folder")
_Opinion = tuple[Result, str]
RIGHT: _Opinion = ("right", "")
UNJUDGED: _Opinion = ("unjudged", "no label covers it")
_KINDS = {"Tests": "test", "Lint or type check": "lint", "Build": "build"}


def _judge_item(
    cut: Cut, item: Item, line_of: Callable[[int], int]
) -> Iterator[tuple[str, _Opinion]]:
    label = item.label.partition(", written ")[0].partition(" when last written")[0]
    if label.startswith("Committed"):
        elsewhere = label.endswith(", earlier")
        yield f"Committed on …{', earlier' if elsewhere else ''}", _judge_commits(cut, item)
    elif label == "Branch":
        yield label, _judge_branch(cut, item.text)
    elif label.startswith("Not committed yet"):
        yield label, _judge_uncommitted(cut, item.text)
    elif label.startswith(CHANGED):
        yield (
            "Changed or new in the folder …",
            UNJUDGED,
        )  # They are others' changes, of which no label speaks.
    elif label.startswith("Pull requests"):
        yield label, _judge_pulls(cut, item.text)
    elif set(label.split(" and ")) <= _KINDS.keys():
        for kind in label.split(" and "):
            yield kind, _judge_check(cut, _KINDS[kind], item.text)
    elif label in ("Todo list, in progress", "Todo list, open"):
        is_open = label.endswith("open")
        yield label, _judge_todos(item.text, cut.todo_open if is_open else cut.todo_in_progress)
    elif label == "Refused by the user":
        refused = line_of(item.refs[-1]) in cut.refused
        yield label, RIGHT if refused else ("wrong", "nothing was refused there")
    elif match := re.match(r"(Background command|Sub-agent) `(.*?)…?` was started", item.text):
        yield f"{match[1]} … was started", _judge_running(cut, match[2], line_of(item.refs[-1]))
    else:
        kind = label or item.text.partition(" during ")[0]
        yield kind.partition(" of #")[0].partition(" of `")[0], UNJUDGED


# -- commits and branches --------------------------------------------------------------

_COMMIT = re.compile(
    r"(?:^|; )`([0-9a-f]{7,40})` (.*?)(?=; `[0-9a-f]{7,40}` |; \d+ earlier| — |; git called|$)"
)
_CLAIMS = {"pushed": True, "no push seen": False}


def _judge_commits(cut: Cut, item: Item) -> _Opinion:
    match = re.match(r"Committed (?:on `([^`]*)`|on a detached HEAD)?", item.label)
    branch = match[1] if match else None
    named = list(_COMMIT.finditer(item.text))
    claim = re.search(r" — (pushed|no push seen)(?:; git called the tree clean)?$", item.text)
    labelled = cut.live_commits(branch)
    told = []
    for found in named:
        commit = next((c for c in labelled if _is_same(c.hash, found[1])), None)
        if commit is None:
            return "wrong", f"{found[1]} is no live commit of {branch}"
        own = re.search(r" \((pushed|no push seen)\)$", found[2])
        says = _CLAIMS[(claim or own)[1]] if claim or own else None  # type: ignore[index]
        if says is not commit.pushed and (says or commit.pushed) and says is not None:
            return "wrong", f"{commit.hash}: says pushed {says}, labelled {commit.pushed}"
        told.append(commit)
    earlier = _count_earlier(item.text)
    if len(named) + earlier > len(labelled):
        return "wrong", f"{len(named) + earlier} commits told, {len(labelled)} labelled"
    rest = [c for c in labelled if c not in told]
    if claim and earlier and any(c.pushed is (not _CLAIMS[claim[1]]) for c in rest):
        return "wrong", "the earlier ones differ"
    return _judge_clean(cut, item.text) if named else UNJUDGED


def _judge_branch(cut: Cut, text: str) -> _Opinion:
    branch = text.split("`")[1]
    if cut.branch is None:
        return UNJUDGED
    if branch != cut.branch:
        return "wrong", f"the branch is {cut.branch}"
    if "nothing was committed" in text and cut.live_commits(branch):
        return "wrong", "there are commits on it"
    return _judge_clean(cut, text)


def _judge_clean(cut: Cut, text: str) -> _Opinion:
    if "git called the tree clean" in text and cut.tree_clean is False:
        return "wrong", "the tree is not clean"
    return RIGHT


def _is_same(one: str, other: str) -> bool:
    return one.startswith(other) or other.startswith(one)


def _count_earlier(text: str) -> int:
    match = re.search(r"; (\d+) earlier", text)
    return int(match[1]) if match else 0


def _judge_uncommitted(cut: Cut, text: str) -> _Opinion:
    """Judge the files and their number. Those outside of the thread's folder need not be told.

    Where the line says that a formatter changed others, it need not name them all; neither where it says of how many
    it does not know.
    """
    text, unclear, _ = text.removesuffix("; sub-agents may have changed more").partition("; of ")
    text, formatted, _ = text.partition(", and what `")
    outside = [p for p in cut.uncommitted if p.startswith(("../", "/", "~"))]
    labelled = [p for p in cut.uncommitted if p not in outside]
    names = re.findall(r"`([^`]+)`", text)
    for name in names:
        if not any(p == name or p.endswith(f"/{name}") for p in (*cut.uncommitted, *cut.unclear)):
            return "wrong", f"{name} is not among them"
    more = re.search(r" and (\d+) more$", text)
    count = len(names) + (int(more[1]) if more else 0)
    most = len(cut.uncommitted) + len(cut.unclear)
    if len(labelled) <= count <= most or ((formatted or unclear) and count < len(labelled)):
        return RIGHT
    return "wrong", f"{count} told, {len(labelled)} labelled"


def _judge_pulls(cut: Cut, text: str) -> _Opinion:
    labelled = {p.number: p for p in cut.pull_requests}
    for number, says, made in re.findall(r"#(\d+) (\w+)(, made in this thread)?", text):
        label = labelled.get(int(number))
        if label is None or label.state != says or (made and not label.created_here):
            return "wrong", f"#{number} is labelled {label}"
    return RIGHT


# -- checks, todo lists and what runs --------------------------------------------------


_UNKNOWN = "tasuki cannot tell how it ended"


def _judge_check(cut: Cut, kind: str, text: str) -> _Opinion:
    label = next((c for c in cut.checks if c.kind == kind), None)
    if _UNKNOWN in text or "was run; it was interrupted" in text:
        return UNJUDGED  # The newest run is labelled.
    if label is None:
        return "wrong", "no such check is labelled"
    if label.result == "unclear":
        return UNJUDGED
    says = re.search(r"`(?: \((?:in|on|without) .*?\))? (passed|FAILED)(?=[:;,]|$)", text)
    if says is None:
        return "wrong", "it says no result"
    if says[1].lower() != label.result:
        return "wrong", f"it is labelled {label.result}"
    nothing = text.endswith("; nothing edited since")
    edited = re.search(r"; (?:edited|written) since", text)
    if (nothing and label.edited_since) or (edited and not label.edited_since):
        return "wrong", f"edited since is labelled {label.edited_since}"
    return RIGHT


def _judge_todos(text: str, labelled: int) -> _Opinion:
    """Judge the number of todos; a text that is cut short tells only the least number."""
    count = len(text.split("; "))
    if count == labelled or ("…" in text and count < labelled):
        return RIGHT
    return "wrong", f"{count} told, {labelled} labelled"


def _judge_running(cut: Cut, label: str, line: int) -> _Opinion:
    for running in cut.running:
        same = label[:40].strip() == running.label[:40].strip()
        if running.line == line or same:
            return RIGHT
    return "wrong", "it is not labelled as running"


# -- recall ----------------------------------------------------------------------------


def _count_told(
    cut: Cut, items: Iterable[Item], verdicts: Iterable[Verdict], recall: dict[str, Recall]
) -> None:
    """Add what one cut tells of its branch, of the commits there, and of its last test run."""
    mine = f"Committed on `{cut.branch}`"
    here = [i for i in items if i.label == "Branch" or i.label.startswith(mine)]
    if cut.branch is not None:
        told = any(f"`{cut.branch}`" in f"{i.label} {i.text}" for i in here)
        recall["branches"].labelled += 1
        recall["branches"].told += told
    labelled = cut.live_commits(cut.branch)
    named = [
        c
        for c in labelled
        if any(_is_same(c.hash, m[1]) for i in here for m in _COMMIT.finditer(i.text))
    ]
    earlier = sum(_count_earlier(i.text) for i in here if i.label != "Branch")
    recall["commits"].labelled += len(labelled)
    recall["commits"].told += min(len(named) + earlier, len(labelled))
    if any(c.kind == "test" and c.result != "unclear" for c in cut.checks):
        recall["tests"].labelled += 1
        recall["tests"].told += any(v.kind == "Tests" and v.result == "right" for v in verdicts)


def count_verdicts(verdicts: Iterable[Verdict]) -> dict[str, tuple[int, int, int]]:
    """For each kind of line: lines in all, right ones, wrong ones; most lines first."""
    counts: dict[str, tuple[int, int, int]] = {}
    for verdict in verdicts:
        lines, right, wrong = counts.get(verdict.kind, (0, 0, 0))
        is_right, is_wrong = verdict.result == "right", verdict.result == "wrong"
        counts[verdict.kind] = (lines + 1, right + is_right, wrong + is_wrong)
    return dict(sorted(counts.items(), key=lambda pair: -pair[1][0]))
