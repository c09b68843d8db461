"""The Markdown shape: the seed's document, read section by section."""

import re

from msgspec import Struct

from tasuki.draft.authors.answer import (
    MAX_ITEMS,
    Answer,
    ChosenCommand,
    ChosenFile,
    Parsed,
    Said,
    StateOfWork,
    Unusable,
    check_length,
    cut_refs,
)

SECTIONS = (
    "Goal", "Constraints & Preferences", "Progress", "Key Decisions", "Critical Context", "Next Steps",
)  # fmt: skip

_HEADING = re.compile(r"^\s{0,3}(#{1,6})\s+(.*?)\s*#*\s*$|^\s{0,3}\*\*([^*]+?):?\*\*:?\s*$")
_BULLET = re.compile(r"^(\s*)(?:[-*+•]|\d{1,3}[.)])\s+(?:\[([ xX~-])\]\s+)?(.*)$")
_NONE = re.compile(r"^\W*(?:none|n/?a|nothing|-)?\W*$", re.IGNORECASE)
_DONE = re.compile(
    r"done|complete|finish|erledigt|fertig|hecho|terminé|完了|完成|已完成", re.IGNORECASE
)
_BLOCKED = re.compile(r"block|stuck|problem|issue|risk|question|offen", re.IGNORECASE)
_FAILED = re.compile(r"fail|tried|reject|dead end|did not work|didn't work", re.IGNORECASE)
_FENCE = re.compile(r"\s*(?:```|~~~)")
_RULED = frozenset("|:- \t")
HEADING = 200
"""Characters of a line up to which it can be a heading, or say that there is nothing."""
_FILE = re.compile(r"^`([^`]+)`\s*(?:[—–:-]+\s*(.*))?$")


class _Item(Struct):
    section: str
    under: str
    mark: str
    lines: list[str]

    @property
    def text(self) -> str:
        return " ".join(self.lines)


def parse(text: str) -> Parsed:
    """The Markdown shape from an answer. Raises Unusable if it has none of the sections."""
    check_length(text)
    reader = _Reader()
    for line in text.split("\n"):
        reader.line(line)
    seen, found = reader.seen, [item for item in reader.items if not _is_none(item.text)]
    items = found[: 6 * MAX_ITEMS]
    if not seen & set(SECTIONS):
        raise Unusable(f"it has none of the sections {', '.join(SECTIONS)}.")
    return Parsed(
        _answer(items),
        tuple(name for name in SECTIONS if name not in seen),
        next_steps=tuple(_said(i) for i in items if i.section == "Next Steps"),
    )


class _Reader:
    """Reads list items and paragraphs with the section and the sub-heading they stand under.

    A block of code belongs to the item before it, as code; a fence around everything is no block.
    """

    def __init__(self) -> None:
        self.seen: set[str] = set()
        self.items: list[_Item] = []
        self._section = self._under = ""
        self._level = 9
        self._open: _Item | None = None
        self._code: list[str] | None = None

    def line(self, line: str) -> None:
        """Take in the next line."""
        short = len(line) <= HEADING
        heading = _HEADING.match(line) if short else None
        title = (heading[2] or heading[3] or "") if heading else ""
        if self._code is not None and not known_section(title):
            self._code_line(line)
        elif heading:
            self._code, self._open = None, None
            self._heading(title, len(heading[1] or "######"))
        elif _FENCE.match(line):
            self._code = [] if self._open else None
        elif not (short and "---" in line and set(line) <= _RULED):
            self._text(line)

    def _code_line(self, line: str) -> None:
        if not _FENCE.match(line):
            assert self._code is not None
            self._code.append(line.strip())
            return
        if self._open and self._code:
            self._open.lines.append(f"`{' '.join(self._code)}`")
        self._code = None

    def _heading(self, title: str, depth: int) -> None:
        known = known_section(title)
        if not known and depth > self._level:
            self._under = title
            return
        self._section, self._under, self._level = known or title, "", depth
        self.seen |= {known} - {""}

    def _text(self, line: str) -> None:
        bullet = _BULLET.match(line)
        if bullet and (len(bullet[1]) < 2 or self._open is None):
            self._begin((bullet[2] or "").lower(), bullet[3])
        elif not line.strip():
            self._open = None
        elif self._open:  # A continued line, or a point below the item.
            self._open.lines.append(bullet[3] if bullet else line.strip())
        else:
            self._begin("", line)

    def _begin(self, mark: str, text: str) -> None:
        self._open = _Item(self._section, self._under, mark, [text.strip()])
        self.items.append(self._open)


def _is_none(text: str) -> bool:
    return len(text) <= HEADING and bool(_NONE.match(text))


def known_section(title: str) -> str:
    """The section that a heading means, also as `## 2. Key decisions:`."""
    bare = re.sub(r"[^a-z]+", " ", title.lower().replace("&", "and")).strip()
    for name in SECTIONS:
        wanted = re.sub(r"[^a-z]+", " ", name.lower().replace("&", "and")).strip()
        if bare == wanted or (bare in wanted.split(" and ") and len(bare) > 8):
            return name
    return ""


def _said(item: _Item) -> Said:
    text, refs = cut_refs(item.text)
    return Said(text, refs)


def _answer(items: list[_Item]) -> Answer:
    def of(section: str) -> list[_Item]:
        return [i for i in items if i.section == section]

    progress = of("Progress")
    done = [i for i in progress if i.mark == "x" or (i.under and _DONE.search(i.under))]
    blocked = [i for i in progress if i not in done and _BLOCKED.search(i.under)]
    context = of("Critical Context")
    failed = [i for i in context if _FAILED.search(i.under)]
    return Answer(
        relevant_files=tuple(_file(i) for i in items if "file" in _where(i)),
        relevant_commands=tuple(_command(i) for i in items if "command" in _where(i)),
        relevant_information=tuple(
            _said(i) for i in context if i not in failed and not _is_list(i)
        ),
        decisions=tuple(map(_said, of("Key Decisions"))),
        open_questions=tuple(map(_said, blocked)),
        failed_approaches=tuple(map(_said, failed)),
        constraints=tuple(map(_said, of("Constraints & Preferences"))),
        state=StateOfWork(
            done=tuple(map(_said, done)),
            in_progress=tuple(_said(i) for i in progress if i not in done and i not in blocked),
            not_wanted=(),
        ),
    )


def _where(item: _Item) -> str:
    """The heading that makes an item a file or a command; empty under the seed's sections."""
    return f"{item.under if item.section in SECTIONS else item.section} {item.under}".lower()


def _is_list(item: _Item) -> bool:
    return "file" in _where(item) or "command" in _where(item)


def _file(item: _Item) -> ChosenFile:
    text, refs = cut_refs(item.text)
    match = _FILE.match(text)
    path, reason = (match[1], match[2] or "") if match else _split(text)
    return ChosenFile(path, reason, refs)


def _command(item: _Item) -> ChosenCommand:
    found = _file(item)
    return ChosenCommand(found.file, found.reason, found.refs)


def _split(text: str) -> tuple[str, str]:
    head, _, tail = text.partition(" — ")
    return head.strip("`"), tail
