"""Split texts of a thread into quotable parts: sentences, identifiers, paths, error lines.

Everything returned is verbatim from the text, apart from white space and emphasis marks.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from operator import itemgetter

from tasuki.draft.text import lexicon
from tasuki.patterns import compile_pattern

MAX_QUOTE = 320
"""Characters of one quoted sentence; a longer one is cut at a word and ends in ` …`."""

MAX_NAME = 160
MAX_GOAL_WORDS = 20_000
"""Characters of a goal in which terms are looked for."""
_REMEMBERED = 2_000
"""Characters of a text up to which what was found in it is kept: it is asked for again."""
MAX_LINE = 3_000
"""A longer line of a user's message counts as pasted."""

_FENCE = compile_pattern(r"^\s*(?:```|~~~)")
_BULLET = compile_pattern(r"^\s*(?:[-*+•]\s+(?:\[[ xX]\]\s+)?|\d{1,3}[.)]\s+|#{1,6}\s+|>\s+)")
_SENTENCE_END = compile_pattern(
    r"[.!?][\"')\]]?\s+(?=[\"'(`\[]?[A-Z0-9À-ÞА-Я]|[\w/-]+(?:\.[a-z]{1,4}\b|_\w))|[。！？]"
)
_ABBREVIATIONS = ("e.g.", "i.e.", "vs.", "etc.", "cf.", "approx.", "no.")
_BULLET_STARTS = frozenset("-*+•#>0123456789")
_TABLE = compile_pattern(r"^\s*\|.*\|\s*$|^[\s|:+=-]{4,}$")
_EMPHASIS = compile_pattern(r"(?<![*\w])\*\*(?=[^\s*])((?:(?!\*\*).)+?)(?<=\S)\*\*(?![*\w])")
_WHOLLY_BOLD = compile_pattern(r"^\s*\*\*[^*]+\*\*:?\s*$")
_LETTER = compile_pattern(r"[^\W\d_]")
_WORD_CHARACTER = compile_pattern(r"\w")

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
    r"(?i)(?:\b\w*(?:error|exception)\b\s*[:\[(]|\berror TS\d+|^E\s{2,}|\bpanic: |^FAIL\b|^--- FAIL"
    r"|\bfatal: |\bAssertion|assert .*failed|\bexpected\b.*\b(?:got|actual|received|but)\b"
    r"|undefined: |cannot find |command not found|No such file|Permission denied|not found$"
    r"|^\s*✗|^\s*×|\bERR!|\bSegmentation fault|Could not |unable to )"
)
_PLACED_ERROR = compile_pattern(
    r"(?m)^(?:\[[\w:.-]+\] )?[\w./@-]{1,200}\.\w{1,5}[:(]\d+(?:[:,]\d+)?\)?: (?!\d)[^\n]{8,400}$"
)
"""What a compiler or linter says about a place in a file."""
_NO_ERROR = compile_pattern(r"\s*(?:hint: |Cancelled: )")
_ERROR_WEAK = compile_pattern(
    r"(?i)\b(?:error|failed|failure|fail|denied|refused|invalid|missing|cannot|can't|timed? ?out|unexpected)\b"
)


def find_paths(text: str) -> list[str]:
    """Return the paths and file names in a text, each once, in their order.

    No path holds white space, so only words that may be one are looked at. Where a text is escaped
    as in JSON, `\\nsrc/a.rs` is `src/a.rs`.
    """
    words = dict.fromkeys(text.split())
    if "\\" in text:
        plain = [[word] if _DRIVE.match(word) else _ESCAPES.split(word) for word in words]
        words = dict.fromkeys(part for parts in plain for part in parts)
    likely = [word for word in words if "/" in word or _ENDS_LIKE_FILE.search(word)]
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


def split_sentences(text: str) -> list[str]:
    """Return sentences and list items of a text, without list marks and emphasis, on one line each."""
    sentences: list[str] = []
    paragraph: list[str] = []
    fenced = False
    for line in text.split("\n"):
        bare = line.lstrip()
        first = bare[:1]
        if first in "`~" and bare.startswith(("```", "~~~")):
            fenced = not fenced
        elif fenced:
            continue
        elif not bare or (first in "|:+=-" and _TABLE.match(line)):
            sentences += _split_paragraph(paragraph)
            paragraph = []
        elif (first in _BULLET_STARTS) and (mark := _BULLET.match(line)):
            sentences += _split_paragraph(paragraph)
            paragraph = [line[mark.end() :]]
            if first == "#" or _WHOLLY_BOLD.match(paragraph[0]):
                sentences += _split_paragraph(paragraph)
                paragraph = []
        elif first == "*" and _WHOLLY_BOLD.match(line):
            sentences += _split_paragraph(paragraph)
            sentences += _split_paragraph([line])
            paragraph = []
        else:
            paragraph.append(line)
    sentences += _split_paragraph(paragraph)
    return sentences


def _split_paragraph(lines: list[str]) -> Sequence[str]:
    if not lines:
        return ()
    text = strip_emphasis(" ".join(" ".join(lines).split()))
    return _split_line(text) if len(text) <= _REMEMBERED else _split_line.__wrapped__(text)


@lru_cache(maxsize=4_096)
def _split_line(text: str) -> tuple[str, ...]:
    """Return the sentences of a paragraph on one line."""
    sentences = []
    start = 0
    for match in _SENTENCE_END.finditer(text):
        if not text.endswith(_ABBREVIATIONS, start, match.start() + 1):
            sentences.append(text[start : match.end()].strip())
            start = match.end()
    sentences.append(text[start:].strip())
    return tuple([s for s in sentences if len(s) >= 8 and (s[0].isalpha() or _LETTER.search(s))])


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
    """Return what a goal is about, in lower case, with weights.

    Identifiers weigh 3, parts of them and words 1.
    """
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


def find_error_line(output: str) -> str:
    """Return the line that says why a command failed: the first plain error, else the last hint."""
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
    return shorten(fold_whitespace(lines[-1]), 240) if lines else ""


_PASTE_START = compile_pattern(
    r"\s*[$❯›»>]\s|\s*[+-]?\s?\d+\s?[-+]\s|\s*[+-]\s\d+\s|\s{4,}\S|\t|\s*at \S+\s*\(|[│┃|]|\[?\d{4}-\d\d-\d\d"
    r"|\s*(?:(?:error|warning|fatal|panic)(?:\[\w+\])?: |traceback \(|fail\s{2,}|ok\s{2,}|exit status \d)|[+-]{3} |@@ "
    r"|\s*#{2,} |\s*</?[a-z][\w-]*[ >]|={3,}|-{3,}",
    re.IGNORECASE,
)
_PLACE = compile_pattern(r"\.(?<=\w\.)[A-Za-z]{1,4}:\d")
_PLACE_IN_BRACKETS = compile_pattern(r"\s*[\w./-]+\(\d+,\d+\)")
_PROMPT_ON = compile_pattern(r"\S+\s+on\s+\S+.*\[.*\]", re.IGNORECASE)
"""The prompt of a shell: `project on main [!?]`."""


_PERSON = compile_pattern(
    r"\b(?:i|i'?m|i'?d|i'?ll|i'?ve|you|your|we|we'?re|we'?ll|let'?s|me|my|us|our|can|could|please|don'?t|do not|"
    r"must|never|always|only|should|want|need|make sure|keep|avoid|instead|no|yes|ok|ich|wir|bitte|nicht|nur|je|nous|"
    r"il faut|yo|quiero|hay que)\b",
    re.IGNORECASE,
)
_OTHER_SCRIPT = compile_pattern("[぀-ヿ㐀-鿿가-힯А-я]")
_REPORT = compile_pattern(
    r"^[^\w\n]*(?:(?:low|medium|high|critical|major|minor)(?: severity)?[^\w\n]*|(?:fixed|found) in \S+(?:[^\S\n][^\w\n]*)?)$",
    re.IGNORECASE | re.MULTILINE,
)
_LOG_START = compile_pattern(
    r"(?:Username|Password) for |\W*(?:[A-Z]{3,}\s+\S*[/:]|\[[\w:.-]+\](?!\()|\S+=\S+(?:\s+\S+=\S+)+)"
)
_LOG_FIELDS = compile_pattern(r"(?:\s\S+=\S*){4}")
_PROGRESS = compile_pattern(r"\b\d{3,}/\d{3,}\b")
_SIZE = compile_pattern(r": \d[\d.,]* ?[KMGT]?i?B\b")


_COMMAND_LINE = compile_pattern(
    r"^\s*(?!\d+[.)])[\w./-]+(?:\s+\S+){0,8}?\s--?[A-Za-z][\w-]*(?:[\s=]|$)"
)


_INLINE_CODE = compile_pattern(r"`[^`]+`")
_SPEAKING = compile_pattern(
    r"(?:^|\s)(?:i|i'?m|i'd|i'll|you|we|let'?s|my|our|please|pls|don'?t)(?=\s|$|,)", re.IGNORECASE
)
_SURELY = compile_pattern(
    r"^(?:\s*[$❯›»>]\s|\s*[+-]\s?\d+\s|\s*\d+\s?[-+]\s|\s{4,}\S|\t|[+-]{3} |@@ |\s*at \S+\s*\(|\[?\d{4}-\d\d-\d\d)"
)


def _is_pasted(line: str) -> bool:
    """Return whether a line looks like one of a terminal or a log.

    A line that addresses a person rarely is one.
    """
    if _SURELY.match(line):
        return True
    looks_so = (
        _PASTE_START.match(line)
        or _is_code(line)
        or _is_log(line)
        or _COMMAND_LINE.match(_INLINE_CODE.sub("…", line) if "`" in line else line)
    )
    return bool(looks_so) and not _SPEAKING.search(line)


def _is_code(line: str) -> bool:
    """Return whether a line looks like one of code, of a compiler, or a prompt of a shell."""
    return bool(
        line.rstrip()[-1:] in ("{", "}", ";")
        or (":" in line and _PLACE.search(line))
        or ("(" in line and _PLACE_IN_BRACKETS.match(line))
        or ("[" in line and _PROMPT_ON.match(line))
    )


def _is_log(line: str) -> bool:
    """Return whether a line looks like one of a log; each search needs a character that is rare."""
    return bool(
        _LOG_START.match(line)
        or (line.count("=") >= 4 and _LOG_FIELDS.search(line))
        or ("/" in line and _PROGRESS.search(line))
        or (": " in line and _SIZE.search(line))
    )


def extract_own_words(text: str) -> str:
    """Return the part of a user's message that the user wrote, without what looks pasted.

    Pasted are code blocks, terminal and log lines, what follows a short first paragraph that
    ends in a colon unless it is a list, review reports, and long paragraphs that address no
    person. Nothing is rewritten: the rest stays as it was.
    """
    head, colon, rest = text.partition(":\n\n")
    if colon and len(head) < 200 and head.count("\n") < 3 and not _LISTED.match(rest.lstrip("\n")):
        return head + ":"
    if _is_task_document(text):
        return text.strip()
    own_lines: list[str] = []
    fenced = False
    pasted = 0
    for line in text.split("\n"):
        if _FENCE.match(line):
            fenced = not fenced
        if fenced or len(line) > MAX_LINE or _is_pasted(line):
            pasted += 1
        else:
            own_lines.append(line)
    if pasted >= 2:
        own_lines = [
            x
            for x in own_lines
            if not x or _PERSON.search(x) or _OTHER_SCRIPT.search(x) or "?" in x
        ]
    own = "\n".join(own_lines).strip()
    if report := _REPORT.search(own):
        own = _strip_empty_end(own[: report.start()]).strip().rpartition("\n\n")[0]
    if len(own) > MAX_PLAIN:
        own = "\n\n".join(p for i, p in enumerate(own.split("\n\n")) if i == 0 or _is_spoken(p))
    return own


def _strip_empty_end(text: str) -> str:
    """Return a text without its last lines that contain no word."""
    lines = text.split("\n")
    while lines and not _WORD_CHARACTER.search(lines[-1]):
        lines.pop()
    return "\n".join(lines)


MAX_PLAIN = 400
"""Characters up to which a message without pasted lines counts as the user's in any case,
and a paragraph of a longer one.
"""
_LISTED = compile_pattern(r"\s*(?:[-*+•]|\d{1,2}[.)])\s+(?!\d)[^\n]*[a-z]{3,} [a-z]{2,} ")
_SPECIFIES = compile_pattern(r"\A\s*#{1,3} \S.*(?:\n.*){4,}")


def _is_task_document(text: str) -> bool:
    """Return whether a message is a task written as a document: headings and prose, no terminal."""
    if not _SPECIFIES.match(text) or _FENCE.search(text) or _REPORT.search(text):
        return False
    lines = [line for line in text.split("\n") if line.strip()]
    return not any(_TERMINAL.match(line) for line in lines) and sum(map(len, lines)) > 30 * len(
        lines
    )


_TERMINAL = compile_pattern(r"^\s*(?:[$❯›»%]\s|at \S+\s*\(|\[?\d{4}-\d\d-\d\d|[+-]{3} |@@ )")


def _is_spoken(paragraph: str) -> bool:
    """Return whether a paragraph addresses a person, or is short."""
    if len(paragraph) <= MAX_PLAIN // 2 or _OTHER_SCRIPT.search(paragraph):
        return True
    return bool(_PERSON.search(paragraph))
