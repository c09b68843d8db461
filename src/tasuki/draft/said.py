"""What a sentence says, told by single words and short phrases.

`marks` gives flags for a sentence; the weights turn them into how much it is worth to a
successor before any goal is considered. English words first, then the most telling ones of
German, French, Spanish, Chinese and Japanese; a sentence of another language is still kept
when it shares identifiers with the goal. Word look-ups instead of patterns, since a long thread
has a hundred thousand sentences.
"""

import re

WISH, DECISION, FINDING, FAILED, REVERSAL, OPEN, NEXT, HEDGE, NUMBER = (1 << i for i in range(9))

_WORDS: dict[int, str] = {
    WISH: "only must mustn't never always don't dont avoid keep without instead prefer should shouldn't leave stop "
    "can't cannot forbidden required require requires exactly want wants ensure nicht nur immer nie muss darf kein keine "
    "keinen bitte seulement toujours jamais doit sans pas nunca siempre solo sólo debe sin",
    DECISION: "decided decision chose chosen opted agreed deliberately tradeoff rationale entschieden stattdessen décidé "
    "plutôt decidimos decidido",
    FINDING: "because actually requires require depends otherwise gotcha caveat beware important importantly unless "
    "already since doesn't can't cannot cause caused culprit weil parce porque",
    FAILED: "reverted reverting abandoned disproportionate tried attempted regressed undid useless crashed flaky "
    "fehlgeschlagen",
    OPEN: "unclear unknown undecided tbd unverified unconfirmed unklar offen",
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
        "let's keep", "let's do", "let's make", "let's have", "switched to", "switch to", "by design", "on purpose", "trade-off", "en lugar", "en vez", "moved to", "we picked", "i picked",
        "the choice", "stick with", "sticking with", "keep using", "i'm going to use", "we are using", "we're using",
    ),
    FINDING: (
        "root cause", "turns out", "turned out", "the issue is", "the issue was", "the problem is", "the problem was",
        "the bug is", "the bug was", "the trick", "the catch", "in fact", "the fix is", "the fix was", "fixed by",
        "depends on", "only when", "only if", "only after", "note that", "so that", "does not", "even though", "the same",
        "the real", "liegt an", "à cause", "means that", "that's why", "which is why", "not just", "instead of", "rather than", "the reason",
    ),
    FAILED: (
        "didn't work", "doesn't work", "don't work", "did not work", "does not work", "won't work", "not working",
        "didn't help", "did not help", "doesn't help", "dead end", "gave up", "roll back", "rolled back", "backed out",
        "no luck", "made it worse", "made things worse", "problems with this", "not viable", "ruled out", "ne marche pas",
        "no funciona", "had to back", "without success", "approach failed", "attempt failed", "failed with", "failed because",
        "fails because", "fails with", "it failed", "that failed", "this failed", "wrong approach", "was wrong", "broke the",
        "rejected the", "rejected that", "rejected this", "rejected it", "we rejected", "i rejected", "was rejected because",
        "not worth", "not possible", "isn't possible", "can't be done", "no way to", "worse than", "didn't fix", "doesn't fix",
        "not fix", "still fails", "still failing", "still broken",
    ),
    OPEN: (
        "open question", "not clear", "not sure", "not decided", "not yet decided", "to be decided", "needs a decision",
        "need a decision", "waiting for", "depends on whether", "haven't verified", "haven't checked", "haven't tested",
        "haven't decided", "not verified", "not tested", "not confirmed", "remains to be seen", "need to check",
        "need to confirm", "need to ask", "still open", "have to ask", "needs to confirm",
    ),
    NEXT: (
        "next step", "next steps", "next up", "next:", "next we", "the next", "remaining work", "remaining:", "remaining steps",
        "what remains", "is pending", "are pending", "pending:", "we still", "still has to", "still have to", "left:", "up next",
        "still need", "still to do", "still missing", "left to do", "not yet", "not implemented", "not started", "not wired",
        "after that", "after this", "to-do", "follow up", "als nächstes", "noch zu", "have not", "hasn't been", "what's left",
        "remains to", "yet to",
    ),
    HEDGE: ("most plausible", "should work", "should fix", "should be", "i think", "i believe", "in theory", "may be"),
}  # fmt: skip
_REVERSAL_STARTS = (
    "no,", "no ", "no.", "nope", "nah", "nevermind", "never mind", "actually", "wait", "stop", "hmm, no", "hmm no",
    "scratch that", "forget it", "forget that", "forget about", "undo", "revert", "roll back", "rollback",
    "on second thought", "i changed my mind", "don't do that", "let's not", "let's undo", "let's revert", "let's roll back",
    "let's drop", "let's skip", "nein", "doch nicht", "non,", "finalement", "mejor no", "cancel",
)  # fmt: skip
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
    r"sound good|ready to|anything else|make sense|ok(?:ay)?\?$|right\?$"
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
_KNOWN = frozenset(_BY_WORD) | frozenset(_BY_FIRST)


def marks(sentence: str) -> int:
    """Flags of everything that one sentence seems to be."""
    low = sentence.lower()
    if "’" in low:
        low = low.replace("’", "'")
    found = 0
    for word in _KNOWN.intersection(_TOKEN.findall(low)):
        found |= _BY_WORD.get(word, 0)
        if word in _BY_FIRST:
            for phrase, flag in _BY_FIRST[word]:
                if phrase in low:
                    found |= flag
    if low.startswith(_REVERSAL_STARTS):
        found |= REVERSAL
    elif len(low) > 160:
        found &= ~REVERSAL
    if low.rstrip("\"')` ").endswith(("?", "？")):
        found |= OPEN
    if _DIGIT.search(low) and _NUMBER.search(low):
        found |= NUMBER
    return found if low.isascii() else found | _east_asian(low)


def _east_asian(low: str) -> int:
    found = 0
    for flag, phrases in _EAST_ASIAN.items():
        if any(p in low for p in phrases):
            found |= flag
    return found


def is_narration(sentence: str) -> bool:
    """Whether a sentence only announces or celebrates a step."""
    return sentence[:24].lower().startswith(_NARRATION)


def weight_user(sentence: str, found: int) -> float:
    """How much a sentence of the user binds the successor; around 0 for small talk."""
    score = 2.0 * bool(found & WISH) + 1.0 * bool(found & DECISION)
    score += 0.8 * bool(found & NUMBER) + 1.2 * bool(found & REVERSAL)
    score -= 0.8 * (len(sentence) < 20) + 0.8 * sentence.rstrip().endswith(("?", "？"))
    return score


def weight_assistant(sentence: str, found: int) -> float:
    """How likely a sentence of the agent states something learnt, rather than announces a step."""
    if is_narration(sentence):
        return 0.0
    score = 0.4 + 1.0 * bool(found & FINDING) + 0.9 * bool(found & DECISION)
    score += 0.8 * bool(found & FAILED) + 0.6 * bool(found & NUMBER) + 0.7 * bool(found & OPEN)
    score += 0.5 * bool(found & NEXT) + 0.5 * ("`" in sentence) + 0.3 * bool(found & WISH)
    score -= 0.5 * (len(sentence) < 40) + 0.5 * sentence.startswith("If ")
    return max(score - 1.0 * sentence.endswith(":"), 0.0)
