"""Command lines of POSIX shells and bash, split into simple commands."""

import re

from tasuki.shell.splitter import CommandSplitter

_PREFIXES = frozenset("if then elif else fi while until do done { } ! time coproc esac".split())
_VARIABLE = re.compile(r"[A-Za-z_]\w*(?:\[[^\]\s]*\])?\+?=")
_OPENERS = {
    "$((": ("sum", "sum"), "$(": ("code",), "<(": ("code",), ">(": ("code",), "(": ("code",),
    "${": ("value",), '"': ("text",), "'": ("literal",), "$'": ("ansi",), "`": ("ticks",),
}  # fmt: skip
"""What opens something nested, and as what."""
_CLOSERS = {
    "code": ")", "sum": ")", "value": "}", "text value": "}", "text": '"', "literal": "'", "ansi": "'", "ticks": "`",
}  # fmt: skip
_DOLLAR = r"\$\(\(|\$\(|\$\{"
_NESTED = {
    "code": re.compile(rf"\\.|['\"`]|\$'|{_DOLLAR}|[<>]\(|[()]|<<<|<<-?|\n|(?<![^\s;&|(])#[^\n]*", re.DOTALL),
    "sum": re.compile(rf"\\.|['\"`]|{_DOLLAR}|[()]", re.DOTALL),
    "value": re.compile(rf"\\.|['\"`]|\$'|{_DOLLAR}|\}}", re.DOTALL),
    "text value": re.compile(rf"\\.|[\"`]|{_DOLLAR}|\}}", re.DOTALL),
    "text": re.compile(rf"\\.|[\"`]|{_DOLLAR}", re.DOTALL),
    "literal": re.compile("'"),
    "ansi": re.compile(r"\\.|'", re.DOTALL),
    "ticks": re.compile(r"\\.|`", re.DOTALL),
}  # fmt: skip
"""Inside of each, what has a meaning."""
_OPENER = re.compile(rf"\$'|{_DOLLAR}|[<>]\(|['\"`]")
_RUN = re.compile(r"[^\s\\'\"`$<>|&;()]+")
_DELIMITER = re.compile(r"[ \t]*((?:'[^'\n]*'|\"[^\"\n]*\"|\\.|[^\s'\"\\|&;()<>])+)")
_NAME = re.compile(r"[^\s='\"$`]+\s*")
_FUNCTION = re.compile(r"[ \t]+[^\s(){};|&]+[ \t]*(?:\([ \t]*\))?")
_BLANK = re.compile(r"(?:[ \t]|\\\n)*")
_BLANK_LINES = re.compile(r"(?:[ \t\n]|\\\n|(?<=\s)#[^\n]*)*")
_BAR = re.compile(r"(?:[ \t|]|\\\n)*")


class PosixSplitter(CommandSplitter):
    """Of POSIX shells and bash."""

    token = re.compile(
        r"(?P<blank>[ \t\r\f\v]+|\\\n)|(?P<newline>\n)"
        r"|(?P<redirection>(?:\d+|\{\w+\})?(?P<kind>&>>?|>>|>\||<>|>&|<&|<<<|<<-?|[<>](?!\()))"
        r"|(?P<operator>&&|\|\||;;&|;;|;&|\|&|[;|&])"
        r"|(?P<comment>\#[^\n]*)|(?P<open>\()|(?P<close>\))"
    )

    def __init__(self, line: str) -> None:
        super().__init__(line)
        self.groups: list[str] = []
        """What is open around the command at hand: `(` or `case`."""
        self.awaited: list[tuple[str, bool]] = []
        """Delimiters of here-documents that begin at the next newline; whether tabs are taken off."""
        self.holes: list[tuple[int, int]] = []
        """What of the word at hand is no part of its text."""
        self.closed: dict[int, int] | None = None

    def take_newline(self, match: re.Match[str]) -> None:
        self.at = self.skip_documents(self.at)
        self.end_command("\n")

    def take_redirection(self, match: re.Match[str]) -> None:
        if match["kind"] in ("<<", "<<-"):
            self.at = self.await_document(self.at, match["kind"])
            return
        self.skip(_BLANK)
        self.read_word()

    def take_operator(self, match: re.Match[str]) -> None:
        ends_branch = match[0] in (";;", ";&", ";;&")
        self.end_command(";" if ends_branch else match[0])
        if ends_branch and self.groups[-1:] == ["case"]:
            self.skip_pattern()

    def take_open(self, match: re.Match[str]) -> None:
        begin = match.start()
        if self.at_start and (end := self.end_of_sum(begin)):
            self.at = end
            self.take_word(self.line[begin:end])
        elif self.at_start:
            self.groups.append("(")
        elif self.line.startswith(")", self.at) and self.is_function():
            self.at += 1
            self.parts.clear()
        else:
            self.at = self.skip_nested(self.at, "(")
            self.take_word(self.without_holes(begin))

    def is_function(self) -> bool:
        """Whether the command at hand, before `()`, is the name of a function."""
        return len(self.parts) <= 2 and bool(_NAME.fullmatch("".join(self.parts)))

    def take_close(self, match: re.Match[str]) -> None:
        if self.groups[-1:] == ["("]:
            self.groups.pop()
            self.end_command(";")
        else:
            self.take_word(")")

    def take_word(self, word: str) -> None:
        if self.in_test:
            self.in_test = word != "]]"
        elif self.at_start and word in _PREFIXES:
            if word == "esac" and self.groups[-1:] == ["case"]:
                self.groups.pop()
            return
        elif self.at_start:
            self.in_test = word == "[["
            self.in_head = word in ("for", "select")
            if word == "function" and (name := _FUNCTION.match(self.line, self.at)):
                self.at = name.end()
                return
            if word == "case":
                self.skip_case()
                return
        super().take_word(word)

    def skip_case(self) -> None:
        """The head of a case up to its first command; without `in` it is dropped as any head."""
        self.skip(_BLANK_LINES)
        self.read_word()
        self.skip(_BLANK_LINES)
        if self.read_word() == "in":
            self.groups.append("case")
            self.skip_pattern()
        else:
            self.in_head = True

    def skip_pattern(self) -> None:
        """What stands before the commands of one branch, or the end of the case."""
        self.skip(_BLANK_LINES)
        if self.line.startswith("(", self.at):
            self.at += 1
        while word := self.read_word():
            if word == "esac":
                self.groups.pop()
                return
            self.skip(_BAR)
        if self.line.startswith(")", self.at):
            self.at += 1

    def skip(self, what: re.Pattern[str]) -> None:
        match = what.match(self.line, self.at)
        self.at = match.end() if match else self.at

    def end_of_sum(self, begin: int) -> int:
        """Where `((…))` ends that begins here; 0 if it is none but groups in groups."""
        if not self.line.startswith("((", begin):
            return 0
        if self.closed is None:
            self.closed = _match_brackets(self.line)
        end = self.closed.get(begin, 0)
        return end + 1 if end and self.closed.get(begin + 1) == end - 1 else 0

    def read_word(self) -> str:
        """The word that begins here, as it stands there; empty if there is none."""
        line, begin = self.line, self.at
        while self.at < len(line):
            if match := _RUN.match(line, self.at):
                self.at = match.end()
            elif match := _OPENER.match(line, self.at):
                self.at = self.skip_nested(match.end(), match[0])
            elif line.startswith("\\\n", self.at):
                self.holes.append((self.at, self.at + 2))
                self.at += 2
            elif line[self.at] == "\\":
                self.at = min(self.at + 2, len(line))
            elif line[self.at] == "$":
                self.at += 1
            elif line[self.at] == "(" and self.at > begin and not line.startswith("()", self.at):
                self.at = self.skip_nested(self.at + 1, "(")
            else:
                break
        return self.without_holes(begin)

    def without_holes(self, begin: int) -> str:
        """What was read since a place."""
        kept = []
        for hole, end in self.holes:
            kept.append(self.line[begin:hole])
            begin = end
        self.holes.clear()
        return "".join((*kept, self.line[begin : self.at]))

    def skip_nested(self, at: int, opener: str) -> int:
        """Where something nested ends whose content begins here; the line's end if it never does."""
        stack = list(_OPENERS[opener])
        while stack:
            match = _NESTED[stack[-1]].search(self.line, at)
            if match is None:
                return len(self.line)
            mark, at = match[0], match.end()
            if mark == _CLOSERS[stack[-1]]:
                stack.pop()
            elif mark == "(":
                stack.append(stack[-1])
            elif mark == "${" and stack[-1].startswith("text"):
                stack.append("text value")
            elif mark in _OPENERS:
                stack.extend(_OPENERS[mark])
            else:
                at = self.skip_other(mark, at, stack[-1])
        return at

    def skip_other(self, mark: str, at: int, inside: str) -> int:
        """What is nested but opens and closes nothing: continued lines and here-documents."""
        if mark == "\\\n":
            self.holes.append((at - 2, at))
        elif mark in ("<<", "<<-"):
            return self.await_document(at, mark)
        elif mark == "\n":
            end = self.skip_documents(at)
            self.holes.append((at, end))
            return end
        return at

    def await_document(self, at: int, operator: str) -> int:
        """Note the delimiter of a here-document, and return where it ends."""
        match = _DELIMITER.match(self.line, at)
        if match is None:
            return at
        self.awaited.append((re.sub(r"['\"\\]", "", match[1]), operator == "<<-"))
        return match.end()

    def skip_documents(self, at: int) -> int:
        """Where the here-documents end that begin here; one without its delimiter takes the rest."""
        for delimiter, tabs in self.awaited:
            while at < len(self.line):
                end = self.line.find("\n", at)
                end = len(self.line) if end < 0 else end
                one, at = self.line[at:end], min(end + 1, len(self.line))
                if (one.lstrip("\t") if tabs else one) == delimiter:
                    break
        self.awaited.clear()
        return at


def _match_brackets(line: str) -> dict[int, int]:
    """Where each round bracket is closed, whatever stands between."""
    open_at: list[int] = []
    closed = {}
    for match in re.finditer(r"[()]", line):
        if match[0] == "(":
            open_at.append(match.start())
        elif open_at:
            closed[open_at.pop()] = match.start()
    return closed


def strip_variables(text: str) -> str:
    """A simple command without the variables that it sets for itself."""
    words = PosixSplitter(text)
    while match := _VARIABLE.match(text, words.at):
        words.at = match.end()
        words.read_word()
        words.at = len(text) - len(text[words.at :].lstrip())
    return text[words.at :]
