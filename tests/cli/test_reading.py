"""Finding and reading back, as the command line does it: real processes on real files."""

import json
import re
from pathlib import Path

import pytest
from command_line import GOAL, SECRET, World, chain, work


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A fresh world."""
    return World(tmp_path)


def test_find_shows_the_best_threads_with_lines_and_refs(world: World) -> None:
    """Words lead to lines; the example at the end opens the first of them."""
    world.thread(work(cwd=str(world.project)))
    done = world.run("find", "gateway keepalive")

    assert done.returncode == 0, done.stderr
    head, *lines = done.stdout.splitlines()
    assert re.match(
        r"00000000\S*  claude  \d+d  \S+  Why does the upload stall after a minute\?", head
    )
    assert any("#5     assistant  You are right: the upload" in line for line in lines)
    example = re.search(r"tasuki read (\S+#\d+)", done.stderr)
    assert example
    assert world.run("read", example[1]).returncode == 0


def test_find_as_json_is_one_document(world: World) -> None:
    """Programs get labels, threads, scores, lines and problems."""
    world.thread(work())
    document = json.loads(world.run("find", "keepalive", "file:gateway.py", "--json").stdout)

    assert document["version"] == 1
    assert document["problems"] == []
    (hit,) = document["threads"]
    assert hit["thread"]["harness"] == "claude"
    assert {line["ref"] for line in hit["lines"]} == {5, 6}


def test_find_says_when_nothing_matches(world: World) -> None:
    """Nothing found is exit code 1 with a hint, also where there is no thread at all."""
    for _ in range(2):
        done = world.run("find", "unheardof")
        assert done.returncode == 1
        assert "No thread matches" in done.stderr
        world.thread(work())


def test_no_secret_leaves_by_finding_or_reading(world: World) -> None:
    """A token in an output is redacted in every form of every answer."""
    path = world.thread(work())
    runs = [
        ("find", "x-token"), ("find", "x-token", "--json"), ("read", str(path)),
        ("read", str(path), "--json"), ("read", str(path), "--markdown"), ("read", f"{path}#3"),
        ("read", str(path), "which x-token did the server send?"),
        ("read", str(path), "which x-token did the server send?", "--json"),
    ]  # fmt: skip
    for arguments in runs:
        done = world.run(*arguments)
        assert done.returncode == 0, done.stderr
        assert SECRET[4:] not in done.stdout + done.stderr, arguments
        assert "REDACTED" in done.stdout, arguments


def test_a_thread_is_read_whole_or_in_part(world: World) -> None:
    """Without refs all entries are shown, with refs those named, in the order named."""
    path = world.thread(work())
    whole = world.run("read", str(path)).stdout
    part = world.run("read", f"{path.stem}#5,1-2").stdout

    assert re.findall(r"^── #(\d+)", whole, re.MULTILINE) == list("1234567")
    assert re.findall(r"^── #(\d+) (\w+)", part, re.MULTILINE) == [
        ("5", "assistant"), ("1", "user"), ("2", "assistant"),
    ]  # fmt: skip


def test_a_thread_as_json_and_markdown(world: World) -> None:
    """JSON holds entries with their calls; Markdown fences what programs printed."""
    path = world.thread(work())
    document = json.loads(world.run("read", str(path), "--json").stdout)
    text = world.run("read", f"{path}#7", "--markdown").stdout

    assert document["thread"]["entries"] == 7
    assert document["entries"][6]["tool"]["command"] == "pytest -q tests/test_upload.py"
    assert [e["origin"] for e in document["entries"][:2]] == ["typed", None]
    assert text.startswith(
        "## #7 tool\n\n```\nBash pytest -q tests/test_upload.py\n→ ok\n12 passed\n```"
    )


@pytest.mark.parametrize("form", [(), ("--json",), ("--markdown",)])
def test_entries_are_the_same_once_a_handoff_has_cached_their_thread(
    world: World, form: tuple[str, ...]
) -> None:
    """What is shown of entries does not depend on where their thread is read from."""
    path = world.thread(work())
    before = world.run("read", f"{path}#1-7", *form)
    assert world.run("handoff", "--print", "--from", str(path), GOAL).returncode == 0
    assert list((world.data / "cache").iterdir())
    after = world.run("read", f"{path}#1-7", *form)

    assert "12 passed" in before.stdout
    assert before.stdout == after.stdout


def test_a_question_is_answered_with_the_later_answer_too(world: World) -> None:
    """What was said first and what took it back are both there, in order, with their refs."""
    path = world.thread(work())
    done = world.run("read", str(path), "why does the upload stall?")

    assert done.returncode == 0, done.stderr
    refs = re.findall(r"#(\d+) (?:user|assistant|tool)", done.stdout)
    assert refs == sorted(refs, key=int)
    assert done.stdout.index("client timeout is 60 s") < done.stdout.index("keepalive is off")


def test_a_question_nobody_spoke_of_has_no_answer(world: World) -> None:
    """No passage is made up: exit code 1, and where else to look."""
    path = world.thread(work())
    done = world.run("read", str(path), "zebra crossings")

    assert done.returncode == 1
    assert done.stdout == ""
    assert "tasuki find" in done.stderr


def test_a_question_goes_back_through_the_lineage(world: World) -> None:
    """Asked of the second handoff, the first thread answers too, under the first handoff's id."""
    first, second, _ = chain(world)
    done = world.run("read", second[:8], "was the gateway keepalive off?", "--json")

    threads = json.loads(done.stdout)["threads"]
    assert [t["label"] for t in threads][-1] == first[:8]
    assert any("keepalive is off" in p["text"] for p in threads[-1]["passages"])


def test_what_a_handoff_kept_is_read_when_the_thread_is_gone(world: World) -> None:
    """Without the thread, the cited entries are still there, and a question is asked of them."""
    first, _, path = chain(world)
    path.unlink()
    done = world.run("read", first[:8])
    asked = world.run("read", first[:8], "gateway keepalive")

    assert "Reading what was stored with the handoff" in done.stderr
    assert "(as stored with the handoff)" in done.stdout
    assert "keepalive" in asked.stdout
    missing = world.run("read", f"{first[:8]}#99")
    assert missing.returncode == 1
    assert "is not among the entries stored with handoff" in missing.stderr


def test_handoffs_are_found_by_their_words(world: World) -> None:
    """Goal and brief are searched, and lines that match shown."""
    first, second, _ = chain(world)
    done = world.run("handoffs", "find", "keepalive gateway")
    document = json.loads(world.run("handoffs", "find", "src/retry.py", "--json").stdout)

    assert done.stdout.startswith(first[:8]) or done.stdout.startswith(second[:8])
    assert "keepalive" in done.stdout
    assert [h["id"] for h in document["handoffs"]] == [second]
    assert world.run("handoffs", "find", "zebra").returncode == 1


def test_pruning_keeps_what_a_kept_handoff_descends_from(world: World) -> None:
    """`--keep 1` keeps the newest and its ancestor; an unrelated older one goes, with --yes alone."""
    other = world.thread(work(seed=9, cwd=str(world.project)))
    lone = json.loads(world.run("handoff", "--json", "--from", str(other), GOAL).stdout)["id"]
    first, second, path = chain(world)
    before = path.read_bytes()

    asked = world.run("handoffs", "prune", "--keep", "1")
    assert asked.returncode == 2
    assert "--yes or --dry-run" in asked.stderr
    dry = world.run("handoffs", "prune", "--keep", "1", "--dry-run")
    assert dry.stdout.startswith(lone[:8])
    assert "1 would be deleted" in dry.stderr
    assert "Deleted 1" in world.run("handoffs", "prune", "--keep", "1", "--yes").stderr
    left = json.loads(world.run("handoffs", "--json").stdout)["handoffs"]
    assert {h["id"] for h in left} == {first, second}
    assert path.read_bytes() == before


def test_pruning_by_age_leaves_the_young(world: World) -> None:
    """What is younger than the days named stays; 0 days takes all drafts."""
    chain(world)

    assert (
        "Nothing to delete" in world.run("handoffs", "prune", "--older-than", "1", "--yes").stderr
    )
    assert (
        "Deleted 2"
        in world.run("handoffs", "prune", "--drafts", "--older-than", "0", "--yes").stderr
    )


def test_a_kept_handoff_cannot_be_started_without_a_terminal(world: World) -> None:
    """`tasuki start` says what to do instead."""
    first, _, _ = chain(world)
    done = world.run("start", first[:8])

    assert done.returncode == 2
    assert "--tmux --yes" in done.stderr
    assert f"tasuki show {first[:8]} --brief" in done.stderr
