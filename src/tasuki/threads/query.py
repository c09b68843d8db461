"""What a person searches for: words, phrases, and filters such as `harness:codex`."""

import re
import unicodedata
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from typing import Any

from msgspec import Struct

from tasuki.errors import UsageError
from tasuki.harness import registry as harnesses
from tasuki.paths import is_outside, normalize_path, resolve_links
from tasuki.patterns import compile_pattern

_PART = compile_pattern(
    r'(?P<name>file|harness|after|before|repo):(?:"(?P<quoted>[^"]*)"|(?P<value>\S+))'
    r'|(?P<minus>-)?"(?P<phrase>[^"]*)"'
    r"|(?P<word>\S+)"
)
_TOKEN = compile_pattern(r"[^\W_]+")
_CJK = compile_pattern("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")
_BEYOND_ASCII = compile_pattern(r"[^\x00-\x7f]")
PREFIX = 4
"""Letters from which a word also finds longer ones that begin with it."""
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

    def build_exclusion(self) -> str:
        """Build a query of FTS5 for what must not occur; empty if nothing is excluded."""
        return " OR ".join(e for w in self.without if (e := _build_expression(w)))

    def build_expressions(self) -> Iterator[str]:
        """Yield queries of FTS5, the strict one first.

        First all words close together, then also longer words that begin with them, then any of
        them. A search for beginnings costs ten times as much.
        """
        exact = [e for w in self.words if (e := _build_expression(w))]
        longer = [e for w in self.words if (e := _build_expression(w, prefix=True))]
        if not exact:
            return
        unwanted = "".join(f" NOT {e}" for w in self.without if (e := _build_expression(w)))
        yield f"({' AND '.join(exact)}){unwanted}"
        if longer != exact:
            yield f"({' AND '.join(longer)}){unwanted}"
        if len(exact) > 1:
            yield f"({' OR '.join(longer)}){unwanted}"

    def build_filters(self) -> tuple[str, tuple[Any, ...]]:
        """Build conditions of SQL on a row `t` of the table `thread`, each after AND; and their values."""
        given: dict[str, Any] = {"t.harness = ?": self.harness}
        given |= {"t.worked >= ?": self.after, "t.worked < ?": self.before}
        parts = [condition for condition, value in given.items() if value]
        values = [value for value in given.values() if value]
        if self.repo:
            name = normalize_path(self.repo).lower().strip("/")
            real = resolve_links(self.repo).lower().rstrip("/")
            parts.append(
                "(('/' || normalize(t.cwd) || '/') GLOB ? OR resolve(t.cwd) || '/' GLOB ?)"
            )
            values += [f"*/{_escape_glob(name)}/*", f"{_escape_glob(real)}/*"]
        for path in self.files:
            forms = (normalize_path(path).lower(), resolve_links(path).lower())
            wanted, real = (
                form.replace("[", "[[]") if "*" in form else _escape_glob(form) for form in forms
            )
            tail = f"*/{wanted.lstrip('/')}"
            parts.append(
                "EXISTS (SELECT 1 FROM touched WHERE thread = t.key"
                " AND (('/' || path) GLOB ? OR (resolve(t.cwd) || '/' || path) GLOB ?))"
            )
            values += [tail, real if is_outside(real) else tail]
        return "".join(f" AND {part}" for part in parts), tuple(values)


def parse_query(text: str) -> Query:
    """Parse a query from what was typed. Raises UsageError for an impossible filter."""
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
        harnesses.get_harness(name)
    if not (words or files or filters):
        raise UsageError(
            'Give words to search for, for example: tasuki find "retry budget" harness:codex'
        )
    return Query(
        words=tuple(words),
        without=tuple(without),
        files=tuple(files),
        harness=filters.get("harness", ""),
        after=_parse_moment("after", filters.get("after", "")),
        before=_parse_moment("before", filters.get("before", "")),
        repo=filters.get("repo", ""),
    )


def _parse_moment(name: str, value: str) -> float:
    if not value:
        return 0.0
    try:
        return datetime.fromisoformat(value).astimezone().timestamp()
    except (ValueError, OverflowError, OSError) as error:
        raise UsageError(f"{name}:{value} is not a date; write it as {name}:2026-11-01.") from error


def split_tokens(text: str) -> list[str]:
    """Split a text into words as in the index: letters and digits, in lower case."""
    return _TOKEN.findall(separate_cjk(fold_accents(unicodedata.normalize("NFC", text))).lower())


def separate_cjk(text: str) -> str:
    """Separate the characters, composed, of scripts without blanks between words."""
    return text if text.isascii() else _CJK.sub(r" \g<0> ", unicodedata.normalize("NFC", text))


def is_cjk(text: str) -> bool:
    """Tell whether a text begins with a character of a script without blanks between words."""
    return bool(_CJK.match(text))


def fold_accents(text: str) -> str:
    """Return a text of the same length without accents, as the index compares words."""
    if text.isascii():
        return text
    return _BEYOND_ASCII.sub(lambda found: _strip_accent(found[0]), text)


@cache
def _strip_accent(character: str) -> str:
    return character if _CJK.match(character) else unicodedata.normalize("NFKD", character)[0]


def _build_expression(word: str, prefix: bool = False) -> str:
    parts = split_tokens(word)
    if not parts:
        return ""
    star = "*" if prefix and len(parts[-1]) >= PREFIX else ""
    return f'"{" ".join(parts)}"{star}'


def _escape_glob(text: str) -> str:
    return re.sub(r"([*?\[])", r"[\1]", text)
