"""Which program a simple command starts, behind everything that only starts another.

`sudo -u ci timeout 60 uv run --with x python -m pytest -q` starts `pytest -q`. A name that stands
anywhere else is an argument: `pip install pytest` checks nothing.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct

from tasuki.patterns import compile_pattern
from tasuki.shell import split_commands, split_words


class _Starter(Struct, frozen=True):
    """A program that starts another and ends as it does.

    `words`: one of them comes first, if there are any. `valued`: options that a value follows.
    `skipped`: arguments that stand before the other program. `detaches`: it may not wait for its end.
    """

    words: tuple[str, ...] = ()
    valued: frozenset[str] = frozenset()
    skipped: int = 0
    detaches: bool = False


def _create(
    words: str = "", valued: str = "", skipped: int = 0, detaches: bool = False
) -> _Starter:
    return _Starter(tuple(words.split()), frozenset(valued.split()), skipped, detaches)


PACKAGE_OPTIONS = "-C --dir --prefix --filter -F -w --workspace --cwd -p --package"
_OF_CONTAINERS = (
    "-v -u -w -e -n -c -f -p -l -m -H --volume --user --workdir --env --network --name --entrypoint --mount "
    "--platform --file --project-name --namespace --context --profile --env-file --project-directory"
)
_STARTERS = {
    name: starter
    for names, starter in (
        ("time nohup exec command builtin unbuffer xvfb-run caffeinate setsid winpty call &", _create()),
        ("env", _create(valued="-u -C -S")),
        ("sudo doas", _create(valued="-u -g -h -p -C -T -r")),
        ("nice ionice chrt stdbuf taskset", _create(valued="-n -c -o -e -i")),
        ("timeout gtimeout", _create(valued="-s -k --signal --kill-after", skipped=1)),
        ("xargs", _create(valued="-I -n -P -d -L -a -E -s")),
        ("npx bunx pnpx", _create(valued=PACKAGE_OPTIONS)),
        ("npm pnpm yarn bun", _create("exec dlx x", PACKAGE_OPTIONS)),
        ("uvx", _create(valued="--from --with -p --python")),
        ("uv", _create("run", "--with --with-requirements --extra --group --only-group --no-group -p --python --project --directory --package --env-file --with-editable --index")),
        ("poetry pipenv pdm rye pixi hatch pipx", _create("run", "-C -p -e --directory --environment --spec")),
        ("conda mamba micromamba", _create("run", "-n -p --name --prefix --cwd")),
        ("bundle asdf rbenv volta devbox op doppler dotenvx infisical heroku", _create("exec x run", "-e -f --env-file")),
        ("mise", _create("exec x")),
        ("direnv", _create("exec", skipped=1)),
        ("cross-env cross-env-shell dotenv env-cmd", _create(valued="-e -f -v -p")),
        ("wsl", _create(valued="-d -u --cd")),
        ("docker podman nerdctl docker-compose podman-compose", _create("exec run", _OF_CONTAINERS, 1, True)),
        ("kubectl oc devcontainer lxc toolbox", _create("exec enter", _OF_CONTAINERS, 1)),
    )
    for name in names.split()
}  # fmt: skip
_NAMES_FIRST = frozenset("mise kubectl oc devcontainer lxc toolbox".split())
"""Starters that are told a tool or a place first, and the program behind `--`."""
_SSH = _create(valued="-i -l -p -o -F -J -b -c -D -e -L -m -R -S -w -W", skipped=1, detaches=True)
_PYTHON_OPTIONS = frozenset("-W -X --source --rcfile --omit --include".split())
_SHELLS = frozenset("bash sh zsh dash ksh".split())
_LINE_RUNNERS = frozenset("cmd pwsh powershell su nix-shell nix".split())
_LINE_OPTION = compile_pattern(r"-(?!-)\w*c|/c|-[Cc]ommand|--run|--command")
_VARIABLE = compile_pattern(r"[A-Za-z_]\w*=")
_INTERPRETER = compile_pattern(r"(?:python|pypy)[\d.]*|py|php|ruby|node|coverage")
_DETACHED = compile_pattern(r"-(?!-)\w*[df]\w*|--detach(?:ed)?")
_ENDING = compile_pattern(r"(?i)\.(?:exe|cmd|bat|js|mjs|cjs)$")
MOST_NESTED, MOST_WORDS = 6, 60


class Started(NamedTuple):
    """A program with its arguments, its path first.

    `hides_code`: it is in a line within the command, and something else may end that line.
    """

    words: Sequence[str]
    hides_code: bool


def list_started(text: str, depth: int = 0, *, hides_code: bool = False) -> Iterator[Started]:
    """Yield what a simple command may start.

    That is one program; several for a line within it, such as that of `bash -c`, and where a word
    may be a program or the task of one.
    """
    programs, line = _unwrap(split_words(text)[:MOST_WORDS])
    yield from (Started(words, hides_code) for words in programs)
    parts = split_commands(line) if line and depth < MOST_NESTED else []
    for number, part in enumerate(parts, 1):
        hides = hides_code or part.in_block or part.in_background or part.is_negated
        hides = hides or any(later.operator != "&&" for later in parts[number:])
        yield from list_started(part.source or part.text, depth + 1, hides_code=hides)


def _unwrap(words: Sequence[str]) -> tuple[list[Sequence[str]], str]:
    """Return what words start, and the line that they run, if that is what they do."""
    programs: list[Sequence[str]] = []
    at = 0
    while at < len(words):
        name = find_name(words[at])
        starter = _STARTERS.get(name)
        if _VARIABLE.match(words[at]):
            at += 1
        elif starter and (after := _skip_starter(words, at, starter)) is not None:
            if name == "hatch":
                programs.append(words[at:])
            at = after
        elif _INTERPRETER.fullmatch(name):
            programs.append(words[at:])
            at = _skip_interpreter(words, at, name)
        elif name in _SHELLS:
            place = skip_options(words, at + 1, frozenset(("-o", "-O")))
            options = words[at + 1 : place]
            if any(map(_LINE_OPTION.fullmatch, options)):
                return programs, unquote("".join(words[place : place + 1]))
            if "-n" in options:
                return programs, ""
            at = place
            programs.append(words[at:])
            break
        elif line := _find_line(words[at:], name):
            return programs, line
        else:
            programs.append(words[at:])
            if name in ("yarn", "pnpm"):  # They start programs of packages by name, too.
                at = skip_options(words, at + 1, frozenset(PACKAGE_OPTIONS.split()))
                programs.append(words[at:])
            break
    return [one for one in programs if one], ""


def _find_line(words: Sequence[str], name: str) -> str:
    """Return the line that another program than a shell runs; empty for none."""
    if name == "ssh":
        place = _skip_starter(words, 0, _SSH) or len(words)
    elif name == "eval":
        place = 1
    elif name in _LINE_RUNNERS:
        place = next(
            (n for n, word in enumerate(words, 1) if _LINE_OPTION.fullmatch(word)), len(words)
        )
    else:
        return ""
    return " ".join(map(unquote, words[place:]))


def _skip_starter(words: Sequence[str], at: int, starter: _Starter) -> int | None:
    """Return the place of what a starter starts; None where it does something else."""
    place = skip_options(words, at + 1, starter.valued)
    if words[place : place + 1] == ["compose"]:
        place = skip_options(words, place + 1, starter.valued)
    if starter.words:
        if place >= len(words) or words[place] not in starter.words:
            return None
        place = skip_options(words, place + 1, starter.valued)
    if words[at] == "command" and words[at + 1 : at + 2] in (["-v"], ["-V"]):
        return len(words)
    if starter.detaches and any(map(_DETACHED.fullmatch, words[at:place])):
        return len(words)
    place += starter.skipped
    marked = list(words[place : place + (5 if find_name(words[at]) in _NAMES_FIRST else 1)])
    return place + marked.index("--") + 1 if "--" in marked else place


def skip_options(words: Sequence[str], place: int, valued: frozenset[str]) -> int:
    """Return the place of the first word from `place` on that is no option, nor the value of one."""
    while place < len(words) and words[place].startswith("-"):
        if words[place] == "--":
            return place + 1
        place += 2 if words[place] in valued else 1
    return place


def _skip_interpreter(words: Sequence[str], at: int, name: str) -> int:
    """Return the place of the module or script that an interpreter runs; the end for none."""
    place = at + 1
    if name == "coverage":
        if words[place : place + 1] != ["run"]:
            return len(words)
        place += 1
    while place < len(words) and words[place].startswith("-"):
        if words[place] in ("-m", "-c", "-e", "-r"):
            return place + 1 if words[place] == "-m" else len(words)
        place += 2 if words[place] in _PYTHON_OPTIONS else 1
    return place


def find_name(word: str) -> str:
    """Return the name of a program by its path: without folders, quotes, and the ending of Windows."""
    return _ENDING.sub("", unquote(word).replace("\\", "/").rpartition("/")[2])


def unquote(word: str) -> str:
    """Return a word without the quotes around all of it."""
    quoted = len(word) > 1 and word[0] == word[-1] and word[0] in "'\""
    return word[1:-1] if quoted else word
