"""What a sentence puts into the user's mouth: quotes, wishes turned round, other figures."""

import re
from collections.abc import Iterable, Iterator, Sequence

from tasuki.draft.claims.evidence import ThreadEvidence
from tasuki.draft.claims.literals import extract_claims, is_attributed_to_user
from tasuki.draft.claims.lookup import fold_quote
from tasuki.draft.claims.sentences import Correction, Sentence, find_figures
from tasuki.draft.facts.rules import UserRule
from tasuki.draft.text.polarity import (
    denies,
    extract_telling_words,
    list_words,
    says_opposite,
    swaps_preference,
)
from tasuki.draft.text.split import shorten
from tasuki.patterns import compile_pattern

MIN_QUOTE_WORDS = 4
CLOSE_SHARE, FAR_SHARE = 0.75, 0.5
"""Share of a quote's words that one message of the user must hold to be its source, and under
which the quote is none of theirs."""
_MESSAGES = compile_pattern(
    r"(?i)user (?:messages|prompts|said|feedback)|messages (?:from|of) the user"
)
_OF_USER = compile_pattern(
    r"(?i)\buser(?:'s)? (?:does not|doesn'?t|did not|didn'?t|would not|wouldn'?t|no longer|now|rules?|constraints?|preferences?)\b"
)
MIN_SHARED_FIGURE = 2
"""Telling words that a line shares with a rule whose figure it gives otherwise."""


def judge_user_words(
    sentence: Sentence, evidence: ThreadEvidence, rules: Sequence[UserRule]
) -> Iterator[Correction]:
    """Yield what a sentence says wrongly of the user's words."""
    quotes = list(_list_quotes(sentence))
    is_said = bool(quotes) and (
        is_attributed_to_user(sentence.text) or _MESSAGES.search(sentence.section)
    )
    found = list(_judge_quotes(quotes, evidence)) if is_said else []
    yield from found
    if not found and not any(evidence.lookup.is_user_quote(quote) for quote, _ in quotes):
        yield from _judge_reversed(sentence, evidence, rules)


def _judge_quotes(
    quotes: Iterable[tuple[str, list[str]]], evidence: ThreadEvidence
) -> Iterator[Correction]:
    for quote, words in quotes:
        if evidence.lookup.is_user_quote(quote):
            continue
        share, ref = _find_closest_message(words, evidence)
        if share >= CLOSE_SHARE and _is_turned_round(quote, evidence.user_messages[ref]):
            said = shorten(evidence.user_messages[ref], 240)
            yield Correction(f'"{quote}"', f'the user said: "{said}"', (ref,))
        elif share < FAR_SHARE and evidence.is_whole and not _is_in_thread(quote, evidence):
            yield Correction(f'"{quote}"', "the user did not say that")


def _list_quotes(sentence: Sentence) -> Iterator[tuple[str, list[str]]]:
    for claim in extract_claims(sentence.text):
        words = list_words(claim.text)
        if claim.kind == "quote" and len(words) >= MIN_QUOTE_WORDS and claim.text[0] != "[":
            yield claim.text, words


def _is_in_thread(quote: str, evidence: ThreadEvidence) -> bool:
    """Return whether a quote is somebody else's, or what the user gave to a command."""
    folded = fold_quote(quote)
    if folded in evidence.lookup.lower or folded in fold_quote(evidence.instructions):
        return True
    return evidence.lookup.is_anywhere(get_first_words(quote))


def get_first_words(quote: str) -> str:
    """Return the beginning of a quote, by which it is found where its end was changed."""
    return " ".join(quote.split()[: MIN_QUOTE_WORDS + 2])


def _find_closest_message(words: list[str], evidence: ThreadEvidence) -> tuple[float, int]:
    """Return the greatest share of some words that one message of the user holds, and its ref."""
    wanted = set(words)
    shares = ((len(wanted & said) / len(wanted), ref) for ref, said in evidence.user_words.items())
    return max(shares, key=lambda pair: pair[0], default=(0.0, 0))


def _is_turned_round(quote: str, message: str) -> bool:
    """Return whether a quote says the opposite of the sentence of a message that it is like."""
    wanted = list_words(quote)
    sentences = [list_words(s) for s in re.split(r"(?<=[.!?;])\s+|\n", message) if s]
    closest = max(sentences, key=lambda words: len(set(wanted) & set(words)), default=[])
    places = [n for n, word in enumerate(closest) if word in wanted]
    if len(set(wanted) & set(closest)) < CLOSE_SHARE * len(set(wanted)) or not places:
        return False
    span = " ".join(closest[max(0, places[0] - 1) : places[-1] + 1])
    about = extract_telling_words(" ".join(closest))
    parts = ((part, extract_telling_words(part)) for part in _PART_END.split(quote))
    told = ", ".join(part for part, telling in parts if not telling or telling & about)
    return denies(told) not in (denies(span), denies(" ".join(closest)))


_PART_END = compile_pattern(r"[,;.!?]\s")


def _judge_reversed(
    sentence: Sentence, evidence: ThreadEvidence, rules: Sequence[UserRule]
) -> Iterator[Correction]:
    """Check a line against the rules of the user that it speaks of: turned round, or other figures."""
    about_user = (
        sentence.is_about_user
        or is_attributed_to_user(sentence.text)
        or bool(_OF_USER.search(sentence.text))
    )
    telling = extract_telling_words(sentence.text)
    for rule in rules:
        shared = len(telling & extract_telling_words(rule.text))
        if not shared:
            continue
        wrong = _find_other_figure(sentence.text, rule.text, shared, evidence)
        is_opposite = (about_user and says_opposite(sentence.text, rule.text)) or (
            not sentence.is_past and swaps_preference(sentence.text, rule.text)
        )
        is_other_bound = shared >= MIN_SHARED_FIGURE and _has_other_bound(sentence.text, rule.text)
        if (
            wrong
            or is_other_bound
            or (is_opposite and not _is_allowed_later(sentence.text, rule, evidence))
        ):
            yield sentence.correct(f'the user said: "{rule.text}"', rule.ref)
            return


def _is_allowed_later(text: str, rule: UserRule, evidence: ThreadEvidence) -> bool:
    """Return whether a later message of the user may take a rule back: it speaks of the same."""
    shared = extract_telling_words(text) & extract_telling_words(rule.text)
    return any(
        ref > rule.ref and shared & extract_telling_words(words) and not denies(words)
        for ref, words in evidence.user_messages.items()
    )


def _find_other_figure(text: str, rule: str, shared: int, evidence: ThreadEvidence) -> str:
    """Return a figure of a line that is nowhere in the thread, where a rule has another one."""
    figures = find_figures(rule) if shared >= MIN_SHARED_FIGURE else ()
    own = {(figure.number, figure.unit) for figure in figures}
    if any(number in _NUMBER.findall(text) for number, _ in own):
        return ""
    units = {unit for _, unit in own}
    for figure in find_figures(text if own else ""):
        is_other = (figure.number, figure.unit) not in own
        if (
            figure.unit in units
            and is_other
            and (figure.number, figure.unit) not in evidence.figures
        ):
            return figure.text
    return ""


def _has_other_bound(text: str, rule: str) -> bool:
    """Return whether a line makes the least of a figure that a rule makes the most of, or the reverse."""
    given, ruled = (
        {
            (figure.number, figure.unit): bound
            for match in _BOUND.finditer(words)
            for figure in list(find_figures(words[match.end() :]))[:1]
            for bound in ["most" if match[1] else "least"]
            if words[match.end() :].lstrip().startswith(figure.text)
        }
        for words in (text, rule)
    )
    return any(given[figure] != ruled[figure] for figure in given.keys() & ruled.keys())


_NUMBER = compile_pattern(r"(?<![\w.,])\d[\d.,]*(?<![.,])")
_BOUND = compile_pattern(
    r"(?i)\b(?:(at most|no more than|maximum of|max\.?|up to|höchstens|maximal)|(?:at least|no less than|minimum of|min\.?|mindestens))\s"
)
