"""Question sets: what a successor must know, as patterns that a brief has to match.

    {"threads": [{"file": "claude-code/a.jsonl", "lines": 468, "goal": "…", "questions": [
        {"id": "commits", "kind": "state", "question": "Which commits?", "patterns": ["8940cfb"]}]}]}

`lines` is the number of lines of `file` before the goal. A case with `summary_line`, a
0-based line of the same file, is a compaction: there the harness wrote its own summary.
Other keys are for people.

A brief is compared with simple ones of the same size, from the thread alone. They are as strong
as a few lines of code allow: shares of the budget, the newest first, long texts shortened, and
no summary of the harness among them.
"""

import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from tasuki.errors import UsageError
from tasuki.model import Entry, Thread
from tasuki.text_safety import shorten_to_line
from tasuki_evals.continuation import metric

QuestionVerdict = Literal["direct", "hop", "no"]
MIN_GOAL = 20
"""Characters; a shorter goal is not removed from the text: `1` would remove every 1."""
GOAL_SECTION = "## Next Goal"
FORMAT_HINT = "The format of a set: workshop/evaluation.md in the source of tasuki, Questions."
_CITED = re.compile(r"\[(#[^\]]*)\]")
_REF = re.compile(r"#(\d{1,9})")


class SetQuestion(Struct, frozen=True):
    """One thing to know. A text answers it if every pattern matches."""

    question: str
    kind: Annotated[str, Meta(min_length=1)]
    patterns: Annotated[tuple[str, ...], Meta(min_length=1)]
    """Regular expressions of Python, searched with DOTALL."""
    id: str = ""


class QuestionCase(Struct, frozen=True):
    """A thread cut at a goal, and what the successor must know there."""

    file: Annotated[str, Meta(min_length=1)]
    """A path inside of the folder of threads; may end in `.gz`."""
    lines: Annotated[int, Meta(ge=1)]
    goal: Annotated[str, Meta(min_length=1)]
    questions: Annotated[tuple[SetQuestion, ...], Meta(min_length=1)]
    summary_line: Annotated[int, Meta(ge=0)] | None = None
    thread: str = ""

    @property
    def name(self) -> str:
        """Its name in reports."""
        return self.thread or f"{self.file.rpartition('/')[2]}:{self.lines}"


class QuestionSet(Struct, frozen=True):
    """The cases of one file."""

    threads: Annotated[tuple[QuestionCase, ...], Meta(min_length=1)]


def load_questions(path: Path) -> QuestionSet:
    """Return a question set. Raises UsageError that says where the file is wrong."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=QuestionSet)
    except FileNotFoundError as error:
        raise UsageError(f"No question set {path}: there is no such file.") from error
    except OSError as error:
        raise UsageError(f"Cannot read the question set {path}: {error.strerror}.") from error
    except msgspec.ValidationError as error:
        raise UsageError(f"{path} is not a question set: {error}. {FORMAT_HINT}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path} is not a question set: it is not JSON. {FORMAT_HINT}") from error
    names = Counter((case.name, case.file) for case in found.threads)
    for case in found.threads:
        if names[case.name, case.file] > 1:
            raise UsageError(
                f"{path}: two cases are called {shorten_to_line(case.name, 80)!r}. Name each with `thread`."
            )
        for question in case.questions:
            _check_patterns(path, case, question)
    return found


def _check_patterns(path: Path, case: QuestionCase, question: SetQuestion) -> None:
    for pattern in question.patterns:
        try:
            re.compile(pattern, re.DOTALL)
        except (re.error, RecursionError, OverflowError) as error:
            what = shorten_to_line(question.id or question.question, 60)
            raise UsageError(
                f"{path}: a pattern of the question {what!r} of {shorten_to_line(case.name, 80)} does not "
                f"compile: {error}. Correct it: {shorten_to_line(pattern, 120)}"
            ) from error


def judge_answer(question: SetQuestion, text: str, opened: str = "") -> QuestionVerdict:
    """Return whether a text answers a question: directly, with the opened entries added, or not."""
    if _has_all_patterns(question, text):
        return "direct"
    return "hop" if opened and _has_all_patterns(question, text + opened) else "no"


def _has_all_patterns(question: SetQuestion, text: str) -> bool:
    return all(re.search(pattern, text, re.DOTALL) for pattern in question.patterns)


def find_cited_refs(text: str) -> list[int]:
    """Return the entries that a brief cites as [#12] or [#12, #15], in their order."""
    return sorted({int(n) for group in _CITED.findall(text) for n in _REF.findall(group)})


def strip_goal(text: str, goal: str) -> str:
    """Return a brief without its goal section, and without the goal where it is repeated."""
    end = text.find(GOAL_SECTION)
    text = text[:end] if end > 0 else text
    return text.replace(goal.strip(), "") if len(goal.strip()) > MIN_GOAL else text


MAX_CALL, MAX_OUTPUT, MAX_MESSAGE, MAX_LINE = 600, 300, 600, 300
"""Characters of a call, of its output, of a user message in `mix_sources`, of a random line."""
MIN_LINE, MIN_PIECE = 10, 80
"""Characters: shorter lines are not drawn, shorter ends are left out."""
MAX_USER_MESSAGES = 6
"""Newest messages of the user in `mix_sources`."""


def draw_lines(thread: Thread, characters: int) -> str:
    """Return lines of the thread drawn at random until the budget is full."""
    texts = (text for e in thread.entries if e.kind != "compaction" for text in _list_texts(e))
    lines = [x[:MAX_LINE] for text in texts for x in text.splitlines() if len(x.strip()) > MIN_LINE]
    random.Random(len(lines)).shuffle(lines)  # noqa: S311
    return _fill_budget(lines, characters)


def take_last(thread: Thread, characters: int) -> str:
    """Return the newest messages, calls and outputs that fit, each shortened."""
    return "\n".join(reversed(_select_fitting(_list_newest(thread), characters)))


def list_index(thread: Thread, characters: int) -> str:
    """Return files edited, files read, commands run; the newest first."""
    used = [metric.collect_used((entry,), thread.cwd) for entry in reversed(thread.entries)]
    edited, opened, commands = (
        list(dict.fromkeys(item for one in used for item in sorted(getattr(one, kind))))
        for kind in ("edited", "opened", "commands")
    )
    text = _fill_budget(edited, characters * 35 // 100)
    text += "\n" + _fill_budget((f for f in opened if f not in edited), characters * 25 // 100)
    return text + "\n" + _fill_budget(commands, characters - len(text) - 1)


def mix_sources(thread: Thread, characters: int) -> str:
    """Return the index, then the newest messages of the user, then the newest of all."""
    text = list_index(thread, characters * 45 // 100)
    user_messages = [e.text[:MAX_MESSAGE] for e in reversed(thread.entries) if e.is_by_hand]
    text += "\n" + _fill_budget(user_messages[:MAX_USER_MESSAGES], characters // 5)
    return text + "\n" + take_last(thread, characters - len(text) - 1)


QUESTION_BASELINES: dict[str, Callable[[Thread, int], str]] = {
    "random": draw_lines, "last": take_last, "index": list_index, "mix": mix_sources,
}  # fmt: skip


def _list_texts(entry: Entry) -> Iterator[str]:
    """Yield what an entry holds: its words, or a call and its output."""
    if entry.tool is None:
        yield entry.text
    else:
        yield f"{entry.tool.name} {metric.join_input(entry.tool)}"
        yield entry.tool.output


def _list_newest(thread: Thread) -> Iterator[str]:
    for entry in reversed(thread.entries):
        if entry.kind == "compaction" or (entry.kind == "user" and entry.origin == "harness"):
            continue
        if entry.tool is None:
            texts = [entry.text]
        else:
            call, output = _list_texts(entry)
            texts = [output[:MAX_OUTPUT], call[:MAX_CALL]]
        yield from filter(None, texts)


def _fill_budget(lines: Iterable[str], characters: int) -> str:
    return "\n".join(_select_fitting(lines, characters))


def _select_fitting(texts: Iterable[str], characters: int) -> list[str]:
    """Return the first texts that fit, and the beginning of the next one."""
    fitting: list[str] = []
    for text in texts:
        if len(text) + 1 > characters:
            if characters - 1 > MIN_PIECE:
                fitting.append(text[: characters - 1])
            break
        fitting.append(text)
        characters -= len(text) + 1
    return fitting
