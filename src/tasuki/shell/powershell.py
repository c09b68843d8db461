"""Command lines of PowerShell, split into simple commands."""

import re

from tasuki.patterns import compile_pattern
from tasuki.shell.posix import CommandSplitter

_HEAD = compile_pattern(
    r"(?:if|elseif|else|foreach|for|while|until|do|switch|try|catch|finally|trap|function|filter|param|begin|process|end)(?=\(|\Z)",
    re.IGNORECASE,
)
"""A keyword whose head, up to the block after it, is no command."""
_RUN = compile_pattern(r"[^\s`'\"|&;(){}<>@#$]+|[@$#]")
_OPENER = compile_pattern(r"@?['\"]|[@$]?[({]")
_NESTED = {
    ")": compile_pattern(r"`.|@?['\"]|<#|(?<![^\s;|(){}])#[^\n]*|[(){}]", re.DOTALL),
    "}": compile_pattern(r"`.|@?['\"]|<#|(?<![^\s;|(){}])#[^\n]*|[(){}]", re.DOTALL),
    '"': compile_pattern(r"`.|\"|\$\(", re.DOTALL),
}
_CLOSERS = {"(": ")", "$(": ")", "@(": ")", "{": "}", "@{": "}", "${": "}", '"': '"'}
_VARIABLE = compile_pattern(r"^(?:\[[\w.]+\] ?)?\$[\w:.]+ ?[+-]?= ?")
_HERE_STRING = compile_pattern(r"@['\"][ \t]*\n")


class PowerShellSplitter(CommandSplitter):
    """The splitter of PowerShell."""

    token = compile_pattern(
        r"(?P<blank>[ \t\r\f\v]+|`\n)|(?P<newline>\n)|(?P<note><\#)"
        r"|(?P<redirection>(?:[1-6*])?>>?(?:&[1-6])?)|(?P<operator>&&|\|\||[;|&])"
        r"|(?P<comment>\#[^\n]*)|(?P<open>\{)|(?P<close>\})"
    )

    def take_note(self, match: re.Match[str]) -> None:
        self.position = self.find_end_after("#>", self.position)

    def take_redirection(self, match: re.Match[str]) -> None:
        if "&" not in match[0]:
            while self.line[self.position : self.position + 1] in (" ", "\t"):
                self.position += 1
            word = self.read_word()
            self.output_to = word.strip("\"'") if match[0][0] in ">1*" else self.output_to

    def take_operator(self, match: re.Match[str]) -> None:
        if match[0] != "&" or not self.at_start:  # At the start it calls what follows.
            self.end_command(match[0])

    def take_open(self, match: re.Match[str]) -> None:
        if self.at_start or self.in_head:
            self.blocks += 1
            self.in_head = False
        else:
            begin, self.position = match.start(), self.skip_nested(self.position, "{")
            self.take_word(self.line[begin : self.position])

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
        """Read the word that begins here; empty if there is none.

        Here-strings are not part of it.
        """
        begin, line, pieces = self.position, self.line, []
        while self.position < len(line):
            if _HERE_STRING.match(line, self.position):
                pieces.append(line[begin : self.position])
                begin = self.position = self.find_end_after(
                    f"\n{line[self.position + 1]}@", self.position + 2
                )
                if begin == len(line):
                    break
            elif match := _OPENER.match(line, self.position):
                if match[0] == "{" and (self.position == begin or line[self.position - 1] == ")"):
                    break
                self.position = self.skip_nested(match.end(), match[0])
            elif match := _RUN.match(line, self.position):
                self.position = match.end()
            elif line[self.position] == "`" and not line.startswith("`\n", self.position):
                self.position = min(self.position + 2, len(line))
            else:
                break
        return "".join((*pieces, line[begin : self.position]))

    def find_end_after(self, mark: str, index: int) -> int:
        """Find where a mark after a position ends; the line's end if there is none."""
        end = self.line.find(mark, index)
        return len(self.line) if end < 0 else end + len(mark)

    def skip_nested(self, index: int, opener: str) -> int:
        """Find the end of something nested whose content begins here.

        It is the line's end if it is never closed.
        """
        if opener.endswith("'"):
            return self.find_end_after("'", index)
        stack = [_CLOSERS[opener[-1]]]
        while stack:
            match = _NESTED[stack[-1]].search(self.line, index)
            if match is None:
                return len(self.line)
            mark, index = match[0], match.end()
            if mark == stack[-1]:
                stack.pop()
            elif mark[0] in "`#":
                continue
            elif _HERE_STRING.match(self.line, match.start()):
                index = self.find_end_after(f"\n{mark[1]}@", index)
            elif mark == "<#":
                index = self.find_end_after("#>", index)
            elif mark.endswith("'"):
                index = self.find_end_after("'", index)
            elif mark[-1] in _CLOSERS:
                stack.append(_CLOSERS[mark[-1]])
        return index


def strip_variable(text: str) -> str:
    """Return a statement without the variable that it is assigned to."""
    return _VARIABLE.sub("", text)
