"""What the splitters of all shells share: the commands found, and the current one."""

import re

from msgspec import Struct


class SimpleCommand(Struct, frozen=True):
    """One program with its arguments, as in a command line."""

    text: str
    """The command on one line.

    Each white space is one blank; redirections, here-documents and comments are left out.
    """
    operator: str = ""
    """What is before it: `&&`, `||`, `;`, `|`, `|&`, `&`, a newline, or nothing."""

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
        """Store the current command.

        A newline that follows an operator does not replace it.
        """
        text = " ".join("".join(self.parts).split())
        if text:
            self.commands.append(SimpleCommand(text, self.operator))
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
