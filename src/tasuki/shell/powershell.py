"""Command lines of PowerShell, split into simple commands."""

import re

from tasuki.shell.splitter import CommandSplitter

_HEAD = re.compile(
    r"(?:if|elseif|else|foreach|for|while|until|do|switch|try|catch|finally|trap|function|filter|param|begin|process|end)(?=\(|\Z)",
    re.IGNORECASE,
)
"""A keyword whose head, up to the block behind it, is no command."""
_RUN = re.compile(r"[^\s`'\"|&;(){}<>@#$]+|[@$#]")
_OPENER = re.compile(r"@?['\"]|[@$]?[({]")
_NESTED = {
    ")": re.compile(r"`.|@?['\"]|<#|(?<![^\s;|(){}])#[^\n]*|[(){}]", re.DOTALL),
    "}": re.compile(r"`.|@?['\"]|<#|(?<![^\s;|(){}])#[^\n]*|[(){}]", re.DOTALL),
    '"': re.compile(r"`.|\"|\$\(", re.DOTALL),
}
_CLOSERS = {"(": ")", "$(": ")", "@(": ")", "{": "}", "@{": "}", "${": "}", '"': '"'}
_VARIABLE = re.compile(r"^(?:\[[\w.]+\] ?)?\$[\w:.]+ ?[+-]?= ?")
_HERE_STRING = re.compile(r"@['\"][ \t]*\n")


class PowerShellSplitter(CommandSplitter):
    """Of PowerShell."""

    token = re.compile(
        r"(?P<blank>[ \t\r\f\v]+|`\n)|(?P<newline>\n)|(?P<note><\#)"
        r"|(?P<redirection>(?:[1-6*])?>>?(?:&[1-6])?)|(?P<operator>&&|\|\||[;|&])"
        r"|(?P<comment>\#[^\n]*)|(?P<open>\{)|(?P<close>\})"
    )

    def __init__(self, line: str) -> None:
        super().__init__(line)
        self.blocks = 0

    def take_note(self, match: re.Match[str]) -> None:
        self.at = self.end_after("#>", self.at)

    def take_redirection(self, match: re.Match[str]) -> None:
        if "&" not in match[0]:
            while self.line[self.at : self.at + 1] in (" ", "\t"):
                self.at += 1
            self.read_word()

    def take_operator(self, match: re.Match[str]) -> None:
        if match[0] != "&" or not self.at_start:  # At the start it calls what follows.
            self.end_command(match[0])

    def take_open(self, match: re.Match[str]) -> None:
        if self.at_start or self.in_head:
            self.blocks += 1
            self.in_head = False
        else:
            begin, self.at = match.start(), self.skip_nested(self.at, "{")
            self.take_word(self.line[begin : self.at])

    def take_close(self, match: re.Match[str]) -> None:
        if self.blocks:
            self.blocks -= 1
            self.end_command(";")
        else:
            self.take_word("}")

    def take_word(self, word: str) -> None:
        if self.at_start and _HEAD.match(word):
            self.in_head = True
        super().take_word(word)

    def read_word(self) -> str:
        """The word that begins here; empty if there is none. Here-strings are no part of it."""
        begin, line, kept = self.at, self.line, []
        while self.at < len(line):
            if _HERE_STRING.match(line, self.at):
                kept.append(line[begin : self.at])
                begin = self.at = self.end_after(f"\n{line[self.at + 1]}@", self.at + 2)
                if begin == len(line):
                    break
            elif match := _OPENER.match(line, self.at):
                if match[0] == "{" and (self.at == begin or line[self.at - 1] == ")"):
                    break
                self.at = self.skip_nested(match.end(), match[0])
            elif match := _RUN.match(line, self.at):
                self.at = match.end()
            elif line[self.at] == "`" and not line.startswith("`\n", self.at):
                self.at = min(self.at + 2, len(line))
            else:
                break
        return "".join((*kept, line[begin : self.at]))

    def end_after(self, mark: str, at: int) -> int:
        """Where a mark ends that stands behind a place; the line's end if there is none."""
        end = self.line.find(mark, at)
        return len(self.line) if end < 0 else end + len(mark)

    def skip_nested(self, at: int, opener: str) -> int:
        """Where something nested ends whose content begins here; the line's end if it never does."""
        if opener.endswith("'"):
            return self.end_after("'", at)
        stack = [_CLOSERS[opener[-1]]]
        while stack:
            match = _NESTED[stack[-1]].search(self.line, at)
            if match is None:
                return len(self.line)
            mark, at = match[0], match.end()
            if mark == stack[-1]:
                stack.pop()
            elif mark[0] in "`#":
                continue
            elif _HERE_STRING.match(self.line, match.start()):
                at = self.end_after(f"\n{mark[1]}@", at)
            elif mark == "<#":
                at = self.end_after("#>", at)
            elif mark.endswith("'"):
                at = self.end_after("'", at)
            elif mark[-1] in _CLOSERS:
                stack.append(_CLOSERS[mark[-1]])
        return at


def strip_variable(text: str) -> str:
    """A statement without the variable that it is assigned to."""
    return _VARIABLE.sub("", text)
