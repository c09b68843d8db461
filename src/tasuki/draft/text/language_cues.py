"""What a sentence says, judged by single words and short phrases.

`detect_cues` gives flags for a sentence; the weights turn them into its worth to a
successor before any goal is considered. The words are in `lexicon.py`; a sentence of a
language that is not there is still kept if it shares identifiers with the goal. Words are
looked up instead of matched by patterns, since a long thread has a hundred thousand sentences.
"""

import re
from collections.abc import Callable
from functools import lru_cache

from tasuki.draft.text import lexicon
from tasuki.draft.text.lexicon import DECISION, FAILED, FINDING, NEXT, NUMBER, OPEN, REVERSAL, WISH
from tasuki.draft.text.split import split_sentences
from tasuki.patterns import compile_pattern

_SETTLING_STARTS = ("i", "we", "so ", "the", "instead")
_SETTLES = compile_pattern(r"(?:i|we|the [\w`.]+ now) ")
_TAKING_BACK = ("undo ", "revert ", "scrap ", "cancel ", "forget ")
_TAKEN_BACK = compile_pattern(
    r"\b(?:undo|revert|scrap|cancel|forget) (?:the|that|this|about|all)\b"
)
RHETORICAL = compile_pattern(
    r"want me to|shall i|should i (?:go|proceed|continue|start|also)|would you like|let me know|does that sound|"
    r"sound good|ready (?:to|for)|is there anything|looks? right|i'm missing|what do you want|which direction|does this|do you want|anything else|make sense|ok(?:ay)?\?$|right\?$"
)
_COUNT = compile_pattern(
    r"\d(?<![\w.#-].)[\d,.]*\s?(?:%|ms|µs|s\b|sec|minutes?|min\b|hours?|days?|weeks?|kb|mb|gb|kib|mib|gib|tb|bytes?|"
    r"req/s|rps|qps|tokens?|rows?|px|x\b|times|users?|lines?|retries|attempts|connections?|workers?|threads?|items?|"
    r"requests?|records?|entries|k\b|m\b|characters?|chars?)"
)
_PRICE = compile_pattern(r"[$€£]\s?\d|\d\s?[$€£]")
_SETTING = compile_pattern(
    r"(?:port|limit|timeout|max(?:imum)?|min(?:imum)?|"
    r"threshold|version|size|batch|ttl|rate|budget|quota|pool|code|exit|status)\W{1,4}(?:\w+\W{1,3}){0,3}\d"
)
_FIRST_PERSON = compile_pattern(
    r"^(?:so |then |therefore |instead,? )?(?:i|we)(?:'ve| have| now)? (?:\w+ly )?(?:keep|kept|use[d]?|went|ma[dk]e|moved?|set|left|"
    r"partition(?:ed)?|put|pinned?|split|stored?|return(?:ed)?|treat(?:ed)?|switch(?:ed)?|replaced?|dropped?|added|capped?|pick(?:ed)?|"
    r"limit(?:ed)?|took|take|gave|wrap(?:ped)?|sort(?:ed)?|cache[d]?|skip(?:ped)?|disabled?|enabled?|renamed?|write|wrote|read|"
    r"batch(?:ed)?|bump(?:ed)?|let|stick|stuck|do|did|run|ran) "
)
_COMPARED = compile_pattern(
    r"\b(?:instead of|rather than|and not|, not|over the|in favou?r of|statt|anstatt|en lugar de|en vez de)\b"
)
_FIGURE = compile_pattern(
    r"\d(?:\d*[.,:]\d|\s?%|(?<!\w\d)\d*\s?(?:h|min|s|ms|m|km|kg|v|ma|hz|khz|mhz|°c|dbm)\b)"
)
"""These begin with a digit, which is found fast; a pattern of alternatives is not."""
_ASKS = compile_pattern(
    r"^(?:wait|hm+|hmm|actually|so|and|ok|btw|also)?[, ]*(?:what|who|why|how|where|when|which|does|do|did|is|are|was|can|could|"
    r"would|should|has|have|will|was|wer|wie|warum|wo|wann|kann|ist|gibt|qué|cómo|por qué|dónde)\b"
)
_TASK = compile_pattern(
    r"^(?:(?:ok(?:ay)?|and|then|now|also|please|pls|next|so|great|thanks|cool|yes|yeah|gut|dann|jetzt|bitte)[,. ]+)*"
    r"(?:add|fix|make|rename|update|change|move|remove|delete|run|check|look|show|write|create|implement|refactor|clean|open|"
    r"commit|push|merge|rebase|try|test|explain|give|kill|drop|bump|split|extract|document|deploy|build|release|format|sort|print|tell|find|search|read|review|use|put|go on|continue|let'?s (?:look|see|check|add|"
    r"fix|run|start|try|continue|commit)|füge|mach|schau|zeig|prüf|benenn|ändere|lösch|schreib|añade|arregla|cambia|revisa)\w*\b"
)
_ANY_NUMBER = compile_pattern(r"\d(?:(?<![\w`].)[\d.,]*(?![\w`])|\d*\s?(?:ms|%|MB|GB|kB))")
_DIGIT = compile_pattern(r"\d")
_TOKEN = compile_pattern(r"[^\W\d_]+(?:['’-][^\W\d_]+)?")

_BY_WORD: dict[str, int] = {}
for _flag, _text in lexicon.CUE_WORDS.items():
    for _word in _text.split():
        _BY_WORD[_word] = _BY_WORD.get(_word, 0) | _flag
_BY_FIRST: dict[str, list[tuple[str, int]]] = {}
for _flag, _phrases in (*lexicon.CUE_PHRASES.items(), (REVERSAL, lexicon.REVERSAL_PHRASES)):
    for _phrase in _phrases:
        _BY_FIRST.setdefault(_TOKEN.match(_phrase)[0], []).append((_phrase, _flag))  # type: ignore[index]
_CUE_WORDS = frozenset(_BY_WORD) | frozenset(_BY_FIRST)


@lru_cache(maxsize=8_192)
def detect_cues(sentence: str) -> int:
    """Return flags of everything that one sentence seems to be."""
    low = sentence.lower()
    if "’" in low:
        low = low.replace("’", "'")
    cues = 0
    for word in _CUE_WORDS.intersection(_TOKEN.findall(low)):
        cues |= _BY_WORD.get(word, 0)
        for phrase, flag in _BY_FIRST.get(word, ()):
            if phrase in low:
                cues |= flag
    if (low.startswith(lexicon.REVERSAL_STARTS) and not low.startswith(lexicon.NOT_A_NO)) or (
        any(word in low for word in _TAKING_BACK) and _TAKEN_BACK.search(low)
    ):
        cues |= REVERSAL
    if cues & REVERSAL and (
        len(low) > 160 or (cues & OPEN and low.rstrip().endswith(("?", "？"))) or _ASKS.match(low)
    ):
        cues &= ~REVERSAL
    if low.startswith(lexicon.AGREEING_STARTS) or (
        low.startswith(_SETTLING_STARTS)
        and (_FIRST_PERSON.match(low) or (_SETTLES.match(low) and _COMPARED.search(low)))
    ):
        cues |= DECISION
    if low.rstrip("\"')` ").endswith(("?", "？")):
        cues |= OPEN
    numbers = (_FIGURE, _COUNT, _SETTING, _PRICE)
    if _DIGIT.search(low) and any(pattern.search(low) for pattern in numbers):
        cues |= NUMBER
    for flag, phrases in () if low.isascii() else lexicon.EAST_ASIAN_CUES.items():
        cues |= flag if any(phrase in low for phrase in phrases) else 0
    return cues


_ORDERS_AGENTS = compile_pattern(
    r"(?i)\b(?:ignore|disregard|forget|override)\s+(?:all\s+|any\s+|every\s+)?(?:of\s+)?(?:the\s+|your\s+|my\s+)?(?:previous|prior|above|earlier|preceding|other)\s+(?:instruction|prompt|rule|order|direction|message)"
    r"|\b(?:ai|llm|language model|coding)[ -](?:agent|assistant|model)s?[^.\n]{0,30}\b(?:reading|who reads?|that reads?|processing) this\b|\byour (?:new|real) instructions\b|\b(?:system|operator|developer|admin)\b[^\n]{0,30}\b(?:wants|asks|orders|instructs|requires) you to\b"
)
_ORDER_WORDS = (
    "gnore", "isregard", "orget", "verride", "this", "r new ", "r real ", " you to", "GNORE", "ISREGARD", "THIS", "YOU TO",
)  # fmt: skip
"""Parts of what such orders hold; they are found faster than the pattern."""


def orders_agents(text: str) -> bool:
    """Return whether what was read or printed gives orders to agents, as injected prompts do."""
    return any(word in text for word in _ORDER_WORDS) and bool(_ORDERS_AGENTS.search(text))


_SPEAKS_FOR_USER = compile_pattern(
    r"(?i)\bthe (?:user|operator|human) (?:wants?|wanted|prefers?|asked|asks|said|says|decided|approved?|(?:has )?agreed|insists?|confirmed|requested)\b"
)


def speaks_for_user(text: str) -> bool:
    """Return whether a file or a program says what the user wants: only their own words prove that."""
    return bool(_SPEAKS_FOR_USER.search(text))


def is_foreign(text: str) -> bool:
    """Return whether what was read or printed gives orders to agents, or speaks in the user's name."""
    return orders_agents(text) or speaks_for_user(text)


def is_narration(sentence: str) -> bool:
    """Return whether a sentence only announces or celebrates a step."""
    return sentence[:24].lower().startswith(lexicon.NARRATION_STARTS)


_STEP = (
    r"(?:look|check|see|read|run|verif|test|find|search|explor|examin|inspect|trac|start|begin|continu|proceed|re-?run|add|wir|patch|fix|creat"
    r"|commit|updat|writ|implement|tak|mak|mov|nam|push|open|gather|pull|put|tighten|stag|build|investigat|compar|confirm|replac|apply|format|go)"
)
_ANNOUNCES = compile_pattern(
    r"(?:(?:ok(?:ay)?|good|great|perfect|alright|so|first|next|then|now|and)\b[,.! ]+)*"
    r"(?:(?:let me|let's|let us)\b|i (?:need to|must|should|have to) (?:know|check|verify|see|find out|understand|confirm)\b"
    rf"|(?:i'?ll|i will|i'?m|i am)\s+(?:(?:now|also|just|first|next|then|going to|about to)\s+)*{_STEP}(?:e|y|n?n?t?t?ing)?\b"
    rf"|{_STEP}n?t?ing\b(?![^:]*,)(?!.*\b(?:is|are|was|were|has|had|does|did|would|will|can|makes?|made|fail(?:s|ed)|gives?|gave|needs?|works?|takes?)\b))"
    rf"|(?:now|next|then)\b[, ]+{_STEP}(?:e|y)?\b"
    r"|(?:agora )?(?:vou|vamos) \w+r\b|(?:ahora )?(?:voy|vamos) a \w+|je vais \w+|ich (?:werde|schaue|prüfe|lese|sehe)\b|(?:现在|接下来)?(?:让我|我来|我将|我先)|まず|次に",
    re.IGNORECASE,
)
_ABOUT_TO = compile_pattern(
    r"(?:now|next|then|update|add|fix|create|run|write|remove|commit|stage|wp\d+)\b", re.IGNORECASE
)
_GIVES_REASONS = compile_pattern(
    r"\b(?:because|since|instead|rather|so that|as it|decided?|must|never|don'?t|not)\b",
    re.IGNORECASE,
)
_TURNS = compile_pattern(
    r"(?:but|however|yet|unfortunately|except|although|though|oops|hm+)\b", re.IGNORECASE
)
_OFFERS = compile_pattern(
    r"(?:(?:so|ok(?:ay)?|now|or|and)\b[, ]+)*(?:(?:do you )?want (?:me )?to|shall i|should i|would you like|let me know (?:if|whether|when|how)|quer que|soll ich|möchtest du"
    r"|¿?quieres que|souhaitez-vous|voulez-vous|veux-tu)\b",
    re.IGNORECASE,
)
_NO_PARAGRAPH = compile_pattern(r"\s*(?:[-*•>|#]|\d{1,3}[.)]|```|~~~|$)| {4}")
SHORT_ANNOUNCEMENT = 220


def is_announcement(sentence: str) -> bool:
    """Return whether a sentence only says what the agent does next, without a reason. For example `Let me check that.`"""
    if len(sentence) > SHORT_ANNOUNCEMENT:
        return False
    leads_on = sentence.endswith(":") and _ABOUT_TO.match(sentence)
    if not leads_on and not _ANNOUNCES.match(sentence.replace("’", "'")):
        return False
    return not _GIVES_REASONS.search(sentence)


def is_offer(sentence: str) -> bool:
    """Return whether a sentence only asks whether the agent should go on."""
    return len(sentence) <= SHORT_ANNOUNCEMENT and bool(_OFFERS.match(sentence))


def strip_talk(text: str, *patterns: Callable[[str], bool]) -> str:
    """Return a message without the sentences of its paragraphs that some patterns match.

    A paragraph that tells of a setback ("But …") stays whole: without what follows it would still hold.
    """
    lines, is_code = text.split("\n"), False
    for number, line in enumerate(lines):
        is_code ^= line.lstrip().startswith(("```", "~~~"))
        if is_code or _NO_PARAGRAPH.match(line):
            continue
        sentences = split_sentences(line)
        kept = [s for s in sentences if not any(matches(s) for matches in patterns)]
        if len(kept) < len(sentences) and not any(map(_TURNS.match, kept)):
            lines[number] = " ".join(kept)
    return "\n".join(lines).strip()


_DENIES = compile_pattern(
    r"\b(?:still (?:not|fail\w*|broken|get\w*|see\w*|the same|doesn|isn|shows?|stuck|freez\w*|crash\w*|hangs?|wrong|happen\w*)|nope|not (?:fixed|working|true|solved|there|right)|(?:it|that|this)(?: still)? (?:fails|isn'?t|doesn'?t|does not|didn'?t|did not)|doesn'?t work|didn'?t (?:work|help|fix)|wrong|same (?:error|problem|issue|result))\b"
    r"|\b(?:immer noch|geht nicht|ging nicht|funktioniert nicht|funktioniert immer|klappt nicht|stimmt nicht|falsch|nicht behoben)\b"
    r"|\b(?:toujours|ne (?:marche|fonctionne)|pas corrigé|sigue|todavía|aún no|no funciona|no sirve|mismo error|ainda|não funciona|não funcionou|mesmo erro|ancora|non funziona|stesso errore)\b"
    r"|\b[45]\d\d (?:bad|un|for|not|method|internal|service|gateway)\w*|\w*(?:error|exception): |\bfailed to compile\b"
    r"|依然|仍然|还是|還是|没有(?:啊|解决|用|效果|变)|并没有|不行|不对|没用|还没|又(?:出现|报错)|失败|여전히|아직|안 ?(?:돼|되|됨|나)|똑같|まだ|直って|動かない|変わらない|相変わらず"
    r"|вс[её] ещ[её]|по-прежнему|не работает|не помогло|опять|та же ошибка",
    re.IGNORECASE,
)


def is_denial(text: str) -> bool:
    """Return whether a short message of the user may say that what the agent reported is not so."""
    return bool(_DENIES.search(text.replace("’", "'")))


_AFFIRMS = compile_pattern(
    r"(?:(?:ok(?:ay)?|yes|yeah|yep|yup|ya|sure|perfect|great|nice|cool|good|alright|awesome|thanks|looks? good|lgtm|sounds good|ja|oui|sí)\b[\s,.!:-]*)+",
    re.IGNORECASE,
)
_GOES_AHEAD = compile_pattern(
    r"(?:please|pls|and|then|now|also|let'?s|go ahead|go for it|go on|do (?:it|this|that|so)|continue|proceed|start(?: implementing)?|keep going|"
    r"implement (?:it|this|that)|fix (?:it|this|that)(?: up)?|give (?:it|this|that) a (?:try|go)|capture|works for me|as planned|bitte|weiter)\b[\s,.!]*",
    re.IGNORECASE,
)


def is_approval(text: str) -> bool:
    """Return whether a message of the user only lets the agent go ahead: `yes, let's do it`."""
    if len(text) > 80:
        return False
    rest = text.strip()
    if match := _AFFIRMS.match(rest):
        rest = rest[match.end() :]
    while match := _GOES_AHEAD.match(rest):
        rest = rest[match.end() :]
    return not rest.strip(" .!,\"'")


_REQUEST = compile_pattern(
    r"\b(?:can|could|would|will|kannst|könntest|puedes|peux)[- ](?:you|u|we|du|tu)\b|\bplease\b|\bpls\b|\bbitte\b"
)


_SMALL_TALK = compile_pattern(
    r"\W*(?:right|ok(?:ay)?|alright|thanks?|thank you|great|perfect|nice|cool|good|so|well)?\W*"
    r"(?:i(?:'ll| will| have to| must| gotta| need to)? (?:go|leave|come back|be back|continue|stop)(?: (?:now|later|soon|home|here|for (?:now|today)|to (?:bed|lunch|sleep)|tomorrow)\b.{0,20})?\W*"
    r"|(?:gotta|have to) (?:go|run)\W*|good (?:night|evening|bye)\b.*|see you\b.*|bye\b.*|thanks?\b.{0,20}|thank you\b.{0,20}"
    r"|.{0,12}(?:tomorrow|lunch|coffee)\W*)",
    re.IGNORECASE,
)


def is_small_talk(sentence: str) -> bool:
    """Return whether a short message of the user is only about coming and going."""
    return len(sentence) < 60 and bool(_SMALL_TALK.fullmatch(sentence))


def says_nothing(message: str) -> bool:
    """Return whether a message only lets the agent go ahead, or is about coming and going."""
    return is_approval(message) or is_small_talk(message)


def is_order(sentence: str) -> bool:
    """Whether a message of the user asks for an action or information: no answer to a question."""
    low = sentence.lower()
    return bool(_TASK.match(low) or _ASKS.match(low)) or low.rstrip().endswith(("?", "？"))


def is_fact_question(sentence: str, cues: int) -> bool:
    """Return whether a sentence of the user asks for a fact, not for an action."""
    low = sentence.lower()
    return bool(cues & OPEN) and low.rstrip().endswith(("?", "？")) and not _REQUEST.search(low)


def _is_binding(low: str) -> bool:
    for word in lexicon.BINDING_WORDS:  # noqa: SIM110 `any` takes twice as long
        if word in low:
            return True
    return False


def weigh_user_sentence(sentence: str, cues: int) -> float:
    """Return how much a sentence of the user binds the successor; around 0 for small talk.

    An earlier order or question is mostly done by now; a wish, a reason or a figure still
    holds.
    """
    low = f" {sentence.lower()}".replace("’", "'")
    strong = _is_binding(low) or (not low.isascii() and bool(cues & WISH))
    past = bool(_TASK.match(low[1:]) or _ASKS.match(low[1:])) or low.endswith(("?", "？"))
    score = (0.0 if past else 0.6) + 1.4 * strong + 0.5 * bool(cues & FINDING)
    score += 0.8 * bool(cues & DECISION) + 0.8 * bool(cues & NUMBER) + 1.2 * bool(cues & REVERSAL)
    score += 0.6 * bool(cues & FAILED) + 0.5 * bool(cues & NEXT) + 0.2 * (len(sentence) > 50)
    score += 0.3 * (not past and not cues & NUMBER and bool(_DIGIT.search(low)))
    return score - 0.7 * (len(sentence) < 25) - 0.7 * (past and not strong)


@lru_cache(maxsize=8_192)
def weigh_assistant_sentence(sentence: str) -> float:
    """Return how likely a sentence of the agent states something learnt, not a next step."""
    if is_narration(sentence):
        return 0.0
    cues = detect_cues(sentence)
    score = 0.4 + 0.9 * bool(cues & FINDING) + 0.9 * bool(cues & DECISION)
    score += 0.9 * bool(cues & FAILED) + 0.8 * bool(cues & NUMBER) + 0.8 * bool(cues & OPEN)
    score += 0.5 * bool(cues & NEXT) + 0.4 * ("`" in sentence) + 0.3 * bool(cues & WISH)
    if cues & NUMBER:
        score += 0.4 * min(len(_ANY_NUMBER.findall(sentence)) - 1, 3)
    score -= 0.5 * (len(sentence) < 40) + 0.5 * sentence.startswith("If ")
    return max(score - 1.0 * sentence.endswith(":"), 0.0)
