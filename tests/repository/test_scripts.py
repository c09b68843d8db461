"""The scripts of the checkout on a machine where something is missing."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from tree import ROOT

PRESENT = "sh cat cksum cut dirname env git id printf tr python3".split()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A PATH without tmux, npm and a browser, and with an `apt-get` that says what it is asked for."""
    for name in PRESENT:
        if found := shutil.which(name):
            (tmp_path / name).symlink_to(found)
    installer = tmp_path / "apt-get"
    installer.write_text('#!/bin/sh\necho "asked: $*"\n')
    installer.chmod(0o755)
    return tmp_path


def run(path: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a script with this PATH, no terminal and nothing in the cache of programs."""
    env = {"PATH": str(path), "HOME": os.devnull, "TASUKI_TEST_CACHE": str(path / "cache")}
    return subprocess.run(
        ["/bin/sh", *command], cwd=ROOT, env=env,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_setup_installs_what_is_missing_and_says_what_still_is(path: Path) -> None:
    """All of it in one call of the installer; what cannot be had is named with what is not tested then."""
    if os.geteuid():
        pytest.skip("as a user it asks in a terminal first")
    done = run(path, "scripts/setup")

    assert done.returncode == 1, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("asked: install")]
    assert {"tmux", "npm", "chromium"} <= set(line.split()), done.stderr
    assert "tmux is missing. Not tested: agents in panes, the whole fleet." in done.stderr


def test_tests_install_no_programs(path: Path) -> None:
    """Without --setup the installer is not called; what is skipped is said, and what to do."""
    done = run(path, "scripts/test", "--version")

    assert done.returncode == 0, done.stderr
    assert "asked:" not in done.stdout + done.stderr
    assert "npm is missing. Not tested: the real programs.\n" in done.stderr
    assert "scripts/setup installs it." in done.stderr


def test_tests_run_though_a_real_program_cannot_be_had(path: Path) -> None:
    """--setup says why in a line, and the tests run without it."""
    done = run(path, "scripts/test", "--setup", "--version")

    assert done.returncode == 0, done.stderr
    assert "npm is not installed" in done.stderr.splitlines()
    assert "pytest " in done.stdout + done.stderr


def test_a_user_without_a_terminal_is_not_asked_for_a_password(path: Path) -> None:
    """Where nobody can answer, sudo is not tried."""
    (path / "sudo").write_text('#!/bin/sh\necho "asked: sudo"\n')
    (path / "sudo").chmod(0o755)
    (path / "id").unlink()
    (path / "id").write_text("#!/bin/sh\necho 1000\n")
    (path / "id").chmod(0o755)
    done = run(path, "scripts/setup")

    assert done.returncode == 1, done.stderr
    assert "asked:" not in done.stdout + done.stderr
