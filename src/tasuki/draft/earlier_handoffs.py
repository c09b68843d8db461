"""What still counts of earlier handoffs in a thread: its first prompt's brief, or a document it read.

A thread begins with a brief in its prompt, or with a prompt that names a handoff document, which the
agent then reads with a tool. That document is a brief too, or the predecessor wrote it, in Markdown of
its own. Wishes and rulings of the user outlive every handoff; how things stood at one does not.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from msgspec import Struct

from tasuki.draft import said, statements
from tasuki.draft.brief import GOAL_HEADING, MODEL_GOAL_HEADING, TITLE, UNQUOTED, handoff_of
from tasuki.draft.text import one_line, shorten
from tasuki.harness.jsonl import HANDOFF_CLOSING
from tasuki.harness.typed_prompts import named_document
from tasuki.model import Entry, Quote, ToolCall

SectionKind = Literal["", "line", "ruled", "decided", "open"]
"""What the items of a section are: lines of a brief as they are, or items of somebody's document."""
SECTIONS: dict[str, SectionKind] = {
    "previous handoff": "line",
    "state of the work": "line",
    "what the user asked for and ruled": "line",
    "context (from previous thread)": "line",
    "key decisions": "line",
    "open questions / risks": "line",
}
"""Sections of a brief whose lines are looked at."""
HANDED_ON = "Handed on from earlier handoffs"
"""Heading of what a document says of the handoffs before its own."""
ADDED = "Added from the thread by tasuki"
"""Heading of what an agent's document lacked."""
ADDED_NOTE = "These facts are in the thread"
"""Begins the sentence below that heading; it is no fact itself, and not in its former wording either."""
_ADDED_NOTES = (ADDED_NOTE, "These facts stand in the thread")
FROM_EARLIER = "from earlier handoffs"
"""What stands there before a line that is older than the thread."""
_WORDS_OF_TITLES: dict[SectionKind, str] = {
    "line": rf"^(?:{HANDED_ON}|{ADDED})$",
    "ruled": r"\bconstraints?\b|\bpreferences?\b|\buser\b|\brequirements?\b|\brules?\b|\brul(?:ed|ings?)\b|\bguidelines?\b"
    r"|\bmust\b|\bdo not\b|\bdon'?ts?\b|\bnot wanted\b|\bwishes\b|\bconventions?\b|\bvorgaben|\bwünsche|\brestric"
    r"|\bcontraint|约束|要求|制約|要件",
    "decided": r"\bdecisions?\b|\bdecided\b|\bchoices?\b|\brationale\b|\btrade-?offs?\b|\bentscheid|\bdecision|\bdécision"
    r"|决定|決定",
    "open": r"\bquestions?\b|\brisks?\b|\bblock(?:ers?|ed)\b|\bissues?\b|\bunknowns?\b|\bgotchas?\b|\bcaveats?\b"
    r"|\bdead ends?\b|\bfail|\bnext\b|\bto-?\s?dos?\b|\bpending\b|\bremain|\bleft to do\b|\bfollow-?ups?\b|\boffene\b"
    r"|\bnächste|\briesgo|\bpreguntas?|\bpróxim|\brisques?|\bprochaine|问题|风险|下一步|待办|課題|リスク|次の|残り",
}
_TITLES = {kind: re.compile(words, re.IGNORECASE) for kind, words in _WORDS_OF_TITLES.items()}
"""What the title of a section of somebody's document means, the first that fits."""
LABELS: dict[SectionKind, str] = {
    "ruled": "Asked for or ruled out then: ",
    "decided": "Decided then: ",
    "open": "Open then: ",
}
GOAL_THEN = "Goal then: "
GOALS_KEPT = 3
LONGEST, LONGEST_GOAL = 320, 240
"""Characters of an item of somebody's document, and of a goal."""
MOST_PARTS = 6
"""Results of tools in which the parts of one document are looked for."""
_WISH, _RULING = 1.3, 0.5
"""Weight of words of the user that bind, and of those that are more than small talk."""

_ALL_CASES = re.compile(
    r"\b(?:every(?:thing|where|body|one)?|no(?:thing|where|body)|anything|anywhere|always|never|all of (?:the|our|my|them)"
    r"|jede[rsmn]?|alles|überall|nirgends|siempre|nunca|toujours|jamais|partout)\b",
    re.IGNORECASE,
)
_HEADING = re.compile(r"\s{0,3}(#{1,6})\s+(\S.*?)[\s#]*$")
_BULLET = re.compile(r"\s{0,3}(?:[-*+•]|\d{1,3}[.)])\s+(?:\[[ xX~-]\]\s+)?(?=\S)")
_FENCE = re.compile(r"\s*(?:```|~~~)")
_EMPTY = re.compile(r"\W*(?:none|n/?a|nothing|keine|-)?\W*", re.IGNORECASE)
_NUMBERED = re.compile(r"^[^\S\n]*\d{1,6}(?:→|\t|\| ?|: )", re.MULTILINE)
"""The number that a tool puts before each line of a file."""
_REFS = re.compile(r"(?<!\s)\s*\[#\d[^\[\]]*\]\s*$")
_OF_A_BLOCK = re.compile(r"(?:[^\[\]\"]{0,60} )?(?:\[#\d[^\[\]]*\])?:$")
"""The line that cites what is quoted below it."""
_ADDED_KIND = re.compile(rf"(wish|reversal|failure|todo|asked for|{FROM_EARLIER}): ")
_ADDED_LABEL = {"failure": LABELS["open"], "todo": LABELS["open"]}
_OWN = re.compile(
    r'(?:User: )?"(?P<words>.*)"(?P<about> — (?:answering|refusing): .*)?$', re.DOTALL
)
_JOINED = " … "
_PASSED_BY = re.compile(
    r"(?:In progress|Not verified|Running|Failed, then passed|Not committed yet|Branch|Under way|Done"
    r"|Committed on [^:]*|(?:Tests|Lint or type check|Build)(?: and [^:]{0,40}| as last seen)?|Pull requests, as last seen"
    r"|Todo list, (?:in progress|done|dropped)|Put back as git has it|The error in the goal|Quoted in the goal"
    r"|Pending in its todo list(?:, \d+ entries ago)?|check|file|commit|running): "
    r"|Only in the thread|`[^`]+` (?:in|is in) `|The user interrupted|(?:Sub-agent|Background command) `"
)
"""Begins what was so at the time of an earlier handoff and is not handed on."""
_REFUSED = ("Called off or changed, the user said", "Refused by the user", "Not wanted any more: ")
_OPEN = (
    LABELS["open"], "Still to do", "Failed, not passed", "Failed, and did not pass", "Not started", "Failed or rejected",
    "Todo list, open", "Next step",
)  # fmt: skip


def fold_earlier_handoffs(entries: Sequence[Entry]) -> tuple[tuple[Quote, ...], str]:
    """What still counts of earlier handoffs in a thread, the most binding first; the first one's id.

    Each line is a quote of the entry that shows it. Of the goals only the newest are kept.
    """
    folded: dict[str, tuple[int, Quote]] = {}
    parent = ""
    for ref, text in _documents(entries):
        parent = parent or handoff_of(text)
        for line in _lines(text):
            if (rank := binding(line)) is not None:
                folded[line] = (rank, Quote(text=line, ref=ref))
    goals = [q for _, q in folded.values() if q.text.startswith(GOAL_THEN)]
    old = sorted(goals, key=lambda q: -q.ref)[GOALS_KEPT:]
    kept = [(rank, q) for rank, q in folded.values() if q not in old]
    return tuple(q for _, q in sorted(kept, key=lambda pair: pair[0])), parent


def fold_document(text: str) -> list[str]:
    """What still counts of one document that nobody showed in a thread, in its order."""
    return [line for line in _lines(text) if binding(line) is not None]


def is_open(text: str) -> bool:
    """Whether a folded line speaks of work that may be done since."""
    return text.startswith((*_OPEN, "Pending", GOAL_THEN))


def binding(text: str) -> int | None:
    """How binding a line of an earlier brief still is, 0 the most; None if it is out of date."""
    text = text[: statements.MAX_SENTENCE]
    if _PASSED_BY.match(text) or text.startswith(UNQUOTED):
        return None
    if text.startswith(_REFUSED):
        return 0
    if text.startswith(GOAL_THEN):
        return 2
    if own := _OWN.match(text):
        weight = _weigh(own["words"])
        refuses = (own["about"] or "").startswith(" — refusing")
        return 0 if refuses or weight >= _WISH else 1 if weight > _RULING else None
    if text.startswith(LABELS["ruled"]):
        return 0 if _weigh(text.removeprefix(LABELS["ruled"])) >= _WISH else 1
    if text.startswith(_OPEN):
        return 3
    return 1 if text.startswith(LABELS["decided"]) or said.marks(text) & said.DECISION else 4


def _weigh(words: str) -> float:
    """How much words of the user bind; a statement about all cases of something is a rule."""
    weight = said.weight_user(words, said.marks(words))
    is_rule = _ALL_CASES.search(words) and not words.rstrip().endswith(("?", "？"))
    return max(weight, _WISH) if is_rule else weight


# -- where they stand ------------------------------------------------------------------


def _documents(entries: Iterable[Entry]) -> Iterator[tuple[int, str]]:
    """Briefs in prompts, and what tools showed of the documents that prompts name."""
    path, left = "", 0
    for entry in entries:
        if entry.kind == "user":
            if entry.origin == "handoff":
                yield entry.ref, entry.text
            elif named := named_document(entry.text):
                path, left = named, MOST_PARTS
        elif left and entry.tool and _shows(entry.tool, path):
            left -= 1
            yield entry.ref, _without_numbers(entry.tool.output)


def _shows(call: ToolCall, path: str) -> bool:
    """Whether a call read a file and printed it, as far as the file's name tells."""
    name = path.rpartition("/")[2]
    if call.kind not in ("read", "shell") or call.status in ("error", "refused") or not call.output:
        return False
    return name in call.command or any(p.rpartition("/")[2] == name for p in call.paths)


def _without_numbers(shown: str) -> str:
    """A file as it is, where a tool put a number before each of its lines."""
    lines = sum(1 for line in shown.split("\n") if line.strip())
    return _NUMBERED.sub("", shown) if len(_NUMBERED.findall(shown)) * 2 > lines else shown


# -- what they say ---------------------------------------------------------------------


def _lines(text: str) -> Iterator[str]:
    """The lines of a document that may be handed on: of its brief, and of what stands before one."""
    handed = text.partition(HANDOFF_CLOSING)[0].rstrip().removesuffix("</handoff-context>")
    own, title, brief = handed.partition(TITLE)
    if title:
        yield from _of_brief(brief)
    yield from _of_document(own)


def _of_brief(text: str) -> Iterator[str]:
    past, goal = text, ""
    for heading in (GOAL_HEADING, MODEL_GOAL_HEADING):
        before, found, after = past.rpartition(f"\n{heading}\n")
        if found:
            past, goal = before, after
    if goal.strip() and past:
        yield f"{GOAL_THEN}{shorten(one_line(goal), LONGEST_GOAL)}"
    section: SectionKind = ""
    for line in past.split("\n"):
        if line.startswith(("## ", "### ")):
            title = line.lstrip("#").strip()
            section = SECTIONS.get(title.lower(), "")
        elif line.startswith("- ") and section and not _OF_A_BLOCK.match(line[2:]):
            yield from _split_ruling(_REFS.sub("", line[2:]).rstrip())


def _split_ruling(line: str) -> Iterator[str]:
    """Words of one message that did not follow one another, each by itself."""
    own = _OWN.match(line)
    if own and not own["about"] and _JOINED in own["words"]:
        yield from (f'"{part.strip()}"' for part in own["words"].split(_JOINED))
    else:
        yield line


class _Section(Struct):
    """The section of a document that is being read."""

    kind: SectionKind = ""
    level: int = 9


def _of_document(text: str) -> Iterator[str]:
    """Items of somebody's own Markdown: what the user ruled, what was decided, what was open."""
    section, fenced = _Section(), False
    item: list[str] = []
    for line in [*text.split("\n"), ""]:
        heading = None if fenced else _HEADING.match(line)
        if _FENCE.match(line):
            fenced = not fenced
        ends = heading or fenced or not line.strip() or _BULLET.match(line) or _FENCE.match(line)
        if ends and item:
            yield from _of_item(section.kind, one_line(" ".join(item)))
            item = []
        if heading:
            section = _next_section(section, len(heading[1]), heading[2])
        elif section.kind and line.strip() and not (fenced or _FENCE.match(line) or line[0] == ">"):
            item.append(_BULLET.sub("", line, count=1))


def _next_section(before: _Section, level: int, title: str) -> _Section:
    """The section that a heading begins; one of no known title stays what the one above it is."""
    known = (kind for kind, pattern in _TITLES.items() if pattern.search(title))
    kind: SectionKind = SECTIONS.get(title.lower(), "") or next(known, "")
    if kind or level <= before.level:
        return _Section(kind, level)
    return before


def _of_item(kind: SectionKind, text: str) -> Iterator[str]:
    """An item as it is handed on, labelled with what the document says it is."""
    text = _REFS.sub("", text).rstrip()
    if kind == "line":
        added = _ADDED_KIND.match(text)
        if added:
            yield f"{_ADDED_LABEL.get(added[1], '')}{text[added.end() :]}"
        elif not _OF_A_BLOCK.match(text) and not text.startswith(_ADDED_NOTES):
            yield from _split_ruling(text)
    elif not _EMPTY.fullmatch(text):
        label = "" if _OWN.fullmatch(text) and kind == "ruled" else LABELS[kind]
        yield f"{label}{shorten(text, LONGEST)}"
