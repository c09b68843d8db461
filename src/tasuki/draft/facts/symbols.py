"""Names of definitions in the changes of a file: those that a change added, or in which it added lines."""

from collections import Counter
from collections.abc import Iterable, Iterator

from tasuki.model import FileChange
from tasuki.patterns import compile_pattern

_SYMBOL = compile_pattern(
    r"(?m)^[ \t]*(?:export\s+)?(?:default\s+)?(?:public\s+|private\s+|protected\s+|static\s+|abstract\s+|async\s+)*"
    r"(?:func(?:\s+\([^)]*\))?|def|class|fn|function\*?|interface|struct|enum|trait|impl|module|type)\s+([A-Za-z_]\w{2,})"
    r"|^[ \t]*(?:export\s+)?(?:const|let|var)\s+([A-Za-z_]\w{2,})\s*=\s*(?:async\s*)?(?:\([^)]*\)|\w+)\s*=>"
    r"|^[ \t]*(?:public|private|protected|async|static)\s+(?:[\w<>\[\], ]+\s)?(?!(?:static|async|override|virtual|readonly|abstract|required)\b)([A-Za-z_]\w{2,})\s*\("
)
_MAX_SYMBOLS = 12
_SYMBOL_TEXT = 20_000


def find_symbols(changes: Iterable[FileChange]) -> tuple[str, ...]:
    """Return names of definitions that some changes added, or in which they added lines; the last first.

    What a change only leaves in place, what a later one removed, and what is in texts is none.
    """
    found: dict[str, None] = {}
    for change in changes:
        if _DOCUMENT.search(change.path):
            continue
        old, new = (_mark_texts(text[:_SYMBOL_TEXT]) for text in (change.old, change.new))
        defined = set(_list_definitions(new))
        for name in set(_list_definitions(old)) - defined if found else ():
            found.pop(name, None)
        for name in _list_changed(old, new) if defined else ():
            found.pop(name, None)
            found[name] = None
    return tuple(reversed(list(found)))[:_MAX_SYMBOLS]


_DOCUMENT = compile_pattern(
    r"\.(?:mdx?|rst|txt|adoc|org|html?|jsonl?|ya?ml|toml|csv|svg|lock|log)$"
)
_TEXT = compile_pattern(r"`[^`]*\n[^`]*`|\"\"\"[\s\S]*?\"\"\"|'''[\s\S]*?'''")
_INSIDE = "\0"
"""Begins a line inside a text of several lines."""


def _mark_texts(code: str) -> str:
    """Return code with a mark before each line inside a text; all of them where a text is cut."""
    if not ("`" in code or '"""' in code or "'''" in code):
        return code
    if code.count("`") % 2:
        return code.replace("\n", f"\n{_INSIDE}")
    return _TEXT.sub(lambda match: match[0].replace("\n", f"\n{_INSIDE}"), code)


def _list_definitions(code: str) -> list[str]:
    return [name for groups in _SYMBOL.findall(code) for name in groups if name]


def _list_changed(old: str, new: str) -> Iterator[str]:
    """Yield the definitions that are in new lines of a text, or around them."""
    kept = Counter(line.rstrip() for line in old.split("\n"))
    around: list[tuple[int, str]] = []
    for line in new.split("\n"):
        line = line.rstrip()
        bare = line.lstrip()
        if not bare:
            continue
        if not line.startswith(_INSIDE):
            indent = len(line) - len(bare)
            while around and around[-1][0] >= indent:
                around.pop()
            if match := _SYMBOL.match(line):
                around.append((indent, next(g for g in match.groups() if g)))
        if kept[line]:
            kept[line] -= 1
        elif around and len(bare) > 2:
            yield around[-1][1]
