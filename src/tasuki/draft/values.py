"""Values that only the thread knows: names, ids and addresses that stand nowhere in the tree."""

import re
from collections.abc import Iterable, Sequence

from tasuki.draft.git import occurring_in_tree
from tasuki.draft.statements import Statement
from tasuki.model import Quote

LOOKED_UP = 48
"""Values asked of git at once, the newest."""
SHORTEST = 4

_VALUE = re.compile(
    r"https?://[^\s)>\]\"'`,;]+"
    r"|\b[A-Z][A-Z0-9]{1,9}-\d+\b"
    r"|\b(?=[0-9a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,40}\b"
    r"|\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b"
    r"|(?<=`)[^`\s]{4,60}(?=`)"
    r"|\b(?:localhost|\d{1,3}(?:\.\d{1,3}){3}):\d{2,5}\b"
    r"|\bv?\d+\.\d+\.\d+(?:[-+.][\w.]+)?\b"
)
_TRIVIAL = re.compile(
    r"^[\W\d_]+$|^(?:true|false|null|none|nil|undefined|main|master)$", re.IGNORECASE
)


def candidates(statements: Iterable[Statement], finished: Iterable[Quote] = ()) -> list[Quote]:
    """Values in what was said, each with the newest entry that names it, newest first.

    Hashes of the thread's own commits are left out: the state of the work names those.
    """
    known = {q.text.split()[0] for q in finished}
    found: dict[str, int] = {}
    for statement in statements:
        for value in _VALUE.findall(statement.text):
            value = value.rstrip(".:")
            if len(value) >= SHORTEST and not _TRIVIAL.match(value) and value not in known:
                found.pop(value, None)
                found[value] = statement.ref
    return [Quote(text=v, ref=r) for v, r in reversed(found.items())]


def only_in_thread(cwd: str, values: Sequence[Quote]) -> tuple[Quote, ...]:
    """Those of some values that occur in no tracked file of the repository.

    Nothing where there is no repository or git does not answer in time: absence must be known.
    """
    asked = list(values[:LOOKED_UP])
    present = occurring_in_tree(cwd, [q.text for q in asked])
    if present is None:
        return ()
    return tuple(q for q in asked if not any(q.text in line for line in present))
