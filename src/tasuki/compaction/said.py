"""What a summary says already, in whatever words."""

from functools import cached_property

from tasuki.compaction.checks.summary_lines import split_summary
from tasuki.draft.checks.lookup import fold_quote
from tasuki.draft.text.polarity import extract_telling_words, says_same
from tasuki.model import Item
from tasuki.patterns import compile_pattern

SAME_SHARE = 0.8
"""Share of the telling words of a sentence that a line must hold to say the same."""
MIN_WORDS = 2
_CODE = compile_pattern(r"`([^`\n]+)`")


class SaidText:
    """Everything that the model has in view after a compaction."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def folded(self) -> str:
        """The text in the form in which quotes are compared."""
        return fold_quote(self.text)

    @cached_property
    def _lines(self) -> list[tuple[str, frozenset[str]]]:
        return [(line.text, extract_telling_words(line.text)) for line in split_summary(self.text)]

    def quotes(self, words: str) -> bool:
        """Return whether some words are there to the letter, apart from case and marks."""
        return fold_quote(words) in self.folded

    def has_rule(self, rule: str) -> bool:
        """Return whether a rule is there, to the letter or with the same telling words.

        A line that turns it round does not say it.
        """
        if fold_quote(rule) in self.folded:
            return True
        if len(extract_telling_words(rule)) < MIN_WORDS:
            return False
        return any(says_same(text, rule, SAME_SHARE) for text, _ in self._lines)

    def has_item(self, item: Item) -> bool:
        """Return whether one line names all code of an item, with most of its other words."""
        codes = _CODE.findall(item.text)
        telling = extract_telling_words(_CODE.sub(" ", f"{item.label} {item.text}"))
        return any(
            all(code in text for code in codes)
            and len(telling & words) >= SAME_SHARE * len(telling)
            for text, words in self._lines
        )
