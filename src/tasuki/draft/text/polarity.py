"""Whether two sentences about the same say the opposite: one forbids what the other wants."""

from functools import lru_cache

from tasuki.draft.text.lexicon import STOP_WORDS
from tasuki.patterns import compile_pattern

_WORD = compile_pattern(r"[^\W_][\w'’.-]*[^\W_]|[^\W_]")
_DENIES = compile_pattern(
    r"(?i)\b(?:not|no|never|nor|don'?t|doesn'?t|didn'?t|isn'?t|aren'?t|can'?t|cannot|won'?t|mustn'?t|shouldn'?t|avoid\w*|stop\w*|forbid\w*|forbade|"
    r"forbidden|ban(?:s|ned)?|refuse[sd]?|reject\w*|turn(?:s|ed)? down|rul(?:es|ed) out|declin\w*|dislik\w*|prohibit\w*|disallow\w*|off[- ]limits|instead of|rather than|nicht|nie|niemals|kein\w*|pas|jamais|nunca|нет|не)\b|n[’']t\b|不|没|別|ない|禁止"
)
_EXCEPT = compile_pattern(r"(?i)\b(?:without|unless|until|except|ohne|sin|sans)\b")
_BEFORE = compile_pattern(r"(?i)\bbefore\b")
_PERMITS = compile_pattern(
    r"(?i)\b(?:allow(?:s|ed)?|permit(?:s|ted)?|may|free to|fine (?:to|with)|ok(?:ay)? (?:to|with)|approved?)\b"
)
_MODAL = frozenset(
    "always never must mustn't shall should please don't dont not only ever every any anything all also without unless until before after "
    "bitte nie niemals immer nur muss darf darfst dürfen kannst jetzt mich first user asked said wants want wanted rule rules told instruct instruction insist insists require requires required ask".split()
)
"""Words that say how binding a sentence is, or whose it is, and not what it is about."""
_CLAUSE_END = compile_pattern(r"[,;:.!?()—–]|\b(?=instead of|rather than)")
MIN_SHARED, SAME_SHARE = 2, 0.7
"""Telling words that two sentences share at least, and the share of those of the rule."""


def list_words(text: str) -> list[str]:
    """Return the words of a text in lower case, in order."""
    return [word.lower() for word in _WORD.findall(text)]


@lru_cache(maxsize=8_192)
def extract_telling_words(text: str) -> frozenset[str]:
    """Return the words of a text that say what it is about, cut to their stems."""
    stems = set()
    for word in list_words(text):
        if len(word) > 2 and word not in STOP_WORDS and word not in _MODAL:
            word = word.rstrip(".'’-")
            fits = (e for e in ("ting", "ing", "ed", "es", "s") if len(word) > len(e) + 2)
            ending = next(filter(word.endswith, fits), "")
            word = word.removesuffix(ending)
            stems.add(word.rstrip("e") if ending or len(word) > 4 else word)
    return frozenset(stems)


@lru_cache(maxsize=8_192)
def denies(text: str) -> bool:
    """Return whether a text forbids or denies something."""
    return bool(_DENIES.search(text))


def says_same(line: str, rule: str, share: float = SAME_SHARE) -> bool:
    """Return whether a line speaks of a rule and does not turn it round."""
    return _is_about(line, rule, share) and not says_opposite(line, rule, share)


def says_opposite(line: str, rule: str, share: float = SAME_SHARE) -> bool:
    """Return whether a line wants what a rule forbids, or forbids what it wants."""
    if not _is_about(line, rule, share):
        return _permits_forbidden(line, rule)
    if denies(line) == denies(rule) or _denies_part(line, rule) == _denies_part(rule, line):
        return bool(_PREFERS.search(rule)) and _permits_forbidden(line, rule)
    if _EXCEPT.search(rule) or _EXCEPT.search(line):
        return bool(_EXCEPT.search(rule)) and bool(_EXCEPT.search(line))
    if _BEFORE.search(rule) and _BEFORE.search(line):  # The same things on its two sides.
        one, two = map(extract_telling_words, _BEFORE.split(line, 1))
        first, second = map(extract_telling_words, _BEFORE.split(rule, 1))
        return len(one & first) + len(two & second) >= len(one & second) + len(two & first)
    return not (_BEFORE.search(rule) or _BEFORE.search(line))


_PART_END = compile_pattern(r"[,;.!?]\s")
_PREFERS = compile_pattern(r"(?i), (?:never|not)\b|\binstead of\b|\brather than\b")


def _denies_part(text: str, other: str) -> bool:
    """Return whether a text denies something in a part that speaks of the same as another text."""
    shared = extract_telling_words(other)
    parts = filter(denies, _PART_END.split(text))
    return any(shared & extract_telling_words(part) for part in parts)


def swaps_preference(line: str, rule: str) -> bool:
    """Return whether a line prefers B to A where a rule prefers A to B: `use B, not A`."""
    if _NARRATES.search(line):
        return False
    (wanted, unwanted), (liked, disliked) = (_find_preference(text) for text in (rule, line))
    return bool(wanted & disliked and unwanted & liked and not wanted & liked)


def _find_preference(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the telling words of what is preferred in a clause, and of what it is preferred to."""
    match = _PREFERS_TO.search(text)
    if match is None:
        return frozenset(), frozenset()
    before = _CLAUSE_END.split(text[max(0, match.start() - MAX_SIDE) : match.start()])[-1]
    after = _CLAUSE_END.split(text[match.end() : match.end() + MAX_SIDE])[0]
    return extract_telling_words(before), extract_telling_words(after)


MAX_SIDE = 60
"""Characters on both sides of `not` in which the things compared are looked for."""
_PREFERS_TO = compile_pattern(
    r"(?i),? \b(?:and not|but not|and never|but never|instead of|rather than|statt)\b |, (?:not|never|nicht|kein\w*) "
)
_NARRATES = compile_pattern(
    r"(?i)\b(?:was|were|had|did|initially|first|originally|earlier|previously|before|mistakenly|corrected|already|currently|still)\b"
)


def _is_about(line: str, rule: str, share: float) -> bool:
    telling = extract_telling_words(rule)
    shared = len(telling & extract_telling_words(line))
    return shared >= min(MIN_SHARED, len(telling)) and shared >= share * len(telling) > 0


def _permits_forbidden(line: str, rule: str) -> bool:
    """Return whether a line wants or allows exactly what a clause of a rule forbids."""
    match = _DENIES.search(rule)
    if match is None or _EXCEPT.search(rule) or _EXCEPT.search(line):
        return False
    end = _CLAUSE_END.search(rule, match.end())
    forbidden = extract_telling_words(rule[match.end() : end.start() if end else len(rule)])
    wanted = extract_telling_words(rule) - forbidden
    clauses = (clause for clause in _CLAUSE_END.split(line) if not denies(clause))
    allowed = frozenset[str]().union(*map(extract_telling_words, clauses))
    named = max(forbidden, key=len, default="")
    if not forbidden or not named or named not in allowed:
        return False
    if wanted & extract_telling_words(line):
        return forbidden <= allowed
    return bool(_PERMITS.search(line)) and not denies(line) and len(named) > 4
