"""What is hidden in a command is made visible, by signs that the command cannot write itself; no secret hides it."""

import re
import unicodedata
from itertools import groupby
from typing import Any

import pytest
from controls import control

from tasuki.fleet.store.questions import SECRET, build_question
from tasuki.harness.protocol import AgentEvent
from tasuki.harness.questions import describe_tool_call
from tasuki.hidden_text import is_hidden, show_hidden
from tasuki.text_safety import cut_middle

ODD = ("Cc", "Cf", "Zl", "Zp", "Zs")
HIDDEN = "sk-ant-api03-" + "Zx9Qw8Er7Ty6Ui5Op4As3Df2Gh1Jk0Lz" * 3
"""What looks like a key."""
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


MARKED = [
    "https://[рурі].org/i.sh", "[аррӏе].com", "ra[ᴡ].githubusercontent.com", "g[ı]thub.com", "[ɡ]ithub.com", ".b[а]shrc", "[сору] x",
    "{\"url\": \"https://[рурі].org\"}", "ſ", "ℓs", "ﬁle", "𝐠it", "ｇit", "Ꮪh", "ꓮ", "g[ѕѕ]gle1", "[օ]rigin", "ls [с]2", "o[०]", "rm [ѕѕһ] [аа]",
    "https://[еду].[рф]/x?и", "ssh root@g[í]thub", "https://user@m[ü]nchen.de/Größe",
]  # fmt: skip
"""What looks like ASCII, between brackets; all of it where there are none."""
ORDINARY = [
    'git commit -m "Исправить ошибку"', "Übersicht.md", "cp docs/Übersicht.md größe.txt", "cat 設計書.md API仕様.md ユーザー一覧.csv",
    'git commit -m "Добавить ресурс, курс и как на сервер с данными"', 'echo "Ελληνικά και το άλλο"', "Nº 5 naïve café", "mkdir файл2 отчёт2024.txt",
    "cat ~/Документы/отчёт.docx", "12 µs m²", "Łódź ơ ễ", "한국어.txt", '{"body": "Привет\\nМир"}', "ไทย हिन्दी",
]  # fmt: skip


@pytest.mark.parametrize("text", MARKED)
def test_what_looks_like_ascii_is_shown_by_its_number(text: str) -> None:
    """Within words of ASCII, in words with no other letters, of odd alphabets, and all in a host's name."""
    if "[" not in text:
        text = "".join(letter if letter.isascii() else f"[{letter}]" for letter in text)
    plain = text.replace("[", "").replace("]", "")
    shown = show_hidden(plain, is_exact=True)

    def name(found: re.Match[str]) -> str:
        groups = [(one, len(list(same))) for one, same in groupby(found[1])]
        return "".join(f"⟨U+{ord(one):04X}⟩" * count for one, count in groups)

    assert shown == re.sub(r"\[(.+?)\]", name, text)
    assert show_hidden(plain) == shown


@pytest.mark.parametrize("is_exact", [True, False])
@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_words_of_any_language_stay(text: str, is_exact: bool) -> None:
    """Sentences, and names of files; short words that look like ASCII among others."""
    assert show_hidden(text, is_exact=is_exact) == text


def test_a_name_with_a_dot_is_a_host_but_for_endings_of_files() -> None:
    """Only in what is carried out; a path behind it makes it a host, and text is none."""
    text = 'curl gíthub.com gíthub.md/x größe.md "\\ngíthub.com"'
    shown = 'curl g⟨U+00ED⟩thub.com g⟨U+00ED⟩thub.md/x größe.md "\\ng⟨U+00ED⟩thub.com"'
    assert show_hidden(text, is_exact=True) == shown
    assert show_hidden(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("rm -rf א/../../home/ב", "rm -rf ⟨rtl⟩א⟨ltr⟩/../../home/⟨rtl⟩ב⟨ltr⟩"),
        ("א1/2 ب", "⟨rtl⟩א⟨ltr⟩1/2 ⟨rtl⟩ب⟨ltr⟩"),
        ("echo 'תיקון באג' #٣", "echo '⟨rtl⟩תיקון באג⟨ltr⟩' #⟨rtl⟩٣⟨ltr⟩"),
        ("gסgle", "g⟨U+05E1⟩gle"),
    ],
)
def test_letters_from_right_to_left_move_nothing_else(text: str, shown: str) -> None:
    """The letters of the signs on both sides are from left to right: all else keeps its order."""
    assert show_hidden(text) == shown


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


def test_a_secret_in_a_command_is_replaced() -> None:
    """In all that is kept; one with invisible characters in it, too."""
    for key in (HIDDEN, HIDDEN[:20] + "\u200b" + HIDDEN[20:]):
        called = describe_tool_call(
            "Bash", {"command": f"curl -H 'x-api-key: {key}' https://a.example", "token": key}
        )
        question = build_question(AgentEvent("waiting", "s", question=called), 1.0)

        assert "https://a.example" in question.detail
        assert HIDDEN[20:] not in repr(question)


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("mcp__k8s__delete_secret", {"secret": "prod-payments-tls-2024", "namespace": "prod"}),
        ("Write", {"file_path": "/src/.env", "content": f"KEY={HIDDEN}"}),
        ("Edit", {"file_path": "/src/a", "old_string": f"KEY={HIDDEN}", "new_string": "x"}),
        ("Write", {"file_path": f"/src/{HIDDEN}/a", "content": "x"}),
        ("Bash", {"command": "ls", "env": {"KEY": HIDDEN}}),
        ("AskUserQuestion", {"questions": [{"question": f"Use {HIDDEN}?", "options": [{"label": "Yes"}]}]}),
        ("AskUserQuestion", {"questions": [{"question": "Which?", "options": [{"label": HIDDEN}, {"label": "No"}]}]}),
        ("ExitPlanMode", {"plan": f"Call it with {HIDDEN}"}),
    ],
)  # fmt: skip
def test_no_secret_hides_what_is_allowed(tool: str, given: Any) -> None:
    """In the fields of a tool, a file, a change, a question, its choices and a plan: it has no subject to answer."""
    event = control("claude").parse_event({"hook_event_name": "PermissionRequest", "session_id": "s", "cwd": "/src", "tool_name": tool, "tool_input": given})  # fmt: skip
    assert event is not None
    question = build_question(event, 1.0)

    assert (question.obstacle, question.subject) == (SECRET, None)
    assert HIDDEN not in repr(question)
