"""The user's standing rules: sentences that hold for all later work, in their own words."""

from collections.abc import Iterable, Iterator
from itertools import islice

from msgspec import Struct

from tasuki.draft.facts import open_statements
from tasuki.draft.facts.statements import Statement
from tasuki.draft.text import language_cues, lexicon
from tasuki.draft.text.entries import extract_user_words
from tasuki.draft.text.pasted import ADDRESSES, WHOLE_MESSAGE, extract_own_words
from tasuki.draft.text.polarity import denies, extract_telling_words
from tasuki.draft.text.split import fold_for_comparison, shorten, split_sentences
from tasuki.model import Thread
from tasuki.patterns import compile_pattern

MAX_RULE = 300
"""Characters of one rule that are quoted."""
MOST_RULES = 100
"""Rules of a thread that are looked at: a block has room for a dozen."""
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
    r"ask (?:me )?(?:first|before)|before (?:you|every|each|any|commit\w*|push\w*|merg\w*|releas\w*|deploy\w*)|make sure|ensure|avoid|refrain|"
    r"prefer|stick (?:to|with)|keep (?:to|the|it|all|every|using)|leave .{1,40} (?:alone|as)|stay (?:on|in|away|with|at)|instead of|rather than|"
    r"no (?:new|more|other|external|further)|at most|at least|max(?:imum)?|minimum|exactly|immer|nie(?:mals)?|nicht|kein\w*|nur|muss|darf|"
    r"hands off|off[- ]limits|(?:un|not )acceptable|i(?:'d| would) rather|(?:until|unless) i(?:'ve)?|nothing (?:may|must|should)|"
    r"speak \w+ (?:with|to) me|in (?:english|german|french|spanish|japanese|chinese) only|bevor du|frag(?:e|t)? mich|stets|ausschließlich|höchstens|mindestens|"
    r"nichts (?:im|in|an|am|unter|außer|ohne)|statt|siempre|nunca|solo|toujours|jamais|ne pas|n[e'’] ?\w+ (?:pas|jamais)|il (?:ne )?faut|doi(?:t|vent)|demande[- ]moi|"
    r"interdit|avant de|всегда|никогда)\b|^no \w+|^only |^use \w|^please (?:use|keep|do not|don'?t|always|never)|必ず|常に|絶対|ないで|ないこと|(?:日本|英|ドイツ|中国)語で|总是|永远|不要|必须|禁止"
)
_NORM = compile_pattern(
    r"(?i)\b(?:each|everything|everywhere|all (?:of|new|code|comments?|commits?|tests?|names?|times)|(?:all|every) (?:[\w-]+ ){1,4}needs? an?|belongs?|go(?:es)? (?:in|into|through|under|to)|stays?|remains?|"
    r"treat \w+ as|one (?:at a time|by one|(?:\w+ )?per)|(?:names?|comments?|messages?|docs?|docstrings?|code) in (?:english|german|french|spanish|japanese)|by hand|are (?:written|kept|named|in)|but not|nothing (?:else|directly|more)|alle|jede[rsnm]?|tou(?:te)?s|todos|todas)\b"
    r"|, not \w|^(?:when|whenever|if|as soon as|wenn|falls) [^,]{4,80}, (?:then )?(?:stop|ask|tell|do|don'?t|use|run|write|leave|keep|skip|wait|go|let)\b"
)
"""What says how things are to be, without a word that commands."""
_REPORTS = compile_pattern(
    r"(?i)^[\"“].*|(?:(?:and|but|so|as an aside|though|hm+|well|ok(?:ay)?|q)[:,. ]+)*(?:i(?:'ve|'m| have| am| was| put| did| got)\b|i (?:do not|don'?t) (?:think|understand|know|see)\b"
    r"|i (?:can(?:'?t|not| not)|could(?:n'?t| not)|did(?:n'?t| not)|see|saw|tried|noticed|found|get|never \w+(?:ed|aid|ot))\b(?! (?:allow|accept|want|have you))"
    r"|(?:it|this|that) (?:somehow|seems|looks|takes|took|lasts|shows|says|prints|hangs|is (?:exactly|what|not what)|must be (?:an?|the|some\w*|because|due)|(?:always|never|only|still|sometimes) (?:\w+s|\w+ed))\b(?! to\b)"
    r"|(?:i|you|he|she|it|they|we|something|someone) must have \w+(?:ed|en|ad|one|ot|ost)\b|there must be (?:an?|some|another)\b|i never (?!want|wish)\w+|we never (?:had|have|got|saw)\b"
    r"|(?:he|she|they) (?:told|wrote|said|says|think\w*)\b|i don'?t (?:care|mind|remember|get)\b|don'?t (?:worry|you|we)\b|no (?:idea|clue|problem|worries|rush|hurry|luck)\b|es wird kein"
    r"|(?:the|my|your|our) [\w-]+ (?:[\w-]+ )?(?:(?:never|always|still|sometimes) (?:finish|crash|fail|hang|freez|break|load|start|work|end|happen|return|stop)\w*|only (?:shows?|lists?|returns?|loads?|works?|pass(?:es)?|fails?|crash(?:es)?|happens?))\b"
    r"|(?:everything|nothing|all) (?:\w+ )?(?:works?|worked|looks?|happens?|happened|changed|is (?:fine|ok|green))\b|we (?:don'?t|do not|did ?n[o']?t) have\b"
    r"|(?:it )?(?:looks|seems|feels|sounds) (?:like|as if)\b|(?:let'?s )?leave (?:that|this|it) (?:for|until) \w+|my [\w-]+ (?:uses?|has|had|got)\b(?! (?:to|only)\b)(?!.*\b(?:never|must|always|please|rule|policy|limit|convention)\b)"
    r"|(?:the|my|your|our) [\w-]+ (?:[\w-]+ )?(?:must have (?:\w+ed|been|gone|lost|broken)\b(?!.*\bbefore\b)|must be (?:down|broken|wrong|stuck|gone|full|stale)(?=[,.!]|$)|(?:takes|took) \d(?!.*\b(?:at most|never|max\w*|must)\b)|(?:says?|said) .*, but (?:we|it|you|they|i|the|our|my)\b(?! (?:use|want|always|never|only|do not|don'?t)\b))"
    r"|there(?:'s| is| was| are)\b|we have\b|the current\b|you can\b"
    r"|ich (?:sehe|habe|hatte|verstehe|finde|kann|bekomme|glaube|weiß|war|bin)\b|(?:das|es) (?:geht|ist|war|habe|hat|funktioniert|klappt|sieht|gibt|kommt|läuft|passiert)\b(?!.*(?:erlaubt|verboten|tabu))"
    r"|(?:der|die|das) \w+ (?:schlägt|bricht|hängt|lädt|startet|geht|funktioniert)\b|(?:ça|cela|c'est|je (?:ne )?(?:vois|comprends|sais|peux|pense|trouve))\b|no (?:funciona|entiendo|veo|puedo)\b)"
)
"""What only tells how something is."""
_SUBJECT = compile_pattern(
    r"(?i)(?:(?:and|but|so|now) )?(?:the|a|an|my|your|our|this|that|these|it|every|each|all|users?|der|die|das|es|le|la|les)\b"
)
_PROBLEM = compile_pattern(
    r"(?i)\b(?:empty|takes|took|slow|wrong|fail(?:s|ed|ing)?|broken|crash\w*|missing|hangs?|happen\w*|lost|worked|yesterday|any ?more|again|weird|strange|stuck"
    r"|bei mir|nicht mehr|fehlt|leer|langsam|kaputt|falsch|verschickt)\b"
)
_DIRECTIVE = compile_pattern(
    r"(?i)\b(?:must(?:n'?t)?|should(?:n'?t)?|shall|may not|ha(?:s|ve) to|needs? to|at most|at least|no more than|don'?t|do not|please|stop|ask|tell|muss|müssen|soll\w*|darf|dürfen)\b"
)
"""A sentence with a subject and a problem, and without what directs, tells of a bug."""
_PERMITS = compile_pattern(
    r"(?i)\b(?:(?P<free>(?:is|are) (?:now )?(?:fine|ok(?:ay)?|allowed|welcome)|free to|no need to|don'?t (?:have|need) to|no longer (?:need|have)|from now on|after all|musst nicht|brauchst nicht)"
    r"|may|can|allowed|darfst|dürft|kannst)\b"
)
_FORBIDS_TOO = compile_pattern(
    r"(?i)\b(?:never|not|cannot|only|nicht|kein\w*|nie(?:mals)?)\b|can'?t\b"
)
_ONCE = compile_pattern(r"(?i)\b(?:once|this time|this one|diesmal|einmal|just for)\b")
SAME_SHARE = 0.7
"""Share of a rule's telling words that a permission holds which takes it back."""
_PAGE_SPEAKS = compile_pattern(
    r"(?i)\b(?:ignore|disregard|forget|override) (?:all |any |the |your |of |every )*(?:previous|prior|above|earlier|preceding|existing) (?:\w+ )?(?:instructions?|rules?|prompts?|messages?|context)\b"
    r"|\byou are now (?:an?|in)\b|\bsystem prompt\b|\bas an ai\b|<\|?/?(?:system|im_start|im_end|instructions?)\b|\[/?INST\]"
)
"""What no user tells an agent in their own words: text of a page that wants to steer it."""
_QUOTED = compile_pattern(r"[\"“](?:[^\s\"“”]+\s){3,40}[^\s\"“”]+[\"”]")
"""Somebody's words in a sentence of the user: they make no rule of it."""
_LOG = compile_pattern(
    r"\b\d\d:\d\d:\d\d\b|\|(?:DEBU|INFO|WARN|ERRO)|(?<!\S)[^\s=]{1,60}=\S{1,200} [^\s=]{1,60}=\S"
)
PASTED_MESSAGE = 2_000
"""Characters of a message whose middle makes no rules: nothing proves that the user wrote it."""
_ONE_OFF = compile_pattern(
    r"(?i)^(?:(?:ok(?:ay)?|and|then|now|also|please|so|great|yes|no|hm+|well|actually)[,. ]+)*"
    r"(?:(?:can|could|would|will) (?:you|we|i|it)|(?:why|how|what|where|who) \w+|(?:find out|explain|check|show|look|investigate|figure out|describe|list|compare|analy[sz]e)\b|(?:is|are|does|did|do) (?:you|we|i|it|this|that|there))\b"
)
"""What asks for something once."""
_CHOOSES = compile_pattern(
    r"(?i)^(?:please )?use (?:the|your) (?:first|second|third|last|other|latter|former) (?:one|approach|option|version|idea|way|variant|solution)\W*$"
    r"|^(?:please )?don'?t forget .{1,80}\b(?:for this|this time)\b"
)
"""What answers a question, or holds for this time alone."""


class UserRule(Struct, frozen=True):
    """One sentence of the user that still holds. `refuses` is the tool call that it refused."""

    text: str
    ref: int
    weight: float
    refuses: str = ""

    @property
    def is_binding(self) -> bool:
        """Whether a word commands: a sentence that only tells how things are binds less surely."""
        return bool(_COMMANDS.search(self.text)) and not _OF_ONESELF.search(self.text)


_COMMANDS = compile_pattern(
    r"(?i)(?:^|[,;:.!(–—-] ?|\b(?:and|but|please|pls|so|also|btw|then|ok|just|bitte) )"
    r"(?:don'?t|do not|never|always|only|use|keep|leave|avoid|make sure|ensure|no|stick|ask|hands off|stay)\b(?! (?:worry|wonder|remember|know|see|think|idea|rush|you|we|the)\b)"
    r"|\b(?:must|should|shall|may)(?:n'?t)? |\b(?:ha(?:s|ve)|needs?) to (?:stay|be|remain|keep|go|work|have|use|hold)\b"
    r"|\b(?:from now on|going forward|under no circumstances|not allowed|off[- ]limits|at most|at least|instead of|rather than|belongs? in|stays)\b"
    r"|^(?:und )?(?:muss|darf|nie|immer|kein\w*|nur)\b|\b(?:darf|muss|müssen|soll|bleibt) |不要|必须|禁止|必ず|絶対|\b(?:nunca|siempre|jamais|toujours|никогда|всегда)\b"
)
_OF_ONESELF = compile_pattern(
    r"(?i)\bi (?:don'?t|never|always|must|can'?t|should|only) (?!want|like|accept|allow)"
)


def list_rules(thread: Thread, statements: Iterable[Statement]) -> list[UserRule]:
    """Return the standing rules of a thread, oldest first.

    Sentences that the user took back or replaced are left out, and so is what they pasted.
    """
    stated = list(statements)
    gone = {stated[n].text for n in open_statements.find_superseded(stated)}
    refusing = {s.ref: s.refuses for s in stated if s.refuses}
    rules: dict[str, UserRule] = {}
    for ref, sentence in _list_sentences(thread):
        for key in _list_permitted(rules, sentence):
            del rules[key]
        weight = _weigh_rule(sentence, is_refusal=ref in refusing)
        key = fold_for_comparison(sentence).lower()
        is_gone = any(sentence in text and len(sentence) > 0.6 * len(text) for text in gone)
        if weight and not is_gone:
            rules.pop(key, None)
            rules[key] = UserRule(shorten(sentence, MAX_RULE), ref, weight, refusing.get(ref, ""))
    found = list(rules.values())
    if len(found) > MOST_RULES:  # The most binding, the newest of those that bind alike.
        best = sorted(found, key=lambda rule: (-rule.weight, -rule.ref))[:MOST_RULES]
        found = [rule for rule in found if rule in best]
    as_stated = [Statement(r.text, r.ref, "constraint", r.weight, by_user=True) for r in found]
    replaced = open_statements.find_superseded(as_stated)  # By a rule with another figure.
    return [rule for n, rule in enumerate(found) if n not in replaced]


def _list_sentences(thread: Thread) -> Iterator[tuple[int, str]]:
    printed = ""
    for entry in thread.entries:
        if entry.kind == "assistant":
            printed = entry.text
        words = extract_user_words(entry)
        if not words:
            continue
        own = extract_own_words(words)
        if own.is_pasted:
            continue
        lines = _keep_ends(own.text).split("\n")
        text = "\n".join(line for line in lines if not line.lstrip().startswith("> "))
        parts = (part for part in text.split("\n\n") if not _PAGE_SPEAKS.search(part))
        for sentence in split_sentences("\n\n".join(parts)):
            is_repeated = len(sentence) >= 40 and sentence in printed
            if not is_repeated and not _is_pasted(sentence, words):
                yield entry.ref, sentence


def _keep_ends(message: str) -> str:
    """Return a message, of a very long one its first and last paragraph: between them it is mostly pasted."""
    if len(message) < PASTED_MESSAGE:
        return message
    paragraphs = message.split("\n\n")
    return "\n\n".join((paragraphs[0][:PASTED_MESSAGE], paragraphs[-1][-PASTED_MESSAGE:]))


def _is_pasted(sentence: str, message: str) -> bool:
    """Return whether a sentence is of a log, or speaks to nobody in a long message.

    It may be the user's, and then it is in the brief; what is a rule must be theirs for sure.
    """
    if _LOG.search(sentence):
        return True
    return len(message) >= WHOLE_MESSAGE and not ADDRESSES.search(sentence)


def _weigh_rule(sentence: str, *, is_refusal: bool) -> float:
    """Return how much a sentence is a rule, 0 where it is none."""
    if sentence.isascii():  # Cut out of something, or too short to say anything.
        is_cut = sentence.endswith(":") or sentence.count('"') % 2 == 1
        is_fragment = is_cut or len(sentence.split()) < MIN_WORDS
    else:
        is_fragment = len(sentence) < MIN_WORDS
    if is_fragment or _reports(sentence) or sentence.endswith(("?", "？")):
        return 0.0
    if language_cues.is_small_talk(sentence):
        return 0.0
    sentence = _QUOTED.sub("…", sentence)
    cues = language_cues.detect_cues(sentence)
    is_standing = bool(_STANDING.search(sentence))
    is_norm = bool(_NORM.search(sentence)) and not _ONE_OFF.match(sentence)
    weight = language_cues.weigh_user_sentence(sentence, cues) + 1.5 * is_standing + is_norm
    if is_refusal and (is_standing or cues & _RULES or _DIRECTS.search(sentence)):
        return max(weight, 2.0) + 1.0
    if _CHOOSES.match(sentence) or (_ONE_OFF.match(sentence) and not is_standing):
        return 0.0
    return weight if is_standing or is_norm or (cues & lexicon.WISH and weight >= MIN_WISH) else 0.0


def _reports(sentence: str) -> bool:
    if _REPORTS.match(sentence):
        return True
    is_bug = _SUBJECT.match(sentence) and _PROBLEM.search(sentence)
    return bool(is_bug) and not _DIRECTIVE.search(sentence)


def _list_permitted(rules: dict[str, UserRule], sentence: str) -> list[str]:
    """Return the keys of rules whose forbidden thing a later sentence allows for good."""
    match = _PERMITS.search(sentence)
    if match is None or _ONCE.search(sentence) or sentence.endswith("?"):
        return []
    if not match["free"] and _FORBIDS_TOO.search(sentence):
        return []
    said = extract_telling_words(sentence)
    found = []
    for key in islice(reversed(rules), MOST_RULES):
        telling = extract_telling_words(rules[key].text)
        is_same = len(telling & said) >= max(1, SAME_SHARE * len(telling))
        if is_same and (match["free"] or len(telling) > 1) and denies(rules[key].text):
            found.append(key)
    return found
