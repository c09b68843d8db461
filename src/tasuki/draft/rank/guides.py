"""What binds in the guides that a thread had in view: AGENTS.md, CLAUDE.md, memories, rules of a project.

A program put them into the thread, or the agent read them. Of a guide only the lines count that
command, forbid or limit, each with its heading.
"""

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from tasuki.draft.rank.blocks import MessageBlock, split_blocks
from tasuki.draft.runs.command_kinds import find_change
from tasuki.draft.text.language_cues import is_foreign
from tasuki.draft.text.polarity import denies
from tasuki.draft.text.split import fold_whitespace, split_sentences
from tasuki.model import FIRST_DOCUMENT, Thread
from tasuki.paths import make_relative
from tasuki.patterns import compile_pattern

_GUIDE = compile_pattern(
    r"(?i)(?:^|/)(?:claude|agents?|gemini|copilot-instructions|contributing|conventions?|coding-?style|style-?guide|guidelines?|hacking)(?:[.-][\w.-]+)?\.(?:md|mdc|rst|txt|adoc)$"
    r"|(?:^|/)\.?(?:cursor|windsurf|cline)rules$|/(?:memory|rules|instructions)/[^/]+\.mdc?$|\.instructions\.md$"
)
"""Files that say how work is done in a project."""
_DOCUMENT = compile_pattern(
    r"(?i)\.(?:md|mdc|rst|adoc|txt)$|(?:^|/)\.?(?:cursor|windsurf|cline)rules$"
)
_NO_GUIDE = compile_pattern(
    r"(?i)(?:^|/)(?:skills?|templates?|node_modules|vendor|fixtures?|testdata|examples?|tmp)/|^/(?!.*/\.(?:claude|codex|config|gemini|pi|agents)/)"
)
_REFERENCE_NOTE, MAX_FRONT = compile_pattern(r"(?m)^ *type: *reference *$"), 600
"""A memory that only tells where something is, and the characters at its beginning that say so."""
_LINE_NUMBER = compile_pattern(r"(?m)^ *\d+(?:→|\t|: ?\t)")
_REMINDER = compile_pattern(r"(?s)<system-reminder>.*?</system-reminder>")
_HARD = compile_pattern(
    r"(?i)\b(?:must(?:n'?t)?|never|always|do not|don'?t|mandatory|forbidden|prohibited|non-negotiable|critical|(?<!\()required|cannot|not allowed|no exceptions?"
    r"|muss|darf nicht|niemals|immer|nunca|siempre|sempre|toujours|jamais|всегда|никогда)\b|必须|禁止|不要|不得|必ず|ないこと|반드시|금지"
)
_SOFT = compile_pattern(
    r"(?i)\b(?:only|avoid|ensure|make sure|should(?:n'?t)?|prefer|before (?:every|each|any|you|commit\w*|push\w*|finish\w*)|after (?:every|each|any)|every (?:new )?\w+ (?:must|needs|gets|has))\b"
)
_IMPERATIVE = compile_pattern(
    r"(?:\*\*[^*]{2,40}\*\*:? ?)?(?:Use|Prefer|Keep|Run|Put|Write|Add|Follow|Check|Test|Commit|Name|Place|Update|Create|Stage|Push|Open|Ask|Read|Return|Wrap|Include|Document|Format|Limit|Treat|Leave|Stop|Start|Verify|Import|Group|Pin|Mock|Cover|No)\b"
)
_GENERAL = compile_pattern(
    r"(?i)commit|test|\bpr\b|pull request|lint|format|style|\bgit\b|review|convention|workflow|general|principle|rule|polic|secur|secret|comment|communicat|language|preference|guideline|quality|important|behaviou?r|feedback|instruction|process|do not|don't|never|always|must"
)
"""Headings under which rules stand that hold for any work."""
_STRUCK = compile_pattern(r"(?s)<!--.*?-->|~~[^~\n]+~~|(?m:^ *>.*$)")
"""Comments, struck text and quotations bind nobody."""
_TURNS_ROUND = compile_pattern(
    r"(?i)\b(?:deprecated|obsolete|wrong|bad|exceptions?|anti-?patterns?|don'?ts|avoid|not to do|falsch|veraltet)\b"
)
"""Headings and lead-ins below which a line shows what not to do, or what holds no more."""
PART_KEY = 200
"""Characters at the beginning of a reading by which it is known as a part of one before."""
MIN_LINE, MAX_LINE, MAX_HEADING = 15, 300, 40
"""Characters of a line that binds; a longer one is left out where there is little room."""


class BindingLine(Struct, frozen=True):
    """One line of a guide that commands, forbids or limits. `weight` is how hard it does."""

    path: str
    ref: int
    heading: str
    text: str
    weight: float
    place: int

    @property
    def shown(self) -> str:
        """The line behind a short heading."""
        is_short = 0 < len(self.heading) <= MAX_HEADING
        return f"{self.heading}: {self.text}" if is_short else self.text


def list_documents(thread: Thread) -> dict[str, tuple[int, str]]:
    """Return the newest text of each document that the thread had in view, by its path, with its ref.

    What the agent edited in it since is in the text.
    """
    found: dict[str, tuple[int, str]] = {}
    for number, document in enumerate(thread.documents):
        if _DOCUMENT.search(document.path):
            path = make_relative(document.path, thread.cwd)
            found[path] = (FIRST_DOCUMENT + number, clean_document(document.text))
    for entry in thread.entries:
        call = entry.tool
        if call is None or call.status == "error" or not call.was_done:
            continue
        if call.kind == "read" and len(call.paths) == 1 and _DOCUMENT.search(call.paths[0]):
            path, shown = make_relative(call.paths[0], thread.cwd), clean_document(call.output)
            known = found.get(path, (0, ""))[1]
            # A part from the middle of what is known was only read again.
            if shown.strip()[:PART_KEY] not in known[1:]:
                found[path] = (entry.ref, shown)
        shell = call.command if call.kind == "shell" else ""
        named = [p for p in found if p[-3:] in shell and names_file(shell, p)]
        changed = find_change(shell) if named else ""
        for path in (p for p in named if changed and names_file(changed, p)):
            del found[path]  # Nobody saw what it holds now.
        for change in call.changes:
            path = make_relative(change.path, thread.cwd)
            if path in found and change.old:
                ref, text = found[path]
                found[path] = (ref, text.replace(change.old, change.new))
            elif change.kind == "create" and _DOCUMENT.search(path):
                found[path] = (entry.ref, change.new)
            elif change.kind == "delete":
                found.pop(path, None)
    return {path: (ref, text) for path, (ref, text) in found.items() if not is_foreign(text)}


def names_file(command: str, path: str) -> bool:
    """Return whether a command or an output names a file by its own name."""
    name = path.replace("\\", "/").rpartition("/")[2]
    if name not in command:
        return False
    return re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", command) is not None


def is_guide(path: str) -> bool:
    """Return whether a file says how work is done in a project."""
    return bool(_GUIDE.search(path)) and not _NO_GUIDE.search(path)


def clean_document(text: str) -> str:
    """Return a document that a tool showed without line numbers and without what a program adds."""
    return _REMINDER.sub("", _LINE_NUMBER.sub("", text))


def list_binding_lines(thread: Thread, max_line: int = MAX_LINE) -> list[BindingLine]:
    """Return the lines up to a length that bind in all guides, each once, in their order."""
    found: dict[str, BindingLine] = {}
    for path, (ref, text) in list_documents(thread).items():
        is_note = bool(_REFERENCE_NOTE.search(text[:MAX_FRONT]))
        blocks = split_blocks(_STRUCK.sub("", text), ref) if is_guide(path) and not is_note else []
        for block in blocks:
            for line in _list_lines(block, blocks):
                weight = weigh_line(line, block)
                if weight and MIN_LINE <= len(line) <= max_line:
                    key = re.sub(r"\W+", "", line.lower())[:80]
                    one = BindingLine(path, ref, block.heading, line, weight, len(found))
                    found.setdefault(key, one)
    return list(found.values())


def _list_lines(block: MessageBlock, blocks: Sequence[MessageBlock]) -> Iterator[str]:
    """Yield what may bind in a block: an item whole, a paragraph by sentence."""
    lead = blocks[block.lead].text if 0 <= block.lead < len(blocks) else ""
    hidden = block.heading if len(block.heading) > MAX_HEADING else ""
    if block.kind in ("code", "table") or _TURNS_ROUND.search(f"{block.heading}\n{lead}"):
        return
    if denies(f"{hidden} {lead}"):
        return  # Without what stands above it, the line would say the opposite.
    text = fold_whitespace(block.text)
    if block.kind == "item":
        yield text.lstrip("-*+• ")
        return
    yield from (s for s in split_sentences(text) if not s.endswith((":", "?")))


def weigh_line(line: str, block: MessageBlock) -> float:
    """Return how hard a line of a guide binds, 0 where it only tells."""
    heading = block.heading.replace("(", "") if block.kind == "item" else ""
    is_hard = bool(_HARD.search(line) or _HARD.search(heading))
    weight = 1.6 * is_hard or 0.7 * bool(_SOFT.search(line))
    weight += 0.4 * (block.kind == "item" and bool(_IMPERATIVE.match(line)))
    if not weight:
        return 0.0
    is_general = not block.heading or bool(_GENERAL.search(block.heading))
    return weight + 0.5 * is_general
