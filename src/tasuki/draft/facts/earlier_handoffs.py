"""Find what is still valid of earlier handoffs in a thread.

A thread begins with a brief in its prompt, or with a prompt that names a handoff document,
which the agent then reads with a tool. That document is a brief too, or the predecessor
wrote it in its own Markdown. Wishes and rulings of the user outlive every handoff; the
state of the work at that time does not.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from tasuki.draft.brief import GOAL_HEADING, MODEL_GOAL_HEADING, TITLE, find_handoff_id
from tasuki.draft.facts import statements
from tasuki.draft.text import language_cues, lexicon
from tasuki.draft.text.markdown import read_lines
from tasuki.draft.text.split import fold_whitespace, shorten
from tasuki.model import Entry, Facts, Quote, Thread
from tasuki.patterns import compile_pattern
from tasuki.typed_prompts import HANDOFF_CLOSING, find_named_document

SectionKind = Literal["", "line", "file", "command", "ruled", "decided", "open"]
"""What the items of a section are: lines of a brief as they are, or items of another document."""
SECTIONS: dict[str, SectionKind] = {
    "previous handoff": "line",
    "state of the work": "line",
    "what the user asked for and ruled": "line",
    "context (from previous thread)": "line",
    "key decisions": "line",
    "open questions / risks": "line",
    "relevant files": "file",
    "relevant commands": "command",
}
"""Sections of a brief whose lines are read."""
HANDED_ON_HEADING = "Handed on from earlier handoffs"
"""Heading of what a document says about the handoffs before its own."""
ADDED_HEADING = "Added from the thread by tasuki"
"""Heading of what an agent's document lacked."""
ADDED_NOTE = "These facts are in the thread"
"""Start of the sentence below that heading; it is not a fact, and neither is its former wording."""
_ADDED_NOTES = (ADDED_NOTE, "These facts stand in the thread")
FROM_EARLIER = "from earlier handoffs"
"""Label of a line that is older than the thread."""
_WORDS_OF_TITLES: dict[SectionKind, str] = {
    "line": rf"^(?:{HANDED_ON_HEADING}|{ADDED_HEADING})$",
    "ruled": r"\bconstraints?\b|\bpreferences?\b|\buser\b|\brequirements?\b|\brules?\b|\brul(?:ed|ings?)\b|\bguidelines?\b"
    r"|\bmust\b|\bdo not\b|\bdon'?ts?\b|\bnot wanted\b|\bwishes\b|\bconventions?\b|\bvorgaben|\bwünsche|\brestric"
    r"|\bcontraint|约束|要求|制約|要件",
    "decided": r"\bdecisions?\b|\bdecided\b|\bchoices?\b|\brationale\b|\btrade-?offs?\b|\bentscheid|\bdecision|\bdécision"
    r"|决定|決定",
    "open": r"\bquestions?\b|\brisks?\b|\bblock(?:ers?|ed)\b|\bissues?\b|\bunknowns?\b|\bgotchas?\b|\bcaveats?\b"
    r"|\bdead ends?\b|\bfail|\bnext\b|\bto-?\s?dos?\b|\bpending\b|\bremain|\bleft to do\b|\bfollow-?ups?\b|\boffene\b"
    r"|\bnächste|\briesgo|\bpreguntas?|\bpróxim|\brisques?|\bprochaine|问题|风险|下一步|待办|課題|リスク|次の|残り",
}
_TITLES = {kind: compile_pattern(words, re.IGNORECASE) for kind, words in _WORDS_OF_TITLES.items()}
"""What the title of a section of another document means; the first that matches."""
LABELS: dict[SectionKind, str] = {
    "ruled": "Asked for or ruled out then: ",
    "decided": "Decided then: ",
    "open": "Open then: ",
}
GOAL_THEN = "Goal then: "
STATE_THEN, FILE_THEN, COMMAND_THEN = "State then: ", "File then: ", "Command then: "
MAX_GOALS = 3
MAX_ITEM, MAX_GOAL = 320, 240
"""Characters of an item of another document, and of a goal."""
MAX_BEFORE = 6
"""Quotes of the thread in which a plan was made."""
MAX_PARTS = 6
"""Tool results in which the parts of one document are looked for."""
_WISH, _RULING = 1.3, 0.5
"""Weight of the user's words that bind, and of those that are more than small talk."""

_ALL_CASES = compile_pattern(
    r"\b(?:every(?:thing|where|body|one)?|no(?:thing|where|body)|anything|anywhere|always|never|all of (?:the|our|my|them)"
    r"|jede[rsmn]?|alles|überall|nirgends|siempre|nunca|toujours|jamais|partout)\b",
    re.IGNORECASE,
)
_EMPTY = compile_pattern(r"\W*(?:none|n/?a|nothing|keine|-)?\W*", re.IGNORECASE)
_NUMBERED = compile_pattern(r"^[^\S\n]*\d{1,6}(?:→|\t|\| ?|: )", re.MULTILINE)
"""The number that a tool puts before each line of a file."""
_REFS = compile_pattern(r"(?<!\s)\s*\[#\d[^\[\]]*\]\s*$")
_BLOCK_LEAD = compile_pattern(r"(?:[^\[\]\"]{0,60} )?(?:\[#\d[^\[\]]*\])?:$")
"""The line that cites what is quoted below it."""
_ADDED_KIND = compile_pattern(rf"(wish|reversal|failure|todo|asked for|{FROM_EARLIER}): ")
_ADDED_LABEL = {"failure": LABELS["open"], "todo": LABELS["open"]}
_USER_QUOTE = compile_pattern(
    r'(?:User: )?"(?P<words>.*)"(?P<about> — (?:answering|refusing): .*)?$', re.DOTALL
)
_JOINED = " … "
_OUT_OF_DATE = compile_pattern(
    r"(?:In progress|Not verified|Running|Failed, then passed|Not committed yet[^:]*|Branch|Under way|Done"
    r"|Committed on [^:]*|(?:Tests|Lint or type check|Build)(?: and [^:]{0,40}| as last seen)?|Pull requests, as last seen"
    r"|Todo list, (?:in progress|done|dropped)[^:]*|Put back as git has it|The error in the goal|Quoted in the goal"
    r"|Pending in its todo list(?:, \d+ entries ago)?|(?:Also c|C)hanged or new in the folder[^:]*|check|file|commit|running): "
    r"|Only in the thread|`[^`]+` (?:in|is in) `|The user interrupted|The last turn stopped at|(?:Sub-agent|Background command) `"
)
"""Start of lines that were true at an earlier handoff and are not handed on."""
_MAY_HOLD = compile_pattern(
    r"(?:Branch|Committed\b[^:]*|Not committed yet[^:]*|(?:Tests|Lint or type check|Build)(?: and [^:]{0,40})?|Last run of the whole suite"
    r"|Pull requests, as last seen|Checks of [^:]*|Published[^:]*|Approved plan[^:]*|Merge or rebase[^:]*): |(?:Background command) `"
)
"""Start of lines on the state of the work that still hold until the thread shows something newer."""
_REFUSED = ("Called off or changed, the user said", "Refused by the user", "Not wanted any more: ")
_OPEN = (
    LABELS["open"], "Still to do", "Failed, not passed", "Failed, and did not pass", "Not started", "Failed or rejected",
    "Todo list, open", "Next step",
)  # fmt: skip


def fold_earlier_handoffs(entries: Sequence[Entry]) -> tuple[tuple[Quote, ...], str]:
    """Return what is still valid of earlier handoffs, and the id of the first one.

    The most binding lines come first. Each line is a quote of the entry that shows it. Only the
    newest goals are kept.
    """
    folded: dict[str, tuple[int, Quote]] = {}
    parent = ""
    for ref, text in _find_documents(entries):
        parent = parent or find_handoff_id(text)
        for line in _list_lines(text):
            if (rank := rank_line(line)) is not None:
                folded[line] = (rank, Quote(text=line, ref=ref))
    goals = [q for _, q in folded.values() if q.text.startswith(GOAL_THEN)]
    old = sorted(goals, key=lambda q: -q.ref)[MAX_GOALS:]
    states = [q for _, q in folded.values() if q.text.startswith(STATE_THEN)]
    newest = max((q.ref for q in states), default=0)
    old += [q for q in states if q.ref < newest]
    remaining = [(rank, q) for rank, q in folded.values() if q not in old]
    return tuple(q for _, q in sorted(remaining, key=lambda pair: pair[0])), parent


def quote_before_plan(thread: Thread, before: Thread) -> tuple[Quote, ...]:
    """Return what binds of the user's words in the thread in which an approved plan was made."""
    plan = next((e.ref for e in thread.entries if e.origin == "plan"), 0)
    stated = [s for s in statements.extract_user_statements(before.entries) if s.weight > _RULING]
    best = sorted(stated, key=lambda s: -s.weight)[:MAX_BEFORE]
    return tuple(
        Quote(f'{LABELS["ruled"]}"{s.quote.text}" (in the thread {before.id[:8]}, #{s.ref})', plan)
        for s in stated
        if s in best
    )


def fold_document(text: str) -> list[str]:
    """Return what is still valid of a document that is not in a thread, in its order."""
    return [line for line in _list_lines(text) if rank_line(line) is not None]


def still_holds(text: str, facts: Facts) -> bool:
    """Return whether a thread shows nothing newer than a folded line of how things were."""
    repository = facts.repository
    if text.startswith(FILE_THEN):
        path = text.removeprefix(FILE_THEN).strip("`").split("`")[0]
        return all(f.path != path for f in facts.files)
    if text.startswith(COMMAND_THEN):
        return all(f"`{c.command}`" not in text for c in facts.commands)
    label = text.removeprefix(STATE_THEN)
    settled = any(c.settled for c in repository.checkouts)
    if label == text:
        return True
    if label.startswith(("Branch", "Committed")):
        return not repository.commits and not settled
    if label.startswith("Not committed yet"):
        return not settled and not facts.uncommitted and not facts.revision.repository
    if label.startswith(("Pull requests", "Checks of")):
        return not repository.pull_requests
    if label.startswith("Approved plan"):
        return not facts.todos
    words = {"test": ("Tests", "Last run"), "lint": ("Lint",), "build": ("Build",)}
    return not any(label.startswith(words.get(c.check, ())) for c in facts.last_check)


def is_open(text: str) -> bool:
    """Return whether a folded line speaks of work that may be done by now."""
    return text.startswith((*_OPEN, "Pending", GOAL_THEN))


def rank_line(text: str) -> int | None:
    """Return how binding a line of an earlier brief still is: 0 is most, None is out of date."""
    text = text[: statements.MAX_SENTENCE]
    if text.startswith(STATE_THEN):
        return 1
    if text.startswith((FILE_THEN, COMMAND_THEN)):
        return 5
    if _OUT_OF_DATE.match(text) or text.startswith("Other conclusions, not quoted here"):
        return None
    if text.startswith(_REFUSED):
        return 0
    if text.startswith(GOAL_THEN):
        return 2
    if own := _USER_QUOTE.match(text):
        weight = _weigh_words(own["words"])
        refuses = (own["about"] or "").startswith(" — refusing")
        return 0 if refuses or weight >= _WISH else 1 if weight > _RULING else None
    if text.startswith(LABELS["ruled"]):
        return 0 if _weigh_words(text.removeprefix(LABELS["ruled"])) >= _WISH else 1
    if text.startswith(_OPEN):
        return 3
    decides = language_cues.detect_cues(text) & lexicon.DECISION
    return 1 if decides or text.startswith(LABELS["decided"]) else 4


def _weigh_words(words: str) -> float:
    """Return how much words of the user bind; a statement about all cases is a rule."""
    weight = language_cues.weigh_user_sentence(words, language_cues.detect_cues(words))
    is_rule = _ALL_CASES.search(words) and not words.rstrip().endswith(("?", "？"))
    return max(weight, _WISH) if is_rule else weight


# -- where they are --------------------------------------------------------------------


def _find_documents(entries: Iterable[Entry]) -> Iterator[tuple[int, str]]:
    """Yield briefs in prompts, and what tools printed of the documents that prompts name."""
    path, left = "", 0
    for entry in entries:
        if entry.kind == "user":
            if entry.origin == "handoff":
                yield entry.ref, entry.text
            elif named := find_named_document(entry.text):
                path, left = named, MAX_PARTS
        elif left and (call := entry.tool):
            name, output = path.rpartition("/")[2], call.output
            is_named = name in call.command or any(p.rpartition("/")[2] == name for p in call.paths)
            may_print = call.kind in ("read", "shell") and call.status not in ("error", "refused")
            if not (is_named and may_print and output):
                continue
            left -= 1
            lines = sum(1 for line in output.split("\n") if line.strip())
            is_numbered = len(_NUMBERED.findall(output)) * 2 > lines  # By a tool, line by line.
            yield entry.ref, _NUMBERED.sub("", output) if is_numbered else output


# -- what they say ---------------------------------------------------------------------


def _list_lines(text: str) -> Iterator[str]:
    """Yield the lines of a document that may be handed on: those of its brief and those before it."""
    handed = text.partition(HANDOFF_CLOSING)[0].rstrip().removesuffix("</handoff-context>")
    own, title, brief = handed.partition(TITLE)
    if title:
        yield from _list_brief_lines(brief)
    yield from _list_document_items(own)


def _list_brief_lines(text: str) -> Iterator[str]:
    past, goal = text, ""
    for heading in (GOAL_HEADING, MODEL_GOAL_HEADING):
        before, found, after = past.rpartition(f"\n{heading}\n")
        if found:
            past, goal = before, after
    if goal.strip() and past:
        yield f"{GOAL_THEN}{shorten(fold_whitespace(goal), MAX_GOAL)}"
    section: SectionKind = ""
    title = ""
    for line in past.split("\n"):
        if line.startswith(("## ", "### ")):
            title = line.lstrip("#").strip()
            section = SECTIONS.get(title.lower(), "")
        elif line.startswith("- ") and section and not _BLOCK_LEAD.match(line[2:]):
            text = _REFS.sub("", line[2:]).rstrip()
            if section in ("file", "command"):
                yield f"{FILE_THEN if section == 'file' else COMMAND_THEN}{text}"
            elif title.lower() == "state of the work" and _MAY_HOLD.match(text):
                yield f"{STATE_THEN}{text.replace(' in this thread', ' then')}"
            else:
                yield from _split_ruling(text)


def _split_ruling(line: str) -> Iterator[str]:
    """Yield words of one message that did not follow one another, each separately."""
    own = _USER_QUOTE.match(line)
    if own and not own["about"] and _JOINED in own["words"]:
        yield from (f'"{part.strip()}"' for part in own["words"].split(_JOINED))
    else:
        yield line


def _list_document_items(text: str) -> Iterator[str]:
    """Yield items of free Markdown: what the user ruled, what was decided, what was open."""
    kind: SectionKind = ""
    level = 9
    item: list[str] = []
    for line in read_lines([*text.split("\n"), ""]):
        is_text = line.kind in ("text", "quote", "table", "bold")
        is_text = is_text or (line.kind == "item" and line.level > 3)
        if not is_text and item:
            yield from _label_item(kind, fold_whitespace(" ".join(item)))
            item = []
        if line.kind == "heading":  # A section with an unknown title keeps its parent's kind.
            titles = (kind for kind, pattern in _TITLES.items() if pattern.search(line.text))
            begun = SECTIONS.get(line.text.lower(), "") or next(titles, "")
            if begun or line.level <= level:
                kind, level = begun, line.level
        elif kind and (is_text or line.kind == "item") and line.raw[0] != ">":
            item.append(line.raw if is_text else line.text)


def _label_item(kind: SectionKind, text: str) -> Iterator[str]:
    """Yield an item as it is handed on, labelled with what the document says it is."""
    text = _REFS.sub("", text).rstrip()
    if kind == "line":
        if added := _ADDED_KIND.match(text):
            yield f"{_ADDED_LABEL.get(added[1], '')}{text[added.end() :]}"
        elif not _BLOCK_LEAD.match(text) and not text.startswith(_ADDED_NOTES):
            yield from _split_ruling(text)
    elif not _EMPTY.fullmatch(text):
        label = "" if _USER_QUOTE.fullmatch(text) and kind == "ruled" else LABELS[kind]
        yield f"{label}{shorten(text, MAX_ITEM)}"
