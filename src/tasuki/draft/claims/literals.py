"""What a sentence claims literally: paths, commands, quotes and values that must be in the
thread.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

from tasuki.draft.text.entries import ClaimKind, TextClaim, strip_hidden
from tasuki.draft.text.split import PATH
from tasuki.patterns import compile_pattern

MAX_CLAIM = 600
"""Characters of one claim that are looked for."""
_CODE = compile_pattern(r"(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
_QUOTE = compile_pattern(
    r"\"([^\"]+)\"|“([^”]+)”|«([^»]+)»|»([^«]+)«|„([^“”]+)[“”]|‚([^‘’]+)[‘’]|‹([^›]+)›|›([^‹]+)‹"
    r"|「([^」]+)」|『([^』]+)』|＂([^＂]+)＂|``([^`']+)''"
    r"|(?<![\w'’])'(?=\S)((?:[^']|(?<=\w)'(?=\w))+?)(?<=\S)'(?!\w)"
    r"|(?<![\w’])‘((?:[^’]|(?<=\w)’(?=\w))+)’(?!\w)"
)
_USER_STATEMENT = compile_pattern(
    r"\buser (?:\w+ )?(?:said|asked|wrote|answered|replied|typed|ruled): (?![\"'“„«‘`])([^.!?]+)",
    re.IGNORECASE,
)
_SAYS = compile_pattern(r"\b(?:said|says|answered|replied|wrote|asked|typed|chose|picked)\W{1,4}$")
_URL = compile_pattern(r"\b[a-z][a-z0-9+.-]{1,12}://[^\s<>\"'`)\]}]+", re.IGNORECASE)
_PROGRAM = (
    r"npm|npx|pnpm|yarn|bun|pip3?|pipx|uv|uvx|poetry|pytest|python3?|node|deno|cargo|go|git|gh|docker|podman|kubectl"
    r"|helm|make|cmake|terraform|psql|mysql|sqlite3|redis-cli|curl|wget|brew|apt|apt-get|mvn|gradle|dotnet|bundle"
    r"|rake|composer|php|ruby|tsc|eslint|prettier|ruff|mypy|tox|nox|just|mise|systemctl|ssh|scp|rsync|chmod|rm|mv|cp|sudo"
)
_SUBCOMMAND = (
    r"(?:npm|pnpm|yarn|bun) (?:run|install|add|ci|publish|exec|uninstall)|pip3? (?:install|uninstall)|docker compose"
    r"|cargo (?:run|build|test|add|install|publish|clippy|bench)|go (?:test|run|build|get|install|generate|vet)"
    r"|git (?:push|pull|rebase|checkout|reset|stash|clone|cherry-pick|revert|switch|restore|clean)"
    r"|python3? -m|make -C|kubectl \w+|terraform \w+"
)
_NOT_ITS_ARGUMENT = (
    r"(?!(?:the|it|this|that|is|are|was|has|had|and|or|but|on|in|at|for|from|with|to|as|by|if|so|then|when|which|again"
    r"|only|first|once|before|after|against|over|under|via|fails?|failed|failing|passe[sd]|works?|tests?|code|scripts?"
    r"|commands?|jobs?|hooks?|steps?|calls?|there|here|now|not|never|itself|alone)\b)"
)
_COMMAND = compile_pattern(
    rf"(?<![\w`/.-])(?:sudo )?(?:{_PROGRAM})(?: (?:--?[A-Za-z][\w=./:-]*|[\w./:@=-]*[\w/]))*"
    r" --?[A-Za-z][\w=./:-]*"
    rf"|(?<![\w`/.-])(?:{_SUBCOMMAND})(?: {_NOT_ITS_ARGUMENT}[\w./:@-]*\w)?"
    rf"|(?<=\b[Rr]un )(?:{_PROGRAM}) {_NOT_ITS_ARGUMENT}[\w./:@-]*\w"
    r"|(?<![\w`/.-])(?:rm|mv|cp|chmod|curl|wget|ssh|scp|rsync) [\w@-]*[./~][\w./~:@-]*\w"
    r"|(?<!\S)[\w./-]+ && [\w./-]+(?: [\w./-]*\w)?"
)
_PATH_LINE = compile_pattern(r":(\d{2,6})(?:-(\d{2,6}))?")
_VALUE = compile_pattern(
    r"(?<![\w-])--?[A-Za-z][\w-]*"  # flags
    r"|\b[A-Za-z_][\w.-]*=[\w./:@+-]+"  # assignments
    r"|\b[A-Za-z]:\\[\w.\\-]+|\b[\w.-]+(?:\\[\w.-]+)+"  # paths of Windows
    r"|(?<![\w./~])~/[\w.-]+|(?<![\w./~])\.[A-Za-z][\w-]+|(?<![\w/.:@~<>)\]}*-])/[A-Za-z][\w-]+"  # short paths
    r"|(?<![\w/-])[A-Za-z_][\w.-]*/(?=[\s,;:)]|\.?$)|\b(?:Docker|Make|Gem|Rake|Proc|Jenkins|Vagrant|Brew)file\b"
    r"|(?<![\w.@/])@[A-Za-z][\w-]+|(?<![\w&#])#\d{1,9}\b|(?<![\w-])[FCU]\d{1,3}(?![\w-])"  # names, numbers of lists
    r"|\b[A-Za-z_]\w*(?:::\w+)+(?:\(\))?|\b[A-Za-z_]\w*->\w+"
    r"|\b[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)+\b"  # snake_case, CONSTANT_CASE
    r"|\b[a-z]+[a-z0-9]*[A-Z]\w*|\b[A-Z][a-z0-9]+[A-Z]\w*"  # camelCase, PascalCase
    r"|\b[A-Za-z_]\w*(?:\.[A-Za-z_]\w{2,})+(?:\(\))?|\b[A-Za-z_]\w+\(\)"  # dotted names, calls
    r"|\b(?=[0-9a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,40}\b|\b[a-f]{8,40}\b|\b0x[0-9a-fA-F]+\b"  # hashes
    r"|\b[A-Z][A-Z0-9]{1,9}-\d+\b|\b\d{4}-\d\d-\d\d\b|\bv\d+\b(?!\.\d)"  # tickets, dates, versions
    r"|\bv?\d+(?:\.\d+)+(?:[-+][\w.]+)?\b|\b\d{1,3}(?:,\d{3})+\b|\b\d{3,}\b"
    r"|\b\d{1,2}:\d\d\b(?!:?\d)|\b[a-z]{4,}(?:-[a-z]{4,}){2,}\b|(?<![\w.,-])\d+(?=%)"
    r"|(?<![\w.,-])\d{2,}(?=[smhkKMG]\b|[mnµ]s\b|[KMGT]i?B\b| (?:second|minute|hour|day|[KMGT]i?B\b|ms\b))"
)
_PLAIN_PAIR = compile_pattern(r"[a-zA-Z]+/[a-zA-Z]+")
_TITLES = compile_pattern(r"[A-Z]\w*(?:/[A-Z]\w*)+")
_FOLDERS = frozenset(
    "src lib libs test tests spec docs doc app apps pkg cmd internal scripts script bin config configs api server "
    "client core utils util components pages packages web public static assets data db models views routes services "
    "modules include dist build tools examples migrations hooks etc var usr home tmp opt".split()
)
_ABBREVIATION = compile_pattern(
    r"(?:[A-Za-z]\.)+[A-Za-z]?\.?|vs\.|etc\.|[kMGT]i?B|[kMG]Hz", re.IGNORECASE
)
_USER = r"users?|owner|maintainer|developer|customer|boss|human"
_SPEAKS = (
    r"sa(?:id|ys?)|ask(?:s|ed)?|want(?:s|ed)?|wish(?:e[sd])?|told|tells?|wr(?:ote|ites?)|typed?|answer(?:s|ed)?|repl(?:y|ies|ied)"
    r"|rule[sd]?|insist(?:s|ed)?|request(?:s|ed)?|demand(?:s|ed)?|decide[sd]?|chose|chooses|picked|confirm(?:s|ed)?|refuse[sd]?"
    r"|reject(?:s|ed)?|agree[sd]?|approved|complain(?:s|ed)?|report(?:s|ed)?|noted|pointed|called|stated|explained|prefer(?:s|red)?"
    r"|suggest(?:s|ed)?|proposed?|expects?|objected|instructed|ordered|forbade|allowed|came|put|made|gave|quot(?:ed|ing)|required"
)
_ATTRIBUTES = compile_pattern(
    rf"\b(?:{_USER}|they|he|she)(?: (?:\w+ly|has|have|had|also|then|later|first|again|even|did))* (?:{_SPEAKS})\b"
    rf"|\b(?:{_USER})(?:['’]s? (?:own )?\w+|s['’])? ?[:,(—-]* ?[\"“„«‘']|\b(?:by|from|according to) the (?:{_USER})\b"
    rf"|\b(?:{_USER})['’]s (?:own )?(?:words?|wish|request|question|rul\w+|message|answer|instruction|order|remark|complaint)"
    r"|\b(?:Be)?[Nn]utzer|[Aa]nwender|utilisat|usu[aá]ri|\butente|gebruiker|użytkownik|ользовател|用户|用戶|使用者|ユーザ|사용자",
    re.IGNORECASE,
)
_NAME = compile_pattern(r"\b[a-z0-9][\w'’-]*[,;)]* ([A-Z][a-z]{2,})\b(?![-'’]?[A-Z_(/]|\.\w)")
_ENGLISH = compile_pattern(r"\b(?:the|and|to|of|is|are|was|for|that|it|with|this|not|by|on|in)\b")
_MANY_CAPITALS = 0.3
LABEL_CHARACTERS = 80
"""Characters within which a colon ends a label: `Initial Request: …`."""


@lru_cache(1_000)
def extract_claims(text: str) -> tuple[TextClaim, ...]:
    """Return the claims of one sentence, each once."""
    by_text: dict[str, TextClaim] = {}
    for claim in _find_claims(strip_hidden(text)):
        short = claim.text[:MAX_CLAIM].removesuffix(" …").strip()
        if short:
            by_text.setdefault(short, TextClaim(claim.kind, short))
    return tuple(by_text.values())


def is_attributed_to_user(text: str) -> bool:
    """Return whether a sentence says that some words are the user's. “the user said” does, “shown to the user” does not."""
    return bool(_ATTRIBUTES.search(_QUOTE.sub("“”", strip_hidden(text))))


def strip_attribution(text: str) -> str:
    """Return a sentence without the words that say whose it is."""
    return _ATTRIBUTES.sub(" ", text)


def extract_names(text: str) -> Iterator[str]:
    """Yield proper names in an English sentence: `Redis` in “cached in Redis”.

    German capitalises all nouns, so names are not looked for in it.
    """
    masked = _CODE.sub(lambda match: "x" * len(match[0]), strip_hidden(text))
    bare = _URL.sub(" ", _QUOTE.sub(" ", masked))
    words = bare.split()
    if len(_ENGLISH.findall(bare)) < max(1, len(words) // 12):
        return
    if sum(word[:1].isupper() for word in words) < max(3, _MANY_CAPITALS * len(words)):
        label = bare.find(":", 0, LABEL_CHARACTERS)
        yield from (match[1] for match in _NAME.finditer(bare, label + 1))


def _find_claims(text: str) -> Iterator[TextClaim]:
    if statement := _USER_STATEMENT.search(text):
        yield TextClaim("quote", statement[1])
    masked = _CODE.sub(lambda match: "\0" * len(match[0]), text)
    rest, end = [], 0
    for match in _QUOTE.finditer(masked):
        group = match.lastindex or 0
        words = text[match.start(group) : match.end(group)].strip()
        # A person's words, and not one word in a special sense, or a name.
        is_code = words.startswith("`") and words.endswith("`") and words.count("`") == 2
        is_said = " " in words or not words.isascii() or _SAYS.search(masked[: match.start()][-24:])
        if is_said and not is_code:
            yield TextClaim("quote", words)
            rest += [text[end : match.start()], " "]
            end = match.end()
    yield from _find_unquoted_claims("".join([*rest, text[end:]]))


def _find_unquoted_claims(text: str) -> Iterator[TextClaim]:
    for match in _CODE.finditer(text):
        code = match[2].strip()
        is_command = " " in code and re.match(rf"(?:sudo )?(?:{_PROGRAM}|\./\S+) ", code)
        kind: ClaimKind = "path" if PATH.fullmatch(code) else "value"
        yield TextClaim("command" if is_command else kind, code)
    rest = _CODE.sub("-", text).replace("`", " ")
    for match in _URL.finditer(rest):
        yield TextClaim("value", match[0].rstrip(".,;:!?/"))
    rest = _URL.sub(" ", rest)
    for match in _COMMAND.finditer(rest):
        yield TextClaim("command", match[0].rstrip(".:"))
    rest = _COMMAND.sub("-", rest)
    for match in PATH.finditer(rest):
        path = match[0].rstrip(".")
        is_pair = _PLAIN_PAIR.fullmatch(path) and path.partition("/")[0].lower() not in _FOLDERS
        # `read/write`, `3/4` and titles are no paths.
        if not (is_pair or re.fullmatch(r"\d+/\d+", path) or _TITLES.fullmatch(path)):
            yield TextClaim("path", path)
            if line := _PATH_LINE.match(rest, match.end()):
                yield from (TextClaim("value", number) for number in line.groups() if number)
    for match in _VALUE.finditer(PATH.sub(" ", rest)):
        if not _ABBREVIATION.fullmatch(match[0]):
            yield TextClaim("value", match[0].rstrip("."))
