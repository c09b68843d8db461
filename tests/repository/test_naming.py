"""Names and folders: what a reader meets first. The figures are bounds, the lists below are words, not judges."""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from tree import ROOT

SOURCES = (ROOT / "src", ROOT / "workshop", ROOT / "plugins")
FILES = sorted(path for source in SOURCES for path in source.rglob("*.py"))
VERBS = frozenset(
    """
    abort accept accepts acknowledge add adjust adopt advance align allow allows analyze answer append apply are ask asks
    assemble assert assign attach authenticate await back begin bind block break bring build call can cancel capture carry
    change check choose cite claim classify clean clear clip close collect combine compare compile complete compute configure
    confirm connect consume contain contains continue convert copy count cover create cut decide declare decode decorate
    define defines delete deliver deny derive describe detect digest dispatch divide do does draft drain draw drop dump edit
    emit enable encode end ends enqueue ensure enter equals erase escape estimate evaluate examine exclude execute exist
    exists exit expand expect explain export extend extract fail fall fetch fill filter find finish fit fix flush focus fold
    follow force forget fork format forward free freeze gather generate get give go grant grow group guard guess hand handle
    has hash hide highlight hold holds hook identify ignore import improve include includes index infer inherit init inject
    insert inspect install instruct interpret interrupt introduce invalidate invite is iterate join judge jump keep kill
    know knows label launch lead learn leave leaves limit link list listen load locate lock log look loop lower make map
    mark match matches may measure mend merge migrate miss mount move must name narrow needs neutralize normalize note
    notify number observe offer omit on open order overlap pack pad page paint pair parse pass paste patch pause peek
    persist pick pin place plan play plot poll pop post prefer prepare press print probe proceed process produce promote
    prompt propose prove provide prune publish pull push put query queue quit quote raise rank rate reach read rebuild
    receive recognize recognizes record recover redact redraw reduce refer refresh refuse register reject relate release
    relay reload remember remove rename render reopen repair repeat replace replay reply report request require rescue
    reserve reset resize resolve respond restart restore resume retire retry return reveal revert review revise revoke
    rewrite ring rotate round route run sample satisfies save say scale scan schedule score screen scroll search see seek
    select send separate serialize serve serves set settle share shorten should show shut sign simplify skip sleep slice
    snapshot sort spawn speak spend split spool squash stamp start starts stay stop stops store stream strip submit subscribe
    suggest sum summarize supersede support supports suppress surround suspend sweep switch sync take tell test tick time
    toggle touch trace track train transform translate trim truncate try turn type undo unite unlock unpack unregister
    unsubscribe update upgrade use uses validate verify view visit wait wake walk want warn was watch weigh were widen will
    work wrap write yield
    """.split()
)
"""First words of names that are actions or questions."""
PARTICIPLES = frozenset(
    """
    told made kept given said known found asked meant shown held seen taken left put cut lost gone done drawn written
    read_back spoken begun chosen broken bound built sent
    """.split()
)
"""Irregular participles; regular ones end in `ed`."""


@cache
def read_trees() -> dict[Path, ast.Module]:
    """Every file of the source, parsed once."""
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in FILES}


def _functions() -> Iterator[tuple[Path, str]]:
    """Functions and methods, without properties and special methods."""
    for path, tree in read_trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                decorators = {getattr(d, "id", getattr(d, "attr", "")) for d in node.decorator_list}
                if not node.name.startswith("__") and not decorators & {
                    "property",
                    "cached_property",
                }:
                    yield path, node.name.lstrip("_")


def _share(names: Iterable[bool]) -> float:
    counted = list(names)
    return 100 * sum(counted) / len(counted)


def test_functions_begin_with_a_verb() -> None:
    """At least 60 of 100 functions and methods say in their first word what they do."""
    assert _share(name.split("_")[0] in VERBS for _, name in _functions()) >= 60


def test_no_function_is_a_lone_participle() -> None:
    """At most 1 of 100 functions is named by one participle, such as `told` or `checked`."""

    def is_participle(name: str) -> bool:
        return name in PARTICIPLES or bool(re.fullmatch(r"[a-z]{2,}ed", name) and name != "feed")

    assert _share(is_participle(name) for _, name in _functions()) <= 1


def test_a_class_name_exists_once() -> None:
    """At most 5 of 100 class names are found in more than one file."""
    places = defaultdict(set)
    for path, tree in read_trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name.lstrip("_")].add(path)

    assert _share(len(paths) > 1 for paths in places.values()) <= 5


def test_modules_are_nouns() -> None:
    """No file is named by a word that ends in `ing`, but for the nouns among them."""
    nouns = ("string", "setting", "timing", "testing")
    gerunds = [p for p in FILES if p.stem.endswith("ing") and p.stem not in nouns]

    assert gerunds == []


def test_folders_can_be_overlooked() -> None:
    """No folder holds more than 15 files of Python."""
    sizes = Counter(path.parent.relative_to(ROOT).as_posix() for path in FILES)

    assert {folder: size for folder, size in sizes.items() if size > 15} == {}


def _module(path: Path) -> str:
    return ".".join(
        path.relative_to(ROOT).relative_to(path.relative_to(ROOT).parts[0]).with_suffix("").parts
    ).removesuffix(".__init__")


def _imports() -> dict[str, set[str]]:
    """Modules of the two packages that each module imports, also later or for types alone."""
    modules = {_module(path) for path in FILES}
    found: dict[str, set[str]] = {}
    for path, tree in read_trees().items():
        targets = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    full = f"{node.module}.{alias.name}"
                    targets.add(full if full in modules else node.module)
            elif isinstance(node, ast.Import):
                targets |= {alias.name for alias in node.names}
        found[_module(path)] = targets & modules - {_module(path)}
    return found


def _find_circle(imports: dict[str, set[str]]) -> list[str]:
    """One circle of modules, its first one repeated at the end; empty if there is none."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        circle: list[str] = error.args[1]
        return circle
    return []


def test_no_module_imports_itself_over_others() -> None:
    """There is no circle of imports, with those in functions and for types counted."""
    assert _find_circle(_imports()) == []


def test_a_circle_is_found() -> None:
    """Modules that only lead into a circle, or out of it, are not named."""
    assert _find_circle({"a": {"b"}, "b": {"c"}, "c": {"b", "d"}}) in (
        ["b", "c", "b"],
        ["c", "b", "c"],
    )


def test_every_folder_says_what_it_is() -> None:
    """Every package has a docstring, for whoever opens it first."""
    silent = [
        path for path in FILES
        if path.name == "__init__.py" and not ast.get_docstring(read_trees()[path])
    ]  # fmt: skip

    assert silent == []
