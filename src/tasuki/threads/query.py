"""What a person searches for: words, phrases, and filters such as `harness:codex`."""

import re
import unicodedata
from collections.abc import Iterator
from datetime import datetime
from functools import cache

from msgspec import Struct

from tasuki import harness as harnesses
from tasuki.errors import UsageError

_PART = re.compile(
    r'(?P<name>file|harness|after|before|repo):(?:"(?P<quoted>[^"]*)"|(?P<value>\S+))'
    r'|(?P<minus>-)?"(?P<phrase>[^"]*)"'
    r"|(?P<word>\S+)"
)
_TOKEN = re.compile(r"[^\W_]+")
_CJK = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")
PREFIX = 4
"""Letters from which on a word also finds longer ones that begin with it."""
MAX_WORDS = 24


class Query(Struct, frozen=True):
    """A search. `after` and `before` are seconds since the epoch, 0 if not given."""

    words: tuple[str, ...] = ()
    """Words and phrases that should occur."""
    without: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    harness: str = ""
    after: float = 0.0
    before: float = 0.0
    repo: str = ""

    def unwanted(self) -> str:
        """A query of FTS5 for what must not occur; empty if nothing is unwanted."""
        return " OR ".join(e for w in self.without if (e := _expression(w)))

    def expressions(self) -> Iterator[str]:
        """Queries of FTS5, the strict one first: all words close together, then also longer words
        that begin with them, then any of them. Looking for beginnings costs ten times as much."""
        exact = [e for w in self.words if (e := _expression(w))]
        longer = [e for w in self.words if (e := _expression(w, prefix=True))]
        if not exact:
            return
        unwanted = "".join(f" NOT {e}" for w in self.without if (e := _expression(w)))
        yield f"({' AND '.join(exact)}){unwanted}"
        if longer != exact:
            yield f"({' AND '.join(longer)}){unwanted}"
        if len(exact) > 1:
            yield f"({' OR '.join(longer)}){unwanted}"


def parse(text: str) -> Query:
    """A query from what was typed. Raises UsageError for a filter that makes no sense."""
    text = unicodedata.normalize("NFC", text.encode("utf-8", "replace").decode())
    words: list[str] = []
    without: list[str] = []
    files: list[str] = []
    filters: dict[str, str] = {}
    for part in _PART.finditer(text):
        if name := part["name"]:
            value = part["quoted"] if part["quoted"] is not None else part["value"]
            if name == "file":
                files.append(value)
            else:
                filters[name] = value
        elif part["phrase"] is not None:
            (without if part["minus"] else words).append(part["phrase"])
        elif part["word"].startswith("-") and _TOKEN.search(part["word"]):
            without.append(part["word"][1:])
        else:
            words.append(part["word"])
    words = [w for w in words if _TOKEN.search(w)][:MAX_WORDS]
    if name := filters.get("harness", ""):
        harnesses.get(name)
    if not (words or files or filters):
        raise UsageError(
            'Say what to look for, for example: tasuki find "retry budget" harness:codex'
        )
    return Query(
        words=tuple(words),
        without=tuple(without),
        files=tuple(files),
        harness=filters.get("harness", ""),
        after=_moment("after", filters.get("after", "")),
        before=_moment("before", filters.get("before", "")),
        repo=filters.get("repo", ""),
    )


def _moment(name: str, value: str) -> float:
    if not value:
        return 0.0
    try:
        return datetime.fromisoformat(value).astimezone().timestamp()
    except (ValueError, OverflowError, OSError) as error:
        raise UsageError(f"{name}:{value} is no date; write it as {name}:2026-11-01.") from error


def tokens(text: str) -> list[str]:
    """The words of a text as the index knows them: letters and digits, in lower case."""
    return _TOKEN.findall(spaced(folded(unicodedata.normalize("NFC", text))).lower())


def spaced(text: str) -> str:
    """A text in which scripts without blanks between words are cut into characters."""
    return text if text.isascii() else _CJK.sub(r" \g<0> ", text)


def is_cjk(text: str) -> bool:
    """Whether a text begins with a character of a script without blanks between words."""
    return bool(_CJK.match(text))


def folded(text: str) -> str:
    """A text of the same length without accents, as the index compares words."""
    if text.isascii():
        return text
    return "".join(c if c.isascii() or _CJK.match(c) else _base(c) for c in text)


@cache
def _base(character: str) -> str:
    return unicodedata.normalize("NFKD", character)[0]


def _expression(word: str, prefix: bool = False) -> str:
    found = tokens(word)
    if not found:
        return ""
    star = "*" if prefix and len(found[-1]) >= PREFIX else ""
    return f'"{" ".join(found)}"{star}'
