"""What a user typed in a message, and what they pasted: logs, code, pages, words of other agents."""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from tasuki.draft.text.language_cues import is_order
from tasuki.patterns import compile_pattern

WHOLE_MESSAGE = 600
"""Characters of a message of the user, or of a paste in one, up to which nothing is left out."""
LEAD = 400
"""Characters of a line that the user typed before or after a paste."""
_FENCE = compile_pattern(r"^\s*(?:```|~~~)")
_PRINTED_LINE = compile_pattern(
    r"\s*+(?:[$❯›»%➜]\s|\S+@\S+ \S+ [%$#]\s|[+-]\s?\d+\s|\d+\s?[-+]\s|[+-]{3} |@@ |at (?:async )?\S+\s*\(|\[?\d{4}-\d\d-\d\d[T ]\d\d:"
    r"|(?:>\s*+)?(?:\d++\s*+)?[│┃╭╰×⨯]|(?:> ?)?\d* \|  |·\s{2})"
)
"""How lines of terminals, logs and diffs begin."""
_INDENTED = compile_pattern(r"(?:\s{4,}|\t\s*)(?![-*•]\s|\d{1,2}[.)]\s)\S")
_PROSE = compile_pattern(r"[a-z']+(?: [+&] [a-z']+)?,? [a-z']+\b")
ADDRESSES = compile_pattern(
    r"(?i)\b(?:i|i'[a-z]+|you|your|me|my|we|we'[a-z]+|our|us|let'?s|please|don'?t)\b|^\W*(?:always|never|do not|use|keep|no|only|make|avoid|ensure)\b|[^\x00-\x7f]{3}"
)
"""What speaks to somebody."""
_AGENT = r"(?:he|she|they|claude|codex|chat ?gpt|gpt[\w.-]*|gemini|copilot|cursor|code ?rabbit\w*|grok|deepseek|perplexity|opus|sonnet|(?:the|my|another|an?) (?:(?:other|second|different|review) )?(?:agent|ai|llm|model|bot|reviewer|assistant)\w*)"
_TELLS_OF = compile_pattern(
    rf"(?i)\b{_AGENT} (?:had this to say|(?:just )?(?:said|says?|wrote|replie[ds]|answer(?:ed|s)|respond(?:ed|s)|suggest(?:ed|s)|came back with|gave me|told me)\b)[^\n]*[:.?]?\s*$"
    rf"|\b(?:review|feedback|response|reply|answer|suggestions?|advice|comments?|findings|output|transcript) (?:from|by|of) {_AGENT}\b[^\n]*[:?]\s*$"
    r"|\b(?:here(?:'?s| is| are)|this is|these are|see) (?:\w+ ){0,4}(?:documentation|docs|swagger|transcript|conversation)\b[^\n]*$"
)
"""A line that announces the words of somebody else."""
_ASKS_ABOUT = compile_pattern(
    r"(?i)\b(?:what do you (?:think|say|make) (?:of|about)|your (?:thoughts|opinion|take) on|thoughts\?|do you agree|(?:is|are) (?:this|that|these|it) (?:right|correct|true|valid|accurate)|do(?:es)? (?:this|that|these) (?:change|make sense|apply|hold)|was (?:hältst|denkst|meinst) du|qu'en penses|qué (?:te parece|opinas|piensas)|o que (?:você )?acha)|что (?:думаешь|скажешь)|怎么看|どう思|어떻게 생각|어때"
)
_OFFER = compile_pattern(
    r"(?i)\b(?:would you like (?:me to|to see)|let me know if you(?:'d| would)? (?:like|want) me to|(?:do you )?want me to|shall i)\b"
)
"""What an agent asks its user in its last paragraph."""
_FOR_AGENTS = compile_pattern(r"(?i)\byour (?:AI|coding) (?:developer|agent|assistant)\b")
_SCREEN = compile_pattern(
    r"(?m)^[ \t]*(?:▣ *\w|[⏺⎿] *\S|● *(?:\w+\(|(?:I'll|I've|Let me|Now|Done|Perfect|Great)\b)|[✻✳∴] *(?:Thinking|\w+ed for|\w+ing…)|← (?:Edit|Write|Read)\b|Thinking: |Thought for \d"
    r"|Ran \d+ (?:\w+ )?commands?\b|• (?:Ran|Explored|Edited|Updated Plan|Proposed|Waited)\b|(?:[a-z+#]{2,12})?Copy(?: code$|(?<=\wCopy)\w))"
)
"""How agents' screens mark what they show."""
_TYPED = compile_pattern(
    r"\W*(?:[a-zß-öø-ÿа-я]|(?i:always|never|do not|don'?t|use|keep|avoid|ensure)\b)|(?i:.*\b(?:please|pls|thanks|thank you|(?:can|could) (?:you|u)|i (?:want|need)|i'?d like)\b)"
)
_GERUND = compile_pattern(r"\w+ing\b")
_POLISHED = compile_pattern(r"[—→“”•✓✅↔≠≥]|^#{1,4} |\*\*\S|^```", re.MULTILINE)
MIN_POLISHED, MIN_MARKS = 3, 2

_PASTED_MARK = "[… {} pasted lines are left out …]"
PASTED = compile_pattern(re.escape(_PASTED_MARK).replace(r"\{\}", r"\d+"))
"""The mark for the middle of a paste, between two parts of a message."""


class OwnWords(NamedTuple):
    """What a user wrote in a message, and the lines of pastes that were left out of it."""

    text: str
    left_out: tuple[str, ...] = ()
    is_pasted: bool = False
    """Nobody typed it: it is the beginning of a text that somebody else wrote."""


def extract_own_words(text: str, *, is_last: bool = False) -> OwnWords:
    """Return a message of the user without the middle of long pastes.

    Words of another agent and pages are pasted if their own words or the line before them say so: what
    was typed around them stays, or else their first line. Blocks of code are pasted, and lines as
    terminals and programs print them: their first and last line stay. Short messages are whole, and
    so is the last one but for words of others.
    """
    lines = text.split("\n")
    if len(text) < WHOLE_MESSAGE:
        return OwnWords(text.strip(), (), _is_printed(lines))
    if part := _find_foreign_part(text):  # It is reported in whole lines.
        begins = text.rfind("\n", 0, part[0]) + 1
        foreign = [line for line in text[begins : part[1]].split("\n") if line.strip()]
        lead, tail = text[: part[0]].strip(), text[part[1] :].strip()
        is_pasted = not (lead or tail)
        if is_pasted:
            lead, foreign = foreign[0].strip(), foreign[1:]
        words = f"{lead} {_PASTED_MARK.format(len(foreign))} {tail}".strip()
        return OwnWords(words, tuple(foreign), is_pasted)
    if is_last:
        return OwnWords(text.strip(), (), _is_printed(lines))
    kept: list[str] = []
    left_out: list[str] = []
    for is_paste, group in groupby(_mark_pasted(lines), itemgetter(0)):
        block = [line for _, line in group]
        inner = [line for line in block if line.strip() and not _FENCE.match(line)]
        if is_paste and len(inner) > 3 and sum(map(len, inner)) >= WHOLE_MESSAGE:
            left_out += inner[1:-1]
            mark = _PASTED_MARK.format(len(inner) - 2)
            block = ["", f"{inner[0].strip()} {mark} {inner[-1].strip()}", ""]
        kept += block
    return OwnWords("\n".join(kept).strip(), tuple(left_out), _is_printed(lines))


def _mark_pasted(lines: Sequence[str]) -> Iterator[tuple[bool, str]]:
    """Yield each line, and whether a program wrote it; a blank one belongs to the line before it."""
    fenced = is_paste = False
    for line in lines:
        if _FENCE.match(line):
            fenced = not fenced
            is_paste = True
        elif line.strip():
            is_paste = fenced or bool(_PRINTED_LINE.match(line) or _INDENTED.match(line))
        yield is_paste, line


def _is_printed(lines: Sequence[str]) -> bool:
    """Return whether many lines of a message are a program's, and no other speaks to anybody."""
    filled = [line for line in lines if line.strip()]
    others = [line for line in filled if not _PRINTED_LINE.match(line)]
    if len(filled) < 3 or 3 * len(others) > 2 * len(filled):
        return False
    is_prose = any(map(_PROSE.match, (filled[0], filled[-1])))
    return not is_prose and not any(map(ADDRESSES.search, others))


def _find_foreign_part(text: str) -> tuple[int, int] | None:
    """Return where the words of somebody else begin and end in a long message, None without proof."""
    start, lead = _find_lead(text)
    rest = text[start:]
    if len(rest) < WHOLE_MESSAGE:
        return None
    offers = [m.start() for m in _OFFER.finditer(text, max(start, len(text) - 2 * WHOLE_MESSAGE))]
    tells_of = bool(_TELLS_OF.search(lead)) or bool(_FOR_AGENTS.search(rest[:LEAD]))
    asks_about = _ASKS_ABOUT.search(lead)
    tells_of |= bool(asks_about) and len(_POLISHED.findall(rest)) >= MIN_POLISHED
    if offers:
        tail = text.find("\n\n", offers[-1])
    elif tells_of or sum(1 for _ in _SCREEN.finditer(rest)) >= MIN_MARKS:
        tail = text.rstrip().rfind("\n")
    else:
        return None
    words = text[tail:].strip() if tail > start else ""
    is_typed = len(words) <= WHOLE_MESSAGE and _is_typed(words)
    return start, tail if is_typed else len(text)


def _is_typed(words: str) -> bool:
    """Return whether a line reads as users type to an agent: in lower case, or asking or ordering."""
    if _PRINTED_LINE.match(words) or _GERUND.match(words):
        return False
    return bool(_TYPED.match(words)) or is_order(words)


def _find_lead(text: str) -> tuple[int, str]:
    """Return where the lines end that the user typed before a paste, and the last of them."""
    position, lead = 0, ""
    for line in text.split("\n"):
        begins = line[:LEAD].partition(": ")[0] if not position else line
        is_lead = len(begins) < len(line) and len(begins) <= LEAD
        typed = begins + ": " if is_lead else line
        if line.strip():
            if len(typed) > LEAD or not (_is_typed(typed) or _TELLS_OF.search(typed)):
                break
            lead = typed
            if is_lead:
                return len(typed), lead
        position += len(line) + 1
        if lead.rstrip().endswith((":", "?")) and line.strip():
            break
    return (min(position, len(text)), lead) if lead else (0, "")
