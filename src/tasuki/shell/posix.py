"""Command lines of POSIX shells and bash, and the splitter that all shells share."""

import re

from msgspec import Struct
from msgspec.structs import replace

from tasuki.patterns import compile_pattern


class SimpleCommand(Struct, frozen=True):
    """One program with its arguments, as in a command line."""

    text: str
    """The command on one line.

    Each white space is one blank; redirections, here-documents and comments are left out.
    """
    operator: str = ""
    """What is before it: `&&`, `||`, `;`, `|`, `|&`, `&`, a newline, or nothing."""
    is_negated: bool = False
    """A `!` before it turns its exit code around."""
    in_block: bool = False
    """It is inside an `if`, a loop, a `case` or a function: it may not run, or run often."""
    in_loop: bool = False
    in_background: bool = False
    """Nothing waits for its end: a `&` follows."""
    output_to: str = ""
    """The file into which it prints, as in the line."""
    errors_to: str = ""
    """The file into which it prints its errors."""
    source: str = ""
    """The command with its line breaks; empty where it has none."""

    @property
    def is_piped(self) -> bool:
        """Whether it reads the output of the command before it."""
        return self.operator in ("|", "|&")


class CommandSplitter:
    """A line in progress: the commands found, the current command, and the reading position."""

    token: re.Pattern[str]

    def __init__(self, line: str) -> None:
        self.line, self.position = line, 0
        self.commands: list[SimpleCommand] = []
        self.parts: list[str] = []
        self.operator = ""
        self.in_head = False
        """Whether this is the head of a loop or function, which is dropped."""
        self.in_test = False
        """Whether this is inside `[[ … ]]`, where operators separate nothing."""
        self.is_negated = False
        self.output_to = self.errors_to = ""
        self.loops = 0
        self.blocks = 0
        """How many blocks of an `if`, a loop, a `case` or a function are open."""
        self.group_start: int | None = None
        """Number of the first command of the group that was closed just now."""

    @property
    def at_start(self) -> bool:
        """Whether the next word is the first of its command."""
        return not (self.parts or self.in_head)

    def split_line(self) -> list[SimpleCommand]:
        """Read the whole line and return its commands."""
        while self.position < len(self.line):
            match = self.token.match(self.line, self.position)
            if match is None:
                begin, word = self.position, self.read_word()
                self.take_word(word if self.position > begin else self.read_character())
            elif self.in_test and match.lastgroup != "blank":
                self.parts.append(match[0])
                self.position = match.end()
            else:
                self.position = match.end()
                getattr(self, f"take_{match.lastgroup}")(match)
        self.end_command("")
        return self.commands

    def end_command(self, operator: str) -> None:
        """Store the current command. A newline that follows an operator does not replace it."""
        source = "".join(self.parts).strip()
        text = " ".join(source.split())
        if operator == "&" and not text and self.group_start is not None:
            for n in range(self.group_start, len(self.commands)):
                self.commands[n] = replace(self.commands[n], in_background=True)
        if text:
            found = SimpleCommand(
                text,
                self.operator,
                self.is_negated,
                self.blocks > 0,
                self.loops > 0,
                operator == "&",
                self.output_to,
                self.errors_to,
                source if "\n" in source else "",
            )
            self.commands.append(found)
            self.is_negated, self.output_to, self.errors_to = False, "", ""
        if text or operator != "\n":
            self.group_start = None
        if text or self.in_head or operator != "\n" or self.operator in (";", "&"):
            self.operator = operator
        self.parts.clear()
        self.in_head = self.in_test = False

    def take_blank(self, match: re.Match[str]) -> None:
        if self.parts and match[0][0] in " \t":
            self.parts.append(" ")

    def take_newline(self, match: re.Match[str]) -> None:
        self.end_command("\n")

    def take_comment(self, match: re.Match[str]) -> None:
        """Ignore it."""

    def take_word(self, word: str) -> None:
        if not self.in_head:
            self.parts.append(word)

    def read_word(self) -> str:
        raise NotImplementedError

    def read_character(self) -> str:
        """Read one character that begins no word and is no operator here."""
        self.position += 1
        return self.line[self.position - 1 : self.position]


_PREFIXES = frozenset("if then elif else fi while until do done { } ! time coproc esac".split())
_VARIABLE = compile_pattern(r"[A-Za-z_]\w*(?:\[[^\]\s]*\])?\+?=")
_OPENERS = {
    "$((": ("sum", "sum"), "$(": ("code",), "<(": ("code",), ">(": ("code",), "(": ("code",),
    "${": ("value",), '"': ("text",), "'": ("literal",), "$'": ("ansi",), "`": ("ticks",),
}  # fmt: skip
"""What opens something nested, and its kind."""
_CLOSERS = {
    "code": ")", "sum": ")", "value": "}", "text value": "}", "text": '"', "literal": "'", "ansi": "'", "ticks": "`",
}  # fmt: skip
_DOLLAR = r"\$\(\(|\$\(|\$\{"
_NESTED = {
    "code": compile_pattern(rf"\\.|['\"`]|\$'|{_DOLLAR}|[<>]\(|[()]|<<<|<<-?|\n|(?<![^\s;&|(])#[^\n]*", re.DOTALL),
    "sum": compile_pattern(rf"\\.|['\"`]|{_DOLLAR}|[()]", re.DOTALL),
    "value": compile_pattern(rf"\\.|['\"`]|\$'|{_DOLLAR}|\}}", re.DOTALL),
    "text value": compile_pattern(rf"\\.|[\"`]|{_DOLLAR}|\}}", re.DOTALL),
    "text": compile_pattern(rf"\\.|[\"`]|{_DOLLAR}", re.DOTALL),
    "literal": compile_pattern("'"),
    "ansi": compile_pattern(r"\\.|'", re.DOTALL),
    "ticks": compile_pattern(r"\\.|`", re.DOTALL),
}  # fmt: skip
"""What has a meaning inside each kind."""
_OPENER = compile_pattern(rf"\$'|{_DOLLAR}|[<>]\(|['\"`]")
_RUN = compile_pattern(r"[^\s\\'\"`$<>|&;()]+")
_BLANKS = " \t\n"
SPECIAL = compile_pattern(r"[\\'\"`$<>|&;()#{}\[\]\n\r]")
"""What may make more of a line than words between blanks."""
_DELIMITER = compile_pattern(r"[ \t]*((?:'[^'\n]*'|\"[^\"\n]*\"|\\.|[^\s'\"\\|&;()<>])+)")
_NAME = compile_pattern(r"[^\s='\"$`]+\s*")
_FUNCTION = compile_pattern(r"[ \t]+[^\s(){};|&]+[ \t]*(?:\([ \t]*\))?")
_BLANK = compile_pattern(r"(?:[ \t]|\\\n)*")
_BLANK_LINES = compile_pattern(r"(?:[ \t\n]|\\\n|(?<=\s)#[^\n]*)*")
_BAR = compile_pattern(r"(?:[ \t|]|\\\n)*")


class PosixSplitter(CommandSplitter):
    """The splitter of POSIX shells and bash."""

    token = compile_pattern(
        r"(?P<blank>[ \t\r\f\v]+|\\\n)|(?P<newline>\n)"
        r"|(?P<redirection>(?:\d+|\{\w+\})?(?P<kind>&>>?|>>|>\||<>|>&|<&|<<<|<<-?|[<>](?!\()))"
        r"|(?P<operator>&&|\|\||;;&|;;|;&|\|&|[;|&])"
        r"|(?P<comment>\#[^\n]*)|(?P<open>\()|(?P<close>\))"
    )

    def __init__(self, line: str) -> None:
        super().__init__(line)
        self.groups: list[str] = []
        """What is open around the current command: `(` or `case`."""
        self.starts: list[tuple[int, bool]] = []
        """Of each open group and block: the number of its first command, and whether it is a function."""
        self.begins_function = False
        self.pending_documents: list[tuple[str, bool]] = []
        """Here-documents that begin at the next newline.

        Each is a delimiter, and whether tabs are removed.
        """
        self.holes: list[tuple[int, int]] = []
        """Parts of the current word that do not belong to its text."""
        self.closed: dict[int, int] | None = None

    def take_newline(self, match: re.Match[str]) -> None:
        self.position = self.skip_documents(self.position)
        self.end_command("\n")

    def take_redirection(self, match: re.Match[str]) -> None:
        if match["kind"] in ("<<", "<<-"):
            self.position = self.await_document(self.position, match["kind"])
            return
        self.skip_match(_BLANK)
        word = self.read_word()
        if match["kind"] in ("<", "<&", "<<<") or word in ("1", "2"):
            return
        if match[0][0] == "2" or match["kind"].startswith("&"):
            self.errors_to = word
        if match[0][0] not in "23456789":
            self.output_to = word.strip("\"'")
            if self.group_start is not None:  # It is that of the group before it.
                for n in range(self.group_start, len(self.commands)):
                    target = self.commands[n].output_to or self.output_to
                    self.commands[n] = replace(self.commands[n], output_to=target)
                self.output_to = ""

    def take_operator(self, match: re.Match[str]) -> None:
        ends_branch = match[0] in (";;", ";&", ";;&")
        self.end_command(";" if ends_branch else match[0])
        if ends_branch and self.groups[-1:] == ["case"]:
            self.skip_pattern()

    def take_open(self, match: re.Match[str]) -> None:
        begin = match.start()
        if self.at_start and (end := self.find_sum_end(begin)):
            self.position = end
            self.take_word(self.line[begin:end])
        elif self.at_start:
            self.groups.append("(")
            self.open_group()
        elif self.line.startswith(")", self.position) and self.is_function():
            self.position += 1
            self.parts.clear()
            self.begins_function = True
        else:
            self.position = self.skip_nested(self.position, "(")
            self.take_word(self.join_without_holes(begin))

    def is_function(self) -> bool:
        """Tell whether the current command, before `()`, is the name of a function."""
        return len(self.parts) <= 2 and bool(_NAME.fullmatch("".join(self.parts)))

    def take_close(self, match: re.Match[str]) -> None:
        if self.groups[-1:] == ["("]:
            self.groups.pop()
            self.end_command(";")
            self.close_group()
        else:
            self.take_word(")")

    def open_group(self) -> None:
        self.blocks += self.begins_function
        self.starts.append((len(self.commands), self.begins_function))
        self.begins_function = False

    def close_group(self) -> None:
        if self.starts:
            self.group_start, is_function = self.starts.pop()
            self.blocks -= is_function

    def take_word(self, word: str) -> None:
        if self.in_test:
            self.in_test = word != "]]"
        elif self.at_start and word in _PREFIXES:
            if word == "esac" and self.groups[-1:] == ["case"]:
                self.groups.pop()
            self.is_negated ^= word == "!"
            self.blocks += word in ("if", "while", "until")
            self.blocks -= self.blocks > 0 and word in ("fi", "done", "esac")
            self.loops += word in ("while", "until")
            self.loops -= self.loops > 0 and word == "done"
            if word in ("{", "if", "while", "until"):
                self.open_group()
            elif word in ("}", "fi", "done", "esac"):
                self.close_group()
            return
        elif self.at_start:
            self.in_test = word == "[["
            self.in_head = word in ("for", "select")
            if word in ("for", "select", "case"):
                self.blocks += 1
                self.loops += word != "case"
                self.open_group()
            if word == "function" and (name := _FUNCTION.match(self.line, self.position)):
                self.position = name.end()
                self.begins_function = True
                return
            if word == "case":
                self.skip_case()
                return
        super().take_word(word)

    def skip_case(self) -> None:
        """Skip the head of a case up to its first command.

        Without `in` it is dropped like any head.
        """
        self.skip_match(_BLANK_LINES)
        self.read_word()
        self.skip_match(_BLANK_LINES)
        if self.read_word() == "in":
            self.groups.append("case")
            self.skip_pattern()
        else:
            self.in_head = True

    def skip_pattern(self) -> None:
        """Skip what is before the commands of one branch, or the end of the case."""
        self.skip_match(_BLANK_LINES)
        if self.line.startswith("(", self.position):
            self.position += 1
        while word := self.read_word():
            if word == "esac":
                self.groups.pop()
                self.blocks -= self.blocks > 0
                self.close_group()
                return
            self.skip_match(_BAR)
        if self.line.startswith(")", self.position):
            self.position += 1

    def skip_match(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self.line, self.position)
        self.position = match.end() if match else self.position

    def find_sum_end(self, begin: int) -> int:
        """Find where `((…))` ends that begins here; 0 if it is only nested groups."""
        if not self.line.startswith("((", begin):
            return 0
        if self.closed is None:
            self.closed = _match_brackets(self.line)
        end = self.closed.get(begin, 0)
        return end + 1 if end and self.closed.get(begin + 1) == end - 1 else 0

    def read_word(self) -> str:
        """Read the word that begins here, unchanged; empty if there is none."""
        line, begin = self.line, self.position
        while self.position < len(line):
            if match := _RUN.match(line, self.position):
                self.position = match.end()
                if line[self.position : self.position + 1] in _BLANKS:
                    break
            elif match := _OPENER.match(line, self.position):
                self.position = self.skip_nested(match.end(), match[0])
            elif line.startswith("\\\n", self.position):
                self.holes.append((self.position, self.position + 2))
                self.position += 2
            elif line[self.position] == "\\":
                self.position = min(self.position + 2, len(line))
            elif line[self.position] == "$":
                self.position += 1
            elif (
                line[self.position] == "("
                and self.position > begin
                and not line.startswith("()", self.position)
            ):
                self.position = self.skip_nested(self.position + 1, "(")
            else:
                break
        return self.join_without_holes(begin)

    def join_without_holes(self, begin: int) -> str:
        """Return what was read since a position, without the holes."""
        if not self.holes:
            return self.line[begin : self.position]
        pieces = []
        for hole, end in self.holes:
            pieces.append(self.line[begin:hole])
            begin = end
        self.holes.clear()
        return "".join((*pieces, self.line[begin : self.position]))

    def skip_nested(self, index: int, opener: str) -> int:
        """Find the end of something nested whose content begins here.

        It is the line's end if it is never closed.
        """
        stack = list(_OPENERS[opener])
        while stack:
            match = _NESTED[stack[-1]].search(self.line, index)
            if match is None:
                return len(self.line)
            mark, index = match[0], match.end()
            if mark == _CLOSERS[stack[-1]]:
                stack.pop()
            elif mark == "(":
                stack.append(stack[-1])
            elif mark == "${" and stack[-1].startswith("text"):
                stack.append("text value")
            elif mark in _OPENERS:
                stack.extend(_OPENERS[mark])
            else:
                index = self.skip_inner(mark, index, stack[-1])
        return index

    def skip_inner(self, mark: str, index: int, inside: str) -> int:
        """Skip what is nested but opens and closes nothing: continued lines and here-documents."""
        if mark == "\\\n":
            self.holes.append((index - 2, index))
        elif mark in ("<<", "<<-"):
            return self.await_document(index, mark)
        elif mark == "\n":
            end = self.skip_documents(index)
            self.holes.append((index, end))
            return end
        return index

    def await_document(self, index: int, operator: str) -> int:
        """Note the delimiter of a here-document, and return where the delimiter ends."""
        match = _DELIMITER.match(self.line, index)
        if match is None:
            return index
        self.pending_documents.append((re.sub(r"['\"\\]", "", match[1]), operator == "<<-"))
        return match.end()

    def skip_documents(self, index: int) -> int:
        """Find the end of the here-documents that begin here.

        One without its delimiter takes the rest.
        """
        for delimiter, tabs in self.pending_documents:
            while index < len(self.line):
                end = self.line.find("\n", index)
                end = len(self.line) if end < 0 else end
                one, index = self.line[index:end], min(end + 1, len(self.line))
                if (one.lstrip("\t") if tabs else one) == delimiter:
                    break
        self.pending_documents.clear()
        return index


def _match_brackets(line: str) -> dict[int, int]:
    """Find where each round bracket is closed, whatever is between."""
    open_at: list[int] = []
    closed = {}
    for match in re.finditer(r"[()]", line):
        if match[0] == "(":
            open_at.append(match.start())
        elif open_at:
            closed[open_at.pop()] = match.start()
    return closed


def split_words(text: str) -> list[str]:
    """Split a simple command into its words, with their quotes."""
    if not SPECIAL.search(text):
        return text.split()
    words, splitter = [], PosixSplitter(text)
    while splitter.position < len(text):
        word = splitter.read_word() or splitter.read_character()
        if not word.isspace():
            words.append(word)
    return words


def strip_variables(text: str) -> str:
    """Return a simple command without the variables that it sets for itself."""
    if not _VARIABLE.match(text):
        return text
    words = PosixSplitter(text)
    while match := _VARIABLE.match(text, words.position):
        words.position = match.end()
        words.read_word()
        words.position = len(text) - len(text[words.position :].lstrip())
    return text[words.position :]
