"""The rules of a goal: a handoff is only as good as the sentence that says what comes next."""

from itertools import chain

from tasuki.draft.text import lexicon
from tasuki.errors import GoalTooVague
from tasuki.model import Goal
from tasuki.patterns import compile_pattern
from tasuki.text_safety import remove_invisible

_TOKEN = compile_pattern(r"\w+(?:-\w+)*")
"""A word; what an elision leaves of an article is a word too."""
_KEY_ROWS = (
    "qwertyuiop", "asdfghjkl", "zxcvbnm", "qwertzuiop", "yxcvbnm", "azertyuiop", "qsdfghjklm", "wxcvbn",
)  # fmt: skip
_MIN_RUN = 3
_SHORT_KEY_RUNS = {"asd", "sdf", "dfg", "fgh", "ghj", "hjk", "jkl", "qwe", "zxc", "xcv"}
"""Three adjacent keys that are not a word in any language."""


_KEY_RUNS = frozenset(
    row[start:end]
    for row in chain(_KEY_ROWS, (row[::-1] for row in _KEY_ROWS))
    for start in range(len(row))
    for end in range(start + _MIN_RUN, len(row) + 1)
)
_LONGEST_ROW = max(map(len, _KEY_ROWS))


def is_key_run(word: str) -> bool:
    """Return whether a word is a run of adjacent keys on a keyboard, such as `asdf` and `lkjh`."""
    if len(word) <= _MIN_RUN:
        return word in _SHORT_KEY_RUNS
    index = 0
    while index < len(word):
        lengths = range(_LONGEST_ROW, _MIN_RUN - 1, -1)
        run = next((n for n in lengths if word[index : index + n] in _KEY_RUNS), 0)
        if not run:
            return False
        index += run
    return True


MIN_LENGTH = 12
GUIDANCE = "Be specific: what should the next thread accomplish?"
EXAMPLE = 'Example: "implement team-level handoff, update tests, document API."'

_VAGUE_PIECES = compile_pattern(
    rf"(?i)(?>{'|'.join(sorted(lexicon.VAGUE_PIECES, key=lambda piece: (-len(piece), piece)))}|[\s、，,。.!！?？~〜])+"
)
_CARRY_ON = compile_pattern(
    r"(?i)(?:please\s+|just\s+|can you\s+)*(?:continue|resume|carry on|go on|keep going|pick (?:it |this |things |the \w+ )?up|take over)\b"
    r".{0,40}\b(?:left off|stopped|ended|were|was|broke off)\b[\s.!]*$"
)
_WRAP_UP = compile_pattern(
    r"(?i)wrap (?:this |it |things |everything )?up\b(?: now| please)?[\s.!]*$"
)
_VARIABLE = compile_pattern(r"\$\w+")
"""A variable of a command that was not filled in."""
_WORD = compile_pattern(r"[\w'’-]+")
_ONE_WORD = compile_pattern(r"[A-Za-zÀ-ɏͰ-ϿЀ-ӿ]?[a-zß-ɏͰ-ϿЀ-ӿ]+[.!?…]*")
"""A word as in prose; a path, a name in code and a word of a script without blanks are more."""
_WIDE = compile_pattern(r"[぀-ヿ㐀-鿿가-힯]")


def check_goal(
    text: str, *, min_length: int = MIN_LENGTH, force: bool = False, said_by_model: bool = False
) -> Goal:
    """The goal verbatim except for invisible characters, or raise GoalTooVague with the reason.

    `min_length` counts characters without surrounding blanks; one East Asian character counts
    as three, since it carries about as much. Half of it is enough for several words. `force`
    accepts any goal that is not empty.
    """
    text = remove_invisible(text)
    reason = explain_vagueness(text, min_length)
    if reason and not (force and text.strip()):
        raise GoalTooVague(f"{reason} {GUIDANCE}\n{EXAMPLE}")
    return Goal(text=text, forced=bool(reason), said_by="model" if said_by_model else "user")


def explain_vagueness(text: str, min_length: int = MIN_LENGTH) -> str:
    """Return what is wrong with a goal, as one sentence, or an empty string."""
    if not text.isascii():
        import unicodedata  # Heavy at start.

        text = unicodedata.normalize("NFKC", text)
    bare = text.strip()
    if not bare:
        return "A handoff needs a goal."
    if _WIDE.search(bare) and _VAGUE_PIECES.fullmatch(bare):
        return f"The goal {bare!r} does not say what to do."
    shortened = bare if len(bare) <= 60 else f"{bare[:59]}…"
    words = [w.lower().replace("’", "'") for w in _WORD.findall(_VARIABLE.sub("", bare))]
    if not any(c.isalpha() for word in words for c in word):
        return f"The goal {shortened!r} has no words."
    if len(set(words)) == 1 and len(words) > 1:
        return f"The goal {shortened!r} repeats one word."
    # Nor does one that names only a plan, a list or a session unknown to its reader.
    tokens = set(_TOKEN.findall(bare.lower().replace("’", "'")))
    names_only = any(
        all(tokens & group for group in groups)
        and tokens <= lexicon.SMALL_WORDS.union(allowed, *groups)
        for allowed, groups in lexicon.VAGUE_SHAPES
    )
    is_phrase = " ".join(words) in lexicon.VAGUE_PHRASES or names_only
    is_phrase = is_phrase or bool(_CARRY_ON.match(bare) or _WRAP_UP.match(bare))
    if is_phrase or all(w in lexicon.VAGUE_WORDS or is_key_run(w) for w in words):
        return f"The goal {shortened!r} does not say what to do."
    if len(words) == 1 and _ONE_WORD.fullmatch(bare):
        return f"The goal {shortened!r} is one word."
    wide = len(_WIDE.findall(bare))
    if len(words) > 1 or wide:
        min_length //= 2  # They name something, or they were all vague.
    if len(bare) + 2 * wide < min_length:
        return f"The goal {shortened!r} is too short ({len(bare)} of {min_length} characters)."
    return ""
