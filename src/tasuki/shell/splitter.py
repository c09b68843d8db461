"""What the splitters of all shells share: the commands found, and the one at hand."""

import re

from msgspec import Struct


class SimpleCommand(Struct, frozen=True):
    """One program with its arguments, as it stands in a command line."""

    text: str
    """On one line, each white space one blank, without redirections, here-documents and comments."""
    operator: str = ""
    """What stands before it: `&&`, `||`, `;`, `|`, `|&`, `&`, a newline, or nothing."""

    @property
    def piped(self) -> bool:
        """Whether it reads the output of the command before it."""
        return self.operator in ("|", "|&")


class CommandSplitter:
    """A line under way: what was found, the command at hand, and how far it is read."""

    token: re.Pattern[str]

    def __init__(self, line: str) -> None:
        self.line, self.at = line, 0
        self.found: list[SimpleCommand] = []
        self.parts: list[str] = []
        self.operator = ""
        self.in_head = False
        """Whether this is the head of a loop or function, which is dropped."""
        self.in_test = False
        """Whether this is inside of `[[ … ]]`, where operators separate nothing."""

    @property
    def at_start(self) -> bool:
        """Whether the next word is the first of its command."""
        return not (self.parts or self.in_head)

    def split(self) -> list[SimpleCommand]:
        """Read the whole line."""
        while self.at < len(self.line):
            match = self.token.match(self.line, self.at)
            if match is None:
                begin, word = self.at, self.read_word()
                self.take_word(word if self.at > begin else self.read_character())
            elif self.in_test and match.lastgroup != "blank":
                self.parts.append(match[0])
                self.at = match.end()
            else:
                self.at = match.end()
                getattr(self, f"take_{match.lastgroup}")(match)
        self.end_command("")
        return self.found

    def end_command(self, operator: str) -> None:
        """Keep the command at hand. A newline that follows an operator does not take its place."""
        text = " ".join("".join(self.parts).split())
        if text:
            self.found.append(SimpleCommand(text, self.operator))
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
        """Nothing is kept of it."""

    def take_word(self, word: str) -> None:
        if not self.in_head:
            self.parts.append(word)

    def read_word(self) -> str:
        raise NotImplementedError

    def read_character(self) -> str:
        """One character that begins no word and is no operator here."""
        self.at += 1
        return self.line[self.at - 1 : self.at]
