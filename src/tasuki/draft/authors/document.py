"""The Markdown shape: the seed's document, read section by section."""

import re
from collections.abc import Iterable

from msgspec import Struct

from tasuki.draft.authors.answer import (
    MAX_ITEMS,
    Answer,
    ChosenCommand,
    ChosenFile,
    CitedSentence,
    ParsedAnswer,
    StateOfWork,
    UnusableAnswer,
    check_length,
    cut_refs,
)
from tasuki.draft.text.markdown import MarkdownLine, read_line
from tasuki.patterns import compile_pattern

SECTIONS = (
    "Goal", "Constraints & Preferences", "Progress", "Key Decisions", "Critical Context", "Next Steps",
)  # fmt: skip

_NONE = compile_pattern(r"^\W*(?:none|n/?a|nothing|-)?\W*$", re.IGNORECASE)
_DONE = compile_pattern(
    r"done|complete|finish|erledigt|fertig|hecho|terminé|完了|完成|已完成", re.IGNORECASE
)
_BLOCKED = compile_pattern(r"block|stuck|problem|issue|risk|question|offen", re.IGNORECASE)
_FAILED = compile_pattern(r"fail|tried|reject|dead end|did not work|didn't work", re.IGNORECASE)
_RULED = frozenset("|:- \t")
MAX_HEADING = 200
"""Characters of a line up to which it can be a heading, or say that there is nothing."""
_FILE = compile_pattern(r"^`([^`]+)`\s*(?:[—–:-]+\s*(.*))?$")


class _DocumentItem(Struct):
    section: str
    under: str
    mark: str
    lines: list[str]

    @property
    def text(self) -> str:
        return " ".join(self.lines)


def parse_document(text: str) -> ParsedAnswer:
    """Parse the Markdown shape of an answer. Raises UnusableAnswer if it has no known section."""
    check_length(text)
    reader = _DocumentReader()
    for line in text.split("\n"):
        reader.read_line(line)
    seen = reader.seen
    found = [i for i in reader.items if len(i.text) > MAX_HEADING or not _NONE.match(i.text)]
    items = found[: 6 * MAX_ITEMS]
    if not seen & set(SECTIONS):
        raise UnusableAnswer(f"it has none of the sections {', '.join(SECTIONS)}.")
    missing = tuple(name for name in SECTIONS if name not in seen)
    return ParsedAnswer(_build_answer(items), missing)


class _DocumentReader:
    """Reads list items and paragraphs with their section and sub-heading.

    A block of code belongs to the item before it, as code; a fence around everything is no
    block.
    """

    def __init__(self) -> None:
        self.seen: set[str] = set()
        self.items: list[_DocumentItem] = []
        self._section = self._under = ""
        self._level = 9
        self._open: _DocumentItem | None = None
        self._code: list[str] | None = None

    def read_line(self, raw: str) -> None:
        """Read the next line."""
        line = read_line(raw)
        is_short = len(raw) <= MAX_HEADING
        is_heading = is_short and line.kind in ("heading", "bold")
        if self._code is not None and not (is_heading and find_section(line.text)):
            if line.kind != "fence":
                self._code.append(raw.strip())
                return
            if self._open and self._code:
                self._open.lines.append(f"`{' '.join(self._code)}`")
            self._code = None
        elif is_heading:
            self._code, self._open = None, None
            self._read_heading(line.text, line.level if line.kind == "heading" else 6)
        elif line.kind == "fence":
            self._code = [] if self._open else None
        elif not (is_short and "---" in raw and set(raw) <= _RULED):
            self._read_text(line)

    def _read_heading(self, title: str, depth: int) -> None:
        section = find_section(title)
        if not section and depth > self._level:
            self._under = title
            return
        self._section, self._under, self._level = section or title, "", depth
        self.seen |= {section} - {""}

    def _read_text(self, line: MarkdownLine) -> None:
        is_item = line.kind == "item"
        if is_item and (line.level < 2 or self._open is None):
            self._begin_item(line.box, line.text)
        elif line.kind == "blank":
            self._open = None
        elif self._open:  # A continued line, or a point below the item.
            self._open.lines.append(line.text if is_item else line.raw.strip())
        else:
            self._begin_item("", line.raw)

    def _begin_item(self, mark: str, text: str) -> None:
        self._open = _DocumentItem(self._section, self._under, mark, [text.strip()])
        self.items.append(self._open)


def _build_sentences(items: Iterable[_DocumentItem]) -> tuple[CitedSentence, ...]:
    return tuple(CitedSentence(*cut_refs(item.text)) for item in items)


def find_section(title: str) -> str:
    """Return the section that a heading means, also as `## 2. Key decisions:`."""
    bare = re.sub(r"[^a-z]+", " ", title.lower().replace("&", "and")).strip()
    for name in SECTIONS:
        wanted = re.sub(r"[^a-z]+", " ", name.lower().replace("&", "and")).strip()
        if bare == wanted or (bare in wanted.split(" and ") and len(bare) > 8):
            return name
    return ""


def _build_answer(items: list[_DocumentItem]) -> Answer:
    def select_section(section: str) -> list[_DocumentItem]:
        return [i for i in items if i.section == section]

    progress = select_section("Progress")
    done = [i for i in progress if i.mark == "x" or (i.under and _DONE.search(i.under))]
    blocked = [i for i in progress if i not in done and _BLOCKED.search(i.under)]
    under_way = [i for i in progress if i not in done and i not in blocked]
    files = [i for i in items if "file" in _join_headings(i)]
    commands = [i for i in items if "command" in _join_headings(i)]
    context = select_section("Critical Context")
    failed = [i for i in context if _FAILED.search(i.under)]
    rest = [i for i in context if i not in failed and i not in files and i not in commands]
    chosen = map(_build_file, commands)
    return Answer(
        relevant_files=tuple(map(_build_file, files)),
        relevant_commands=tuple(ChosenCommand(c.file, c.reason, c.refs) for c in chosen),
        relevant_information=_build_sentences(rest),
        decisions=_build_sentences(select_section("Key Decisions")),
        open_questions=_build_sentences(blocked),
        failed_approaches=_build_sentences(failed),
        constraints=_build_sentences(select_section("Constraints & Preferences")),
        state=StateOfWork(
            done=_build_sentences(done), in_progress=_build_sentences(under_way), not_wanted=()
        ),
        next_steps=_build_sentences(select_section("Next Steps")),
    )


def _join_headings(item: _DocumentItem) -> str:
    """Return the heading that makes an item a file or a command. It is empty under the seed's sections."""
    return f"{item.under if item.section in SECTIONS else item.section} {item.under}".lower()


def _build_file(item: _DocumentItem) -> ChosenFile:
    text, refs = cut_refs(item.text)
    head, _, tail = text.partition(" — ")
    match = _FILE.match(text)
    path, reason = (match[1], match[2] or "") if match else (head.strip("`"), tail)
    return ChosenFile(path, reason, refs)
