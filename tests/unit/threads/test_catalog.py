"""Finding threads by what a person types."""

import json
import os
import subprocess
from importlib import import_module
from pathlib import Path

import pytest
from fixture_threads import HARNESSES, adapter
from msgspec.structs import replace

from tasuki.draft.brief import join_brief, render_context
from tasuki.errors import ThreadNotFound, ThreadUnreadable, UsageError
from tasuki.harness import registry as harnesses
from tasuki.harness.claude.adapter import Claude
from tasuki.harness.claude.head import build_folder_name
from tasuki.harness.pi_v3.adapter import build_omp_folder_name
from tasuki.harness.pi_v3.head import build_folder_name as build_pi_folder_name
from tasuki.harness.protocol import ThreadFile
from tasuki.harness.reading import speakers
from tasuki.model import Draft, Goal
from tasuki.threads import catalog
from tasuki.threads.blocks import extract_first_words
from tasuki.threads.index import ThreadIndex
from tasuki.typed_prompts import HANDOFF_CLOSING
from tasuki_testing import ThreadBuilder, story
from tasuki_testing.thread_formats import FORMATS


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home folder with nothing of the user's in reach."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in (
        "CLAUDE_CONFIG_DIR",
        "CODEX_HOME",
        "PI_CODING_AGENT_DIR",
        "XDG_DATA_HOME",
        "OPENCODE_DB",
        "AIDER_CHAT_HISTORY_FILE",
    ):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def claude_thread(home: Path, cwd: Path, seed: int, modified: float) -> Path:
    """A thread of Claude Code where Claude Code keeps it."""
    folder = home / ".claude" / "projects" / build_folder_name(cwd)
    folder.mkdir(parents=True, exist_ok=True)
    path = (
        ThreadBuilder("claude", cwd=str(cwd), seed=seed)
        .user(f"task {seed}")
        .assistant("ok")
        .write(folder)
    )
    os.utime(path, (modified, modified))
    return path


def test_threads_of_this_folder_come_newest_first(home: Path) -> None:
    """Only this folder's threads, the newest in front; all folders on request."""
    here, there = home / "here", home / "there"
    here.mkdir()
    there.mkdir()
    old, new = claude_thread(home, here, 1, 1000), claude_thread(home, here, 2, 2000)
    other = claude_thread(home, there, 3, 3000)

    assert [h.path for h in catalog.list_heads(None, here)] == [str(new), str(old)]
    assert [h.path for h in catalog.list_heads()] == [str(other), str(new), str(old)]
    assert next(catalog.list_heads(None, here)).first_words == "task 2"


def test_the_newest_is_the_one_with_the_newest_line(home: Path) -> None:
    """A title that came later, a copy or a backup changes the file's time, and not the order."""
    here = home / "here"
    old, new = claude_thread(home, here, 1, 1_790_000_000), claude_thread(home, here, 2, 1000)
    old.write_text(
        old.read_text().replace("2026-01-05", "2026-01-04")
        + '{"type":"ai-title","aiTitle":"Old"}\n'
    )

    assert [h.path for h in catalog.list_heads(None, here)] == [str(new), str(old)]
    assert [h.name for h in catalog.list_heads(None, here)] == ["", "Old"]
    assert catalog.find_thread("", here)[1] == new


@pytest.mark.parametrize(
    ("first", "last", "here"),
    [
        ("/srv/a", "/srv/b", "/srv/a"),
        ("/srv/a", "/srv/b", "/srv/b"),
        ("/srv/a/.claude/worktrees/x", "/srv/a/.claude/worktrees/x/src", "/srv/a"),
        ("/srv/a/.worktrees/x", "/srv/a/.worktrees/x", "/srv/a"),
        ("/srv/caf\u00e9", "/srv/caf\u00e9", "/srv/cafe\u0301"),
        (r"C:\srv\a", r"c:\srv\A", "/mnt/c/srv/a"),
        ("/srv/🚀", "/srv/🚀", "/srv/🚀"),
    ],
)
@pytest.mark.parametrize("harness", ["claude", "codex"])
def test_a_thread_is_of_the_folders_that_its_lines_name(
    home: Path, harness: str, first: str, last: str, here: str
) -> None:
    """The first and the last folder count, the repository of a worktree that is gone, and every spelling."""
    builder = ThreadBuilder(harness, cwd=first).user("task").assistant("ok")
    text = builder.text()
    if harness == "claude":
        line = json.dumps({"type": "system", "cwd": last, "sessionId": builder.id})
        folder = home / ".claude" / "projects" / "anywhere"
    else:
        line = json.dumps(
            {
                "timestamp": "2026-01-05T09:30:00.000Z",
                "type": "turn_context",
                "payload": {"cwd": last},
            },
            separators=(",", ":"),
        )
        folder = home / ".codex" / "sessions" / "2026" / "01" / "05"
    folder.mkdir(parents=True)
    path = folder / builder.file_name()
    path.write_text(f"{text}{line}\n")

    assert [h.path for h in catalog.list_heads(None, Path(here))] == [str(path)]
    assert list(catalog.list_heads(None, Path("/srv/other"))) == []


def test_agents_of_a_thread_are_listed_with_it(home: Path) -> None:
    """A sub-agent of Codex is no thread of the list, also if it wrote last; its parent names it."""
    folder = home / ".codex" / "sessions" / "2026" / "01" / "05"
    folder.mkdir(parents=True)
    parent = ThreadBuilder("codex", cwd="/srv/a", seed=1).user("task").assistant("ok")
    child = (
        ThreadBuilder("codex", cwd="/srv/a", seed=20_000)
        .user("order")
        .assistant("ok")
        .assistant("more")
    )
    spawned = {"thread_spawn": {"parent_thread_id": parent.id, "depth": 1}}
    child.records[0]["payload"]["source"] = {"subagent": spawned}
    path, own = parent.write(folder), child.write(folder)

    (head,) = catalog.list_heads(None, Path("/srv/a"))
    assert (head.path, head.children) == (str(path), (child.id,))
    assert catalog.find_thread("@1", Path("/srv/a"))[1] == path
    assert catalog.find_thread(child.id, home)[1] == own


def test_heads_of_many_threads_are_kept_in_the_index(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What did not change is not read again; a damaged index, or none, hides nothing."""
    here = home / "here"
    paths = [claude_thread(home, here, seed, 1000 + seed) for seed in range(1, 1 + catalog.MANY)]
    monkeypatch.setenv("TASUKI_DATA", str(home / "data"))
    listed = list(catalog.list_heads(None, here))
    read: list[Path] = []
    read_head = catalog.read_head
    monkeypatch.setattr(
        catalog, "read_head", lambda a, f: (read.append(f.path), read_head(a, f))[1]
    )
    again = list(catalog.list_heads(None, here))
    assert (again, read) == (listed, [])
    paths[3].write_text(paths[3].read_text().replace("task 4", "task four"))
    assert "task four" in {h.first_words for h in catalog.list_heads(None, here)}
    assert read == [paths[3]]
    (home / "data" / "index.db").write_bytes(b"no database")
    assert len(list(catalog.list_heads(None, here))) == len(listed)
    monkeypatch.setenv("TASUKI_DATA", str(paths[0]))
    assert len(list(catalog.list_heads(None, here))) == len(listed)


def test_messages_are_counted_or_left_out(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a long thread they are known once the index has read it, and until it changes."""
    monkeypatch.setenv("TASUKI_DATA", str(home / "data"))
    here = home / "here"
    short, long = claude_thread(home, here, 1, 1000), claude_thread(home, here, 2, 2000)
    with long.open("ab") as file:
        file.write(b'{"type":"attachment","padding":"%b"}\n' % (b"x" * 60_000))
        file.write(long.read_bytes().splitlines(keepends=True)[-2] * 30)

    def count() -> dict[str, int | None]:
        return {head.path: head.messages for head in catalog.list_heads(None, here)}

    assert count() == {str(short): 2, str(long): None}
    with ThreadIndex() as index:
        index.update_threads(catalog.find_thread_files())
    assert count()[str(long)] == len(Claude().read(long).entries)
    with long.open("ab") as file:
        file.write(b"\n")
    assert count()[str(long)] is None


def test_a_whole_id_chooses(home: Path) -> None:
    """Also the id of several files, which a program copied; the longest is the thread then."""
    copy = claude_thread(home, home / "there", 1, 2000)
    path = claude_thread(home, home / "here", 1, 1000)
    path.write_text(path.read_text() * 2)
    claude_thread(home, home / "here", 2, 3000)

    assert catalog.find_thread(path.stem, home)[1] == path
    assert catalog.find_thread(copy.stem[:-1], home)[1] == path
    with pytest.raises(UsageError, match="give more of the id"):
        catalog.find_thread(copy.stem[:8], home)


def test_at_n_harness_names_ids_and_paths_find_a_thread(home: Path) -> None:
    """@1 is the newest here, @2 the one before; an id, its beginning and a path name one thread."""
    here = home / "here"
    here.mkdir()
    old, new = claude_thread(home, here, 1, 1000), claude_thread(home, here, 2, 2000)

    assert catalog.find_thread("", here)[1] == new
    assert catalog.find_thread("@1", here)[1] == new
    assert catalog.find_thread("@2", here)[1] == old
    assert catalog.find_thread("claude", here)[1] == new
    assert catalog.find_thread(old.stem, here)[1] == old
    assert catalog.find_thread(str(old), here)[1] == old


def test_a_shared_beginning_is_ambiguous_and_lists_the_threads(home: Path) -> None:
    """More of the id is asked for, and both candidates are shown."""
    here = home / "here"
    here.mkdir()
    old, new = claude_thread(home, here, 1, 1000), claude_thread(home, here, 2, 2000)

    with pytest.raises(UsageError, match="2 threads begin with") as caught:
        catalog.find_thread(old.stem[:8], here)
    assert str(old) in str(caught.value)
    assert str(new) in str(caught.value)


@pytest.mark.parametrize(
    "spec", ["", "@1", "@3", "codex", "deadbeef", "not-an-id!", "/nowhere/x.jsonl"]
)
def test_what_is_not_there_says_what_to_do(home: Path, spec: str) -> None:
    """Each failed search ends in a sentence with the next step."""
    with pytest.raises(ThreadNotFound, match=r"tasuki (threads|handoff)|neither a file"):
        catalog.find_thread(spec, home)


def test_a_file_that_is_no_thread_is_named(home: Path) -> None:
    """Other files, empty files and folders are not read as threads."""
    text, empty = home / "notes.jsonl", home / "empty.jsonl"
    text.write_text("hello\n")
    empty.write_text("\n")

    with pytest.raises(ThreadUnreadable, match="is not a thread of a known harness"):
        catalog.find_thread(str(text), home)
    with pytest.raises(ThreadUnreadable, match="is empty"):
        catalog.find_thread(str(empty), home)
    with pytest.raises(ThreadUnreadable, match="Cannot open"):
        catalog.find_thread(f"{home}/", home)


@pytest.mark.parametrize("harness", HARNESSES)
def test_any_threads_file_is_recognised_wherever_it_lies(harness: str, home: Path) -> None:
    """The format is told by the first bytes, not by the folder or the name."""
    path = story(harness).write(home / "anything.jsonl")

    assert catalog.find_thread(str(path), home)[0].name in (
        {harness, "pi"} if harness == "omp" else {adapter(harness).name}
    )


def test_threads_in_a_database_are_found_by_path_and_id(home: Path, tmp_path: Path) -> None:
    """As if they were files below it; an export by its own path; the database alone if it has one."""
    folder = home / ".local" / "share" / "opencode"
    folder.mkdir(parents=True)
    build = ThreadBuilder("opencode", cwd=str(home)).user("task").assistant("ok")
    path = build.write(folder)
    export = ThreadBuilder("opencode-export", cwd=str(home)).user("Go").write(tmp_path)

    for spec in (str(path), build.id, build.id[:12], "opencode", "@1", ""):
        harness, found = catalog.find_thread(spec, home)
        assert (harness.name, found) == ("opencode", path)
    assert catalog.find_thread(str(path.parent), home)[0].name == "opencode"
    assert catalog.find_thread(str(export), home)[1] == export
    (head,) = catalog.list_heads(None, home)
    assert (head.path, head.first_words) == (str(path), "task")
    with pytest.raises(ThreadUnreadable, match="holds no thread ses_none"):
        catalog.find_thread(f"{path.parent}/ses_none", home)[0].read(path.parent / "ses_none")


@pytest.mark.parametrize("harness", ["aider", "specstory"])
def test_histories_in_a_project_are_those_of_all_its_folders(
    harness: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found from below by `@1`, by the harness, by the id, and by the path of the file."""
    below = home / "proj" / "src"
    below.mkdir(parents=True)
    (home / "proj" / ".git").mkdir()
    folder = home / "proj" / (".specstory/history" if harness == "specstory" else ".")
    folder.mkdir(parents=True, exist_ok=True)
    path = ThreadBuilder(harness).user("task").assistant("ok").write(folder)
    monkeypatch.chdir(below)
    (head,) = catalog.list_heads(None, below)

    assert (head.path, head.cwd) == (str(path), str(home / "proj"))
    for spec in ("@1", harness, head.id, head.id[:-2], str(path)):
        found = catalog.find_thread(spec, below)
        assert (found[0].name, found[1]) == (harness, path)
    assert list(catalog.list_heads(None, home / "proj" / "..")) == []


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "There is no thread for"),
        (1, "There is only 1 thread for"),
        (3, "There are only 3 threads for"),
    ],
)
def test_too_few_threads_are_counted_in_plain_english(count: int, words: str, home: Path) -> None:
    """None, one, several."""
    for seed in range(count):
        claude_thread(home, home, seed, 1000 + seed)
    with pytest.raises(ThreadNotFound, match=words):
        catalog.find_thread("@9", home)


STORES = {
    "claude": ".claude/projects/{folder}",
    "codex": ".codex/sessions/2026/01/05",
    "pi": ".pi/agent/sessions/{pi}",
    "omp": ".omp/agent/sessions/{omp}",
    "gemini": ".gemini/tmp/proj/chats",
    "copilot": ".copilot/session-state/{id}",
    "opencode": ".local/share/opencode",
    "aider": "proj",
    "specstory": "proj/.specstory/history",
}
"""Where each harness keeps its threads, below the home."""


@pytest.mark.parametrize("name", STORES)
def test_every_harness_is_found_by_the_id_that_lists_show(
    name: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole id and its beginning lead to the thread, though not all files are named by it."""
    project = home / "proj"
    project.mkdir()
    monkeypatch.chdir(project)
    mark = home / ".gemini" / "tmp" / "proj" / ".project_root"
    mark.parent.mkdir(parents=True)
    mark.write_text(str(project))
    folders = {
        "folder": build_folder_name(project), "pi": build_pi_folder_name(str(project)),
        "omp": build_omp_folder_name(str(project)),
    }  # fmt: skip
    paths = []
    for seed in (1, 20_000):
        builder = ThreadBuilder(name, cwd=str(project), seed=seed).user("Look").assistant("Yes.")
        place = home / STORES[name].format(id=builder.id, **folders)
        if name in ("aider", "opencode") and seed > 1:
            continue
        place.mkdir(parents=True, exist_ok=True)
        paths.append(builder.write(place / builder.file_name()))
    (wanted, *_) = [h for h in catalog.list_heads(name, project) if h.path == str(paths[0])]

    assert catalog.find_thread(wanted.id, project) == (harnesses.get_harness(name), paths[0])
    beginning = next(
        wanted.id[:n] for n in range(4, len(wanted.id) + 1)
        if sum(h.id.startswith(wanted.id[:n]) for h in catalog.list_heads(name, project)) == 1
    )  # fmt: skip
    assert catalog.find_thread(beginning, project)[1] == paths[0]
    assert catalog.find_thread(str(paths[0]), project)[1] == paths[0]
    assert catalog.find_thread(name, project)[0].name == name


@pytest.mark.parametrize("name", sorted(STORES))
@pytest.mark.parametrize(("begun", "asked"), [("link", "proj"), ("proj", "link")])
def test_threads_of_a_folder_are_found_under_each_of_its_names(
    name: str, begun: str, asked: str, home: Path
) -> None:
    """Begun in the folder's real name and asked for by a link to it, and the reverse."""
    project = home / "proj"
    project.mkdir()
    (home / "link").symlink_to(project)
    mark = home / ".gemini" / "tmp" / "proj" / ".project_root"
    mark.parent.mkdir(parents=True)
    mark.write_text(str(home / begun))
    folders = {
        "folder": build_folder_name(project), "pi": build_pi_folder_name(str(home / begun)),
        "omp": build_omp_folder_name(str(project)),
    }  # fmt: skip
    builder = ThreadBuilder(name, cwd=str(home / begun)).user("Look").assistant("Yes.")
    place = home / STORES[name].format(id=builder.id, **folders)
    place.mkdir(parents=True, exist_ok=True)
    builder.write(place / builder.file_name())

    assert [head.harness for head in catalog.list_heads(name, home / asked)] == [name]
    assert catalog.find_near("", home / asked).note == ""


BRIEF = join_brief(
    render_context(Draft(metadata=(f"Thread: {'x ' * 4_000}",), goal=Goal(text="-")), "a" * 32),
    "cover the 429 path with a test\n\nand its delay",
)


@pytest.mark.parametrize("prompt", [BRIEF, f"/review {BRIEF}"], ids=["brief", "skill"])
@pytest.mark.parametrize("name", sorted(FORMATS))
def test_a_thread_that_began_with_a_handoff_is_named_by_its_goal(
    name: str, prompt: str, tmp_path: Path
) -> None:
    """In lists and in the index, of every harness, however long the brief is."""
    path = ThreadBuilder(name).user(prompt).assistant("Yes.").user("Go on").write(tmp_path)
    harness = harnesses.detect_harness(path)
    head = catalog.read_head(harness, ThreadFile(path, 1.0, 1 << 20))

    assert head is not None
    assert head.first_words == "handoff: cover the 429 path with a test and its delay"
    assert extract_first_words(harness.read(path)).startswith("handoff: cover the 429 path")


@pytest.mark.parametrize(
    ("prompt", "title"),
    [
        ("# Handoff Context\n\n## Next Goal (verbatim, proposed by the previous agent)\nfix it", "handoff: fix it"),
        (f"<handoff-context>\nold\n</handoff-context>\n\n{HANDOFF_CLOSING}\nfix it", "handoff: fix it"),
        (
            "You take over from agent 3 (dev, session s-1), which has ended: you continue its work.\n\nHandoff document: /a.md\n"
            "Reason for the handoff: full\n\nWhat the user wants next:\nfix it\n\n1. Begin your answer with this line, by itself: handoff a\n"
            "3. Continue the work from where it stopped.\n(tasuki handoff abcd1234)",
            "handoff: fix it",
        ),
        ("You are Dev. This is your skill: who you are and how you work.\n\nBe brief.\n\nYour task:\nfix it", "fix it"),
        ("# Handoff Context\n> only the past", "# Handoff Context > only the past"),
        ("## Next Goal (verbatim)\nis a heading", "## Next Goal (verbatim) is a heading"),
    ],
)  # fmt: skip
def test_every_form_of_a_handoff_is_named_by_what_people_want(prompt: str, title: str) -> None:
    """A goal that a model proposed, a session's own context, and a fleet's prompts."""
    assert speakers.extract_first_words(prompt) == title


def test_a_session_that_holds_its_handoff_is_named_by_the_goal_that_was_typed(
    tmp_path: Path,
) -> None:
    """pi and omp keep the past in an entry of its own; a name that a program made of a brief is none."""
    path = ThreadBuilder("pi").handoff("x").user("fix it").assistant("Yes.").write(tmp_path)
    harness = harnesses.detect_harness(path)
    head = catalog.read_head(harness, ThreadFile(path, 1.0, 1 << 20))

    assert head is not None
    assert head.first_words == "fix it"
    assert catalog.redact_head(replace(head, name="# Handoff Context You are")).name == ""


@pytest.mark.parametrize("harness", ["claude", "codex", "pi", "omp", "gemini", "copilot"])
def test_a_thread_with_unusual_ends_is_listed(home: Path, harness: str) -> None:
    """A first prompt and a last answer longer than what is read of both ends hide no thread."""
    long = "word " * 60_000
    cwd = home / "here"
    builder = ThreadBuilder(harness, cwd=str(cwd)).user(long).assistant(long)
    path = builder.write(home / builder.file_name())
    found = catalog.read_head(
        adapter(harness), ThreadFile(path, path.stat().st_mtime, path.stat().st_size)
    )

    assert found is not None
    assert found.id == builder.id
    assert found.cwd == str(cwd)


def test_a_thread_of_claude_with_much_before_its_first_message_is_listed(home: Path) -> None:
    """Records without a folder that fill the head, and a last line longer than the tail, hide no thread."""
    here = home / "here"
    folder = home / ".claude" / "projects" / build_folder_name(here)
    folder.mkdir(parents=True)
    builder = ThreadBuilder("claude", cwd=str(here))
    said = builder.user("task one").assistant("x" * 50_000).text()
    before = '{"type":"file-history-snapshot","snapshot":{}}\n' * 2_000
    path = folder / f"{builder.id}.jsonl"
    path.write_text(before + said)

    assert [h.path for h in catalog.list_heads(None, here)] == [str(path)]
    assert next(catalog.list_heads(None, here)).first_words == "task one"
    assert catalog.find_thread(builder.id[:8], here)[1] == path


def test_a_path_is_absolute_whatever_was_typed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path of a thread is kept as the file it named."""
    path = claude_thread(home, home / "here", 1, 1000)
    monkeypatch.chdir(path.parent)

    assert catalog.find_thread(path.name, path.parent)[1] == path
    assert catalog.find_thread(f"./{path.name}", path.parent)[1] == path


def _git(*arguments: str, cwd: Path) -> None:
    identity = ("-c", "user.name=dev", "-c", "user.email=dev@example.com")
    subprocess.run(["git", *identity, *arguments], cwd=cwd, check=True, capture_output=True)


def test_threads_of_the_project_are_found_from_its_subfolders_and_worktrees(home: Path) -> None:
    """Where a folder has no thread, those above it in its repository are found, then its other worktrees'."""
    root, deep, tree = home / "proj", home / "proj" / "src" / "lib", home / "tree"
    deep.mkdir(parents=True)
    _git("init", "-q", cwd=root)
    _git("commit", "-q", "--allow-empty", "-m", "one", cwd=root)
    _git("worktree", "add", "-q", str(tree), cwd=root)
    (tree / "docs").mkdir()
    ours = claude_thread(home, root, 1, 1000)
    claude_thread(home, home, 2, 2000)

    for folder in (deep, tree, tree / "docs"):
        found, of = catalog.list_heads_near(None, folder)
        assert [h.path for h in found] == [str(ours)]
        assert of == root
        assert f"No thread was run in {folder}" in catalog.find_near("", folder).note
        with pytest.raises(ThreadNotFound):
            catalog.find_thread("", folder)
    there = claude_thread(home, tree, 3, 500)
    assert [h.path for h in catalog.list_heads_near(None, tree / "docs")[0]] == [str(there)]
    assert catalog.find_near("@1", root).note == ""


def test_worktrees_beside_their_repository_are_found(home: Path) -> None:
    """A `.git` file that names the repository itself leads to its worktrees, and they lead back."""
    root, tree = home / "proj", home / "proj" / "feat"
    root.mkdir()
    _git("init", "-q", "--bare", ".bare", cwd=root)
    (root / ".git").write_text("gitdir: ./.bare\n")
    blob = subprocess.run(
        ["git", "hash-object", "-t", "tree", "-w", "/dev/null"], cwd=root, capture_output=True, text=True, check=True
    ).stdout.strip()  # fmt: skip
    _git("update-ref", "refs/heads/main", _commit(root, blob), cwd=root)
    _git("worktree", "add", "-q", str(tree), "main", cwd=root)
    ours = claude_thread(home, tree, 1, 1000)
    assert [h.path for h in catalog.list_heads_near(None, root)[0]] == [str(ours)]

    ours.unlink()
    main = claude_thread(home, root, 2, 1000)
    assert [h.path for h in catalog.list_heads_near(None, tree)[0]] == [str(main)]


def _commit(root: Path, tree: str) -> str:
    identity = ("-c", "user.name=dev", "-c", "user.email=dev@example.com")
    done = subprocess.run(
        ["git", *identity, "commit-tree", tree, "-m", "one"], cwd=root, capture_output=True, text=True, check=True
    )  # fmt: skip
    return done.stdout.strip()


def test_without_a_repository_threads_above_are_found_below_the_home_folder(home: Path) -> None:
    """A folder without a repository finds the threads of those above it, but not of the home folder."""
    deep = home / "notes" / "2026"
    deep.mkdir(parents=True)
    claude_thread(home, home, 1, 2000)
    assert catalog.list_heads_near(None, deep) == ([], deep)

    ours = claude_thread(home, home / "notes", 2, 1000)
    assert [h.path for h in catalog.list_heads_near(None, deep)[0]] == [str(ours)]


@pytest.mark.parametrize("hostile", ["gitdir: /nowhere", "gitdir: ../..", "\0\xff", ""])
def test_a_broken_repository_hides_no_error_and_no_thread(home: Path, hostile: str) -> None:
    """A `.git` file that names nothing is a repository of one folder."""
    root = home / "proj"
    (root / "src").mkdir(parents=True)
    (root / ".git").write_text(hostile, "latin-1")
    ours = claude_thread(home, root, 1, 1000)

    assert [h.path for h in catalog.list_heads_near(None, root / "src")[0]] == [str(ours)]


@pytest.mark.parametrize("name", sorted(harnesses._HOMES))
def test_a_program_that_is_not_here_has_no_threads(
    name: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its adapter is loaded where its folder exists, by its usual name or by its variable."""
    variable, folder = harnesses._HOMES[name]
    monkeypatch.delenv(variable, raising=False)
    head = import_module(f"tasuki.harness.{name}.head")
    assert not harnesses.may_have_threads(name)
    assert head.get_home() == home / folder

    monkeypatch.setenv(variable, str(tmp_path / "elsewhere"))
    assert harnesses.may_have_threads(name)
    monkeypatch.delenv(variable)
    (home / folder).mkdir()
    assert harnesses.may_have_threads(name)


def test_a_folder_that_cannot_be_looked_at_is_no_missing_one(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without permission the adapter is asked, which says what cannot be read."""

    def refuse(path: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.delenv("CODEX_HOME", raising=False)
    monkeypatch.setattr(harnesses.os, "lstat", refuse)
    assert harnesses.may_have_threads("codex")
