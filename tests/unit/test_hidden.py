"""What is hidden in a command is made visible, by signs that the command cannot write itself."""

import unicodedata

import pytest

from tasuki.hidden_text import is_hidden, show_hidden
from tasuki.text_safety import cut_middle

ODD = ("Cc", "Cf", "Zl", "Zp", "Zs")
SEEN = "".join(map(chr, range(33, 127)))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("touch F" + "\n" * 70 + "ls", "touch F\n⟨69 empty lines⟩\nls"),
        ("touch F;" + " " * 14_000 + "ls", "touch F;⟨14,000 blanks⟩ls"),
        (" ls  ", "␣ls␣␣"),
        ("\n\nls\n\n\n", "⟨2 empty lines⟩\nls\n⟨2 empty lines⟩\n"),
        ("   \n\n \nls", "␣␣␣\n\n␣\nls"),
        ("a\t\tb" + "\t" * 9, "a⇥⇥b⟨9 tabs⟩"),
        ("a\u202eb" + "\u200b" * 5 + "c\ufeff", "a⟨U+202E⟩b⟨5 U+200B⟩c⟨U+FEFF⟩"),
        ("ls\rrm\u2028rm\x85\x1b[8mrm", "ls⟨U+000D⟩rm⟨U+2028⟩rm⟨U+0085⟩⟨U+001B⟩[8mrm"),
        ("rm\u00a0a\u3000\u2800\u3164", "rm⟨U+00A0⟩a⟨U+3000⟩⟨U+2800⟩⟨U+3164⟩"),
        ("\U000e0061\U000e0062 ❤\ufe0f", "⟨U+E0061⟩⟨U+E0062⟩ ❤⟨U+FE0F⟩"),
        ("e\u0301 é a" + "\u0336" * 5, "e⟨U+0301⟩ é a⟨5 U+0336⟩"),
        ("⟨3 blanks⟩ ␣", "⟨U+27E8⟩3 blanks⟨U+27E9⟩ ⟨U+2423⟩"),
        ("cat <<E\n  x\n\n  y\nE\n", "cat <<E\n  x\n\n  y\nE\n"),
        ("größe naïve 漢字 привет.txt", "größe naïve 漢字 привет.txt"),
        ("cурl ’x’ ／etc", "c⟨U+0443⟩⟨U+0440⟩l ⟨U+2019⟩x⟨U+2019⟩ ⟨U+FF0F⟩etc"),
    ],
)  # fmt: skip
def test_what_is_hidden_is_shown(text: str, shown: str) -> None:
    """Characters without a shape, runs of blanks and empty lines, and what looks like ASCII."""
    assert show_hidden(text, is_exact=True) == shown


def test_no_character_without_a_shape_is_left() -> None:
    """Controls, marks of direction, spaces and tags are named; what ASCII has to see stays as it is."""
    odd = [
        chr(n)
        for n in range(0x11_0000)
        if unicodedata.category(chr(n)) in ODD and n not in (10, 32)
    ]
    shown = show_hidden("".join(f"a{character}b\n" for character in odd)).splitlines()

    assert shown == [f"a⟨U+{ord(one):04X}⟩b" if one != "\t" else "a⇥b" for one in odd]
    assert all(map(is_hidden, odd))
    assert show_hidden(SEEN) == SEEN


def test_the_middle_is_cut_and_never_an_end() -> None:
    """So many characters, or lines, of both ends are kept."""
    assert cut_middle("a" * 50 + "end", 10, 10) == f"{'a' * 10}\n⟨33 characters more⟩\naaaaaaaend"
    assert cut_middle("short", 10, 10, most_lines=3) == "short"
    lines = "\n".join(map(str, range(9)))
    assert cut_middle(lines, 100, 100, most_lines=2) == "0\n1\n⟨11 characters more⟩\n7\n8"
