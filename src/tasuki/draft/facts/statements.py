"""Sentences of a thread that may be worth handing on, each with its speaker and its weight."""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from tasuki.draft.text import language_cues, lexicon
from tasuki.draft.text.entries import extract_user_words
from tasuki.draft.text.split import (
    MAX_QUOTE,
    extract_own_words,
    fold_for_comparison,
    fold_whitespace,
    shorten,
    split_sentences,
)
from tasuki.harness.reading.answers import parse_answers
from tasuki.model import Entry, Quote, ToolCall
from tasuki.patterns import compile_pattern

StatementKind = Literal[
    "request", "constraint", "reversal", "decision", "question", "next", "rejected", "finding"
]
MAX_CHARACTERS = 150_000
"""Assistant text looked at in full, newest first. Of what is older, only entries that name
something the goal names. User text is always looked at in full."""
MAX_STATEMENTS = 1_200
"""Statements of the agent that are weighed, the newest."""
MIN_WEIGHT = 0.4
"""Minimum weight of a quoted sentence of the agent."""
COPY_WINDOW = 6
"""How many assistant texts back a sentence of the user may have been copied from."""
SHORT_REPLY = 48
"""A message up to this length is shown with what it answers."""
MAX_SENTENCE = 1_200
WHOLE_MESSAGE = 480
"""A message of the user up to this length is quoted as one."""
MAX_OWN_QUOTE = 640
"""Characters of a sentence of the user that are quoted."""
MAX_OWN_WORDS = 4_000
"""A longer message of the user counts as pasted, except for its first paragraphs."""

PICK = compile_pattern(
    r"\W*(?:(?:i think|i'd say|let'?s|go with|do|take|option|number|ok|yes|then)[\s,]+)*"
    r"(?:#?\d\b(?![.\w])|[A-Da-d](?:[.):,]|\s*$)|(?:first|second|third|both|the latter|the former)\b|(?:yes|no|yep|nope|sure)\b(?! (?:clue|idea)))",
    re.IGNORECASE,
)
"""The beginning of a reply that chooses: `B. is fine`, `option 2`, `the second one`, `yes`."""
_PICKED = compile_pattern(
    r"\W*(?:(?:ok(?:ay)?|yes|yeah|then|let'?s|i think|i'd|say|go|with|do|take|use|pick|option|number|item)[\s,]+){0,6}"
    r"#?(\d|[A-D])(?=\s*$|\s*[.):,–—-]|\s+(?:is|it|looks|sounds|seems|please|then|and|but)\b)",
    re.IGNORECASE,
)
_OPTION = compile_pattern(
    r"\s*(?:[-*]\s+)?(?:\*\*)?(?:Option\s+)?(\d|[A-D])(?:\*\*)?[.):]\s*(\S.*)"
)
MAX_ANSWERED = 160
CHOSEN_WEIGHT, REFUSAL_WEIGHT = 1.0, 1.4
"""Weight of an option that the user chose, and the least weight of words that refuse a
tool call.
"""
RULING_WEIGHT = 0.9
"""Weight of a short reply whose question or option is known."""


class Statement(Struct, frozen=True, gc=False):
    """One sentence, verbatim, with its weight before any goal is considered."""

    text: str
    ref: int
    kind: StatementKind
    weight: float
    by_user: bool
    answers: str = ""
    """The agent's sentence that a short message of the user replies to."""
    refuses: str = ""
    """The tool call that the user refused with these words."""
    number: str = ""
    """Its number in a list: `2.`"""
    is_chosen: bool = False
    """A choice in the agent's words, which the user took."""

    @property
    def shown(self) -> str:
        """The sentence between quotation marks, with what it answers."""
        if self.is_chosen:
            return f'asked "{self.answers}", the user chose "{self.text}"'
        return f'"{self.text}"' + (f" — answering: {self.answers}" if self.answers else "")

    @property
    def quote(self) -> Quote:
        """The sentence as a quote of its entry."""
        return Quote(text=self.text, ref=self.ref)


def extract_user_statements(
    entries: Iterable[Entry], own_words: dict[int, str] | None = None
) -> list[Statement]:
    """Return what the user wrote by hand, sentence by sentence, oldest first.

    Sentences that the agent or a tool had printed before are not the user's own and are left
    out; so are pasted blocks, and everything that the harness put into a user message. What is
    left of each message goes into `own_words`, by its ref.
    """
    result: list[Statement] = []
    printed: deque[str] = deque(maxlen=COPY_WINDOW)
    refused = ""
    for entry in entries:
        call, refused_before, refused = entry.tool, refused, ""
        if entry.kind == "assistant":
            printed.append(entry.text)
        elif call is not None:
            refused = _describe_call(call) if call.status == "refused" else ""
        elif entry.origin == "answer" and (chosen := list(_extract_choices(entry))):
            result += chosen
        elif words := extract_user_words(entry):
            before = "\n".join(printed)
            own = extract_own_words(words[: 2 * MAX_OWN_WORDS])
            if own_words is not None and len(words) <= 2 * MAX_OWN_WORDS:
                own_words[entry.ref] = own
            numbers = _SentenceNumbers(words)
            for sentence in _split_own_sentences(words, own, before):
                if language_cues.is_small_talk(sentence):
                    continue
                if not _is_printed(sentence, before):
                    statement = _build_user_statement(
                        sentence, entry, printed[-1] if printed else ""
                    )
                    if number := numbers.take_number(sentence):
                        statement = replace(statement, number=number)
                    result.append(
                        _mark_refusal(statement, refused_before) if refused_before else statement
                    )
    return result


_NUMBERED = compile_pattern(r"(?m)^[^\S\n]*(\d{1,2}[.)])[^\S\n]+(\S.*)$")
NUMBERED_PREFIX = 40
"""Characters at the start of a numbered sentence by which it is recognised."""


class _SentenceNumbers:
    """The numbers of a message's numbered lines, assigned to its sentences in their order."""

    def __init__(self, words: str) -> None:
        self._left: list[tuple[str, str]] = [
            (number, next(iter(split_sentences(line)), "")[:NUMBERED_PREFIX])
            for number, line in _NUMBERED.findall(words[: 2 * MAX_OWN_WORDS])
        ]

    def take_number(self, sentence: str) -> str:
        """Return the number before a sentence, or an empty string."""
        for n, (number, begins) in enumerate(self._left):
            if begins and sentence.startswith(begins):
                del self._left[: n + 1]
                return number
        return ""


MAX_REFUSED_CALL = 100
"""Characters of a refused call that are quoted with the refusing words of the user."""


def _extract_choices(entry: Entry) -> Iterator[Statement]:
    """Yield the answers to what a tool of the agent asked."""
    for given in parse_answers(entry.text):
        yield Statement(
            text=shorten(given.answer, MAX_OWN_QUOTE), ref=entry.ref, kind="decision",
            weight=CHOSEN_WEIGHT, by_user=True, answers=shorten(given.question, MAX_ANSWERED),
            is_chosen=given.is_chosen,
        )  # fmt: skip


def _describe_call(call: ToolCall) -> str:
    """Return a refused tool call in a few words."""
    target = call.command or " ".join(path.rpartition("/")[2] for path in call.paths)
    return shorten(fold_whitespace(f"{call.name} {target}".replace("`", "")), MAX_REFUSED_CALL)


def _mark_refusal(statement: Statement, refused: str) -> Statement:
    """Words with which the user refused a tool call as a decision: they say what is not wanted."""
    weight = max(statement.weight, REFUSAL_WEIGHT)
    return replace(statement, refuses=refused, answers="", kind="decision", weight=weight)


def _is_printed(sentence: str, before: str) -> bool:
    """Return whether a sentence was copied from what the agent had said."""
    return len(sentence) >= 40 and sentence in before


def _split_own_sentences(text: str, own: str, before: str) -> Iterable[str]:
    """Return a short message whole, so that its sentences explain each other; split a long one.

    A message that repeats what the agent said before is split too. Where pasted lines were
    removed, the text on both sides is not one sentence.
    """
    text = text[: 2 * MAX_OWN_WORDS]
    own = _restore_gaps(own[:MAX_OWN_WORDS], text)
    whole, said_so = fold_whitespace(own), fold_for_comparison(text)
    parts = split_sentences(own)
    repeats = any(_is_printed(part, before) for part in parts)
    is_one = len(whole) <= WHOLE_MESSAGE and "\n\n" not in own and not repeats
    if is_one and fold_for_comparison(whole) in said_so:
        return (whole,) if len(whole) >= 8 else ()
    return [s for s in parts if fold_for_comparison(s) in said_so]


def _restore_gaps(own: str, text: str) -> str:
    """Return some lines of a text, with an empty one where others were between them."""
    if own in text:
        return own
    lines = own.split("\n")
    pairs = zip(lines, lines[1:], strict=False)
    return "\n".join([lines[0], *(b if f"{a}\n{b}" in text else f"\n{b}" for a, b in pairs)])


def _build_user_statement(sentence: str, entry: Entry, before: str) -> Statement:
    sentence = sentence[:MAX_SENTENCE]
    found, weight = _find_most_binding(sentence)
    kind: StatementKind = "request"
    if found & lexicon.REVERSAL:
        kind = "reversal"
    elif found & lexicon.WISH and weight >= 1.3:
        kind = "constraint"
    elif found & lexicon.DECISION or entry.origin == "answer":
        kind = "decision"
    elif language_cues.is_fact_question(sentence, found):
        kind, weight = "question", max(weight, 0.8)
    answers = ""
    if (
        kind in ("request", "decision")
        and not language_cues.is_order(sentence)
        and (len(sentence) <= SHORT_REPLY or PICK.match(sentence))
    ):
        answers = shorten(find_answered(sentence, before), MAX_ANSWERED)
    if answers and kind == "request" and not weight > RULING_WEIGHT:
        kind, weight = "decision", RULING_WEIGHT
    return Statement(
        text=shorten(sentence, MAX_OWN_QUOTE),
        ref=entry.ref,
        kind=kind,
        weight=weight,
        by_user=True,
        answers=answers,
    )


def _find_most_binding(message: str) -> tuple[int, float]:
    """Return flags and weight of the most binding sentence of a message.

    The sum of all sentences would favour long messages.
    """
    parts = [s for s in split_sentences(message) if len(s) >= 12] or [message]
    marked = (
        (found := language_cues.detect_cues(s), language_cues.weigh_user_sentence(s, found))
        for s in parts
    )
    return max(marked, key=lambda pair: pair[1])


def find_answered(reply: str, before: str) -> str:
    """Return what a short reply answers: the option it picks, else the last question."""
    pick = _PICKED.match(reply)
    if pick and (wanted := pick[1].lower()):
        for line in before.split("\n"):
            if (option := _OPTION.match(line)) and option[1].lower() == wanted:
                return next(iter(split_sentences(option[2].replace("**", ""))), "")
    if "?" not in before and "？" not in before:
        return ""
    asked = [s for s in split_sentences(before) if s.endswith(("?", "？"))]
    last = asked[-1] if asked else ""
    return "" if language_cues.RHETORICAL.search(last.lower()) else last


def extract_assistant_statements(
    entries: Sequence[Entry], focus: Sequence[str] = ()
) -> list[Statement]:
    """Return what the agent said that is more than an announcement, oldest first.

    Reads the newest `MAX_CHARACTERS` and older entries that contain one of the identifiers in
    `focus`; drops a sentence that a later one repeats.
    """
    result: list[Statement] = []
    seen: set[str] = set()
    left = MAX_CHARACTERS
    for entry in reversed(entries):
        if entry.kind != "assistant":
            continue
        left -= len(entry.text)
        if len(result) >= MAX_STATEMENTS:
            break
        if left < 0 and not any(name in entry.text for name in focus):
            continue
        for statement in _extract_from_entry(entry):
            key = fold_for_comparison(statement.text).lower()
            if key not in seen:
                seen.add(key)
                result.append(statement)
    result.sort(key=lambda s: s.ref)
    return result


def _extract_from_entry(entry: Entry) -> Iterable[Statement]:
    section = 0
    before = ""
    whole = fold_whitespace(entry.text.replace("**", ""))
    for sentence in split_sentences(entry.text):
        sentence, alone = sentence[:MAX_SENTENCE], sentence
        if len(sentence) < 60 and sentence.endswith(":"):
            section = language_cues.detect_cues(sentence)
        if language_cues.is_narration(sentence):
            before = alone
            continue
        previous, before = before, alone
        found = language_cues.detect_cues(sentence)
        weight = language_cues.weigh_assistant_sentence(sentence)
        if weight < MIN_WEIGHT:
            continue
        kind = _choose_assistant_kind(sentence, found, section)
        if kind is not None:
            text = _add_context(sentence, previous, whole, sentence.endswith("?"))
            yield Statement(
                text=shorten(text), ref=entry.ref, kind=kind, weight=weight, by_user=False
            )


_POINTS_BACK = compile_pattern(
    r"(?:That|This|It|They|But|So|Because|Which|Those|These|Both|Neither|Das|Dies|Es|Aber|Eso|Pero)\b"
)


def _add_context(sentence: str, before: str, whole: str, asks: bool) -> str:
    """Return a question, or a sentence that points back, with the sentence before it.

    Only if both fit.
    """
    if not before.endswith((".", "!", "…", ")", '"', "。")) or language_cues.is_narration(before):
        return sentence
    if not asks and not _POINTS_BACK.match(sentence):
        return sentence
    both = f"{before} {sentence}"
    return both if len(both) <= MAX_QUOTE and both in whole else sentence


def _choose_assistant_kind(sentence: str, cues: int, section: int) -> StatementKind | None:
    if cues & lexicon.OPEN:
        return None if language_cues.RHETORICAL.search(sentence.lower()) else "question"
    if cues & lexicon.FAILED:
        return "rejected"
    if (cues | section) & lexicon.NEXT:
        return "next"
    if cues & lexicon.DECISION:
        return "decision"
    return "finding"
