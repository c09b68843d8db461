"""Texts of a thread cut into what can be quoted: sentences, identifiers, paths, error lines.

Whatever is returned stands in the text to the letter, but for white space and emphasis marks.
"""

import re
from collections.abc import Iterator

MAX_QUOTE = 320
"""Characters of one quoted sentence; a longer one is cut at a word and ends in ` …`."""

MAX_NAME = 160
MAX_GOAL_WORDS = 20_000
"""Characters of a goal in which terms are looked for."""
MAX_LINE = 3_000
"""A longer line of a user's message is taken to be pasted."""

_FENCE = re.compile(r"^\s*(?:```|~~~)")
_BULLET = re.compile(r"^\s*(?:[-*+•]\s+(?:\[[ xX]\]\s+)?|\d{1,3}[.)]\s+|#{1,6}\s+|>\s+)")
_SENTENCE_END = re.compile(
    r"[.!?][\"')\]]?\s+(?=[\"'(`\[]?[A-Z0-9À-ÞА-Я]|[\w/-]+(?:\.[a-z]{1,4}\b|_\w))|[。！？]"
)
_ABBREVIATIONS = ("e.g.", "i.e.", "vs.", "etc.", "cf.", "approx.", "no.")
_BULLET_STARTS = frozenset("-*+•#>0123456789")
_TABLE = re.compile(r"^\s*\|.*\|\s*$|^[\s|:+=-]{4,}$")
_EMPHASIS = re.compile(r"(?<![*\w])\*\*(?=[^\s*])((?:(?!\*\*).)+?)(?<=\S)\*\*(?![*\w])")
_WHOLLY_BOLD = re.compile(r"^\s*\*\*[^*]+\*\*:?\s*$")
_LETTER = re.compile(r"[^\W\d_]")
_WORD_CHARACTER = re.compile(r"\w")

_TOKEN = re.compile(
    r"--?[a-z][\w-]+|[A-Za-z_$][\w$]*(?:(?:\.|::|->|/|-|#)[\w$]+)*(?:\(\))?|\d[\w.]*%?"
)
_NAMELIKE = re.compile(r"[a-z][A-Z]|[A-Z]{3}|[_.:>/#$()%-]|\A\d")
WORD = re.compile(r"[^\W\d_][\w'’-]{2,}")
PATH = re.compile(
    r"(?<![\w/.@+)}-])(?:~|\.{1,2})?/?(?:[\w.@+-]+/)+[\w.@+-]*\w"
    r"|(?<![\w/.@+-])[\w@+-][\w.@+-]*\.(?:py|pyi|ts|tsx|js|jsx|mjs|cjs|go|rs|java|kt|rb|php|c|h|cc|cpp|hpp|cs"
    r"|swift|scala|sh|bash|zsh|fish|sql|html|css|scss|vue|svelte|json|jsonl|ya?ml|toml|ini|cfg|conf"
    r"|md|mdx|rst|txt|lock|mod|sum|proto|graphql|tf|nix|ex|exs|erl|hs|ml|lua|zig|dart|csv|env)\b"
)
_ERROR_STRONG = re.compile(
    r"(?i)(?:\b\w*(?:error|exception)\b\s*[:\[(]|\berror TS\d+|^E\s{2,}|\bpanic: |^FAIL\b|^--- FAIL"
    r"|\bfatal: |\bAssertion|assert .*failed|\bexpected\b.*\b(?:got|actual|received|but)\b"
    r"|undefined: |cannot find |command not found|No such file|Permission denied|not found$"
    r"|^\s*✗|^\s*×|\bERR!|\bSegmentation fault|Could not |unable to )"
)
_PLACED_ERROR = re.compile(
    r"(?m)^(?:\[[\w:.-]+\] )?[\w./@-]{1,200}\.\w{1,5}[:(]\d+(?:[:,]\d+)?\)?: (?!\d)[^\n]{8,400}$"
)
"""What a compiler or linter says of a place in a file."""
_NO_ERROR = re.compile(r"\s*(?:hint: |Cancelled: )")
_ERROR_WEAK = re.compile(
    r"(?i)\b(?:error|failed|failure|fail|denied|refused|invalid|missing|cannot|can't|timed? ?out|unexpected)\b"
)

STOP_WORDS = frozenset(
    "the and for with that this from are was were has have had not but you your our can could would should will "
    "what when where which who why how into onto out over under about after before then than them they their there "
    "here also just like make made want need please use using used add added get got let lets some any all more most "
    "now new one two does did done its it's i'm we're don't doesn't isn't been being very only still same other "
    "each per via way work works working thing things know see look sure und der die das ein eine nicht mit für von "
    "les des une dans pour avec sur est que qui los las una para con por del".split()
)


def one_line(text: str) -> str:
    """A text on one line: runs of white space become one blank."""
    return " ".join(text.split())


def comparable(text: str) -> str:
    """What two texts are compared by: white space folded, emphasis and quote marks dropped."""
    return one_line(_EMPHASIS.sub(r"\1", text)).strip("\"'“”„«»` ")


def shorten(text: str, limit: int = MAX_QUOTE) -> str:
    """A text cut at a word so that it ends in ` …` and is no longer than `limit`.

    A long word at the cut goes as a whole: half a secret could not be recognised any more.
    """
    if len(text) <= limit:
        return text
    cut = text[: limit - 2]
    at = cut.rfind(" ")
    return f"{cut[: max(at, 0)].rstrip(' ,;:')} …".lstrip()


def sentences(text: str) -> Iterator[str]:
    """Sentences and list items of a text, without list marks and emphasis, on one line each."""
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
            yield from _split(paragraph)
            paragraph = []
        elif (first in _BULLET_STARTS) and (mark := _BULLET.match(line)):
            yield from _split(paragraph)
            paragraph = [line[mark.end() :]]
            if first == "#" or _WHOLLY_BOLD.match(paragraph[0]):
                yield from _split(paragraph)
                paragraph = []
        elif first == "*" and _WHOLLY_BOLD.match(line):
            yield from _split(paragraph)
            yield from _split([line])
            paragraph = []
        else:
            paragraph.append(line)
    yield from _split(paragraph)


def _split(lines: list[str]) -> Iterator[str]:
    if not lines:
        return
    text = " ".join(" ".join(lines).split())
    if "**" in text:
        text = _EMPHASIS.sub(r"\1", text)
    start = 0
    for match in _SENTENCE_END.finditer(text):
        if not text.endswith(_ABBREVIATIONS, start, match.start() + 1):
            yield from _worth(text[start : match.end()])
            start = match.end()
    yield from _worth(text[start:])


def _worth(sentence: str) -> Iterator[str]:
    sentence = sentence.strip()
    if len(sentence) >= 8 and _LETTER.search(sentence):
        yield sentence


def identifiers(text: str) -> list[str]:
    """Code-like tokens: names with case or underscores, paths, flags, numbers."""
    found = (m[0].strip("-").rstrip(".") for m in _TOKEN.finditer(text))
    return [t for t in found if len(t) <= MAX_NAME and _NAMELIKE.search(t)]


def terms(text: str) -> dict[str, float]:
    """What a goal is about, lower case, with weights: identifiers 3, parts of them and words 1."""
    found: dict[str, float] = {}
    for token in identifiers(text[:MAX_GOAL_WORDS]):
        if len(token) >= 3:
            found[token.lower()] = 3.0
            for part in re.split(r"[^\w]+|_|(?<=[a-z])(?=[A-Z])", token):
                if len(part) >= 4 and part.lower() not in STOP_WORDS:
                    found.setdefault(part.lower(), 1.0)
    for match in WORD.finditer(text[:MAX_GOAL_WORDS]):
        word = match[0].lower()
        if word not in STOP_WORDS and len(word) >= 3:
            found.setdefault(word[:-1] if len(word) > 4 and word.endswith("s") else word, 1.0)
    return found


def speaks_of(text: str, about: set[str]) -> bool:
    """Whether a text holds most of some terms, and two of them at least."""
    low = text.lower()
    return sum(term in low for term in about) >= max(2, len(about) * 0.6)


def paths(text: str) -> list[str]:
    """Things that look like file paths."""
    return [m[0].rstrip(".") for m in PATH.finditer(text) if "://" not in m[0]]


def error_line(output: str) -> str:
    """The line that says why a command failed: the first plain error, else the last hint of one."""
    weak = ""
    if match := _PLACED_ERROR.search(output):
        return shorten(one_line(match[0]), 240)
    for line in output.split("\n"):
        if len(line) > 2000:
            line = line[:2000]
        if _NO_ERROR.match(line):
            continue
        if _ERROR_STRONG.search(line) and not line.lstrip().startswith(("// ", "# ", "* ")):
            return shorten(one_line(line), 240)
        if not weak and _ERROR_WEAK.search(line):
            weak = line
    if weak:
        return shorten(one_line(weak), 240)
    lines = [x for x in output.split("\n") if x.strip() and not x.startswith("Exit code")]
    return shorten(one_line(lines[-1]), 240) if lines else ""


_PASTE_LINE = re.compile(
    r"^(?:\s*[$❯›»]\s|\s*[+-]?\s?\d+\s?[-+]\s|\s*[+-]\s\d+\s|\s{4,}\S|\t|\s*at \S+\s*\(|.*[{};]\s*$|[│┃|].*|\[?\d{4}-\d\d-\d\d|.*\b\w+\.[A-Za-z]{1,4}:\d+"
    r"|\s*(?:(?:error|warning|fatal|panic)(?:\[\w+\])?: .*|traceback \(.*|fail\s{2,}.*|ok\s{2,}.*|exit status \d.*)|[+-]{3} |@@ |\S+\s+on\s+\S+.*\[.*\]"
    r"|\s*[\w./-]+\(\d+,\d+\)|\s*#{2,} |\s*</?[a-z][\w-]*[ >]|={3,}|-{3,})",
    re.IGNORECASE,
)


_PERSON = re.compile(
    r"\b(?:i|i'?m|i'?d|i'?ll|i'?ve|you|your|we|we'?re|we'?ll|let'?s|me|my|us|our|can|could|please|don'?t|do not|"
    r"must|never|always|only|should|want|need|make sure|keep|avoid|instead|no|yes|ok|ich|wir|bitte|nicht|nur|je|nous|"
    r"il faut|yo|quiero|hay que)\b",
    re.IGNORECASE,
)
_OTHER_SCRIPT = re.compile("[぀-ヿ㐀-鿿가-힯А-я]")
_REPORT = re.compile(
    r"^[^\w\n]*(?:(?:low|medium|high|critical|major|minor)(?: severity)?[^\w\n]*|(?:fixed|found) in \S+(?:[^\S\n][^\w\n]*)?)$",
    re.IGNORECASE | re.MULTILINE,
)
_LOG = re.compile(
    r"^(?:Username|Password) for |^\W*(?:[A-Z]{3,}\s+\S*[/:]|\[[\w:.-]+\](?!\()|\S+=\S+(?:\s+\S+=\S+)+)|(?:\s\S+=\S*){4}|\b\d{3,}/\d{3,}\b|: \d[\d.,]* ?[KMGT]?i?B\b"
)


_COMMAND_LINE = re.compile(r"^\s*(?!\d+[.)])[\w./-]+(?:\s+\S+){0,8}?\s--?[A-Za-z][\w-]*(?:[\s=]|$)")


_INLINE_CODE = re.compile(r"`[^`]+`")
_SPEAKS = re.compile(
    r"(?:^|\s)(?:i|i'?m|i'd|i'll|you|we|let'?s|my|our|please|pls|don'?t)(?=\s|$|,)", re.IGNORECASE
)
_SURELY = re.compile(
    r"^(?:\s*[$❯›»]\s|\s*[+-]\s?\d+\s|\s*\d+\s?[-+]\s|\s{4,}\S|\t|[+-]{3} |@@ |\s*at \S+\s*\(|\[?\d{4}-\d\d-\d\d)"
)


def _is_pasted(line: str) -> bool:
    """Whether a line looks like a terminal's or a log's; a line that speaks to somebody rarely is."""
    if _SURELY.match(line):
        return True
    around_code = _INLINE_CODE.sub("…", line)
    looks_so = _PASTE_LINE.match(line) or _LOG.search(line) or _COMMAND_LINE.match(around_code)
    return bool(looks_so) and not _SPEAKS.search(line)


_WRAPPED = re.compile(r"(?m)^## My request for Codex:\s*$")
"""What an editor puts in front of a message: the request stands behind its last heading."""


def own_words(text: str) -> str:
    """The part of a user's message that the user wrote: what looks pasted is left out.

    Pasted are code blocks, terminal and log lines, what follows a short first paragraph that
    ends in a colon unless it is a list, review reports, and long paragraphs in which nobody speaks
    to anybody. Nothing is rewritten: the rest stands as it was.
    """
    text = _WRAPPED.split(text)[-1]
    head, colon, rest = text.partition(":\n\n")
    if colon and len(head) < 200 and head.count("\n") < 3 and not _LISTED.match(rest.lstrip("\n")):
        return head + ":"
    if _is_written(text):
        return text.strip()
    kept: list[str] = []
    fenced = False
    pasted = 0
    for line in text.split("\n"):
        if _FENCE.match(line):
            fenced = not fenced
        if fenced or len(line) > MAX_LINE or _is_pasted(line):
            pasted += 1
        else:
            kept.append(line)
    if pasted >= 2:
        kept = [
            x for x in kept if not x or _PERSON.search(x) or _OTHER_SCRIPT.search(x) or "?" in x
        ]
    own = "\n".join(kept).strip()
    if report := _REPORT.search(own):
        own = _without_empty_end(own[: report.start()]).strip().rpartition("\n\n")[0]
    if len(own) > MAX_PLAIN:
        own = "\n\n".join(p for i, p in enumerate(own.split("\n\n")) if i == 0 or _speaks(p))
    return own


def _without_empty_end(text: str) -> str:
    """A text without its last lines in which there is no word."""
    lines = text.split("\n")
    while lines and not _WORD_CHARACTER.search(lines[-1]):
        lines.pop()
    return "\n".join(lines)


MAX_PLAIN = 400
"""Characters up to which a message without pasted lines is the user's whatever it says, and a
paragraph of a longer one."""
_LISTED = re.compile(r"\s*(?:[-*+•]|\d{1,2}[.)])\s+(?!\d)[^\n]*[a-z]{3,} [a-z]{2,} ")
_SPECIFIES = re.compile(r"\A\s*#{1,3} \S.*(?:\n.*){4,}")


def _is_written(text: str) -> bool:
    """Whether a message is a task written down as a document: headings and prose, no terminal in it."""
    if not _SPECIFIES.match(text) or _FENCE.search(text) or _REPORT.search(text):
        return False
    lines = [line for line in text.split("\n") if line.strip()]
    return not any(_TERMINAL.match(line) for line in lines) and sum(map(len, lines)) > 30 * len(
        lines
    )


_TERMINAL = re.compile(r"^\s*(?:[$❯›»%]\s|at \S+\s*\(|\[?\d{4}-\d\d-\d\d|[+-]{3} |@@ )")


def _speaks(paragraph: str) -> bool:
    """Whether somebody speaks in a paragraph, or it is short."""
    if len(paragraph) <= MAX_PLAIN // 2 or _OTHER_SCRIPT.search(paragraph):
        return True
    return bool(_PERSON.search(paragraph))
