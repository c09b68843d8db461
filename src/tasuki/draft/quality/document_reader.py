"""Any handoff document of any author: its sections by synonyms, its lines, its goal.

Headings may be `# Title`, a bold line, `Title:`, a numbered title, CAPITALS, an underlined
line or a tag on a separate line; a known title with text after it (`Goal: fix it`) begins a
section too.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

from tasuki.draft.authors.answer import cut_refs
from tasuki.draft.brief import split_brief
from tasuki.draft.text.markdown import MarkdownLine, read_lines
from tasuki.draft.text.split import fold_whitespace
from tasuki.patterns import compile_pattern

MAX_LINE = 4_000
"""Characters of one line; a longer paragraph is cut into several."""
MAX_TITLE = 80
"""Characters of a title."""
MAX_TITLE_WORDS = 7
"""Words of a title without any mark of a title."""

TITLE_PATTERNS: dict[str, re.Pattern[str]] = {
    kind: compile_pattern(pattern, re.IGNORECASE)
    for kind, pattern in {
        "goal": r"\bgoals?\b|\bobjectives?\b|\bmission\b|\bintent\b|\bthe task\b|^(?:your )?task\b|\brequest$|^request"
        r"|\bziel|\baufgabe$|\bobjetivo|\bobjectif|目标|目標|ゴール",
        "next": r"\bnext\b|\bto-?\s?dos?\b|\bpending\b|\bremaining\b|\bopen (?:tasks?|items?|work)\b|\bplan\b|\bleft to do\b"
        r"|\bwhat(?:'s| is) left\b|\bfollow-?ups?\b|\bnächste|\boffene aufgaben|\bpróxim|\bprochaine|下一步|待办|次の|残り",
        "context": r"\bcontext\b|\bbackground\b|\bsummary\b|\boverview\b|\bfindings?\b|\bknowledge\b|\bconcepts?\b|\bproblem\b"
        r"|\bkey (?:points|insights|facts)\b|\bwork(?:ing|ed) on\b|\blearn|\bdiscover|\bwhat happened\b|\bhistory\b|\bkontext|\bhintergrund"
        r"|\bzusammenfassung|\bcontexto|\bcontexte|\bresumen|\brésumé|背景|上下文|概要|まとめ",
        "state": r"\bstat(?:e|us)\b|\bprogress\b|\bdone\b|\bcompleted?\b|\baccomplish|\bcurrent (?:work|task)|\bso far\b"
        r"|\brecent actions?\b|\bwork done\b|\bchanges made\b|\bwhat was (?:done|built|changed)\b|\bwhere things\b"
        r"|\bstand\b|\bfortschritt|\berledigt|\bestado|\bétat|状态|进度|状態|進捗|完了",
        "wishes": r"\bconstraints?\b|\bpreferences?\b|\buser\b|\brequirements?\b|\binstructions?\b|\brules?\b|\brulings?\b"
        r"|\bguidelines?\b|\bmust\b|\bdo not\b|\bdon'?ts?\b|\bconventions?\b|\bvorgaben|\bwünsche|\brestric|\bcontraint"
        r"|约束|要求|制約|要件",
        "decisions": r"\bdecisions?\b|\bdecided\b|\bchoices?\b|\brationale\b|\btrade-?offs?\b|\bdesign\b|\bapproach(?:es)?\b"
        r"|\bproblem solving\b|\bentscheid|\bdecision|\bdécision|决定|決定",
        "questions": r"\bquestions?\b|\brisks?\b|\bblock(?:ers?|ed)\b|\bissues?\b|\bunknowns?\b|\bgotchas?\b|\bcaveats?\b|\bfail"
        r"|\berrors?\b|\bconcerns?\b|\bpitfalls?\b|\bdead ends?\b|\bwarnings?\b|\boffene (?:fragen|punkte)|\brisik|\briesgo"
        r"|\bpreguntas?|\brisques?|问题|风险|課題|リスク",
        "files": r"\bfiles?\b|\bcode sections?\b|\bpaths?\b|\bmodules?\b|\bdateien\b|\barchivos\b|\bfichiers\b|文件|ファイル",
        "commands": r"\bcommands?\b|\btests?\b|\btesting\b|\bverif|\bvalidation\b|\bhow to (?:run|build|test|check)\b|\bchecks?\b"
        r"|\bbefehle\b|\bcomandos\b|\bcommandes\b|命令|コマンド",
        "disk": r"^changed since the thread$",
    }.items()
}
"""What the title of a section means; one title may mean several."""

_BOLD = compile_pattern(r"^\s{0,3}(?:\d{1,2}[.)]\s+)?(\*\*|__)([^*_]{2,}?):?\s*\1\s*:?\s*$")
_COLON = compile_pattern(r"^\s{0,3}(?:\d{1,2}[.)]\s+)?([^\W\d_][^:.!?`\"|]{2,78})[:：]\s*$")
_CAPITALS = compile_pattern(r"^\s{0,3}([A-Z][A-Z &/'-]{2,60}):?\s*$")
_TAG = compile_pattern(r"^\s*<(/?)([a-z][a-z_-]{2,40})>\s*(.*)$", re.IGNORECASE)
_GLUED = compile_pattern(r"#([^\W\d_].*)$")
_UNDERLINE = compile_pattern(r"^\s{0,3}(?:={3,}|-{3,})\s*$")
_LABEL = compile_pattern(
    r"^(\*\*|__)?([^\W\d_][^:*_`\"|.!?]{2,60}?)(?::\s*\1?|\1\s*:)(?:\s+|(?<=\*\*)\s*)(?=\S)(.+)$",
    re.DOTALL,
)
_RULE = compile_pattern(r"^[\s|:=+*_-]{3,}$")


class DocumentLine(Struct, frozen=True):
    """One list item, paragraph or line of code, on one line."""

    number: int
    """Of the line in the document that it begins on, from 1."""
    text: str
    kinds: frozenset[str] = frozenset()
    """Which section it is in: keys of `TITLES`."""
    refs: tuple[int, ...] = ()
    label: str = ""
    mark: str = ""
    """The content of its box: a blank, or x."""
    code: bool = False


class HandoffDocument(Struct, frozen=True):
    """A document ready to be judged. `goal` is empty if it has none."""

    text: str
    lines: tuple[DocumentLine, ...]
    kinds: frozenset[str]
    """Sections that it has, with at least one line in them."""
    goal: str = ""


def find_section_kinds(title: str) -> frozenset[str]:
    """Return what a title may mean; nothing if it is not known."""
    bare = fold_whitespace(re.sub(r"[_/]", " ", title.strip("*_#: ")))
    return frozenset(kind for kind, pattern in TITLE_PATTERNS.items() if pattern.search(bare))


def parse_handoff_document(text: str) -> HandoffDocument:
    """Parse a document; line ends of any kind, no error for any content."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    past, goal = split_brief(text)
    reader = _HandoffReader()
    for number, line in enumerate(read_lines(past.split("\n")), 1):
        reader.read_line(number, line)
    reader.end_section()
    lines, kinds = reader.lines, set(reader.seen)
    if goal.strip():
        kinds.add("goal")
        first = past.count("\n") + 2
        lines += [
            DocumentLine(first + n, part, frozenset(["goal"]))
            for n, row in enumerate(goal.split("\n"))
            for part in _split_parts(fold_whitespace(row))
        ]
    else:
        goal = "\n".join(line.text for line in lines if "goal" in line.kinds)
    return HandoffDocument(text=text, lines=tuple(lines), kinds=frozenset(kinds), goal=goal.strip())


class _HandoffReader:
    """Reads line by line; holds the open section and the paragraph that is being read."""

    def __init__(self) -> None:
        self.lines: list[DocumentLine] = []
        self.seen: set[str] = set()
        self._kinds: frozenset[str] = frozenset()
        self._level = 9
        self._parent: frozenset[str] = frozenset()
        self._open: list[str] = []
        self._first_number = 0
        self._mark = ""
        self._bullet = False
        self._lone_todo: DocumentLine | None = None
        """A TODO that is a title if something follows, else a placeholder."""

    def read_line(self, number: int, line: MarkdownLine) -> None:
        """Read the next line."""
        if line.kind == "code":
            self._add_line(DocumentLine(number, fold_whitespace(line.raw), self._kinds, code=True))
        elif line.kind in ("fence", "blank"):
            self.close_paragraph()
        elif len(line.raw) <= MAX_TITLE + 20 and self._read_heading(number, line):
            return
        elif len(line.raw) > MAX_TITLE or not _RULE.match(line.raw):
            self._read_text(number, line)

    def _read_heading(self, number: int, read: MarkdownLine) -> bool:
        """Return whether a line is a title, or underlines one; then its section begins."""
        line = read.raw
        if _UNDERLINE.match(line) and len(self._open) == 1 and not self._bullet:
            title = self._open[0]
            if _is_short(title) and (kinds := find_section_kinds(title)):
                self._open = []
                self._begin_section(kinds, 2)
                return True
        if (tag := _TAG.match(line)) and (kinds := find_section_kinds(tag[2])):
            self.close_paragraph()
            if not tag[1]:
                self._begin_section(kinds, 6)
            return not tag[3]
        if read.kind == "heading":
            self._begin_section(find_section_kinds(read.text), read.level)
            return True
        if (glued := _GLUED.match(line)) and (kinds := find_section_kinds(glued[1])):
            self._begin_section(kinds, 1)
            return True
        named = _BOLD.match(line) or _COLON.match(line) or _CAPITALS.match(line)
        title = (named[2] if named.re is _BOLD else named[1]) if named else ""
        if not title or not _is_short(title) or not (kinds := find_section_kinds(title)):
            return False
        before = self._kinds
        self._begin_section(kinds, 7)
        if line.strip() == "TODO":
            self._lone_todo = DocumentLine(number, "TODO", before)
        return True

    def _begin_section(self, kinds: frozenset[str], level: int) -> None:
        """Begin a section; one with an unknown title keeps the kind of its parent."""
        self.end_section()
        if level <= self._level:
            self._parent = kinds
        self._kinds = kinds or (self._parent if level > self._level else frozenset())
        if level <= self._level or not self._parent:
            self._level = level

    def _read_text(self, number: int, line: MarkdownLine) -> None:
        is_item = line.kind == "item"
        label = None if line.raw[0].isspace() else _LABEL.match(line.raw[: MAX_TITLE * 2])
        is_title = label and _is_short(label[2]) and find_section_kinds(label[2])
        text = line.text if is_item else line.raw.strip()
        if is_item or not self._open or is_title:  # `Status: done` behind another line.
            self.close_paragraph()
            self._first_number, self._bullet = number, is_item
            self._mark, self._open = line.box, [text]
        else:
            self._open.append(text)

    def end_section(self) -> None:
        """End the open section."""
        self.close_paragraph()
        if self._lone_todo:
            self._add_line(self._lone_todo)

    def close_paragraph(self) -> None:
        """End the paragraph that is being read."""
        text, self._open = fold_whitespace(" ".join(self._open)), []
        if not text:
            return
        text, refs = cut_refs(text)
        kinds, label = self._kinds, ""
        if match := _LABEL.match(text[: MAX_TITLE * 2]):
            label = match[2].strip()
            own = find_section_kinds(label) if _is_short(label) else frozenset()
            if own and (match[1] or not self._bullet):
                self.seen |= own
                kinds = own if not self._bullet else kinds | own
        for part in _split_parts(text):
            self._add_line(DocumentLine(self._first_number, part, kinds, refs, label, self._mark))

    def _add_line(self, line: DocumentLine) -> None:
        if line.text:
            self._lone_todo = None
            self.lines.append(line)
            self.seen |= line.kinds


def _is_short(title: str) -> bool:
    return len(title) <= MAX_TITLE and len(title.split()) <= MAX_TITLE_WORDS


def _split_parts(text: str) -> Iterator[str]:
    """Yield a text in pieces of limited length, cut at blanks if there are some."""
    while len(text) > MAX_LINE:
        end = text.rfind(" ", MAX_LINE // 2, MAX_LINE)
        end = end if end > 0 else MAX_LINE
        yield text[:end]
        text = text[end:].lstrip()
    if text:
        yield text
