"""What a run of a check looks at: with which tool, in which folder, at which places and names, in which files.

A later run makes up for one that failed only if it may look at all that failed. Where a command
does not tell, it may: what is said of an open failure must be right.
"""

import posixpath
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

from tasuki.draft.runs.command_kinds import StartedRunner, identify_started, list_simple_commands
from tasuki.draft.runs.programs import find_name, unquote
from tasuki.draft.runs.runners import CheckKind, list_tasks
from tasuki.model import ToolCall
from tasuki.paths import DEPENDING, follow_links, normalize_path
from tasuki.patterns import compile_pattern


class CheckScope(NamedTuple):
    """What one check looks at.

    `tool` is empty for a task of the project, which may run any; `task` holds the words of its
    name. `folder` and `places` are paths from the folder of the thread; None is a folder that only
    the shell knows. Without places it looks at its whole folder. One of `picks` must be in a name, and
    none of `omits`, among which are options that leave out nobody knows what.
    """

    kind: CheckKind
    tool: str
    task: frozenset[str]
    folder: str | None
    places: tuple[str, ...]
    picks: tuple[str, ...]
    omits: frozenset[str]
    is_whole: bool
    """Nothing in the command leaves out a part of what there is in its folder."""


_FAMILIES = dict.fromkeys("py.test unittest nose2 trial manage.py django-admin".split(), "pytest") | {
    "mvnw": "mvn", "gradlew": "gradle", "dmypy": "mypy", "gotestsum": "go",
}  # fmt: skip
_PICKING = frozenset(
    "-k -t -run --run -g --grep --filter -F --testNamePattern --test-name-pattern --testPathPattern --test --tests --only --project "
    "-pl --projects -p --package -w --workspace --spec --name --suite --tags --group".split()
)
"""Options with the names, or the packages, that are looked at alone."""
_OMITTING = frozenset(
    "--deselect --ignore --ignore-glob --ignore-pattern -skip --skip --exclude --extend-exclude --exclude-group --exclude-testsuite --testPathIgnorePatterns -E -LE -L -R "
    "--tag --select --extend-select --changed --changedSince --findRelatedTests --related --onlyChanged --lf --last-failed -short --lib --bins --bin --doc -m".split()
)
"""Options that leave something out, or select nobody knows what."""
_ONLY_OF = {"-m": "pytest"} | dict.fromkeys(("-E", "-LE", "-L", "-R"), "ctest")
"""The only runner in which an option means that."""
_VARIANTS = frozenset("--release -c --configuration --profile --target --features".split())
"""Options that build or check something else."""
_ALONE = frozenset(
    "--changed --findRelatedTests --onlyChanged --lf --last-failed -short --lib --bins --doc --release".split()
)
"""Options of these without a value."""
_FOLDERS = frozenset("-C --prefix --cwd --dir --directory --chdir".split())
_BARE = compile_pattern(
    r"-[vqxslif]+|-race|-cover|-failfast|--(?:verbose|quiet|ci|silent|run|fix|strict|check|release|runInBand|exitfirst|all(?:-features|-targets)?|workspace|locked|offline|frozen|coverage|no-[\w-]+)?"
)
"""Options behind which a path is an argument; behind another one it may be the value of that."""
_FILE = compile_pattern(
    r".+\.(?:[cm]?[jt]sx?|pyi?|go|rs|rb|java|kts?|cs|php|exs?|dart|swift|feature|bats|t|vue|svelte|cc|cpp)"
)
_PICKED_CLASS = compile_pattern(r"-D(?:it\.)?test=(.+)")
_JOINS = compile_pattern(r"\b(?:and|or)\b")
_DENIES = compile_pattern(r"(?i)\bnot\b|^!|^~|^no:\w*")
_PART, _WORD = compile_pattern(r"[a-z0-9]+"), compile_pattern(r"\w+")
_SOURCES = frozenset("test tests spec src lib app packages".split())
_WHOLE = _SOURCES | frozenset("t specs lint check build all ci verify run . ...".split())
"""Tasks that may run everything of their kind, and folders that may hold everything."""
_EVERYTHING = _WHOLE - frozenset("src lib app packages".split())
_LEAVES_NOTHING_OUT = _EVERYTHING | frozenset(
    "nextest clean install package artisan discover t run-script task run-many".split()
)
"""Words of a command behind which still everything is looked at."""
_TAKES_NAMES = frozenset("cargo jest vitest playwright mocha pytest".split())
"""Runners whose arguments are parts of names."""
_ELSEWHERE = compile_pattern(r"\bcd\s|^(?:ssh|docker|podman|kubectl|nerdctl|wsl)\b")


@lru_cache(maxsize=20_000)
def list_scopes(command: str, folder: str | None) -> tuple[CheckScope, ...]:
    """List what the checks of a command line look at, which begins in a folder."""
    found: list[CheckScope] = []
    for part in list_simple_commands(command):
        folder = enter_folder(part.text, folder)
        if not part.is_piped and (started := identify_started(part)):
            found.append(_read_scope(started, None if _ELSEWHERE.search(part.text) else folder))
    return tuple(found)


DEPENDING.append(list_scopes.cache_clear)


def join_folder(folder: str | None, place: str) -> str | None:
    """Return where a `cd` leads, with forward slashes; None where only the shell knows."""
    place = normalize_path(place)
    if not place or place[0] in "~$-`":
        return None
    if place[1:3] == ":/":
        return posixpath.normpath(place)
    if folder is None and place[0] != "/":
        return None
    joined = posixpath.normpath(posixpath.join(folder or "", place))
    return "" if joined == "." else follow_links(joined, folder or "")


def locate(folder: str | None, path: str) -> str:
    """Return a path as it is from a folder; unchanged where only the shell knows."""
    return join_folder(folder, path) or path


def follow_folder(command: str, folder: str | None) -> str | None:
    """Return the folder behind a command line that begins in one; None where only the shell knows."""
    for part in list_simple_commands(command):
        if f"({part.text}" not in command:  # It ends with a subshell.
            folder = enter_folder(part.text, folder)
    return folder


def enter_folder(text: str, folder: str | None) -> str | None:
    """Return the folder behind a simple command that begins in one."""
    words = text.split(None, 2)
    if words[:1] not in (["cd"], ["pushd"], ["Set-Location"]):
        return folder
    return join_folder(folder, unquote(words[1])) if len(words) > 1 else None


def _read_scope(started: StartedRunner, folder: str | None) -> CheckScope:
    words = [unquote(word).replace("\\", "/") for word in started.words]
    name, is_task = find_name(words[0]), started.runner.is_wrapper
    places, picks, omits, others = [], [], [], []
    form = ":format" if words[1:2] in (["format"], ["fmt"]) else ""
    toolchain = words[1][:1] == "+" if words[1:] else False  # Of rustup.
    for option, value in _list_arguments(words[1 + toolchain :]):
        path, _, test = value.partition("::")
        is_source = started.runner.kind != "test" and path in _SOURCES
        is_path = is_source or "/" in path or bool(_FILE.fullmatch(path))
        if option in _FOLDERS:
            folder = join_folder(folder, value)
        elif option in _VARIANTS and name in ("cargo", "dotnet", "swift", "zig", "flutter"):
            form += f":{value or option}"
        elif option in _OMITTING and name == _ONLY_OF.get(option, name):
            omits.append(_DENIES.sub("", value) or option)
        elif option in _PICKING and value and _DENIES.search(value):
            omits.append(_DENIES.sub("", value))
        elif option in _PICKING and value:
            picks += [value] if _WORD.search(value) else []
        elif option:
            picks += match.groups() if (match := _PICKED_CLASS.match(option)) else ()
            others += [value] if is_path else []
        elif value.startswith(":"):
            picks += [value.rpartition(":")[0]] if value.count(":") > 1 else []
        elif is_path:
            places.append(path)
            picks += [test.rpartition("::")[2]] if test else []
        elif name in _TAKES_NAMES and value not in _WHOLE | _LEAVES_NOTHING_OUT:
            picks.append(value)
        else:
            others.append(value)
    tasks = list_tasks(started.words) or words[:1] if is_task else ()
    task = " ".join(tasks).lower()
    named = frozenset(_PART.findall(task))
    is_whole = not (picks or omits) and named <= _EVERYTHING
    return CheckScope(
        started.runner.kind,
        "" if is_task else _FAMILIES.get(name, name) + form,
        named.difference(*(_PART.findall(pick.lower()) for pick in picks)),
        folder,
        tuple(_find_place(folder, place) for place in places),
        tuple(picks),
        frozenset(omits),
        is_whole
        and (name != "go" or "./..." in words)
        and all(_find_place("", place) in _EVERYTHING for place in places)
        and all(
            one in _LEAVES_NOTHING_OUT or one in tasks or one.endswith((".sln", ".slnx"))
            for one in others
        ),
    )


def _list_arguments(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield options with their values, and arguments with an empty option."""
    before = ""
    for word in words:
        if word.startswith("-"):
            before, has_value, value = word.partition("=")
            if has_value and before in _PICKING | _FOLDERS | _OMITTING | _VARIANTS:
                yield before, value
            elif before in _ALONE:
                yield before, ""
            elif before.startswith("-D"):
                yield word, ""
            elif not has_value:
                continue
            before = "--"
        else:
            yield ("" if _BARE.fullmatch(before) or not before else before), word
            before = ""


def _find_place(folder: str | None, place: str) -> str:
    """Return a place from the folder of the thread, without what stands for any name."""
    place = place.partition("*")[0].removesuffix("...")
    return posixpath.normpath(posixpath.join(folder or "", place or "."))


def may_cover(
    later: Iterable[CheckScope], failed: CheckScope, names: Sequence[str], *, surely: bool = False
) -> bool:
    """Return whether one of later checks may have looked at all that failed in a check: at these names, if known.

    `surely`: it cannot have left out anything.
    """
    return any(_may_cover(one, failed, names, surely) for one in later if one.kind == failed.kind)


def _may_cover(later: CheckScope, failed: CheckScope, names: Sequence[str], surely: bool) -> bool:
    if later == failed and later.folder is not None:
        return True  # Wherever it names its files from.
    if (later.tool != failed.tool) and (surely or (later.tool and failed.tool)):
        return False
    if later.task and failed.task and not later.task <= failed.task | _WHOLE:
        return False
    omitted, picked = later.omits - failed.omits, set(later.picks) - set(failed.picks)
    if surely and (
        omitted or picked or later.task != failed.task or None in (later.folder, failed.folder)
    ):
        return False
    for omit in omitted:
        is_place, prefix = "/" in omit or "::" in omit, omit.removeprefix("./")
        word = _JOINS.sub("", omit)
        if any(name.startswith(prefix) if is_place else _is_in(word, name) for name in names):
            return False
    targets = names or failed.picks
    is_file_of_package = later.task and failed.tool and failed.places
    for pick in picked if not is_file_of_package else ():
        if not targets or not all(_is_in(pick, name) for name in targets):
            return False
    if later.folder is None or failed.folder is None:
        return True
    if failed.places and set(failed.places) <= set(later.places):
        return True
    wanted = names or failed.places or ("",)
    places = [*later.places] or [_find_place(later.folder, "")]
    if later.places and (later.kind == "test" or not names):
        # The folder above, where a place may hold everything in that.
        parts = ((place, *place.rpartition("/")) for place in places)
        places = [(above or ".") if last in _WHOLE else place for place, above, _, last in parts]
    return all(any(_looks_at(one, name, failed.folder) for one in places) for name in wanted)


def _is_in(pick: str, name: str) -> bool:
    words = [word for word in _WORD.findall(pick.lower()) if len(word) > 2]
    telling = [word for word in words if word not in _SOURCES] or words
    return any(word in name.lower() for word in telling)


def _looks_at(place: str, name: str, folder: str) -> bool:
    """Return whether a place may hold a path or a test, which is named from a folder."""
    path = name.partition("::")[0]
    has_path = "/" in path or bool(_FILE.fullmatch(path))
    target = _find_place(folder, path if has_path else "")
    if place == "." and not target.startswith(("/", "..")):
        return True
    if has_path and _FILE.fullmatch(place):
        # A file may have got another type: `a.test.ts`, `a.test.tsx`.
        place, target = posixpath.splitext(place)[0], posixpath.splitext(target)[0]
    if f"{target}/".startswith(f"{place}/") or f"/{target}".endswith(f"/{place}"):
        return True
    stem = place.rpartition("/")[2].partition(".")[0]
    return not has_path and bool(name) and _is_in(stem, name)


def is_selection(command: str) -> bool:
    """Return whether all tests that a line runs are selected by names or files."""
    scopes = [one for one in list_scopes(command, "") if one.kind == "test"]
    return bool(scopes) and all(
        one.picks or any(map(_FILE.fullmatch, one.places)) for one in scopes
    )


def is_whole_suite(command: str) -> bool:
    """Return whether a line runs all tests of the thread's folder."""
    scopes = [one for one in list_scopes(command, "") if one.kind == "test"]
    return bool(scopes) and all(one.folder == "" and one.is_whole for one in scopes)


_OPTIONS = compile_pattern(r"git\s+(?:-C\s+(\S+)\s+|-c\s+\S+\s+|--[\w-]+(?:=\S+)?\s+)+")
"""Options of git itself, before what it is to do."""
_BRANCH = compile_pattern(r"git\s+(?:checkout|switch)\s+(?!-[bBcC]\b)(?!.*\s--\s)(?!--\s)")
_STASH = compile_pattern(r"git\s+stash\b(?!\s+(?:list|show|drop|clear|pop|apply))")
_UNSTASH = compile_pattern(r"git\s+stash\s+(?:pop|apply|drop|clear)\b")
_DROPS = compile_pattern(r"git\s+stash\s+(?:drop|clear)\b")
_UNDOES = compile_pattern(
    r"git\s+(?:checkout\s+(?:--\s+)?\.|restore\s+\.|reset\s+--hard|apply\s+(?:-R|--reverse)\b)"
)
_APPLIES = compile_pattern(r"(?:git\s+apply|patch)\s+(?!.*(?:-R|--reverse|--check|--stat)\b)")
_ALTERS = compile_pattern(
    r"git\s+checkout\s+(?!-)\S+\s+--\s|git\s+restore\s+.*--source|(?:sed\s+(?:-\S+\s+)*-\w*i|perl\s+-\w*i|cp|mv)\b"
)
_RESTORES = compile_pattern(
    r"git\s+(?:checkout|restore)\b|(?:cp|mv)\s+(?:\S*/tmp/\S+|\S+\.(?:bak|orig|old|backup))\s"
)
_KEEPS = compile_pattern(r"git\s+(?:\S+\s+)*?(?:commit|merge|cherry-pick|revert|pull|am)\b")
_WORKTREE = compile_pattern(r"git\s+worktree\s+add\s+(?!.*\s-[bB]\b|-[bB]\b)")
_ENDS = {"branch": _BRANCH, "stash": _UNSTASH, "patch": _APPLIES}
_MAY_BEGIN = compile_pattern(r"\b(?:git|sed|perl|cp|mv)\s")
_PATH = compile_pattern(r"[\w@./-]*[./][\w@./-]+")


class _Visit(NamedTuple):
    """A state of the files that was left again, perhaps: a branch, a stash, a patch taken back, a changed file."""

    kind: Literal["branch", "stash", "patch", "path"]
    paths: frozenset[str]
    checks: list[int]
    """Numbers of the runs of checks in it."""


class RunPlaces:
    """Follows the folder and the files over the commands of a thread, which are taken in their order.

    Whether a `cd` lasts beyond its line depends on the harness. Both are followed: a check looked at
    something if it did so in either case.
    """

    def __init__(self, cwd: str) -> None:
        self.cwd = join_folder("", cwd) or ""
        self.left: set[int] = set()
        """Numbers of the runs whose files were put back as they had been before."""
        self.trees: set[str] = set()
        """Worktrees that were added without a branch of their own."""
        self._lasting: str | None = self.cwd
        self._visits: list[_Visit] = []

    def find_folders(self, call: ToolCall) -> tuple[str | None, str | None]:
        """Return where a call begins, if no `cd` before lasts and if each does; None is not known."""
        if call.workdir:
            folder = join_folder(self.cwd, call.workdir)
            return folder, folder
        begun = self._lasting
        self._lasting = follow_folder(call.command, begun)
        return self.cwd, begun

    def take_edit(self) -> None:
        """Note that a file was edited: what is built on a state of the files is no visit to it."""
        self._visits = [visit for visit in self._visits if visit.kind == "path"]

    def list_stashed(self) -> set[int]:
        """List the runs on files without changes that are stashed still."""
        return {number for one in self._visits if one.kind == "stash" for number in one.checks}

    def take_run(self, number: int, command: str) -> None:
        """Follow the files through a command line."""
        if not (self._visits or _MAY_BEGIN.search(command)):
            return
        for part in list_simple_commands(command):
            text = part.text
            options = _OPTIONS.match(text) if text.startswith("git -") else None
            if options and options[1] and join_folder(self._lasting, options[1]) != self.cwd:
                continue  # Of another checkout.
            text = f"git {text[options.end() :]}" if options else text
            for visit in [one for one in self._visits if _is_end(one, text)]:
                if not _DROPS.match(text):
                    self.left.update(visit.checks)
                self._visits.remove(visit)
            started = identify_started(part)
            if started and started.runner.kind != "commit":
                for visit in self._visits:
                    visit.checks.append(number)
            elif _KEEPS.match(text):
                self._visits = []
            elif match := _WORKTREE.match(text):
                folder = follow_folder(command.partition("git worktree add")[0], self._lasting)
                names = [word for word in text[match.end() :].split() if not word.startswith("-")]
                if names and (tree := join_folder(folder, unquote(names[0]))):
                    self.trees.add(tree)
            else:
                self._visits += _list_begun(text)


def _list_begun(text: str) -> Iterator[_Visit]:
    if _STASH.match(text):
        yield _Visit("stash", frozenset(), [])
    elif _ALTERS.match(text) and (paths := _list_paths(text)):
        yield _Visit("path", paths, [])
    if _UNDOES.match(text):
        yield _Visit("patch", frozenset(), [])
    elif _BRANCH.match(text):
        yield _Visit("branch", frozenset(), [])


def _is_end(visit: _Visit, text: str) -> bool:
    """Return whether a command puts back the files as they were before a visit."""
    if visit.kind == "path":
        return bool(_RESTORES.match(text) and visit.paths & _list_paths(text))
    return bool(_ENDS[visit.kind].match(text))


def _list_paths(text: str) -> frozenset[str]:
    """List the paths that a command names: all behind a `--`."""
    named = text.partition(" -- ")[2].split()
    return frozenset(named or _PATH.findall(text))
