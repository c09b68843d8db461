"""Sentences of a thread that may be worth handing on, each with its speaker and its weight."""

import re
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from tasuki.draft.text import language_cues, lexicon
from tasuki.draft.text.entries import extract_user_words
from tasuki.draft.text.pasted import WHOLE_MESSAGE, OwnWords, extract_own_words
from tasuki.draft.text.split import (
    MAX_QUOTE,
    fold_for_comparison,
    fold_whitespace,
    shorten,
    split_sentences,
)
from tasuki.harness.reading.answers import parse_answers
from tasuki.harness.reading.jsonl import clip
from tasuki.model import Entry, Quote
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
"""Characters of a sentence that are weighed."""
MAX_OWN_QUOTE = 640
"""Characters of a sentence of the user that are quoted."""
MAX_OWN_WORDS = 120_000
"""Characters of a message of the user that are read; of a longer one the middle is left out."""

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
"""Weight of an option that the user chose, and the least weight of words that refuse a tool call."""
RULING_WEIGHT = 0.9
"""Weight of a short reply whose question or option is known."""
PASTED_WEIGHT = 0.2
"""Most weight of words that somebody else wrote."""


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
    is_pasted: bool = False
    """Of a message that somebody else wrote."""

    @property
    def shown(self) -> str:
        """The sentence between quotation marks, with what it answers."""
        if self.is_chosen:
            return f'asked "{self.answers}", the user chose "{self.text}"'
        return f'"{self.text}"' + (f" — answering: {self.answers}" if self.answers else "")

    @property
    def quote(self) -> Quote:
        """The sentence as a quote of its entry."""
        return Quote(text=shorten(self.text, MAX_OWN_QUOTE), ref=self.ref)


class LeftOut(Struct, frozen=True, gc=False):
    """Words of a message of the user that are not taken for the user's own, and why."""

    ref: int
    text: str
    reason: str


def extract_user_statements(
    entries: Sequence[Entry],
    own_words: dict[int, str] | None = None,
    left_out: list[LeftOut] | None = None,
) -> list[Statement]:
    """Return what the user wrote by hand, sentence by sentence, oldest first.

    What is left of each message goes into `own_words`, by its ref, and what is not into `left_out`.
    """
    result: list[Statement] = []
    own_words = {} if own_words is None else own_words
    left_out = [] if left_out is None else left_out
    printed: deque[str] = deque(maxlen=COPY_WINDOW)
    refused, asked = "", ""
    last = next((e.ref for e in reversed(entries) if extract_user_words(e)), 0)
    for entry in entries:
        call, refused_before, asked_before = entry.tool, refused, asked
        refused = asked = ""
        if entry.kind == "assistant":
            printed.append(entry.text)
            asked = entry.text
        elif call is not None:
            target = call.command or " ".join(path.rpartition("/")[2] for path in call.paths)
            words = fold_whitespace(f"{call.name} {target}".replace("`", ""))
            refused = shorten(words, MAX_REFUSED_CALL) if call.status == "refused" else ""
        elif entry.origin == "answer" and (given := parse_answers(entry.text)):
            result += (
                Statement(
                    text=one.answer, ref=entry.ref, kind="decision", weight=CHOSEN_WEIGHT,
                    by_user=True, answers=shorten(one.question, MAX_ANSWERED), is_chosen=one.is_chosen,
                )
                for one in given
            )  # fmt: skip
        elif words := extract_user_words(entry):
            own, pieces = _split_own_words(entry, words, printed, left_out, entry.ref == last)
            own_words[entry.ref] = own.text
            numbers = _SentenceNumbers(words)
            for piece in pieces:
                statement = _build_user_statement(piece, entry, asked_before)
                asked_before = ""
                if number := numbers.take_number(piece):
                    statement = replace(statement, number=number)
                if own.is_pasted:
                    weight = min(statement.weight, PASTED_WEIGHT)
                    pasted = {"is_pasted": True, "kind": "request", "answers": ""}
                    statement = replace(statement, weight=weight, **pasted)
                if refused_before:  # These words say what is not wanted.
                    weight = max(statement.weight, REFUSAL_WEIGHT)
                    decides = {"refuses": refused_before, "answers": "", "kind": "decision"}
                    statement = replace(statement, weight=weight, **decides)
                result.append(statement)
    return result


def _split_own_words(
    entry: Entry, words: str, printed: Iterable[str], left_out: list[LeftOut], is_last: bool
) -> tuple[OwnWords, list[str]]:
    """Return a message without what is not the user's own, and its pieces: a short one is whole.

    Of a long one, what the agent had printed before and the middle of pastes are left out.
    """
    read = clip(words, MAX_OWN_WORDS)
    if read is not words:
        left_out.append(LeftOut(entry.ref, words, "the message is too long to be read whole"))
    own = extract_own_words(read, is_last=is_last)
    left_out += (LeftOut(entry.ref, line, "it is pasted") for line in own.left_out)
    if len(words) < WHOLE_MESSAGE or own.is_pasted or (is_last and len(words) <= MAX_OWN_QUOTE):
        pieces = [fold_whitespace(own.text)]
    else:
        pieces = split_sentences(own.text, whole=True)
    before, kept = "" if is_last else "\n".join(printed), list[str]()
    for piece in pieces:
        if len(pieces) > 1 and len(piece) >= 40 and piece in before:
            left_out.append(LeftOut(entry.ref, piece, "the agent had printed it before"))
        elif piece:
            kept.append(piece)
    return own, kept


_NUMBERED = compile_pattern(r"(?m)^[^\S\n]*(\d{1,2}[.)])[^\S\n]+(\S.*)$")
NUMBERED_PREFIX = 40
"""Characters at the start of a numbered sentence by which it is recognised."""


class _SentenceNumbers:
    """The numbers of a message's numbered lines, assigned to its sentences in their order."""

    def __init__(self, words: str) -> None:
        self._left: list[tuple[str, str]] = [
            (number, next(iter(split_sentences(line)), "")[:NUMBERED_PREFIX])
            for number, line in _NUMBERED.findall(words[:MAX_OWN_WORDS])
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


def _build_user_statement(sentence: str, entry: Entry, before: str) -> Statement:
    whole, sentence = sentence, sentence[:MAX_SENTENCE]
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
    is_reply = len(sentence) <= SHORT_REPLY or PICK.match(sentence)
    may_answer = kind in ("request", "decision") and not language_cues.is_order(sentence)
    if may_answer and is_reply:
        answers = shorten(find_answered(sentence, before), MAX_ANSWERED)
    if answers and kind == "request" and not weight > RULING_WEIGHT:
        kind, weight = "decision", RULING_WEIGHT
    return Statement(whole, entry.ref, kind, weight, by_user=True, answers=answers)


def _find_most_binding(message: str) -> tuple[int, float]:
    """Return flags and weight of the most binding sentence of a message. The sum of all sentences would favour long messages."""
    parts = [s for s in split_sentences(message) if len(s) >= 12] or [message]
    cues = map(language_cues.detect_cues, parts)
    marked = (
        (c, language_cues.weigh_user_sentence(s, c)) for s, c in zip(parts, cues, strict=True)
    )
    return max(marked, key=lambda pair: pair[1])


def find_answered(reply: str, before: str) -> str:
    """Return what a short reply answers: the option it picks, else the question just before it.

    It answers a question if it says yes or no, names a figure that was asked for, or takes up a word of it.
    """
    pick = None if _OWN_LIST.match(reply) else _PICKED.match(reply)
    if pick and (wanted := pick[1].lower()):
        for line in before.split("\n"):
            if (option := _OPTION.match(line)) and option[1].lower() == wanted:
                return next(iter(split_sentences(option[2].replace("**", ""))), "")
    said = split_sentences(before[-MAX_ASKED:])[-LAST_SENTENCES:]
    last = next((s for s in reversed(said) if s.endswith(("?", "？")) or _CHOICE.search(s)), "")
    takes_up = bool(_telling_words(reply) & _telling_words(last))
    takes_up = takes_up or (last.endswith(("?", "？")) and bool(_YES_OR_NO.match(reply)))
    is_figure = _FIGURE.search(reply) and _ASKS_FOR_FIGURE.match(last)
    answers = (takes_up or is_figure) and not language_cues.RHETORICAL.search(last.lower())
    return last if answers else ""


LAST_SENTENCES, MAX_ASKED = 3, 4_000
"""Sentences and characters at the end of a message in which a reply finds its question."""
_OWN_LIST = compile_pattern(
    r"\W*(?:1[.)]\s.*\s2[.)]\s|a[.)]\s.*\sb[.)]\s)", re.IGNORECASE | re.DOTALL
)
"""A list of the user's own, which picks nothing."""
_FIGURE = compile_pattern(r"\d")
_CHOICE = compile_pattern(r", or \w|\beither \w|\bentweder \w")
"""What offers a choice without a question mark."""
_ASKS_FOR_FIGURE = compile_pattern(
    r"(?:which|what|how (?:many|much|long|often|big))\b", re.IGNORECASE
)
_TELLING = compile_pattern(r"[^\W\d_]{4,}")
_YES_OR_NO = compile_pattern(
    r"\W*(?:(?:yes|yep|yeah|no|nope|sure|ja|nein|sim|não|sí|oui|non|да|нет|ok(?:ay)?)\b|是|对|不|好的|はい|いいえ|네|아니)",
    re.IGNORECASE,
)


def _telling_words(text: str) -> frozenset[str]:
    return frozenset(_TELLING.findall(text.lower())) - lexicon.STOP_WORDS


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


def is_named_early(entries: Sequence[Entry], names: Sequence[str]) -> bool:
    """Return whether a message of the agent before its newest `MAX_CHARACTERS` contains a name."""
    left = MAX_CHARACTERS
    for entry in reversed(entries if names else ()):
        if entry.kind == "assistant":
            left -= len(entry.text)
            if left < 0 and any(name in entry.text for name in names):
                return True
    return False


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
        if found & lexicon.OPEN and language_cues.RHETORICAL.search(sentence.lower()):
            continue
        signs: tuple[tuple[int, StatementKind], ...] = (
            (found & lexicon.OPEN, "question"), (found & lexicon.FAILED, "rejected"),
            ((found | section) & lexicon.NEXT, "next"), (found & lexicon.DECISION, "decision"),
        )  # fmt: skip
        kind: StatementKind = next((kind for flag, kind in signs if flag), "finding")
        text = shorten(_add_context(sentence, previous, whole, sentence.endswith("?")))
        yield Statement(text, entry.ref, kind, weight, by_user=False)


_POINTS_BACK = compile_pattern(
    r"(?:That|This|It|They|But|So|Because|Which|Those|These|Both|Neither|Das|Dies|Es|Aber|Eso|Pero)\b"
)


def _add_context(sentence: str, before: str, whole: str, asks: bool) -> str:
    """Return a question, or a sentence that points back, with the sentence before it. Only if both fit."""
    if not before.endswith((".", "!", "…", ")", '"', "。")) or language_cues.is_narration(before):
        return sentence
    if not asks and not _POINTS_BACK.match(sentence):
        return sentence
    both = f"{before} {sentence}"
    return both if len(both) <= MAX_QUOTE and both in whole else sentence
