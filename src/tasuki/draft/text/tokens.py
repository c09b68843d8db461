"""The size of a text in tokens, estimated without a tokeniser.

English prose and code take about four characters a token; other scripts take many more tokens for
as many characters. `bench/tokens.py` compares the weights with public tokenisers.
"""

from functools import lru_cache

from tasuki.patterns import compile_pattern

CHARACTERS_PER_TOKEN = 4
_WEIGHTS = (
    (0x0080, 0x024F, 1.0),  # Latin letters with accents, and their signs
    (0x0370, 0x052F, 1.0),  # Greek, Cyrillic
    (0x0530, 0x0E7F, 2.0),  # Hebrew, Arabic, Indian, Thai
    (0x0F00, 0x10FF, 2.0),
    (0x1100, 0x11FF, 3.0),  # Korean
    (0x1200, 0x1FFF, 2.0),
    (0x2000, 0x206F, 1.0),  # dashes, quotation marks
    (0x2070, 0x2BFF, 3.0),  # arrows, lines, signs
    (0x2E80, 0x9FFF, 3.0),  # Chinese, Japanese
    (0xA960, 0xD7FF, 3.0),  # Korean
    (0xF900, 0xFAFF, 3.0),
    (0xFE00, 0xFE0F, 6.0),  # emoji
    (0xFF00, 0xFFEF, 3.0),
    (0x1F000, 0x1FAFF, 6.0),
    (0x20000, 0x3FFFF, 3.0),
)
"""What a character of these costs beside its own length: 3 is a token each."""
_OTHER = compile_pattern(r"[^\x00-\x7f]")


@lru_cache(maxsize=16_384)
def _weigh(character: str) -> float:
    code = ord(character)
    return next((weight for first, last, weight in _WEIGHTS if first <= code <= last), 0.0)


def measure_text(text: str) -> int:
    """Return how many characters of English take as many tokens as a text."""
    return len(text) + (0 if text.isascii() else int(sum(map(_weigh, _OTHER.findall(text)))))


def count_tokens(text: str) -> int:
    """Estimate the size of a text in tokens, rounded up."""
    return -(-measure_text(text) // CHARACTERS_PER_TOKEN)
