"""What the goal speaks of: the thing behind a label or a count in it, and what was said nearest to its words.

"do option B", "fix #3"            → the item of a list, or the section, that begins so
"the three gaps", "these issues"   → the list under a line that names them
"write the retention section"      → the section of a plan, a message or a report nearest to these words
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from tasuki.draft.facts.commands import shorten_command
from tasuki.draft.rank.guides import list_documents
from tasuki.draft.rank.relevance import Relevance
from tasuki.draft.text.entries import extract_user_words
from tasuki.draft.text.language_cues import is_foreign, is_narration, orders_agents
from tasuki.draft.text.split import measure_text
from tasuki.model import Item, Thread
from tasuki.patterns import compile_pattern

MAX_PASSAGE, MIN_PASSAGE = 1_100, 80
"""Characters of one passage that is quoted, and that is worth it."""
MAX_SECTION, MAX_LINES = 1_400, 200
"""Characters from which a section is cut at a blank line, and lines of one."""
LONG_MESSAGE = 300
"""Characters from which a message of the user has passages of its own."""
MAX_TEXTS, MAX_TEXT = 400, 60_000
"""Newest texts that are looked at, and characters of each."""
MIN_COVERAGE, ANSWERED = 0.6, 0.6
"""Share of the goal's words that a passage holds, and the last message if nothing else is needed."""
MIN_WORDS = 3
"""Words of a goal from which on passages are near to it, and those that a passage holds."""
MAX_NEAREST, MAX_LABELLED = 2, 4
SPEAKS, REPORTS, READS, PRINTS = 1.0, 0.9, 0.85, 0.7
"""What passages of a message, a report, a document and a program are worth."""
_LABEL = compile_pattern(
    r"(?i)\b(option|step|phase|task|issue|item|point|finding|question|problem|wave|part|section|variant|approach|gap|comment|number|bug|fix|case|milestone|story|epic|stage|schritt|aufgabe|punkt|étape|paso)s?\s*#?\s*((?-i:[A-Z])|\d{1,3}(?:\.\d{1,3})*)\b"
    r"|(?<![\w/.-])#(\d{1,4})\b|\b((?-i:[A-Z]{2,8})-\d+)\b"
    r"|^\W*(?:(?:ok(?:ay)?|yes|next|now|do|go with|let'?s (?:do|go with)|start with|continue with)[\s,]+)*((?-i:[A-H](?! [a-z]))|\d{1,2}(?:\.\d{1,2})?)\b(?=[\s,.?!)]|$)"
)
_COUNTED = compile_pattern(
    r"(?i)\b(?:the|these|those|both|all|other|remaining|open|missing|two|three|four|five|six|seven|eight|\d{1,2})\s+(?:(?:two|three|four|five|six|other|remaining|open|missing|valid|\d{1,2})\s+)?([a-z][a-z-]{2,20}s)\b"
)
_SIBLING = compile_pattern(r"^\s*(?:#{1,6} |\*\*\S|[-*•] |\d{1,3}[.)] |[A-H][.)] |\|)")
_HEADING = compile_pattern(r"^\s{0,3}#{1,6} |^\s*\*\*[^*]{2,100}\*\*:?\s*$")
_NO_LETTER, TOLD_KEY = compile_pattern(r"[\W_]+"), 160
"""What a quotation may change of a text, and how many letters at its beginning tell that it is quoted."""
_TALK = compile_pattern(r"\bgh\s+(?:pr|issue|api)\b")


class Passage(NamedTuple):
    """A part of a text of the thread; `origin` names whose it is, if not the agent's."""

    ref: int
    origin: str
    text: str
    worth: float


def find_goal_object(thread: Thread, relevance: Relevance, quoted: str, room: int) -> list[Item]:
    """Return the passages that the goal speaks of, those with a label first, in `room` characters.

    `quoted` is what the brief quotes already: that needs no passage of its own.
    """
    texts = list(islice(_list_texts(thread), MAX_TEXTS))
    told = _fold(quoted)
    items: list[Item] = []
    for passage in (*_find_named(relevance.goal, texts), *_find_nearest(texts, relevance, quoted)):
        text = cut_passage(passage.text, min(MAX_PASSAGE, room))
        is_told = any(text[:200] in item.text or item.text[:200] in text for item in items)
        is_told |= _fold(text)[:TOLD_KEY] in told
        if len(text) >= MIN_PASSAGE and not is_told:
            room -= measure_text(text) + len(passage.origin) + 2 * text.count("\n") + 16
            items.append(Item(text=text, refs=(passage.ref,), label=passage.origin))
    return items


def _fold(text: str) -> str:
    """Return the letters and digits of a text, as it is compared with its quotation."""
    return _NO_LETTER.sub("", text)


def cut_passage(text: str, limit: int) -> str:
    """Return a passage cut at a line, or at a sentence, with a mark; empty without any room."""
    text = re.sub(r"\n{2,}", "\n", text.strip("\n"))
    if len(text) <= limit:
        return text
    cut = text[: max(limit - 2, 0)]
    end = max(cut.rfind("\n"), cut.rfind(". ") + 1)
    return f"{cut[:end].rstrip()} …" if end > limit * 0.5 else ""


def _list_texts(thread: Thread) -> Iterator[Passage]:
    """Yield what was said, reported and read, the newest first, and the documents behind."""
    for entry in reversed(thread.entries):
        call = entry.tool
        if entry.kind == "assistant":
            yield Passage(entry.ref, "", entry.text[:MAX_TEXT], SPEAKS)
        elif entry.kind == "user" and len(words := extract_user_words(entry)) > LONG_MESSAGE:
            if not orders_agents(words):
                yield Passage(entry.ref, "The user wrote", words[:MAX_TEXT], SPEAKS)
        elif call is None or call.status != "ok":
            continue
        elif call.kind == "agent" and not orders_agents(call.output):
            yield Passage(entry.ref, "A sub-agent reported", call.output[:MAX_TEXT], REPORTS)
        elif call.kind == "shell" and _TALK.search(call.command) and not is_foreign(call.output):
            command = shorten_command(call.command, 60).replace("`", "")
            for record in _list_records(call.output[:MAX_TEXT]):
                yield Passage(entry.ref, f"Printed by `{command}`", record, PRINTS)
    for path, (ref, text) in list_documents(thread).items():
        yield Passage(ref, f"`{path}`", text[:MAX_TEXT], READS)


def _list_records(output: str) -> Iterator[str]:
    """Yield the records of a JSON list one by one, nothing of JSON that was cut, else the output whole."""
    if not output.lstrip().startswith(("[", "{")):
        yield output
        return
    import json  # Heavy at start.

    with suppress(ValueError, RecursionError):
        found = json.loads(output)
        for record in found if isinstance(found, list) else [found]:
            fields = record.items() if isinstance(record, dict) else ()
            shown = [f"{k}: {v if isinstance(v, str) else json.dumps(v)}" for k, v in fields]
            if isinstance(record, dict):
                yield "\n".join(shown)


# -- labels and counts -----------------------------------------------------------------


def _find_named(goal: str, texts: Sequence[Passage]) -> Iterator[Passage]:
    """Yield for each label and counted thing of the goal where it stands, in the newest text that has it."""
    for match in islice(_LABEL.finditer(goal[:600]), MAX_LABELLED):
        word, *numbers = match.groups()
        number = next(filter(None, numbers))
        bare = r"(?:(?:option|step|phase|task|issue|item|variant)[ \t]*)?"
        forms = (rf"{word}s?[ \t]*", bare) if word else (bare,)
        patterns = (compile_label(form, number) for form in forms)
        labelled = (one for pattern in patterns for one in _find_beginning(texts, pattern))
        yield from islice(labelled, 1)
    for noun in dict.fromkeys(m.lower() for m in _COUNTED.findall(goal[:600])):
        leads = re.compile(
            rf"(?im)^(?=.{{0,160}}$)(?:[ \t]*#{{1,6}} .*\b{noun}\b.*|[ \t]*\*\*.*\b{noun}\b.*\*\*:?[ \t]*|.*\b{noun}\b.*:[ \t]*)$"
        )
        yield from islice(_find_beginning(texts, leads, is_list=True), 1)


def compile_label(names: str, number: str) -> re.Pattern[str]:
    """Build the pattern of a line that begins with a label: `- **Option B:** …`, `### 3. …`."""
    return re.compile(
        rf"(?im)^[ \t]*(?:[-*•>|]\s*)?(?:#+\s*)?(?:\*\*)?(?:{names})[#(\[]?{re.escape(number)}(?:[.):*\]]|[ \t]*[—–|]|[ \t]-)"
    )


def _find_beginning(
    texts: Sequence[Passage], begins: re.Pattern[str], *, is_list: bool = False
) -> Iterator[Passage]:
    for one in texts:
        if match := begins.search(one.text):
            yield one._replace(text=_take_block(one.text[match.start() :], is_list=is_list))


def _take_block(text: str, *, is_list: bool) -> str:
    """Return the first line and what belongs to it: up to its next sibling, or the list under it."""
    lines = text.split("\n")
    kept, size = lines[:1], len(lines[0])
    indent = len(lines[0]) - len(lines[0].lstrip())
    for line in lines[1:]:
        is_next = len(line) - len(line.lstrip()) <= indent and _SIBLING.match(line)
        is_end = _HEADING.match(line) if is_list else is_next
        if is_end or size > MAX_SECTION or len(kept) > MAX_LINES:
            break
        is_behind = len(kept) > 2 and line.strip() and not line.startswith(" ")
        if is_list and is_behind and not _SIBLING.match(line):
            break
        kept.append(line)
        size += len(line)
    return "\n".join(kept).strip("\n")


# -- the nearest passages --------------------------------------------------------------


def _find_nearest(texts: Sequence[Passage], relevance: Relevance, last: str) -> Iterator[Passage]:
    """Yield the passages that hold most of the goal's words, where the last message does not."""
    total = sum(relevance.weights.values())
    if len(relevance.weights) < MIN_WORDS or _cover(last, relevance) >= ANSWERED * total:
        return
    best: list[tuple[float, Passage]] = []
    for one in texts:
        if _cover(one.text, relevance) < MIN_COVERAGE * total:
            continue
        for section in split_sections(one.text):
            covered = _cover(section, relevance) / total
            held = sum(term in section.lower() for term in relevance.weights)
            is_near = covered >= MIN_COVERAGE and held >= MIN_WORDS
            if is_near and not is_narration(section[:200]):
                score = one.worth * covered * (0.6 + 0.4 * relevance.measure_recency(one.ref))
                best.append((score, one._replace(text=section)))
    best.sort(key=lambda pair: -pair[0])
    yield from (passage for _, passage in best[:MAX_NEAREST])


def _cover(text: str, relevance: Relevance) -> float:
    low = text.lower()
    return sum(weight for term, weight in relevance.weights.items() if term in low)


def split_sections(text: str) -> list[str]:
    """Split a text at its headings; a long section at blank lines, where no code is open."""
    sections: list[list[str]] = [[]]
    is_code, size = False, 0
    for line in text.split("\n"):
        is_code ^= line.lstrip().startswith("```")
        is_break = _HEADING.match(line) or (not line.strip() and size > MAX_SECTION // 2)
        if is_break and not is_code and size > MIN_PASSAGE:
            sections.append([])
            size = 0
        sections[-1].append(line)
        size += len(line)
    return ["\n".join(lines).strip("\n") for lines in sections]
