"""Sentences of a thread that may be worth handing on, each with its speaker and its weight."""

import re
import sys
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from tasuki.draft.text import language_cues
from tasuki.draft.text.entries import extract_user_words
from tasuki.draft.text.split import (
    MAX_QUOTE,
    STOP_WORDS,
    extract_own_words,
    fold_for_comparison,
    fold_whitespace,
    shorten,
    split_sentences,
)
from tasuki.model import Entry, Quote, ToolCall

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
REVERSAL_WINDOW = 300
"""Newest statements of the user among which reversals are looked for."""
COMMON_COUNT = 20
"""A word in more statements than this distinguishes nothing."""
RARE_COUNT = 4
"""Maximum statements that contain a word which identifies the subject."""
REFUSAL_WINDOW = 3
"""Messages of the user in which a refusal of a proposal is looked for."""
SMALL_WEIGHT, LAST_MESSAGES = 1.0, 3
"""Weight under which a request is small, and messages of the user that are still in progress."""
ANSWER_WINDOW = 4
"""Texts after a question in which an answer is looked for."""
DIRECT_REPLY = 100
"""A message up to this length answers the question just before it, unless it defers that."""
SHORT_REPLY = 48
"""A message up to this length is shown with what it answers."""
MAX_SENTENCE = 1_200
WHOLE_MESSAGE = 480
MAX_OWN_QUOTE = 640
"""Characters of a sentence of the user that are quoted."""
"""A message of the user up to this length is quoted as one."""
MAX_OWN_WORDS = 4_000
"""A longer message of the user counts as pasted, except for its first paragraphs."""

_PICK = re.compile(
    r"\W*(?:(?:i think|i'd say|let'?s|go with|do|take|option|number|ok|yes|then)[\s,]+)*"
    r"(?:#?\d\b(?![.\w])|[A-Da-d](?:[.):,]|\s*$)|(?:first|second|third|both|the latter|the former)\b|(?:yes|no|yep|nope|sure)\b(?! (?:clue|idea)))",
    re.IGNORECASE,
)
"""The beginning of a reply that chooses: `B. is fine`, `option 2`, `the second one`, `yes`."""
_PICKED = re.compile(
    r"\W*(?:(?:ok(?:ay)?|yes|yeah|then|let'?s|i think|i'd|say|go|with|do|take|use|pick|option|number|item)[\s,]+){0,6}"
    r"#?(\d|[A-D])(?=\s*$|\s*[.):,–—-]|\s+(?:is|it|looks|sounds|seems|please|then|and|but)\b)",
    re.IGNORECASE,
)
_OPTION = re.compile(r"\s*(?:[-*]\s+)?(?:\*\*)?(?:Option\s+)?(\d|[A-D])(?:\*\*)?[.):]\s*(\S.*)")
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
    """What stands before it in a list: `2.`"""

    @property
    def quote(self) -> Quote:
        """The sentence as a quote of its entry."""
        return Quote(text=self.text, ref=self.ref)


def extract_user_statements(entries: Iterable[Entry]) -> list[Statement]:
    """Return what the user wrote by hand, sentence by sentence, oldest first.

    Sentences that the agent or a tool had printed before are not the user's own and are left
    out; so are pasted blocks, and everything that the harness put into a user message.
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
            numbers = _SentenceNumbers(words)
            for sentence in _split_own_sentences(words, before):
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


_NUMBERED = re.compile(r"(?m)^[^\S\n]*(\d{1,2}[.)])[^\S\n]+(\S.*)$")
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


_CHOICE = re.compile(r'"([^"\n]{4,400})"="([^"\n]{1,400})"')
MAX_REFUSED_CALL = 100
"""Characters of a refused call that are quoted with the refusing words of the user."""


def _extract_choices(entry: Entry) -> Iterator[Statement]:
    """Yield answers to questions with options, as harnesses record them: `"question"="answer"`."""
    for question, answer in _CHOICE.findall(entry.text):
        yield Statement(
            text=answer, ref=entry.ref, kind="decision", weight=CHOSEN_WEIGHT, by_user=True,
            answers=shorten(question, MAX_ANSWERED),
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


def _split_own_sentences(text: str, before: str) -> Iterable[str]:
    """Return a short message whole, so that its sentences explain each other; split a long one.

    A message that repeats what the agent said before is split too. Where pasted lines were
    removed, the text on both sides is not one sentence.
    """
    text = text[: 2 * MAX_OWN_WORDS]
    own = _restore_gaps(extract_own_words(text)[:MAX_OWN_WORDS], text)
    whole, said_so = fold_whitespace(own), fold_for_comparison(text)
    parts = list(split_sentences(own))
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
    if found & language_cues.REVERSAL:
        kind = "reversal"
    elif found & language_cues.WISH and weight >= 1.3:
        kind = "constraint"
    elif found & language_cues.DECISION or entry.origin == "answer":
        kind = "decision"
    elif language_cues.is_fact_question(sentence, found):
        kind, weight = "question", max(weight, 0.8)
    answers = ""
    if (
        kind in ("request", "decision")
        and not language_cues.is_order(sentence)
        and (len(sentence) <= SHORT_REPLY or _PICK.match(sentence))
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
        weight = language_cues.weigh_assistant_sentence(sentence, found)
        if weight < MIN_WEIGHT:
            continue
        kind = _choose_assistant_kind(sentence, found, section)
        if kind is not None:
            text = _add_context(sentence, previous, whole, sentence.endswith("?"))
            yield Statement(
                text=shorten(text), ref=entry.ref, kind=kind, weight=weight, by_user=False
            )


_POINTS_BACK = re.compile(
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
    if cues & language_cues.OPEN:
        return None if language_cues.RHETORICAL.search(sentence.lower()) else "question"
    if cues & language_cues.FAILED:
        return "rejected"
    if (cues | section) & language_cues.NEXT:
        return "next"
    if cues & language_cues.DECISION:
        return "decision"
    return "finding"


class LaterMessages:
    """Who said what after an entry: the texts of each side, in order, ready for searching."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._refs: dict[str, list[int]] = {"user": [], "assistant": []}
        self._texts: dict[str, list[str]] = {"user": [], "assistant": []}
        for entry in entries:
            if entry.kind in ("user", "assistant"):
                self._refs[entry.kind].append(entry.ref)
                self._texts[entry.kind].append(entry.text)

    def list_after(self, ref: int, side: str, count: int) -> list[str]:
        """Return the next few texts of one side."""
        index = bisect_right(self._refs[side], ref)
        return self._texts[side][index : index + count]

    def list_replies(self, ref: int) -> list[str]:
        """Return what the agent said between a message of the user and the next one."""
        refs, users = self._refs["assistant"], self._refs["user"]
        index = bisect_right(users, ref)
        end = users[index] if index < len(users) else sys.maxsize
        return self._texts["assistant"][bisect_right(refs, ref) : bisect_right(refs, end)]


def is_unanswered(question: Statement, messages: LaterMessages) -> bool:
    """Return whether a question was not taken up in what was said after it.

    A question of the user is open if the agent's reply leaves it so, or if there is none. A
    question of the agent is answered by a short reply, by one that picks an option, and by
    words that share a third of its terms. A question without a chance of an answer is open.
    """
    if question.by_user:
        replies = messages.list_replies(question.ref)
        return not replies or any(_is_left_open(reply) for reply in replies)
    about = _extract_telling_words(question.text)
    after = messages.list_after(question.ref, "user", ANSWER_WINDOW)
    if after and _is_reply(after[0]):
        unsure = bool(
            language_cues.detect_cues(after[0][:MAX_SENTENCE]) & language_cues.OPEN
        ) and not after[0].endswith("?")
        return unsure or bool(_DEFERS.search(after[0]))
    said_after = " ".join(after).lower()
    return sum(t in said_after for t in about) * 3 < max(len(about), 1)


def _is_reply(message: str) -> bool:
    """Return whether a message of the user answers the question just before it."""
    if len(message) <= SHORT_REPLY or _PICK.match(message):
        return True
    return len(message) <= DIRECT_REPLY and not language_cues.is_order(message)


_DEFERS = re.compile(
    r"\b(?:first|later|not now|another time|park|skip|next week|monday)\b", re.IGNORECASE
)


def _is_left_open(reply: str) -> bool:
    """Return whether a reply of the agent says that something is not known."""
    return any(
        language_cues.detect_cues(s[:MAX_SENTENCE]) & language_cues.OPEN and not s.endswith("?")
        for s in split_sentences(reply)
    )


def find_done_at_once(statements: Iterable[Statement], entries: Sequence[Entry]) -> set[Statement]:
    """Return small requests of the user that the edits before the next message carried out.

    A request is carried out if at least half of its telling words are in the paths and texts of
    those edits. Wishes, rulings and the user's last messages are never small.
    """
    users = [e.ref for e in entries if e.kind == "user"]
    edits = [e for e in entries if e.tool and e.tool.changes]
    refs = [e.ref for e in edits]
    done: set[Statement] = set()
    for statement in statements:
        words = _extract_telling_words(statement.text)
        small = (
            statement.by_user and statement.kind == "request" and statement.weight < SMALL_WEIGHT
        )
        if not (small and len(words) > 1 and users and statement.ref < users[-LAST_MESSAGES:][0]):
            continue
        index = bisect_right(users, statement.ref)
        end = users[index] if index < len(users) else sys.maxsize
        turn = edits[bisect_right(refs, statement.ref) : bisect_right(refs, end)]
        text = " ".join(f"{c.path} {c.old} {c.new}" for e in turn for c in e.tool.changes).lower()  # type: ignore[union-attr]
        if sum(w in text for w in words) * 2 >= len(words):
            done.add(statement)
    return done


def find_superseded(statements: Sequence[Statement]) -> set[int]:
    """Return positions of statements that the user later took back, refused or replaced.

    A reversal takes back the newest earlier statement of the user that it shares two telling
    words with, or the thing it names ("forget the toggle"). A statement with other figures
    replaces an earlier one that shares half of its words. A proposal of the agent is refused by
    one of the user's next messages that refuses and names the same thing.
    """
    by_user = [i for i, s in enumerate(statements) if s.by_user][-REVERSAL_WINDOW:]
    own = [_UserStatement(i, statements[i]) for i in by_user]
    gone: set[int] = set()
    for later, others in _list_related(own):
        if later.statement.kind == "reversal":
            taken = (e.position for e, shared in others if later.has_taken_back(e, shared))
            gone.update(islice(taken, 1))
        if later.figures:
            gone.update(e.position for e, shared in others if later.has_replaced(e, shared))
            gone.update(e.position for e, _ in others if later.has_ruled_out(e))
    return gone | _find_refused_proposals(statements, own)


class _UserStatement:
    """A statement of the user, prepared for comparing."""

    def __init__(self, position: int, statement: Statement) -> None:
        self.position = position
        self.statement = statement
        self.words = _extract_telling_words(statement.text)
        self.tokens = set(_TOKEN.findall(statement.text.lower()))
        self.figures = set(_FIGURE.findall(statement.text))
        self.measures = {
            (m[1], word)
            for m in _MEASURE.finditer(statement.text)
            for word in _TOKEN.findall(m[2].lower())
        }
        self.units = {unit for _, unit in self.measures}
        self.named = {
            w.lower() for m in _TAKES_BACK.finditer(statement.text) for w in m.groups() if w
        }

    def has_taken_back(self, earlier: "_UserStatement", shared: int) -> bool:
        alike = shared >= 2 and shared * 3 >= min(len(self.words), len(earlier.words))
        return alike or bool(self.named & earlier.tokens)

    def has_replaced(self, earlier: "_UserStatement", shared: int) -> bool:
        if not earlier.figures or self.figures == earlier.figures:
            return False
        if shared >= 2 and shared * 2 >= max(len(earlier.words), 4):
            return True
        if shared >= 2 and self.statement.kind == "constraint" and self.units & earlier.units:
            return True
        return bool(_INSTEAD.search(self.statement.text) and self.units & earlier.units)

    def has_ruled_out(self, earlier: "_UserStatement") -> bool:
        """Return whether this rules out what an earlier statement set, by its own figure.

        For example "not after 90 days".
        """
        if not _REFUSES.search(self.statement.text) or not (self.measures & earlier.measures):
            return False
        return not _REFUSES.search(earlier.statement.text)


def _list_related(
    own: Sequence[_UserStatement],
) -> Iterator[tuple[_UserStatement, list[tuple[_UserStatement, int]]]]:
    """Yield each statement with the earlier ones it shares telling words with, the newest first."""
    holding: dict[str, list[int]] = {}
    for n, later in enumerate(own):
        shared: Counter[int] = Counter()
        for word in later.words:
            found = holding.setdefault(word, [])
            if len(found) <= COMMON_COUNT:
                shared.update(found)
            found.append(n)
        if shared:
            yield later, [(own[i], shared[i]) for i in sorted(shared, reverse=True)]


def _find_refused_proposals(
    statements: Sequence[Statement], own: Sequence[_UserStatement]
) -> set[int]:
    words = [_extract_telling_words(s.text) for s in statements]
    seen = Counter(w for found in words for w in found)
    refusals = [o for o in own if _REFUSES.search(o.statement.text)]
    later = {o.statement.ref: n for n, o in enumerate(own)}
    gone = set()
    for i, statement in enumerate(statements):
        if statement.by_user or statement.kind not in ("next", "decision"):
            continue
        rare = {w for w in words[i] if seen[w] <= RARE_COUNT}
        first = next((n for ref, n in later.items() if ref > statement.ref), len(own))
        near = {o.position for o in own[first : first + REFUSAL_WINDOW]}
        if any(o.position in near and rare & o.words for o in refusals):
            gone.add(i)
    return gone


_TAKES_BACK = re.compile(
    r"\b(?:forget|drop|scrap|cancel|undo|revert|skip|remove|without|vergiss|lass|olvida)\s+(?:about\s+)?"
    r"(?:the\s+|that\s+|this\s+|those\s+|my\s+|die\s+|das\s+|den\s+|el\s+|la\s+)?([\w-]{3,})(?:\s+([\w-]{4,}))?",
    re.IGNORECASE,
)
_REFUSES = re.compile(
    r"\b(?:no|not|nope|nah|don'?t|never|rather|without|skip|nicht|kein\w*|lieber|non|pas|sin)\b|不",
    re.IGNORECASE,
)


_FIGURE = re.compile(r"\d[\d.,]*")
_TOKEN = re.compile(r"[^\W_]{3,}")
_MEASURE = re.compile(r"(\d[\d.,]*)((?:[ ][^\s.;:!?]+){1,3})")
"""A figure and the words after it, which say what it counts: `60 requests a second`."""
_INSTEAD = re.compile(
    r"\b(?:instead|rather|make it|make that|raise|lower|change|no longer|now|after all|statt|lieber|mejor)\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W\d_]{4,}")


def _extract_telling_words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower())) - STOP_WORDS
