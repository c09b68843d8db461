"""Shell command lines split into simple commands, rule by rule, and what hostile lines cost."""

import time

import pytest

from tasuki.shell import SimpleCommand, is_powershell, split_commands, strip_assignments

SECONDS = 8
"""Many times what is needed; what grows with the square of the length takes longer."""


def texts(line: str, *, powershell: bool | None = False) -> list[str]:
    """The commands of a line."""
    return [c.text for c in split_commands(line, powershell=powershell)]


def test_a_command_knows_what_stands_before_it() -> None:
    """The operator before each command is kept; `|` and `|&` make it one that reads a pipe."""
    found = split_commands("a 1 && b || c; d | e |& f & g\nh")

    assert [(c.operator, c.text) for c in found] == [
        ("", "a 1"), ("&&", "b"), ("||", "c"), (";", "d"), ("|", "e"), ("|&", "f"), ("&", "g"), ("\n", "h"),
    ]  # fmt: skip
    assert [c.text for c in found if c.is_piped] == ["e", "f"]


@pytest.mark.parametrize("line", ["", " ", "\n\n", "# note", ";;", "() { }", "fi; done"])
def test_a_line_without_a_command_gives_none(line: str) -> None:
    """Blanks, comments, keywords and marks alone are no command."""
    assert texts(line) == []


def test_a_plain_line_is_one_command() -> None:
    """White space is folded; a keyword in front is taken off on the short way too."""
    assert split_commands("  go   test\t./...  ") == [SimpleCommand("go test ./...")]
    assert texts("time make all") == ["make all"]
    assert texts("make time") == ["make time"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("echo 'a; b && c | d' ; e", ["echo 'a; b && c | d'", "e"]),
        ('echo "a; b" ; e', ['echo "a; b"', "e"]),
        ("echo 'it\\'; e", ["echo 'it\\'", "e"]),
        ('echo "a \\"; b" ; e', ['echo "a \\"; b"', "e"]),
        ("echo $'it\\'s; x' ; e", ["echo $'it\\'s; x'", "e"]),
        ("git commit -m 'one\ntwo; three' ; e", ["git commit -m 'one two; three'", "e"]),
        ('echo "it\'s"; e', ['echo "it\'s"', "e"]),
        ("a'b;c'd; e", ["a'b;c'd", "e"]),
    ],
)
def test_quotes_hold_together(line: str, expected: list[str]) -> None:
    """Operators and newlines in single, double and ANSI quotes separate nothing."""
    assert texts(line) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("find . -exec rm {} \\; -print; e", ["find . -exec rm {} \\; -print", "e"]),
        ("a\\ b\\&c && d", ["a\\ b\\&c", "d"]),
        ("go test \\\n  ./... && e", ["go test ./...", "e"]),
        ("go te\\\nst", ["go test"]),
        ('a "b\\\nc"', ['a "bc"']),
        ("a \\\r\n  b\r\nc", ["a b", "c"]),
        ("a\\", ["a\\"]),
    ],
)
def test_escapes_and_continued_lines(line: str, expected: list[str]) -> None:
    """A backslash takes the meaning of the next character, and joins lines."""
    assert texts(line) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a # b; c\nd", ["a", "d"]),
        ("# it's a note\nd", ["d"]),
        ("a#b; c", ["a#b", "c"]),
        ("a; # b\nc", ["a", "c"]),
        ("echo $# '#'; b", ["echo $# '#'", "b"]),
        ("x $(a # it's)\n) ; b", ["x $(a # it's) )", "b"]),
    ],
)
def test_comments_are_dropped(line: str, expected: list[str]) -> None:
    """From a `#` that begins a word to the end of the line nothing counts, not even a quote."""
    assert texts(line) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("cat <<EOF\na; b 'c\nEOF\nd", ["cat", "d"]),
        ("python - <<'EOF' arg && b\nimport os; x()\nEOF\nd", ["python - arg", "b", "d"]),
        ('cat <<A <<"B"; c\na\nA\nb\nA\nB\nd', ["cat", "c", "d"]),
        ("cat <<-END\n\ta; b\n\tEND\nd", ["cat", "d"]),
        ("cat <<END\n\tEND\nstill; in it\nEND\nd", ["cat", "d"]),
        ("cat << \\EOF\na\nEOF\nd", ["cat", "d"]),
        ("cat <<EOF 'x\ny'\nin; it\nEOF\nd", ["cat 'x y'", "d"]),
        ("cat <<EOF\nnever; closed", ["cat"]),
        ("cat <<EOF | grep b\nb; c\nEOF", ["cat", "grep b"]),
    ],
)
def test_here_documents_are_dropped(line: str, expected: list[str]) -> None:
    """Bodies are no commands: several, with tabs, with quoted delimiters, or without an end."""
    assert texts(line) == expected


def test_a_here_document_in_a_substitution_is_dropped() -> None:
    """The usual way to write a commit message leaves no line of the message behind."""
    line = "git commit -m \"$(cat <<'EOF'\nfix: it's (a; b\n\nnpm test\nEOF\n)\" && git push"

    assert texts(line) == ["git commit -m \"$(cat <<'EOF' )\"", "git push"]


def test_a_here_string_is_no_here_document() -> None:
    """`<<<` takes one word, and the next line is a command."""
    assert texts("grep x <<< 'a; b'; c\nd") == ["grep x", "c", "d"]
    assert texts("f $(x <<<y\nz); c") == ["f $(x <<<y z)", "c"]


@pytest.mark.parametrize(
    "part",
    [
        "$(b; c)", '"$(b "c;d" | e)"', "`b; c`", "\"`b; c\"", "<(b; c)", ">(b | c)", "${b:-c;d}", '"${b:-it\'s;}"',
        "$((1 << 2; 3))", "$(b (c; d) e; f)", "$(b $(c; d) $((1|2)))", "$(b '(' ; c)", "$(b \\) ; c)", "@(b|c)",
    ],
)  # fmt: skip
def test_what_is_nested_belongs_to_its_command(part: str) -> None:
    """Substitutions of commands, processes, parameters and sums separate nothing outside of them."""
    if part.count("`") % 2:
        assert texts(f"a {part}; z") == [f"a {part}; z"]
    else:
        assert texts(f"a {part}; z") == [f"a {part}", "z"]
        assert texts(f"x={part}; z") == [f"x={part}", "z"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a > out; b", ["a", "b"]),
        ("a >out 2>&1 b", ["a b"]),
        ("a >& out; b &> log; c &>>log; d", ["a", "b", "c", "d"]),
        ("a 2>/dev/null && b", ["a", "b"]),
        ("a &>> log b", ["a b"]),
        ("a >&2; b 2>&-", ["a", "b"]),
        ("a < in > 'my; out' b", ["a b"]),
        ("a >| out; b <> c", ["a", "b"]),
        ("{fd}>x a; a2 > y", ["a", "a2"]),
        ("a > >(tee log; b) c", ["a c"]),
        ("echo '>' x", ["echo '>' x"]),
        ("a $((1 << 2))\nb", ["a $((1 << 2))", "b"]),
        ("a 2 > x", ["a 2"]),
    ],
)
def test_redirections_are_dropped(line: str, expected: list[str]) -> None:
    """With their targets, and `&` in them ends no command."""
    assert texts(line) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("(cd a && make) ; b", ["cd a", "make", "b"]),
        ("((a; b) | c)", ["a", "b", "c"]),
        ("{ a; b; } && c", ["a", "b", "c"]),
        ("for x in $(ls; pwd) b; do make $x; done", ["make $x"]),
        ("for x in a\ndo\n  make $x\ndone\nb", ["make $x", "b"]),
        ("for ((i=0;i<3;i++)); do a; done", ["a"]),
        ("while read x; do a $x; done < list", ["read x", "a $x"]),
        ("until a; do b; done", ["a", "b"]),
        ("if a; then b; elif c; then d; else e; fi", ["a", "b", "c", "d", "e"]),
        ("if [[ -f a && b < c ]]; then d; fi", ["[[ -f a && b < c ]]", "d"]),
        ("case $x in a|'b') c; d;; (e) f ;; *) g\nesac; h", ["c", "d", "f", "g", "h"]),
        ("case x in\n  # note\n  a) b ;;\nesac\nc", ["b", "c"]),
        ("(case x in a) b; esac; c) && d", ["b", "c", "d"]),
        ("(case x in a) b;; esac; c) && d", ["b", "c", "d"]),
        ("! a; time b", ["a", "b"]),
        ("f() { a; }; function g { b; }; f", ["a", "b", "f"]),
        ("x=() ; y=(a b) ; ((i++)) ; b", ["x=()", "y=(a b)", "((i++))", "b"]),
        ("echo do; echo { a", ["echo do", "echo { a"]),
        ("select x in a b; do c; break; done", ["c", "break"]),
    ],
)
def test_groups_loops_and_conditions_are_taken_apart(line: str, expected: list[str]) -> None:
    """Keywords are taken off, heads of loops, cases and functions are dropped."""
    assert texts(line) == expected


def test_a_newline_after_an_operator_goes_on() -> None:
    """What follows a pipe on the next line reads from it; what follows a whole line does not."""
    found = split_commands("a |\n\n  b\nc &&\n  # note\n  d")

    assert [(c.operator, c.text) for c in found] == [("", "a"), ("|", "b"), ("\n", "c"), ("&&", "d")]  # fmt: skip


def test_powershell_calls_with_an_ampersand() -> None:
    """Before a command `&` is no operator; behind one it is."""
    found = split_commands("& a & b; & 'c'", powershell=True)

    assert [(c.operator, c.text) for c in found] == [("", "a"), ("&", "b"), (";", "'c'")]


def test_the_first_command_of_a_group_reads_the_pipe() -> None:
    """The operator before a group is the one before its first command."""
    found = split_commands("a | (b; c) && { d; }\ne | (f)\ng; case x in h) i;; j) k;; esac")

    assert [(c.operator, c.text) for c in found] == [
        ("", "a"), ("|", "b"), (";", "c"), ("&&", "d"),
        ("\n", "e"), ("|", "f"), ("\n", "g"), (";", "i"), (";", "k"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a; echo 'b; c", ["a", "echo 'b; c"]),
        ('a; echo "b; c', ["a", 'echo "b; c']),
        ("a; b $(c; d", ["a", "b $(c; d"]),
        ("a; b `c; d", ["a", "b `c; d"]),
        ("a; b ${c; d", ["a", "b ${c; d"]),
        ("a; x=(b; c", ["a", "x=(b; c"]),
        ("[[ a && b; c", ["[[ a && b; c"]),
        ("(a; b", ["a", "b"]),
        ("a) b; c", ["a) b", "c"]),
        ("a }; b", ["a }", "b"]),
    ],
)
def test_what_is_never_closed_takes_the_rest(line: str, expected: list[str]) -> None:
    """A quote or substitution does, whatever follows; a group ends with the line."""
    assert texts(line) == expected


# -- PowerShell ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("cd C:\\tmp\\; dir", ["cd C:\\tmp\\", "dir"]),
        ("a `; b; c", ["a `; b", "c"]),
        ("a `\n  b\nc", ["a b", "c"]),
        ("echo 'it''s; x'; b", ["echo 'it''s; x'", "b"]),
        ('echo "a ""b; c"" `"; d"; b', ['echo "a ""b; c"" `"; d"', "b"]),
        ('echo "x $(Get-Item "a;b"; c) y"; b', ['echo "x $(Get-Item "a;b"; c) y"', "b"]),
        ("git commit -m @'\nit's; a\n'@\nb", ["git commit -m", "b"]),
        ('Set-Content x @"\na; "b"\n"@ ; b', ["Set-Content x", "b"]),
        ("a # b; c\nd <# e;\nf #> g", ["a", "d g"]),
        ("a > out 2>&1; b 2>$null; c *> d", ["a", "b", "c"]),
        ("a && b || c | d", ["a", "b", "c", "d"]),
        ("Get-X | Where-Object { $_.A; 'b}' } ; c", ["Get-X", "Where-Object { $_.A; 'b}' }", "c"]),
        ("if (Test-Path a; b) { c } elseif (d) { e } else { f }", ["c", "e", "f"]),
        ("foreach ($x in @(1; 2)) { go $x; b }\nc", ["go $x", "b", "c"]),
        ("try { a } catch [IO.E] { b } finally { c }", ["a", "b", "c"]),
        ("function F { param($x)\n a }; if(b){ c }", ["a", "c"]),
        ("& 'C:\\a b\\c.exe' d; & e", ["'C:\\a b\\c.exe' d", "e"]),
        ("$x = @{ a = 1; b = 2 }; c", ["$x = @{ a = 1; b = 2 }", "c"]),
        ("if (a) { b }; c }", ["b", "c }"]),
        ("a | %{ b; c } # {(\nd", ["a", "%{ b; c }", "d"]),
        ("a (b # (\n); c", ["a (b # ( )", "c"]),
        ("a; b (c; d", ["a", "b (c; d"]),
        ("a; echo 'b; c", ["a", "echo 'b; c"]),
        ("a; b @'\nc; d", ["a", "b"]),
    ],
)
def test_powershell_has_rules_of_its_own(line: str, expected: list[str]) -> None:
    """The backtick escapes, the backslash does not; quotes are doubled; here-strings are dropped."""
    assert texts(line, powershell=True) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Get-ChildItem -Recurse", True),
        ("cd x; Remove-Item a", True),
        ("$env:PATH = 'a'; go build", True),
        ("go build 2>$null", True),
        ("git commit -m @'\na\n'@", True),
        ("apt-get update && Xvfb-run a", False),
        ("echo Get-Content", False),
        ("cat > a.ps1 <<'EOF'\nGet-Content x\nEOF", False),
        ("pwsh -c 'x; Get-Content y'; Get-Content z", False),
        ("git push origin Get-Content/x", False),
        ("echo $environment user@'host'", False),
    ],
)
def test_powershell_is_known_by_its_marks(line: str, expected: bool) -> None:
    """A cmdlet where a command begins, `$env:`, `$null` or a here-string; nothing inside bash."""
    assert is_powershell(line) is expected


def test_the_guess_decides_unless_it_is_given() -> None:
    """A trailing backslash escapes in bash alone."""
    line = "Set-Location C:\\; make"

    assert texts(line, powershell=None) == ["Set-Location C:\\", "make"]
    assert texts(line, powershell=False) == [line]


# -- assignments -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A=1 B='x y' C=$(d e) make all", "make all"),
        ("a[1]+=2 go test", "go test"),
        ("A= make", "make"),
        ("A=1", ""),
        ("make A=1", "make A=1"),
        ("$x = Get-Item a", "Get-Item a"),
        ("[int]$n += measure b", "measure b"),
        ("=a b", "=a b"),
    ],
)
def test_assignments_before_a_command_are_stripped(text: str, expected: str) -> None:
    """Variables set for one command, with quotes and substitutions in them, are no part of it."""
    assert strip_assignments(text) == expected


# -- hostile lines ---------------------------------------------------------------------

HOSTILE = [
    "(", "((", "((a) ", "$(", "$((", "${", "<(", "a=(", "a()", "a () ", "[[ ", "[ ", "x[", "{ ", "@{", "'", '"', "'\"",
    '"$(', "`", "\\", "\\\n", "<<a ", "<<a\n", "<<'", "<#", "#", "@'\n", '@"\n', "case ", "case x in ", "for ((", "if ",
    ";", "|", "&", ">", "\n", " ", "1", "{1", "Get-X {(", "\u00a0", "\0",
]  # fmt: skip


@pytest.mark.parametrize("size", [1 << 16, pytest.param(1 << 18, marks=pytest.mark.long)])
@pytest.mark.parametrize("powershell", [False, True])
@pytest.mark.parametrize("part", HOSTILE, ids=map(repr, HOSTILE))
def test_hostile_lines_take_linear_time(part: str, powershell: bool, size: int) -> None:
    """64 KB, or 256, of anything, never closed, are read without an error and in a second or two."""
    line = "a; " + (part * size)[:size]
    begun = time.process_time()
    is_powershell(line)
    split_commands(line, powershell=powershell)

    assert time.process_time() - begun < SECONDS * size / (1 << 18)


@pytest.mark.parametrize("part", ["(", '"', "'", "$("])
def test_a_megabyte_is_no_more_than_that(part: str) -> None:
    """Brackets and quotes in numbers that no recursion would survive."""
    begun = time.process_time()
    found = texts(f"make; echo {part * (1 << 20)}", powershell=None)

    assert found[0] == "make"
    assert len(found) <= 2
    assert time.process_time() - begun < SECONDS


def test_deep_nesting_is_closed_again() -> None:
    """A hundred thousand levels are followed to their end, and what stands behind them is read."""
    depth = 100_000

    assert texts(f"a {'$(' * depth}{')' * depth}; b")[1:] == ["b"]
    assert texts(f"{'( ' * depth}a{')' * depth}; b") == ["a", "b"]
    assert texts(f"a {'{' * depth}{'}' * depth}; b", powershell=True)[1:] == ["b"]
