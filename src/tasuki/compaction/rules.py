"""The user's standing rules: sentences that hold for all later work, in their own words."""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from tasuki.draft.facts import open_statements
from tasuki.draft.facts.statements import Statement
from tasuki.draft.text import language_cues, lexicon
from tasuki.draft.text.entries import extract_user_words
from tasuki.draft.text.split import extract_own_words, fold_for_comparison, shorten, split_sentences
from tasuki.model import Thread
from tasuki.patterns import compile_pattern

MAX_RULE = 300
"""Characters of one rule that are quoted."""
MIN_WORDS, MIN_WISH = 3, 1.3
"""Words of a rule, and weight of a sentence without a word of a rule in it."""
_RULES = lexicon.WISH | lexicon.DECISION | lexicon.REVERSAL
_DIRECTS = compile_pattern(
    r"(?i)^(?:no|just|let'?s|use|put|first|instead|actually|rather|stop|wait|drop|remove|keep|revert|try)\b|\b(?:prefer|should|rather|would have)\b"
)
"""What says how it is to be done, at the refusal of a tool call."""
_STANDING = compile_pattern(
    r"(?i)\b(?:always|never|from now on|going forward|in future|in the future|every time|each time|whenever|any time|anytime|at all times|"
    r"no matter what|under no circumstances|by default|as a rule|rule|policy|convention|"
    r"must(?:n'?t)?|shall not|may not|do not|don'?t (?:ever )?\w+|cannot|can'?t|not allowed|forbidden|"
    r"only (?:use|run|edit|touch|change|commit|push|ever|if|when|after|with|in|on|the)|without (?:asking|my|first)|"
    r"ask (?:me )?(?:first|before)|before (?:you|every|each|any|commit\w*|push\w*|merg\w*|releas\w*|deploy\w*)|make sure|ensure|avoid|"
    r"prefer|stick (?:to|with)|keep (?:to|the|it|all|every|using)|leave .{1,40} (?:alone|as)|stay (?:on|in|away|with|at)|instead of|rather than|"
    r"no (?:new|more|other|external|further)|at most|at least|max(?:imum)?|minimum|exactly|immer|nie(?:mals)?|nicht|kein\w*|nur|muss|darf|"
    r"siempre|nunca|solo|toujours|jamais|ne pas|всегда|никогда)\b|^no \w+|^only |^use \w|^please (?:use|keep|do not|don'?t|always|never)|必ず|常に|絶対|总是|永远|不要|必须|禁止"
)
_NORM = compile_pattern(
    r"(?i)\b(?:each|everything|everywhere|all (?:of|new|code|comments?|commits?|tests?|names?|times)|belongs?|go(?:es)? (?:in|into|through|under|to)|stays?|remains?|"
    r"treat \w+ as|one (?:at a time|by one|per)|by hand|are (?:written|kept|named|in)|but not|nothing (?:else|directly|more)|alle|jede[rsnm]?|tou(?:te)?s|todos|todas)\b"
    r"|, not \w|^(?:when|whenever|if|as soon as|wenn|falls) [^,]{4,80}, (?:then )?(?:stop|ask|tell|do|don'?t|use|run|write|leave|keep|skip|wait|go|let)\b"
)
"""What says how things are to be, without a word that commands."""
_REPORTS = compile_pattern(
    r"(?i)^[\"“].*|(?:(?:and|but|so|as an aside|though|hm+|well|ok(?:ay)?|q)[:,. ]+)*(?:i(?:'ve|'m| have| am| was| put| did| got)\b|i (?:do not|don'?t) (?:think|understand|know|see)\b"
    r"|it (?:somehow|seems|looks)\b|there(?:'s| is| was| are)\b|we have\b|the current\b|you can\b)"
)
"""What only tells how something is."""
_ONE_OFF = compile_pattern(
    r"(?i)^(?:(?:ok(?:ay)?|and|then|now|also|please|so|great|yes|no|hm+|well|actually)[,. ]+)*"
    r"(?:(?:can|could|would|will) (?:you|we|i|it)|(?:why|how|what|where|who) \w+|(?:is|are|does|did|do) (?:you|we|i|it|this|that|there))\b"
)
"""What asks for something once."""


class UserRule(Struct, frozen=True):
    """One sentence of the user that still holds. `refuses` is the tool call that it refused."""

    text: str
    ref: int
    weight: float
    refuses: str = ""


def list_rules(thread: Thread, statements: Iterable[Statement]) -> list[UserRule]:
    """Return the standing rules of a thread, oldest first.

    Sentences that the user took back or replaced are left out, and so is what they pasted.
    """
    stated = list(statements)
    gone = {stated[n].text for n in open_statements.find_superseded(stated)}
    refusing = {s.ref: s.refuses for s in stated if s.refuses}
    rules: dict[str, UserRule] = {}
    for ref, sentence in _list_sentences(thread):
        weight = _weigh_rule(sentence, is_refusal=ref in refusing)
        key = fold_for_comparison(sentence).lower()
        if weight and not _is_taken_back(sentence, gone):
            rules.pop(key, None)
            rules[key] = UserRule(shorten(sentence, MAX_RULE), ref, weight, refusing.get(ref, ""))
    return _drop_replaced(list(rules.values()))


def _list_sentences(thread: Thread) -> Iterator[tuple[int, str]]:
    printed = ""
    for entry in thread.entries:
        if entry.kind == "assistant":
            printed = entry.text
        words = extract_user_words(entry)
        if not words:
            continue
        own = extract_own_words(words[:8_000]) or (words if len(words) < 400 else "")
        for sentence in split_sentences(own):
            if not (len(sentence) >= 40 and sentence in printed):
                yield entry.ref, sentence


def _weigh_rule(sentence: str, *, is_refusal: bool) -> float:
    """Return how much a sentence is a rule, 0 where it is none."""
    if _is_fragment(sentence) or _REPORTS.match(sentence) or sentence.endswith(("?", "？")):
        return 0.0
    if language_cues.is_small_talk(sentence):
        return 0.0
    cues = language_cues.detect_cues(sentence)
    is_standing = bool(_STANDING.search(sentence))
    is_norm = bool(_NORM.search(sentence)) and not _ONE_OFF.match(sentence)
    weight = language_cues.weigh_user_sentence(sentence, cues) + 1.5 * is_standing + is_norm
    if is_refusal and (is_standing or cues & _RULES or _DIRECTS.search(sentence)):
        return max(weight, 2.0) + 1.0
    if _ONE_OFF.match(sentence) and not is_standing:
        return 0.0
    return weight if is_standing or is_norm or (cues & lexicon.WISH and weight >= MIN_WISH) else 0.0


def _is_fragment(sentence: str) -> bool:
    """Return whether a sentence was cut out of something, or is too short to say anything."""
    if not sentence.isascii():
        return len(sentence) < MIN_WORDS
    is_cut = sentence.endswith(":") or sentence.count('"') % 2 == 1
    return is_cut or len(sentence.split()) < MIN_WORDS


def _is_taken_back(sentence: str, gone: Iterable[str]) -> bool:
    return any(sentence in text and len(sentence) > 0.6 * len(text) for text in gone)


def _drop_replaced(rules: list[UserRule]) -> list[UserRule]:
    """Return rules without those whose figures a later one about the same replaces."""
    statements = [Statement(r.text, r.ref, "constraint", r.weight, by_user=True) for r in rules]
    gone = open_statements.find_superseded(statements)
    return [rule for n, rule in enumerate(rules) if n not in gone]
