"""What `--json` prints is what docs/json.md says, in shape and version."""

import ast
import json
import sys

import pytest
from command_line import GOAL, World, chain
from tree import ROOT

sys.path.insert(0, str(ROOT / "scripts"))

import docs_json

from tasuki.cli.output import JSON_VERSION

CLI = ROOT / "src" / "tasuki" / "cli"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A project with two handoffs, whose threads are kept."""
    made = World(tmp_path_factory.mktemp("json"))
    made.env |= {"TASUKI_KEEP_THREADS": "handed-off"}
    chain(made)
    return made


@pytest.mark.parametrize("name", docs_json.SHAPES)
def test_documents_have_the_documented_shape(world: World, name: str) -> None:
    """Every key is documented, of its type, and none is missing."""
    if "--author model" in name:
        pytest.skip("needs a model; tests/cli/test_answering.py has its keys")
    listed = json.loads(world.run("handoffs", "--json").stdout)["handoffs"]
    handoff, brief = listed[-1]["id"], world.project / "brief.md"
    brief.write_text(world.run("show", handoff, "--brief").stdout)
    arguments = {
        "handoff": (GOAL, "--json"),
        "start --prepare": (handoff, "--to", "pi"),
        "threads --forget": ("all", "--json"),
        "handoffs find": ("retries", "--json"),
        "show": (handoff, "--json"),
        "find": ("keepalive", "--json"),
        "read": ("@1", "--json"),
        "read QUESTION": ("@1", "what of the retries?", "--json"),
        "check": (str(brief), "--thread", handoff, "--json"),
    }.get(name, ("--json",))
    done = world.run(*name.removesuffix(" QUESTION").split(), *arguments)
    document = json.loads(done.stdout)

    assert document.pop("version") == JSON_VERSION, done.stderr
    assert sorted(docs_json.find_differences(document, docs_json.SHAPES[name])) == []
    assert any(document.values()), "nothing to compare"


def test_a_wrong_document_is_found() -> None:
    """A key too many, one too few, a wrong type, in lists and records."""
    shape = {"threads": [{"label": str, "score": float}], "more?": [str], "note": str | None}

    assert list(docs_json.find_differences({"threads": [], "note": None}, shape)) == []
    wrong = {"threads": [{"label": 1, "extra": 2}], "more": None, "note": 3}
    assert sorted(docs_json.find_differences(wrong, shape)) == [
        ".more is no list",
        ".note is int",
        ".threads[].extra is not documented",
        ".threads[].label is int",
        ".threads[].score is missing",
    ]


def test_the_keys_of_every_command_are_on_the_page() -> None:
    """Each literal key that a command prints, those of the fleet too."""
    known = {key.rstrip("?") for shape in docs_json.SHAPES.values() for key in shape}
    known.update(*(keys.split(", ") for keys in docs_json.FLEET))
    places = {"print_json": 0, "print_result": 1, "print_records": 1}
    given = [
        call.args[places[call.func.id]]
        for path in CLI.rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in places
    ]
    keys = [key for one in given for key in (one.keys if isinstance(one, ast.Dict) else [one])]
    printed = {key.value for key in keys if isinstance(key, ast.Constant)}

    assert printed - known == set()
    assert len(printed) > 30
    assert len((ROOT / "docs" / "json.md").read_text().split()) <= 900
