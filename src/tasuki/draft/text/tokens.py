"""The size of a text in tokens, estimated without a tokeniser.

English prose and code take about four characters a token; other scripts take many more tokens for
as many characters. `bench/tokens.py` compares the weights with public tokenisers.
"""

import re

from tasuki.patterns import compile_pattern

CHARACTERS_PER_TOKEN = 4
_WEIGHTS: tuple[tuple[re.Pattern[str], float], ...] = (
    (compile_pattern(r"[\u0080-\u024f]"), 1.0),  # Latin letters with accents, and their signs
    (compile_pattern(r"[\u0370-\u052f]"), 1.0),  # Greek, Cyrillic
    (compile_pattern(r"[\u0530-\u0e7f\u0f00-\u1fff]"), 2.0),  # Hebrew, Arabic, Indian, Thai
    (compile_pattern(r"[\u2000-\u206f]"), 1.0),  # dashes, quotation marks
    (compile_pattern(r"[\u2070-\u2bff]"), 3.0),  # arrows, lines, signs
    (compile_pattern(r"[\ufe00-\ufe0f\U0001f000-\U0001faff]"), 6.0),  # emoji
    (compile_pattern(r"[\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]"), 3.0),
    (compile_pattern(r"[\u1100-\u11ff\ua960-\ud7ff]"), 3.0),  # Korean
)
"""What a character of these costs beside its own length: 3 is a token each."""


def measure_text(text: str) -> int:
    """Return how many characters of English take as many tokens as a text."""
    if text.isascii():
        return len(text)
    return len(text) + int(sum(weight * len(p.findall(text)) for p, weight in _WEIGHTS))


def count_tokens(text: str) -> int:
    """Estimate the size of a text in tokens, rounded up."""
    return -(-measure_text(text) // CHARACTERS_PER_TOKEN)
