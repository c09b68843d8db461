"""What the continuation benchmark counts, by example. Version 2: a changed figure is a new version."""

import math

import pytest
from msgspec.structs import replace

from tasuki.model import Entry, FileChange, Thread, ToolCall
from tasuki_evals.continuation import metric
from tasuki_evals.continuation.metric import extract_names, is_named, split_segments

CWD = "/home/dev/proj"


def shell(ref: int, command: str, output: str = "", **more: str) -> Entry:
    """A command that the agent ran, or with `origin` somebody else."""
    call = ToolCall(id=f"t{ref}", name="Bash", kind="shell", command=command, output=output)
    return Entry(ref=ref, kind="tool", tool=call, **more)  # type: ignore[arg-type]


def edit(ref: int, path: str, old: str = "", new: str = "") -> Entry:
    """A file that the agent changed."""
    changes = (FileChange(path=path, kind="edit", old=old, new=new),)
    call = ToolCall(id=f"t{ref}", name="Edit", kind="edit", paths=(path,), changes=changes)
    return Entry(ref=ref, kind="tool", tool=call)


def read(ref: int, path: str, output: str = "") -> Entry:
    """A file that the agent read."""
    call = ToolCall(id=f"t{ref}", name="Read", kind="read", paths=(path,), output=output)
    return Entry(ref=ref, kind="tool", tool=call)


def said(ref: int, text: str) -> Entry:
    """What the agent said."""
    return Entry(ref=ref, kind="assistant", text=text)


def thread(*entries: Entry) -> Thread:
    """A predecessor."""
    return Thread(harness="claude", id="t", path="/t.jsonl", cwd=CWD, entries=entries)


def score(
    targets: metric.HandoffTargets, text: str, *opened: str, cited: str = ""
) -> dict[str, float | None]:
    """The figures of a text."""
    return metric.score_handoff(targets, text, frozenset(opened), cited).values


def test_the_version_is_the_one_of_these_examples() -> None:
    """Whoever changes a figure below also changes the version."""
    assert metric.VERSION == 2
    assert metric.COLUMNS == (
        "edit", "file", "cmd", "id", "only", "pfile", "p3", "p5", "id1", "edit@5",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("call max_attempts and maxAttempts", {"max_attempts", "maxAttempts"}),
        ("class HttpClient, an API", {"HttpClient"}),
        ("plain words tell nothing at all", set()),
        ("see https://example.com/a/b?x=1.", {"https://example.com/a/b?x=1"}),
        ("run --no-cache now", {"--no-cache"}),
        ("in src/app/my_client.py", {"src/app/my_client.py", "my_client"}),
        ("retry 4 times for 30 s, port 8080", {"30", "8080"}),
        ("at 3fa9c1d2e", {"3fa9c1d2e"}),
        ("os.path.join(x)", {"os.path.join"}),
        ("/home/dev/proj/src/a_b.py", {"src/a_b.py"}),
        ("version 1.25.3", {"1.25.3"}),
    ],
)  # fmt: skip
def test_names_are_what_tells_something(text: str, expected: set[str]) -> None:
    """Identifiers, paths, flags, addresses, numbers and hashes count; plain words do not."""
    found = extract_names(text, CWD)

    assert expected <= found
    assert {n for n in found if n.isalpha() and n.islower()} == set()
    assert bool(expected) == bool(found)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("cd src && pytest -q | tail -5", ["pytest -q"]),
        ("git status; git push && make build", ["make build"]),
        ("git -C sub log", []),
        ("git bisect run make", ["git bisect run make"]),
        ("cat a.py; ls -la; grep -n x b.py", []),
        ("FOO=1 go test ./... 2>&1", ["go test ./..."]),
        ("FOO='a b' BAR=$(x; y) make all", ["make all"]),
        ("FOO=bar", []),
        ("pytest -q > out.txt", ["pytest -q"]),
        ("pytest \\\n  -q tests", ["pytest -q tests"]),
        ("python - <<'EOF'\nimport os\nmake all\nEOF", ["python -"]),
        ("git commit -m 'first\n\nnpm test; make all'", []),
        ("git commit -m \"$(cat <<'EOF'\nfix (it's)\nnpm test\nEOF\n)\" && npm test", ["npm test"]),
        ("echo 'done; npm test' && npm run lint", ["npm run lint"]),
        ("git ls-files | xargs gofmt -l | wc", []),
        ("ls | gofmt -l", []),
        ("for f in a b; do gofmt -w $f; done", ["gofmt -w $f"]),
        ("if go vet ./...; then make all; fi", ["go vet ./...", "make all"]),
        ("(cd sub && make all)", ["make all"]),
        ("a || b", []),
        ("npm run lint || true", ["npm run lint"]),
        ("# a note\nruff check .", ["ruff check ."]),
        ("$CMD run", []),
        ("-v run; 12 run; {a} run; 'my tool' run; a=b; let's run", []),
        ("./run.sh a; ~/bin/x_y b; C:\\\\t.exe c; g++ -c d", ["./run.sh a", "~/bin/x_y b", "C:\\\\t.exe c", "g++ -c d"]),
        ("make " + "x" * 195, ["make " + "x" * 195]),
        ("make " + "x" * 196, []),
        ("Get-Content x; $r = Invoke-Build all; Set-Location C:\\; npm test", ["Invoke-Build all", "npm test"]),
    ],
)  # fmt: skip
def test_segments_are_commands_that_do_something(command: str, expected: list[str]) -> None:
    """Left out are navigation, git bookkeeping, readers of pipes, redirections, variables set
    before, what stands in quotes and here-documents, what names no program, and what is long."""
    assert split_segments(command) == expected


def test_the_tool_says_that_a_command_is_powershell() -> None:
    """Where the tool is called so, a backslash escapes nothing; else the command must tell."""
    call = ToolCall(
        id="p", name="PowerShell", kind="shell", command="dotnet build C:\\src\\; npm test"
    )
    entry = Entry(ref=1, kind="tool", tool=call)
    other = Entry(ref=2, kind="tool", tool=replace(call, name="Bash"))

    assert metric.collect_used([entry], CWD).commands == {"dotnet build C:\\src\\", "npm test"}
    assert metric.collect_used([other], CWD).commands == {"dotnet build C:\\src\\; npm test"}


def test_what_is_used_is_the_input_alone() -> None:
    """What a tool printed, what the user ran and what was refused does not count as done."""
    refused = ToolCall(
        id="r", name="Bash", kind="shell", command="make rerun_all", status="refused"
    )
    found = metric.collect_used(
        [
            shell(1, "pytest tests/a_b.py", "saw other_name in src/seen.py"),
            shell(2, "make users_own", origin="command"),
            Entry(ref=3, kind="tool", tool=refused),
            said(4, "I ran spoken_name"),
            edit(5, f"{CWD}/src/new.py", "old_text", "new_text"),
            shell(6, "sed -n 1,20p src/shown.py"),
            read(7, f"{CWD}/src/*.py"),
        ],
        CWD,
    )

    assert found.commands == {"pytest tests/a_b.py"}
    assert found.edited == {"src/new.py"}
    assert found.opened == {"src/new.py", "src/shown.py"}
    assert {"old_text", "new_text", "tests/a_b.py"} <= found.names
    assert not {"other_name", "users_own", "rerun_all", "spoken_name"} & found.names


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("see src/app.py.", True),
        ("`src/app.py`", True),
        ("src/app.py:12", True),
        ("/home/dev/proj/src/app.py", True),
        ("src/app.pyc", False),
        ("src/app.py.bak", False),
        ("my-src/app.py", False),
        ("app.py", False),
        ("src/app.py/x", False),
        ("src/app.pyc and src/app.py", True),
    ],
)
def test_a_file_is_named_as_a_whole(text: str, named: bool) -> None:
    """A file counts by its path from the working directory, not by a part of another name."""
    assert is_named("src/app.py", text) is named


def predecessor() -> Thread:
    """Two files and two commands, one rare and one frequent name."""
    return thread(
        edit(1, f"{CWD}/src/app.py", "", "common_name rare_name"),
        read(2, f"{CWD}/src/lib.py", "common_name"),
        shell(3, "pytest -q", "common_name"),
        shell(4, "make lint_all"),
        said(5, "docs/guide.md says so, and src/other.py"),
    )


def test_targets_are_used_later_and_known_before() -> None:
    """A file, a command and a name count when the predecessor had them, wherever it had them."""
    future = [
        edit(6, f"{CWD}/src/app.py", "rare_name", "brand_new_name"),
        edit(7, f"{CWD}/src/unheard.py"),
        read(8, f"{CWD}/docs/guide.md"),
        shell(9, "pytest -q && go vet"),
    ]
    found = metric.find_targets(predecessor(), future, "go on")

    assert found.edit == {"src/app.py"}
    assert found.file == {"src/app.py", "docs/guide.md"}
    assert found.cmd == {"pytest -q"}
    assert "rare_name" in found.id
    assert not {"brand_new_name", "src/unheard.py"} & found.id.keys()
    assert {"src/app.py", "src/lib.py", "docs/guide.md", "src/other.py"} <= found.known


def test_what_the_goal_says_does_not_count() -> None:
    """The successor reads the goal anyway: its files, commands and names are no merit of a brief."""
    future = [edit(6, f"{CWD}/src/app.py", "rare_name", "common_name"), shell(7, "pytest -q")]
    found = metric.find_targets(
        predecessor(), future, "fix rare_name in src/app.py, then pytest  -q"
    )

    assert found.edit == found.file == frozenset()
    assert found.cmd == frozenset()
    assert "rare_name" not in found.id
    assert "common_name" in found.id
    assert set(score(found, "anything").values()) <= {0.0, None}


def test_rare_names_weigh_more() -> None:
    """`id` is recall weighted by in how few entries of the predecessor a name stands."""
    found = metric.find_targets(
        predecessor(), [edit(6, "src/x.py", "common_name", "rare_name")], "go on"
    )
    common, rare = math.log(1 + 5 / 3), math.log(1 + 5 / 1)

    assert found.id == pytest.approx({"common_name": common, "rare_name": rare})
    assert score(found, "the rare_name")["id"] == pytest.approx(rare / (rare + common))
    assert score(found, "common_name, rare_name")["id"] == 1.0
    assert score(found, "rare_names")["id"] == 0.0


def test_recall_precision_and_the_first_five() -> None:
    """Files named are counted against those opened later, and by their place in the brief."""
    files = [f"src/f{n}.py" for n in range(8)]
    before = thread(*(read(n, f"{CWD}/{f}") for n, f in enumerate(files, 1)))
    found = metric.find_targets(
        before, [edit(20, f"{CWD}/{files[0]}"), edit(21, f"{CWD}/{files[6]}")], "x"
    )
    values = score(found, "\n".join(files), files[0], files[6])

    assert values["edit"] == values["file"] == 1.0
    assert values["pfile"] == 2 / 8
    assert values["edit@5"] == 0.5
    assert (values["p3"], values["p5"]) == (1 / 3, 1 / 5)
    assert [score(found, "nothing")[c] for c in ("p3", "p5")] == [0.0, 0.0]
    assert score(found, files[0], files[0])["edit"] == 0.5
    assert score(found, "nothing")["pfile"] == 0.0


def test_the_first_files_are_the_first_by_place() -> None:
    """`p3` and `p5` look at where a file is first named as a whole; fewer files are all there are."""
    files = [f"src/f{n}.py" for n in range(6)]
    before = thread(*(read(n, f"{CWD}/{f}") for n, f in enumerate(files, 1)))
    found = metric.find_targets(before, [read(20, f"{CWD}/{f}") for f in (files[5], files[0])], "x")
    backwards = score(found, "\n".join(reversed(files)), files[5])
    other_name = score(found, f"{files[5]}c\n{files[1]} {files[2]} {files[3]} {files[5]}", files[5])

    assert (backwards["p3"], backwards["p5"], backwards["pfile"]) == (1 / 3, 1 / 5, 1 / 6)
    assert (other_name["p3"], other_name["p5"]) == (0.0, 1 / 4)
    assert score(found, f"{files[0]} {files[5]}", files[5], files[0])["p3"] == 1.0


def test_a_command_counts_however_it_is_broken_into_lines() -> None:
    """White space between the words of a command does not matter; its words do."""
    found = metric.find_targets(predecessor(), [shell(6, "pytest  -q; make lint_all")], "x")

    assert found.cmd == {"pytest -q", "make lint_all"}
    assert score(found, "run\n  pytest\n  -q")["cmd"] == 0.5
    assert score(found, "run pytest \\\n  -q")["cmd"] == 0.5
    assert score(found, "run pytest `\n  -q")["cmd"] == 0.5
    assert score(found, "pytest")["cmd"] == 0.0


def test_one_hop_adds_what_is_cited() -> None:
    """`id1` counts the names of the brief and of the entries that it cites; without any, nothing."""
    found = metric.find_targets(
        predecessor(), [edit(6, "src/x.py", "common_name", "rare_name")], "x"
    )

    assert score(found, "common_name")["id1"] is None
    assert score(found, "common_name", cited="rare_name")["id1"] == 1.0


def test_what_a_case_lacks_is_no_figure() -> None:
    """Without a target there is neither 0 nor 1."""
    found = metric.find_targets(predecessor(), [said(6, "all is well")], "x")

    assert score(found, "src/lib.py") == {
        "edit": None, "file": None, "cmd": None, "id": None, "only": None, "pfile": 0.0, "p3": 0.0, "p5": 0.0,
        "id1": None, "edit@5": None,
    }  # fmt: skip


def test_only_counts_what_the_tree_does_not_hold() -> None:
    """Names of the repository could be found there; `only` is the rest."""
    found = metric.find_targets(
        predecessor(), [edit(6, "src/x.py", "common_name", "rare_name")], "x"
    )
    known = replace(found, only=frozenset({"rare_name"}))

    assert score(known, "common_name")["only"] == 0.0
    assert score(known, "rare_name")["only"] == 1.0
    assert score(found, "rare_name")["only"] is None
