"""What a sentence says, judged by single words and short phrases.

`detect_cues` gives flags for a sentence; the weights turn them into its worth to a
successor before any goal is considered. English words first, then the most telling ones of
German, French, Spanish, Chinese and Japanese; a sentence of another language is still kept
if it shares identifiers with the goal. Words are looked up instead of matched by patterns,
since a long thread has a hundred thousand sentences.
"""

import re

WISH, DECISION, FINDING, FAILED, REVERSAL, OPEN, NEXT, HEDGE, NUMBER = (1 << i for i in range(9))

_WORDS: dict[int, str] = {
    WISH: "only every must mustn't never always don't dont avoid keep without instead prefer should shouldn't leave stop "
    "can't cannot forbidden required require requires exactly ensure no cant max nicht nur immer nie muss darf "
    "kein keine keinen ohne soll sollen müssen nix seulement toujours jamais doit sans pas nunca siempre solo sólo debe "
    "sin ningún",
    DECISION: "decided decision chose chosen opted agreed deliberately settled picked entschieden "
    "stattdessen lieber reicht nehmen décidé plutôt decidimos decidido",
    FINDING: "because actually requires require depends otherwise gotcha caveat beware important importantly unless "
    "already since doesn't can't cannot cause caused culprit weil parce porque",
    FAILED: "reverted reverting abandoned disproportionate tried attempted regressed undid "
    "hoped pointless futile fehlgeschlagen vergeblich nix bringt probiert versucht intenté probé",
    OPEN: "unclear unknown undecided tbd unverified unconfirmed wonder unsure unanswered unklar offen ungeklärt",
    NEXT: "todo follow-up followup unfinished noch ensuite reste falta pendiente",
    HEDGE: "likely probably might presumably untested seems appears suspect assume perhaps plausible",
}
_PHRASES: dict[int, tuple[str, ...]] = {
    WISH: (
        "do not", "make sure", "need to", "needs to", "has to", "have to", "no longer", "at most", "at least",
        "not allowed", "off limits", "i'd like", "i would", "hands off", "off-limits", "please don't", "be careful",
    ),
    DECISION: (
        "settled on", "going with", "go with", "went with", "we'll use", "we will use", "i'll use", "let's use", "let's go",
        "let's keep", "let's do", "let's make", "let's have", "switched to", "switch to", "by design", "on purpose", "en lugar", "en vez", "moved to", "we picked", "i picked",
        "the choice", "stick with", "sticking with", "keep using", "i'm going to use", "we are using", "we're using",
    ),
    FINDING: (
        "root cause", "turns out", "turned out", "the issue is", "the issue was", "the problem is", "the problem was",
        "the bug is", "the bug was", "the trick", "the catch", "in fact", "the fix is", "the fix was", "fixed by",
        "depends on", "only when", "only if", "only after", "note that", "so that", "does not", "even though",
        "the real", "liegt an", "à cause", "means that", "that's why", "which is why", "not just", "instead of", "rather than", "the reason",
    ),
    FAILED: (
        "didn't work", "doesn't work", "don't work", "did not work", "does not work", "won't work", "not working",
        "didn't help", "did not help", "doesn't help", "dead end", "gave up", "roll back", "rolled back", "backed out",
        "no luck", "made it worse", "made things worse", "problems with this", "not viable", "ruled out", "ne marche pas",
        "no funciona", "had to back", "without success", "approach failed", "attempt failed", "failed with", "failed because",
        "fails because", "fails with", "it failed", "that failed", "this failed", "wrong approach", "was wrong", "broke the",
        "rejected the", "rejected that", "rejected this", "rejected it", "we rejected", "i rejected", "was rejected because",
        "not worth", "not possible", "no difference", "no effect", "made no", "changed nothing", "didn't change", "doesn't work out",
        "didn't work out", "to no avail", "in vain", "out of the question", "not an option", "had to give up", "too slow",
        "dead on arrival", "no way around", "there is no way", "there's no way", "bringt nichts", "geht nicht", "ging nicht",
        "no sirve", "no ayuda", "isn't possible", "can't be done", "no way to", "worse than", "didn't fix", "doesn't fix",
        "is worse", "was worse", "are worse", "takes it back", "take it back", "took it back", "me nowhere", "us nowhere", "proves nothing",
        "proved nothing", "for ever", "never came back", "not fix", "still fails", "still failing", "still broken",
    ),
    OPEN: (
        "open question", "not clear", "not sure", "not decided", "not yet decided", "to be decided", "needs a decision",
        "need a decision", "waiting for", "depends on whether", "haven't verified", "haven't checked", "haven't tested",
        "haven't decided", "not verified", "not tested", "not confirmed", "remains to be seen", "need to check",
        "need to confirm", "need to ask", "still open", "have to ask", "needs to confirm", "do we know", "do we even", "does anyone", "nobody knows", "no idea",
        "couldn't find out", "could not find out", "can't tell", "cannot tell", "only you can", "up to you", "your call", "not known",
        "don't know", "do not know", "not verified", "weiß nicht", "noch offen", "keine ahnung", "no sé", "someone needs to tell",
    ),
    NEXT: (
        "next step", "next up", "next:", "next we", "remaining work", "remaining:", "remaining steps",
        "what remains", "is pending", "are pending", "pending:", "we still", "still has to", "still have to", "left:", "up next",
        "still need", "still to do", "still missing", "left to do", "not yet", "not implemented", "not started", "not wired",
        "to-do", "follow up", "als nächstes", "noch zu", "have not", "hasn't been", "what's left",
        "remains to", "yet to", "still owe", "i owe you", "for later", "later on", "not handled", "is missing",
        "are missing", "isn't covered", "not covered", "not there yet", "i'd ", "i would", "würde ich", "nächsten schritt",
        "nächster schritt", "fehlt noch", "muss noch", "müssen noch", "en un segundo paso", "queda por", "lo siguiente",
    ),
    HEDGE: ("most plausible", "should work", "should fix", "should be", "i think", "i believe", "in theory", "may be"),
}  # fmt: skip
_REVERSAL_STARTS = (
    "no,", "no ", "no.", "nope", "nah", "nevermind", "never mind", "actually", "wait", "stop", "hmm, no", "hmm no",
    "scratch that", "forget it", "forget that", "forget about", "undo", "revert", "roll back", "rollback",
    "on second thought", "i changed my mind", "don't do that", "let's not", "let's undo", "let's revert", "let's roll back",
    "let's drop", "let's skip", "nein", "doch nicht", "non,", "finalement", "mejor no", "cancel",
)  # fmt: skip
_SETTLES = re.compile(r"(?:i|we|the [\w`.]+ now) ")
_NOT_A_NO = ("no clue", "no idea", "no problem", "no worries", "no need", "no rush", "no hurry")
_TAKEN_BACK = re.compile(r"\b(?:undo|revert|scrap|cancel|forget) (?:the|that|this|about|all)\b")
_REVERSALS = (
    "undo that", "revert that", "roll it back", "roll that back", "roll this back", "drop that", "drop this", "drop the",
    "no longer want", "no longer need", "changed my mind", "instead of that", "don't like it", "don't like that", "don't like this", "cancel that",
    "cancel the", "cancel this", "forget the", "not anymore", "not any more", "scrap the", "scrap that", "back out",
)  # fmt: skip
_EAST_ASIAN: dict[int, tuple[str, ...]] = {
    WISH: (
        "不要",
        "必须",
        "只能",
        "别",
        "不能",
        "请",
        "ないで",
        "必ず",
        "だけ",
        "しないで",
        "べき",
    ),
    DECISION: ("决定", "改用", "选择", "決め", "採用", "使うことに"),
    FINDING: ("因为", "原因", "原来", "ため"),
    FAILED: ("失败", "不行", "行不通", "失敗", "うまくいか"),
    REVERSAL: ("算了", "不用了", "撤销", "やっぱり", "やめ"),
    OPEN: ("不确定", "未定", "不明"),
    NEXT: ("下一步", "待办", "还需要", "次は", "残り"),
}
RHETORICAL = re.compile(
    r"want me to|shall i|should i (?:go|proceed|continue|start|also)|would you like|let me know|does that sound|"
    r"sound good|ready (?:to|for)|is there anything|looks? right|i'm missing|what do you want|which direction|does this|do you want|anything else|make sense|ok(?:ay)?\?$|right\?$"
)
_NARRATION = (
    "let me", "now let me", "i'll ", "i will ", "i'm going", "i'm now", "i'm checking", "i’m ", "i’ll ", "let's look",
    "let's check", "let's see", "let's run", "let's start", "now i", "now add", "now update", "now run", "now fix",
    "now the", "looking", "checking", "reading", "running", "done", "good", "great", "perfect", "excellent", "all tests pass",
    "first, let me", "next, i", "next i", "then i", "ok, let me", "okay, let me", "alright", "now we", "now check", "now create",
    "good, ", "now that", "i need to check", "i need to look", "i need to see", "you're right", "you’re right",
)  # fmt: skip
_NUMBER = re.compile(
    r"(?<![\w.#-])[$€£]?\d[\d,.]*\s?(?:%|ms|µs|s\b|sec|minutes?|min\b|hours?|days?|weeks?|kb|mb|gb|kib|mib|gib|tb|bytes?|"
    r"req/s|rps|qps|tokens?|rows?|px|x\b|times|users?|lines?|retries|attempts|connections?|workers?|threads?|items?|"
    r"requests?|records?|entries|k\b|m\b|characters?|chars?)|[$€£]\d|(?:port|limit|timeout|max(?:imum)?|min(?:imum)?|"
    r"threshold|version|size|batch|ttl|rate|budget|quota|pool|code|exit|status)\W{1,4}(?:\w+\W{1,3}){0,3}\d"
)
_FIRST_PERSON = re.compile(
    r"^(?:so |then |therefore |instead,? )?(?:i|we)(?:'ve| have| now)? (?:\w+ly )?(?:keep|kept|use[d]?|went|ma[dk]e|moved?|set|left|"
    r"partition(?:ed)?|put|pinned?|split|stored?|return(?:ed)?|treat(?:ed)?|switch(?:ed)?|replaced?|dropped?|added|capped?|pick(?:ed)?|"
    r"limit(?:ed)?|took|take|gave|wrap(?:ped)?|sort(?:ed)?|cache[d]?|skip(?:ped)?|disabled?|enabled?|renamed?|write|wrote|read|"
    r"batch(?:ed)?|bump(?:ed)?|let|stick|stuck|do|did|run|ran) "
)
_COMPARED = re.compile(
    r"\b(?:instead of|rather than|and not|, not|over the|in favou?r of|statt|anstatt|en lugar de|en vez de)\b"
)
_FIGURES = re.compile(
    r"\d+[.,:]\d|\d\s?%|[$€£]\s?\d|\d\s?[$€£]|\b\d+\s?(?:h|min|s|ms|m|km|kg|v|ma|hz|khz|mhz|°c|dbm)\b"
)
_ASKS = re.compile(
    r"^(?:wait|hm+|hmm|actually|so|and|ok|btw|also)?[, ]*(?:what|who|why|how|where|when|which|does|do|did|is|are|was|can|could|"
    r"would|should|has|have|will|was|wer|wie|warum|wo|wann|kann|ist|gibt|qué|cómo|por qué|dónde)\b"
)
_TASK = re.compile(
    r"^(?:(?:ok(?:ay)?|and|then|now|also|please|pls|next|so|great|thanks|cool|yes|yeah|gut|dann|jetzt|bitte)[,. ]+)*"
    r"(?:add|fix|make|rename|update|change|move|remove|delete|run|check|look|show|write|create|implement|refactor|clean|open|"
    r"commit|push|merge|rebase|try|test|explain|give|kill|drop|bump|split|extract|document|deploy|build|release|format|sort|print|tell|find|search|read|review|use|put|go on|continue|let'?s (?:look|see|check|add|"
    r"fix|run|start|try|continue|commit)|füge|mach|schau|zeig|prüf|benenn|ändere|lösch|schreib|añade|arregla|cambia|revisa)\w*\b"
)
_STRONG = (
    "never", "only", " every ", "must", "always", "don't", "dont", "do not", " no ", "without", "keep", "max", "at most", "at least",
    "can't", "cant", "cannot", "has to", "have to", "exactly", "not ", "nicht", "kein", "nur", "immer", "nie", "muss", "darf",
    "sin ", "nunca", "siempre", "solo ", "jamais", "toujours", "no longer", "instead", "leave", "avoid", "under ", "below", "nowhere", "nothing else",
)  # fmt: skip
_ANY_NUMBER = re.compile(r"(?<![\w`])\d[\d.,]*(?![\w`])|\d+\s?(?:ms|%|MB|GB|kB)")
_AGREES = (
    "dann ", "ok then", "yeah ok", "ok so", "alright", "fine,", "entonces", "then we", "then let's", "so we", "ok, then",
    "yes, then", "gut, dann", "ok dann", "vale, ", "go with", "let's go with", "deal", "agreed", "settled",
)  # fmt: skip
_DIGIT = re.compile(r"\d")
_TOKEN = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)?")

_BY_WORD: dict[str, int] = {}
for _flag, _text in _WORDS.items():
    for _word in _text.split():
        _BY_WORD[_word] = _BY_WORD.get(_word, 0) | _flag
_BY_FIRST: dict[str, list[tuple[str, int]]] = {}
for _flag, _phrases in (*_PHRASES.items(), (REVERSAL, _REVERSALS)):
    for _phrase in _phrases:
        _BY_FIRST.setdefault(_TOKEN.match(_phrase)[0], []).append((_phrase, _flag))  # type: ignore[index]
_CUE_WORDS = frozenset(_BY_WORD) | frozenset(_BY_FIRST)


def detect_cues(sentence: str) -> int:
    """Return flags of everything that one sentence seems to be."""
    low = sentence.lower()
    if "’" in low:
        low = low.replace("’", "'")
    cues = 0
    for word in _CUE_WORDS.intersection(_TOKEN.findall(low)):
        cues |= _BY_WORD.get(word, 0)
        if word in _BY_FIRST:
            for phrase, flag in _BY_FIRST[word]:
                if phrase in low:
                    cues |= flag
    if (low.startswith(_REVERSAL_STARTS) and not low.startswith(_NOT_A_NO)) or _TAKEN_BACK.search(
        low
    ):
        cues |= REVERSAL
    if len(low) > 160 or (cues & OPEN and low.rstrip().endswith(("?", "？"))) or _ASKS.match(low):
        cues &= ~REVERSAL
    if (
        low.startswith(_AGREES)
        or _FIRST_PERSON.match(low)
        or (_SETTLES.match(low) and _COMPARED.search(low))
    ):
        cues |= DECISION
    if low.rstrip("\"')` ").endswith(("?", "？")):
        cues |= OPEN
    if _DIGIT.search(low) and (_NUMBER.search(low) or _FIGURES.search(low)):
        cues |= NUMBER
    return cues if low.isascii() else cues | _detect_east_asian_cues(low)


def _detect_east_asian_cues(low: str) -> int:
    cues = 0
    for flag, phrases in _EAST_ASIAN.items():
        if any(p in low for p in phrases):
            cues |= flag
    return cues


def is_narration(sentence: str) -> bool:
    """Return whether a sentence only announces or celebrates a step."""
    return sentence[:24].lower().startswith(_NARRATION)


_LAST_SENTENCE = re.compile(r"(?:(?<=[.!?])(?<!i\.e\.)(?<!e\.g\.)\s+|\n\s*\n\s*)(?=\S[^\n]*\Z)")
ANNOUNCEMENT_CHARACTERS = 600
"""Characters at the end of a message in which its last sentence is looked for."""
_ANNOUNCES = re.compile(
    r"(?:(?:ok(?:ay)?|good|great|perfect|alright|so|first|next|then|now|and)\b[,.! ]+)*"
    r"(?:(?:let me|let's|let us)\b|(?:i'?ll|i will|i'?m going to|i am going to|i'?m)\s+(?:(?:now|also|just|first)\s+)?"
    r"(?:look|check|see|read|run|verify|test|find|search|explore|examine|inspect|trac|start|begin|continu|proceed|re-?run)(?:e|n?ing)?\b)",
    re.IGNORECASE,
)
_ABOUT_TO = re.compile(
    r"(?:now|next|then|update|add|fix|create|run|write|remove|commit|stage|wp\d+)\b", re.IGNORECASE
)
_GIVES_REASONS = re.compile(
    r"\b(?:because|since|instead|rather|so that|as it|decided?|must|never|don'?t|not)\b",
    re.IGNORECASE,
)
SHORT_ANNOUNCEMENT = 160


def is_announcement(sentence: str) -> bool:
    """Return whether a sentence only says what the agent does next, without a reason.

    For example `Let me check that.`
    """
    if len(sentence) > SHORT_ANNOUNCEMENT or _GIVES_REASONS.search(sentence):
        return False
    leads_on = sentence.endswith(":") and _ABOUT_TO.match(sentence)
    return bool(leads_on or _ANNOUNCES.match(sentence.replace("’", "'")))


def strip_announcement(text: str) -> str:
    """Return a message without the last sentences that only announce the next step."""
    while text:
        ends = [
            m.end()
            for m in _LAST_SENTENCE.finditer(text, max(0, len(text) - ANNOUNCEMENT_CHARACTERS))
        ]
        if not ends and len(text) > ANNOUNCEMENT_CHARACTERS:
            return text
        start = ends[-1] if ends else 0
        if not is_announcement(text[start:]):
            return text
        text = text[:start].rstrip()
    return text


_AFFIRMS = re.compile(
    r"(?:(?:ok(?:ay)?|yes|yeah|yep|yup|ya|sure|perfect|great|nice|cool|good|alright|awesome|thanks|looks? good|lgtm|sounds good|ja|oui|sí)\b[\s,.!:-]*)+",
    re.IGNORECASE,
)
_GOES_AHEAD = re.compile(
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


_REQUEST = re.compile(
    r"\b(?:can|could|would|will|kannst|könntest|puedes|peux)[- ](?:you|u|we|du|tu)\b|\bplease\b|\bpls\b|\bbitte\b"
)


_SMALL_TALK = re.compile(
    r"\W*(?:right|ok(?:ay)?|alright|thanks?|thank you|great|perfect|nice|cool|good|so|well)?\W*"
    r"(?:(?:i|we)(?:'ll| will| have to| must| gotta| need to)? (?:go|continue|stop|leave|come back|be back|talk)\b.*"
    r"|(?:gotta|have to) (?:go|run)\W*|good (?:night|evening|bye)\b.*|see you\b.*|bye\b.*|thanks?\b.{0,20}|thank you\b.{0,20}"
    r"|.{0,12}(?:tomorrow|lunch|coffee)\W*)",
    re.IGNORECASE,
)


def is_small_talk(sentence: str) -> bool:
    """Return whether a short message of the user is only about coming and going."""
    return len(sentence) < 60 and bool(_SMALL_TALK.fullmatch(sentence))


def is_order(sentence: str) -> bool:
    """Whether a message of the user asks for an action or information: no answer to a question."""
    low = sentence.lower()
    return bool(_TASK.match(low) or _ASKS.match(low)) or low.rstrip().endswith(("?", "？"))


def is_fact_question(sentence: str, cues: int) -> bool:
    """Return whether a sentence of the user asks for a fact, not for an action."""
    low = sentence.lower()
    return bool(cues & OPEN) and low.rstrip().endswith(("?", "？")) and not _REQUEST.search(low)


def weigh_user_sentence(sentence: str, cues: int) -> float:
    """Return how much a sentence of the user binds the successor; around 0 for small talk.

    An earlier order or question is mostly done by now; a wish, a reason or a figure still
    holds.
    """
    low = f" {sentence.lower()}".replace("’", "'")
    strong = any(word in low for word in _STRONG) or (not low.isascii() and bool(cues & WISH))
    past = bool(_TASK.match(low[1:]) or _ASKS.match(low[1:])) or low.endswith(("?", "？"))
    score = (0.0 if past else 0.6) + 1.4 * strong + 0.5 * bool(cues & FINDING)
    score += 0.8 * bool(cues & DECISION) + 0.8 * bool(cues & NUMBER) + 1.2 * bool(cues & REVERSAL)
    score += 0.6 * bool(cues & FAILED) + 0.5 * bool(cues & NEXT) + 0.2 * (len(sentence) > 50)
    score += 0.3 * (not past and not cues & NUMBER and bool(_DIGIT.search(low)))
    return score - 0.7 * (len(sentence) < 25) - 0.7 * (past and not strong)


def weigh_assistant_sentence(sentence: str, cues: int) -> float:
    """Return how likely a sentence of the agent states something learnt, not a next step."""
    if is_narration(sentence):
        return 0.0
    score = 0.4 + 0.9 * bool(cues & FINDING) + 0.9 * bool(cues & DECISION)
    score += 0.9 * bool(cues & FAILED) + 0.8 * bool(cues & NUMBER) + 0.8 * bool(cues & OPEN)
    score += 0.5 * bool(cues & NEXT) + 0.4 * ("`" in sentence) + 0.3 * bool(cues & WISH)
    if cues & NUMBER:
        score += 0.4 * min(len(_ANY_NUMBER.findall(sentence)) - 1, 3)
    score -= 0.5 * (len(sentence) < 40) + 0.5 * sentence.startswith("If ")
    return max(score - 1.0 * sentence.endswith(":"), 0.0)
