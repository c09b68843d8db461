"""A sentence that claims something of a thread, what it is about, and what is wrong with it."""

from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from msgspec import Struct

from tasuki.draft.text.markdown import read_lines
from tasuki.draft.text.split import fold_whitespace, split_sentences, strip_emphasis
from tasuki.patterns import compile_pattern

_MARKS = compile_pattern(r"^\s*(?:[-*+•>]\s+|\d{1,3}[.)]\s+|#{1,6}\s+)+")
_TITLE = compile_pattern(
    r"^\s*(?:#{1,6}\s+(.+?)|(?:\d{1,3}[.)]\s+)?\*{0,2}([A-Z][^.!?`\"]{2,60}?)\*{0,2}:\*{0,2})\s*$"
)
_PLAN_TITLE = compile_pattern(
    r"(?i)next|pending|todo|to do|plan|remaining|outstanding|open|proposed|option|future|recommend"
)
_PAST_TITLE = compile_pattern(
    r"(?i)histor|chronolog|analysis|progress|so far|errors? and fix|problem solving|earlier|timeline"
)
_USER_TITLE = compile_pattern(
    r"(?i)\buser\b|\bconstraint|\bpreference|\binstruction|\brequest|\bfeedback"
)
_PLANS = compile_pattern(
    r"(?i)^\W*(?:next|then|after that|afterwards|later)(?: up)?\s*[:,]|\b(?:need(?:s|ed)? to|should|must|will|would|could|may|might|going to|to be|want(?:s|ed)? to|plan(?:s|ned)? to|about to|"
    r"remains? to|still to|let me|let's|(?:I|we)['’]ll|next step|if|when|once|until|unless|whether|verify|ensure|make sure|confirm|check that|"
    r"expect\w*|before|so that|in order to|recommend\w*|suggest\w*|propos\w+|optional\w*|pending|todo|not yet|try(?:ing)? to|attempt\w*|"
    r"muss|müssen|soll(?:te|ten|en)?|sobald|wenn|damit|als nächstes|noch zu)\b|必要|べき|予定|たら|次に|需要|下一步"
)
NEGATED_ELSEWHERE = (
    r"\b(?:nicht|kein\w*|noch|bis|schl[aä]gt|fehlschl\w*|sobald)\b|失敗|まだ|ない|ません|未|没|失败"
)
"""What denies something in other languages."""
DENIED = compile_pattern(
    r"(?i)\b(?:not|never|no longer|until|except|apart from|aside from|other than|but|only|some|most|half|should|must|would|once|when|if"
    rf"|without(?! (?:any )?(?:errors?|findings|problems|warnings)\b))\b|n't\b|{NEGATED_ELSEWHERE}"
)
"""What denies something, or makes a condition or an exception."""
EARLIER = compile_pattern(
    r"(?i)\b(?:initially|first|originally|earlier|before|previous\w*|at the beginning)\b"
)
_FAILURE = compile_pattern(r"(?i)\b(?:fail|abort|crash|broke|hangs?\b|timed? ?out)")
SUCCEEDED = compile_pattern(r"(?i)\b(?:pass(?:es|ed|ing)?|succeed(?:s|ed)?|green)\b")
FAILED = compile_pattern(r"(?i)\b(?:fail(?:s|ed|ing)?(?! (?:the|an?|any|if|when|unless)\b)|red)\b")
"""What says that a check passed, or failed."""
PUBLISHES = compile_pattern(r"\bgit\b.*\bpush\b|\bgh\s+pr\s+(?:create|merge)\b|\bjj\s+git\s+push\b")
"""A command that pushes."""
_NAMES = compile_pattern(
    r"`[^`]*`|\"[^\"]*\"|“[^”]*”|(?<![\w.@+-])[\w.@+-]*(?:/[\w.@+-]+)+|(?<![\w-])[\w-]+\.(?:[a-z]{1,5})\b(?!\()"
)
SHORT_LINE = 60
"""Characters of a line that is not divided into sentences."""
MAX_LINE, MAX_SUMMARY, MOST_LINES = 1_500, 400_000, 8_000
"""Characters of one line and of a summary that are read, and lines."""


class Correction(Struct, frozen=True):
    """One thing that a sentence gets wrong: its words, and what the thread shows instead."""

    claim: str
    truth: str
    refs: tuple[int, ...] = ()


class Sentence(Struct, frozen=True):
    """One sentence or list item."""

    text: str
    section: str = ""
    """The heading above it."""

    @property
    def words(self) -> str:
        """The text without code, paths and quotes: what it says in its own words."""
        return _blank_names(self.text)

    @property
    def is_plan(self) -> bool:
        """Whether it says what is to be done, or would be, and not what is."""
        return bool(_PLAN_TITLE.search(self.section) or _PLANS.search(self.words))

    @property
    def is_past(self) -> bool:
        """Whether its section tells what happened one after the other."""
        return bool(_PAST_TITLE.search(self.section))

    @property
    def is_about_user(self) -> bool:
        """Whether its section holds what the user said and wants."""
        return bool(_USER_TITLE.search(self.section))

    @property
    def is_denied(self) -> bool:
        """Whether it denies something, makes an exception, or speaks of a failure."""
        return bool(DENIED.search(self.words) or _FAILURE.search(self.words))

    def correct(self, truth: str, *refs: int) -> Correction:
        """Return the correction of all of it."""
        return Correction(self.text, truth, refs)


@lru_cache(maxsize=4_096)
def _blank_names(text: str) -> str:
    return _NAMES.sub("‹›", text)


def split_summary(summary: str) -> Iterator[Sentence]:
    """Yield the sentences and list items of a summary, without code blocks."""
    section = ""
    for read in read_lines(islice(summary[:MAX_SUMMARY].split("\n"), MOST_LINES)):
        raw = read.raw
        if read.kind in ("fence", "code", "blank"):
            continue
        if title := _TITLE.match(raw):
            section = strip_emphasis(title[1] or title[2]).strip(" *:")
            continue
        line = fold_whitespace(strip_emphasis(_MARKS.sub("", raw)))[:MAX_LINE]
        sentences = split_sentences(line) if len(line) > SHORT_LINE else [line]
        for sentence in sentences or [line]:
            yield Sentence(sentence, section)


_FIGURE = compile_pattern(
    r"(?i)(?<![\w.,-])(\d[\d.,]*\d|\d)\s?-?(%|percent|ms|milliseconds?|s(?:ec(?:ond)?s?)?|min(?:ute)?s?|h(?:ours?)?|days?|weeks?|months?|"
    r"[kmgt]i?b|bytes?|lines?|characters?|chars?|columns?|retries|attempts|times|rows?|items?|entries|connections?|workers?|threads?|"
    r"requests?|tokens?|users?|px|eur(?:os?)?|usd|dollars?|gbp|chf|prozent|sekunden?|minuten?|stunden?|tagen?|wochen?|monate?n?|einträgen?|zeilen?|zeichen)\b"
    r"|(?<![\w.,-])(\d[\d.,]*\d|\d)\s?(件|行|秒|分|時間|日|回|文字|％)"
)


class Figure(NamedTuple):
    """A number with its unit in the usual form, and both as they were written."""

    number: str
    unit: str
    text: str


def find_figures(text: str) -> Iterator[Figure]:
    """Yield the numbers of a text that have a unit."""
    for match in _FIGURE.finditer(text):
        number, unit = match[1] or match[3], match[2] or match[4]
        yield Figure(number, _normalize_unit(unit), match[0])


def _normalize_unit(unit: str) -> str:
    low = unit.lower()
    names = ("milli", "sec", "min", "hour", "day", "week", "month")
    begun = next(filter(low.startswith, names), low if low == "ms" else low.rstrip("s"))
    return _UNITS.get(low) or _UNITS.get(begun, begun)


_UNITS = {"percent": "%", "prozent": "%", "％": "%", "milli": "ms", "s": "sec", "h": "hour"}
