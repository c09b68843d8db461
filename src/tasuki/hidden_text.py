"""Make visible what a person would not see in a text that is to be approved, or would misread."""

import unicodedata
from functools import lru_cache
from itertools import groupby, pairwise

from tasuki.patterns import compile_pattern
from tasuki.text_safety import JOINS, MARKS, UNSEEN

_UNPRINTED = compile_pattern(r"[^\n\x20-\x7e]+")
_OWN_SIGNS = "\u27e8\u27e9\u2423\u21e5\u23ce"
_BARE = compile_pattern(f"[{UNSEEN}{JOINS}{MARKS}{_OWN_SIGNS}\u2800\ufffc\U00013441\U00013442]")
_LOOKALIKES = frozenset(
    "\u2018\u2019\u201a\u201b\u2032\u02b9\u02bc\u02c8\u02cb\u201c\u201d\u201e\u201f\u2033"  # quotes
    "\u2044\u2215\u29f8\u2236\ua789\u2223\u01c0\u01c3\u2010\u2011\u2012\u2212\u2217\u223c"  # slash, colon, pipe, minus, star, tilde
)
_BLANKS = compile_pattern(r"\A +| +(?=\n|\Z)| {16,}")
_EMPTY_LINES = compile_pattern(r"\A\n+|(?<=\n)\n+\Z|(?<=\n)\n{2,}")
_TO_LEFT = "[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]"
_LEFTWARD = compile_pattern(f"{_TO_LEFT}(?: ?{_TO_LEFT})*")
_WORD = compile_pattern(r"\\[nrtbf]|(?:[^\W_]|[\u0300-\u036f])+")
"""A word; a letter behind a backslash, as JSON has it, is none of the word behind it."""
_AUTHORITY = compile_pattern(r"(?:(?<=://)|(?<=[\w.-]@))[^\s/?#'\"`<>|;&(){}]+")
_BARE_HOST = compile_pattern(
    r"(?:(?<![^\s'\"`=(,\[{<>|;&])|(?<=\\[nrt]))(?:[\w\u0300-\u036f-]+\.)+(?P<end>[A-Za-z][A-Za-z0-9-]+)(?![\w.-])(?P<more>[/:]?)"
)
"""A name with a dot, which is a host's or a file's."""
_FILE_ENDING = compile_pattern(
    r"(?i)[ch](?:pp|xx)?|[cm]?[jt]sx?|rs|go|py[ci]?|rb|php|java|kts?|swift|lua|sql|(?:ba|z|fi)?sh|ps1|bat|mdx?|rst|adoc|te?xt|tex|log|[ct]sv|jsonl?|ya?ml|"
    r"toml|ini|cfg|conf|env|lock|x?html?|xml|s?css|svg|png|jpe?g|gif|webp|ico|pdf|docx?|xlsx?|pptx?|od[tsp]|rtf|epub|mp[34]|wav|ogg|mov|mkv|webm|"
    r"zip|t?gz|tar|bz2|xz|7z|rar|iso|deb|rpm|exe|dll|jar|db|sqlite3?|bak|tmp|old|orig|patch|diff|po|ipynb|vue|svelte|proto|tf|pem|crt|key|eml|ics|srt|dat"
)
_LATIN = frozenset("ßẞæÆøØœŒđĐðÐþÞłŁŋŊħĦŧŦªºµ")
"""Letters of Latin alphabets that are none of ASCII's with a mark on it."""
_UNSPACED = ("CJK", "IDEOGRAPHIC", "HIRAGANA", "KATAKANA", "HALFWIDTH", "BOPOMOFO", "HANGUL")
"""Scripts that stand beside ASCII in one word."""
_SCRIPTS = (
    *_UNSPACED, "GREEK", "CYRILLIC", "ARMENIAN", "GEORGIAN", "HEBREW", "ARABIC", "DEVANAGARI", "BENGALI", "GURMUKHI", "GUJARATI", "ORIYA",
    "TAMIL", "TELUGU", "KANNADA", "MALAYALAM", "SINHALA", "THAI", "LAO", "TIBETAN", "MYANMAR", "ETHIOPIC", "KHMER", "MONGOLIAN",
)  # fmt: skip
"""Scripts that people write every day. A letter of any other is shown by its number."""
_TWINS = frozenset(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0455\u0456\u0458\u04bb\u0501\u051b\u051d\u04cf\u0475\u0461\u04af\u0433\u043a"  # Cyrillic
    "\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u0405\u0406\u0408\u04ae\u04c0\u04ba\u0474\u050c\u051a\u051c"
    "\u03b1\u03b3\u03b9\u03ba\u03bd\u03bf\u03c1\u03c3\u03c4\u03c5\u03c9\u03c7\u03f2\u03f3"  # Greek
    "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03f9\u037f"
    "\u0585\u0578\u057d\u0570\u0566\u0581\u0575\u057c\u0584\u0563\u0582\u0572\u056c\u0555\u054d\u054f\u053c\u0548\u0540"  # Armenian
    "\u05d5\u05d8\u05df\u05e1\u0627\u0647\u0661\u0665\u06f1\u06f5\u0966\u09e6\u0a66\u0ae6\u0b66\u0be6\u0c66\u0ce6\u0d66\u0e50\u0ed0\u1040"  # l, o
    "\u0b20\u0d20\u101d\u10e7\u12d0\u3007\u4e00\u4e28\u4e36\u4e3f\u53e3\u30ce\u30cb\u30fc\u1175\u3161\u3163"  # o, y, dash, bar
)
"""Letters and digits that look like ASCII."""


def show_hidden(text: str, *, is_exact: bool = False) -> str:
    """Return a text with a sign for all that a person would not see in it, or take for ASCII.

    `⟨U+200B⟩` is a character without a shape of its own, or a letter that looks like another,
    `⟨14,000 blanks⟩` and `⟨69 empty lines⟩` are runs, `␣` is a blank at the end of a line, `⇥` a tab.
    What is written from right to left is between `⟨rtl⟩` and `⟨ltr⟩`, whose letters keep what is
    beside it in its place. A character that is such a sign is shown by its number, so that it is
    never taken for ours. `is_exact`: it is carried out as it stands, so quotes and dashes count, too.
    """
    twins = set[int]() if text.isascii() else _find_twins(text, is_exact)
    shown = _UNPRINTED.sub(
        lambda found: _name_characters(found[0], found.start(), twins, is_exact), text
    )
    shown = _LEFTWARD.sub("\u27e8rtl\u27e9\\g<0>\u27e8ltr\u27e9", shown)
    shown = _BLANKS.sub(lambda found: _name_run("␣", "blanks", len(found[0])), shown)
    return _EMPTY_LINES.sub(lambda found: _name_run("", "empty lines", len(found[0])) + "\n", shown)


def is_hidden(character: str) -> bool:
    """Whether a character has no shape of its own, or is one of our signs."""
    kind = unicodedata.category(character)
    odd = kind[0] == "C" or kind in ("Zl", "Zp", "Me") or (kind == "Zs" and character != " ")
    return odd or bool(_BARE.match(character))


@lru_cache(maxsize=4096)
def _classify_letter(letter: str) -> str:
    """Return what a letter or digit is to who reads ASCII: latin, twin, odd, unspaced or other; empty for none."""
    if unicodedata.category(letter) not in ("Lu", "Ll", "Lt", "Lm", "Lo", "Nd", "Nl"):
        return ""
    name = unicodedata.name(letter, "")
    if letter.isascii() or letter in _LATIN or name.startswith("LATIN"):
        is_latin = letter in _LATIN or unicodedata.normalize("NFD", letter)[0].isascii()
        return ("" if letter.isdecimal() else "latin") if is_latin else "odd"
    if letter in _TWINS:
        return "twin"
    return (
        "odd"
        if not name.startswith(_SCRIPTS)
        else "unspaced"
        if name.startswith(_UNSPACED)
        else "other"
    )


def _find_twins(text: str, is_exact: bool) -> set[int]:
    """Find the places of letters that a person would take for ASCII, and all that is none in a host.

    Such a letter counts beside Latin ones, and in a word that has no other letters, unless the next
    word is one of a language with its own.
    """
    hosts = [found.span() for found in _AUTHORITY.finditer(text)]
    for found in _BARE_HOST.finditer(text) if is_exact else ():
        if found["more"] or not _FILE_ENDING.fullmatch(found["end"]):
            hosts.append(found.span())
    twins = {place for host in hosts for place in range(*host) if not text[place].isascii()}
    words = [found.span() for found in _WORD.finditer(text)]
    kinds = [{*map(_classify_letter, text[slice(*word)])} for word in words]
    owns = [bool(kind & {"other", "unspaced"}) and "latin" not in kind for kind in kinds]
    gaps = ["", *(text[end:start] for (_, end), (start, _) in pairwise(words)), ""]
    for number, (start, end) in enumerate(words):
        is_own = owns[number] or any(
            gaps[gap] in (" ", ", ") and owns[beside]
            for gap, beside in ((number, number - 1), (number + 1, number + 1))
        )
        odd = {"odd"} if is_own else {"odd", "twin"}
        if "latin" in kinds[number]:
            odd = {"odd", "twin", "other"} if is_exact else {"odd", "twin"}
        twins.update(n for n in range(start, end) if _classify_letter(text[n]) in odd)
    return twins


def _is_variant(character: str) -> bool:
    """Whether a character is one of ASCII in another form; a number that is set higher is none."""
    is_plain = character in _LATIN or unicodedata.category(character) == "No"
    return not is_plain and unicodedata.normalize("NFKC", character).isascii()


def _name_characters(run: str, start: int, twins: set[int], is_exact: bool) -> str:
    """Name the hidden ones among characters that are none of ASCII's."""
    parts = []
    marks = 2  # on one letter there are so many at most; on one of ASCII's, none
    for (character, is_twin), same in groupby(
        (letter, place in twins) for place, letter in enumerate(run, start)
    ):
        count = len(list(same))
        marks = marks + count if unicodedata.category(character) in ("Mn", "Mc") else 0
        is_alike = is_exact and (character in _LOOKALIKES or _is_variant(character))
        if character == "\t":
            parts.append(_name_run("⇥", "tabs", count))
        elif is_twin or is_alike or marks > 2 or is_hidden(character):
            number = f"U+{ord(character):04X}"
            parts.append(_name_run(f"⟨{number}⟩", number, count))
        else:
            parts.append(character * count)
    return "".join(parts)


def _name_run(sign: str, name: str, count: int) -> str:
    """Name a run of one character: by its sign where there are few, else by their number."""
    if sign and count < 4:
        return sign * count
    return f"⟨{count:,} {name if count > 1 else name.removesuffix('s')}⟩"
