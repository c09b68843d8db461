"""Split texts of a thread into quotable parts: sentences, identifiers, paths, error lines.

Everything returned is verbatim from the text, apart from white space and emphasis marks.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from operator import itemgetter

from tasuki.draft.text import lexicon
from tasuki.draft.text.markdown import read_lines
from tasuki.patterns import compile_pattern

MAX_QUOTE = 320
"""Characters of one quoted sentence; a longer one is cut at a word and ends in ` …`."""

MAX_NAME = 160
MAX_GOAL_WORDS = 20_000
"""Characters of a goal in which terms are looked for."""
_REMEMBERED = 2_000
"""Characters of a text up to which what was found in it is kept: it is asked for again."""
MAX_LINE = 3_000
"""Characters of a line that are quoted."""

_SENTENCE_END = compile_pattern(
    r"[.!?][\"')\]]?\s+(?=[\"'(`\[]?[A-Z0-9À-ÞА-Я]|[\w/-]+(?:\.[a-z]{1,4}\b|_\w))|[。！？]"
)
_ABBREVIATIONS = ("e.g.", "i.e.", "vs.", "etc.", "cf.", "approx.", "no.")
_BEFORE_NUMBER = (*_ABBREVIATIONS, " No.", " Nr.", "Fig.", "Sec.", " p.", " pp.")
_EMPHASIS = compile_pattern(r"(?<![*\w/])\*\*(?=[^\s*/])((?:(?!\*\*).)+?)(?<=\S)\*\*(?![*\w/])")
"""Not the `**` of two patterns of paths, `src/**/a` and `lib/**/b`."""
_WHOLLY_BOLD = compile_pattern(r"^\s*\*\*[^*]+\*\*:?\s*$")
_LETTER = compile_pattern(r"[^\W\d_]")

_TOKEN = compile_pattern(
    r"--?[a-z][\w-]+|[A-Za-z_$][\w$]*(?:(?:\.|::|->|/|-|#)[\w$]+)*(?:\(\))?|\d[\w.]*%?"
)
_NAMELIKE = compile_pattern(r"[a-z][A-Z]|[A-Z]{3}|[_.:>/#$()%-]|\A\d")
WORD = compile_pattern(r"[^\W\d_][\w'’-]{2,}")
_EXTENSION = (
    r"\.(?:py|pyi|ts|tsx|js|jsx|mjs|cjs|go|rs|java|kt|rb|php|c|h|cc|cpp|hpp|cs"
    r"|swift|scala|sh|bash|zsh|fish|sql|html|css|scss|vue|svelte|json|jsonl|ya?ml|toml|ini|cfg|conf"
    r"|md|mdx|rst|txt|lock|mod|sum|proto|graphql|tf|nix|ex|exs|erl|hs|ml|lua|zig|dart|csv|env)\b"
)
PATH = compile_pattern(
    r"(?<![\w/.@+)}-])(?:~|\.{1,2})?/?(?:[\w.@+-]+/)+[\w.@+-]*\w"
    r"|(?<![\w/.@+-])[\w@+-][\w.@+-]*" + _EXTENSION
)
_ESCAPES = compile_pattern(r"\\u00[0-9a-fA-F]{2}|\\[nrt](?=[\w@.-]*/)")
_DRIVE = compile_pattern(r"\W*[A-Za-z]:\\")
_ENDS_LIKE_FILE = compile_pattern(_EXTENSION)
_ERROR_STRONG = compile_pattern(
    r"(?i)(?:(?:error|exception)\b\s*[:\[(]|\berror TS\d+|^E\s{2,}|\bpanic: |^FAIL\b|^--- FAIL"
    r"|\bfatal: |\bAssertion|assert .*failed|\bexpected\b.*\b(?:got|actual|received|but)\b"
    r"|undefined: |cannot find |command not found|No such file|Permission denied|not found$"
    r"|^\s*✗|^\s*×|\bERR!|\bSegmentation fault|Could not |unable to )"
)
_PLACED_ERROR = compile_pattern(
    r"(?m)^(?:\[[\w:.-]+\] )?[\w./@-]{1,200}\.\w{1,5}[:(]\d+(?:[:,]\d+)?\)?: (?!\d)[^\n]{8,400}$"
)
"""What a compiler or linter says about a place in a file."""
_NO_ERROR = compile_pattern(
    r"\s*(?:hint: |Cancelled: |(?:Name\s+)?Stmts\s+Miss|(?:\[?[\w:.TZ+-]+\]? ){0,3}\[?(?:WARN(?:ING)?|INFO|DEBUG|TRACE)\b(?!\S*/))"
)
_ERROR_WEAK = compile_pattern(
    r"(?i)\b(?:error|failed|failure|fail|denied|refused|invalid|missing|cannot|can't|timed? ?out|unexpected)\b"
)


def find_paths(text: str) -> list[str]:
    """Return the paths and file names in a text, each once, in their order.

    No path holds white space, so only words that may be one are looked at. Where a text is escaped
    as in JSON, `\\nsrc/a.rs` is `src/a.rs`.
    """
    likely = [word for word in dict.fromkeys(text.split()) if "/" in word or "." in word]
    if "\\" in text:
        plain = ("\\" not in word or _DRIVE.match(word) for word in likely)
        split = (
            [w] if is_plain else _ESCAPES.split(w)
            for w, is_plain in zip(likely, plain, strict=True)
        )
        likely = list(chain.from_iterable(split))
    likely = [word for word in likely if "/" in word or _ENDS_LIKE_FILE.search(word)]
    return list(dict.fromkeys(PATH.findall(" ".join(likely))))


def fold_whitespace(text: str) -> str:
    """Return a text on one line: runs of white space become one blank."""
    return " ".join(text.split())


def fold_for_comparison(text: str) -> str:
    """Return a text for comparison: white space folded, without emphasis and quote marks."""
    return fold_whitespace(strip_emphasis(text)).strip("\"'“”„«»` ")


def strip_emphasis(text: str) -> str:
    """Return a text without the marks of what is bold in it."""
    return _EMPHASIS.sub(itemgetter(1), text) if "**" in text else text


def shorten(text: str, limit: int = MAX_QUOTE) -> str:
    """Return a text cut at a word, so that it ends in ` …` and is no longer than `limit`.

    A long word at the cut is dropped whole: half a secret could not be recognised any more.
    """
    if len(text) <= limit:
        return text
    cut = text[: limit - 2]
    index = cut.rfind(" ")
    return f"{cut[: max(index, 0)].rstrip(' ,;:')} …".lstrip()


def split_sentences(text: str, *, whole: bool = False) -> list[str]:
    """Return sentences and list items of a text, without list marks and emphasis, on one line each.

    Blocks of code, tables and what is too short to say anything are left out, unless the `whole` text
    is wanted.
    """
    sentences: list[str] = []
    paragraph: list[str] = []
    skipped = () if whole else ("fence", "code")
    continuing = ("text", "code", "table", "rule") if whole else ("text",)
    for line in read_lines(text.split("\n")):
        kind = line.kind
        if kind in continuing:
            paragraph.append(line.raw)
        elif kind not in skipped:
            sentences += _split_paragraph(paragraph, whole)
            paragraph = []
            if kind in ("item", "quote", "heading", "bold"):
                paragraph = [line.raw if kind == "bold" else line.text]
            if kind in ("heading", "bold") or (paragraph and _WHOLLY_BOLD.match(paragraph[0])):
                sentences += _split_paragraph(paragraph, whole)
                paragraph = []
    sentences += _split_paragraph(paragraph, whole)
    return sentences


def _split_paragraph(lines: list[str], whole: bool) -> Sequence[str]:
    if not lines:
        return ()
    text = strip_emphasis(" ".join(" ".join(lines).split()))
    found = _split_line(text) if len(text) <= _REMEMBERED else _split_line.__wrapped__(text)
    if not whole:
        return [s for s in found if _is_sentence(s)]
    joined: list[str] = []
    for piece in found:
        if joined and not (_is_sentence(piece) and _is_sentence(joined[-1])):
            joined[-1] += f" {piece}"
        elif piece:
            joined.append(piece)
    return joined


def _is_sentence(text: str) -> bool:
    """Return whether a piece of a paragraph is long enough to say something."""
    return len(text) >= 8 and (text[0].isalpha() or bool(_LETTER.search(text)))


@lru_cache(maxsize=4_096)
def _split_line(text: str) -> tuple[str, ...]:
    sentences = []
    start = 0
    for match in _SENTENCE_END.finditer(text):
        is_number = text[match.end() : match.end() + 1].isdigit()
        marks = _BEFORE_NUMBER if is_number else _ABBREVIATIONS
        if not text.endswith(marks, start, match.start() + 1):
            sentences.append(text[start : match.end()].strip())
            start = match.end()
    sentences.append(text[start:].strip())
    return tuple(sentences)


def find_tokens(text: str) -> list[str]:
    """Return the words, names, flags and numbers of a text, each as often as it occurs."""
    return _TOKEN.findall(text)


def find_identifiers(text: str) -> list[str]:
    """Return code-like tokens: names with case or underscores, paths, flags, numbers."""
    return [name for token in find_tokens(text) if (name := trim_name(token))]


@lru_cache(maxsize=8_192)
def trim_name(token: str) -> str:
    """Return a token without what follows a name in a sentence; empty if it is a plain word."""
    name = token.strip("-").rstrip(".")
    return name if len(name) <= MAX_NAME and _NAMELIKE.search(name) else ""


def extract_terms(text: str) -> dict[str, float]:
    """Return what a goal is about, in lower case, with weights. Identifiers weigh 3, parts of them and words 1."""
    found: dict[str, float] = {}
    for token in find_identifiers(text[:MAX_GOAL_WORDS]):
        if len(token) >= 3:
            found[token.lower()] = 3.0
            for part in re.split(r"[^\w]+|_|(?<=[a-z])(?=[A-Z])", token):
                if len(part) >= 4 and part.lower() not in lexicon.STOP_WORDS:
                    found.setdefault(part.lower(), 1.0)
    for match in WORD.finditer(text[:MAX_GOAL_WORDS]):
        word = match[0].lower()
        if word not in lexicon.STOP_WORDS and len(word) >= 3:
            found.setdefault(word[:-1] if len(word) > 4 and word.endswith("s") else word, 1.0)
    return found


def has_most_terms(text: str, expected: set[str]) -> bool:
    """Return whether a text contains most of some terms, and at least two of them."""
    low = text.lower()
    return sum(term in low for term in expected) >= max(2, len(expected) * 0.6)


def find_error_line(output: str, sum_up: str = "") -> str:
    """Return the line that says why a command failed: the first plain error, else a hint, or the one that sums up."""
    weak = ""
    if match := _PLACED_ERROR.search(output):
        return shorten(fold_whitespace(match[0]), 240)
    for line in output.split("\n"):
        if len(line) > 2000:
            line = line[:2000]
        if _NO_ERROR.match(line):
            continue
        if _ERROR_STRONG.search(line) and not line.lstrip().startswith(("// ", "# ", "* ")):
            return shorten(fold_whitespace(line), 240)
        if not weak and _ERROR_WEAK.search(line):
            weak = line
    if weak:
        return shorten(fold_whitespace(weak), 240)
    lines = [x for x in output.split("\n") if x.strip() and not x.startswith("Exit code")]
    return shorten(fold_whitespace(sum_up or lines[-1]), 240) if lines else ""


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
