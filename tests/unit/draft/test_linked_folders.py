"""A folder that is reached through a symbolic link is the same folder under both names."""

from pathlib import Path

import pytest
from checkouts import git

from tasuki.config.settings import load_with_sources
from tasuki.draft.facts.derive import derive_facts
from tasuki.draft.facts.git import GitProbe
from tasuki.draft.pipeline import make_handoff
from tasuki.draft.repository.uncommitted import find_uncommitted
from tasuki.draft.runs.scopes import join_folder
from tasuki.harness.registry import detect_harness
from tasuki.model import Goal
from tasuki.paths import make_relative
from tasuki_testing import ThreadBuilder

HARNESSES = ("claude", "codex", "pi", "gemini", "opencode", "copilot")


@pytest.fixture
def names(tmp_path: Path) -> dict[str, Path]:
    """A checkout with a changed and a new file: its real name, and those through links to it and to a folder above it."""
    real = tmp_path / "real" / "proj"
    real.mkdir(parents=True)
    git(real, "init", "-q", "-b", "main")
    (real / "upload.py").write_text("retry = 1\n")
    git(real, "add", ".")
    git(real, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "begin")
    (real / "upload.py").write_text("retry = 2\n")
    (real / "test_upload.py").write_text("x\n")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "short").symlink_to(real)
    return {"real": real, "above": tmp_path / "link" / "proj", "itself": tmp_path / "short"}


def write_brief(harness: str, cwd: Path, named: Path, folder: Path) -> str:
    """The brief of a thread that ran in one name of a folder and named files by another, with that in place of the first."""
    build = ThreadBuilder(harness, str(cwd)).user("Retry the upload, and cover it with a test")
    build.edit(f"{named}/upload.py", "retry = 1", "retry = 2").create(
        f"{named}/test_upload.py", "x"
    )
    build.shell(f"cd {named} && git status --short", " M upload.py\n?? test_upload.py")
    build.shell(f"cd {named} && pytest -q {named}/test_upload.py", "1 passed in 1s")
    path = build.assistant(f"The retry in `{named}/upload.py` is in.").write(folder)
    result = make_handoff(
        detect_harness(path), path, Goal(text="cover the 429 path"), load_with_sources(cwd),
        handoff_id="a" * 32, to=harness,
    )  # fmt: skip
    return result.context.replace(f"{named}/", "").replace(str(named), str(cwd))


@pytest.mark.parametrize("harness", HARNESSES)
@pytest.mark.parametrize(
    ("cwd", "named"),
    [(a, b) for a in ("real", "above", "itself") for b in ("real", "above", "itself")],
)
def test_a_brief_is_the_same_under_every_name(
    harness: str, cwd: str, named: str, names: dict[str, Path], tmp_path: Path
) -> None:
    """Files are those of the folder, and not committed, whichever name the folder and they have."""
    text = write_brief(harness, names[cwd], names[named], tmp_path)
    plain = write_brief(harness, names["real"], names["real"], tmp_path)

    assert "Not committed yet: `" in text
    assert "\n- upload.py" in text
    assert "in the folder, now" not in text
    assert text.replace(str(names[cwd]), str(names["real"])) == plain


def test_a_file_above_the_threads_folder_is_one_of_the_checkout(
    names: dict[str, Path], tmp_path: Path
) -> None:
    """Also where the thread ran in a folder of a linked checkout."""
    (names["real"] / "sub").mkdir()
    link = names["above"]
    build = ThreadBuilder("claude", str(link / "sub")).user("Retry the upload")
    build.edit(f"{link}/upload.py", "retry = 1", "retry = 2").shell(
        f"cd {names['real']} && ls", "x"
    )
    path = build.assistant("Done.").write(tmp_path)
    thread = detect_harness(path).read(path)
    revision = GitProbe(thread.cwd).read_revision()
    facts = derive_facts(thread, revision).facts

    assert find_uncommitted(thread, facts.files, facts.repository, revision)[0] == (
        str(link / "upload.py"),
    )


def test_links_are_followed_only_from_a_folder_of_this_machine(
    names: dict[str, Path], tmp_path: Path
) -> None:
    """A folder that is not here, a link below the folder and one to elsewhere change no path."""
    real, above = str(names["real"]), str(names["above"])
    (names["real"] / "src").mkdir()
    (names["real"] / "vendor").symlink_to(tmp_path)
    (names["real"] / "notes.md").symlink_to(tmp_path / "elsewhere.md")

    assert make_relative(f"{above}/a.py", real) == "a.py"
    assert make_relative(f"{above}/vendor/a.py", real) == f"{above}/vendor/a.py"
    assert make_relative(f"{real}/vendor/a.py", real) == "vendor/a.py"
    assert make_relative(f"{above}/notes.md", real) == "notes.md"
    assert make_relative(f"{above}/a.py", "/nowhere/proj") == f"{above}/a.py"
    assert make_relative(f"{above}x/a.py", real) == f"{above}x/a.py"
    assert join_folder(f"{real}/src", above) == real
    assert join_folder(f"{real}/src", "/") == "/"
