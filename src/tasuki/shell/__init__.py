"""Shell command lines split into simple commands, for POSIX shells, bash and PowerShell.

    split_commands("cd app && pytest -q 2>&1 | tail -3")
    `cd app`, then `pytest -q` after `&&`, then `tail -3` after `|`

Nothing is run and nothing is expanded. The time is linear in the length of the line,
nothing is raised, and no nesting is too deep. A quote or substitution that is never closed
takes the rest of the line into its command; a group that is never closed ends with the
line. Rules: POSIX.1-2024 XCU 2 (Shell Command Language), bash 5.2, PowerShell 7.5
(about_Parsing).
"""

import re

from tasuki.patterns import compile_pattern
from tasuki.shell.posix import SPECIAL, PosixSplitter, SimpleCommand, split_words, strip_variables
from tasuki.shell.powershell import PowerShellSplitter, strip_variable

__all__ = ["SimpleCommand", "is_powershell", "split_commands", "split_words", "strip_assignments"]


def split_commands(line: str, *, powershell: bool | None = None) -> list[SimpleCommand]:
    """Split a command line into its simple commands, in their order.

    Keywords are removed (`then make` is `make`), and so are heads of loops, of cases and of
    functions. Commands inside quotes and substitutions stay part of their command. Without
    `powershell`, `is_powershell` decides.
    """
    words = line.split(None, 1)
    if not words:
        return []
    if not SPECIAL.search(line) and words[0].lower() not in _KEYWORDS:
        return [SimpleCommand(" ".join(line.split()))]
    line = line.replace("\r\n", "\n")
    if powershell is None:
        powershell = is_powershell(line)
    return (PowerShellSplitter if powershell else PosixSplitter)(line).split_line()


def is_powershell(line: str) -> bool:
    """Tell whether a line looks like PowerShell: a cmdlet, `$env:`, `$null` or a here-string.

    What bash passes to `pwsh`, and what has a here-document, is bash.
    """
    return bool(
        _CMDLET.search(line) and not _HERE_DOCUMENT.search(line) and not _CALLS_PWSH.match(line)
    )


def strip_assignments(text: str) -> str:
    """Return a simple command without the variables that it sets.

    Nothing remains if it does nothing else.
    """
    return strip_variables(strip_variable(text))


_KEYWORDS = frozenset(
    "if then elif else fi for select while until do done case esac function time ! coproc".split()
)
_VERBS = (
    "Add|Clear|Compare|Compress|Convert|ConvertFrom|ConvertTo|Copy|Disable|Enable|Expand|Export|"
    "Find|ForEach|Format|Get|Group|Import|Install|Invoke|Join|Measure|Move|New|Out|Pop|Push|Read|"
    "Receive|Register|Remove|Rename|Resolve|Restart|Save|Select|Send|Set|Sort|Split|Start|Stop|"
    "Test|Uninstall|Update|Wait|Where|Write"
)
_CMDLET = compile_pattern(
    rf"(?:^|[;|({{}}&=\n])[ \t]{{0,20}}(?:{_VERBS})-[A-Z][A-Za-z]+(?![\w/.-])"
    r"|\$env:\w|>[ \t]?\$null\b|(?<![^\s=(])@['\"][ \t]{0,20}\r?\n"
)
_HERE_DOCUMENT = compile_pattern(r"<<-?[ \t]{0,20}[\\'\"]?\w")
_CALLS_PWSH = compile_pattern(r"\s{0,20}(?:powershell|pwsh)(?:\.exe)?\s", re.IGNORECASE)
