"""The moving picture of README: Claude Code is at its limit, and Codex goes on; and a still of its review.

Both programs are the real ones, in tmux, with a scripted model, a home of their own and dummy keys.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

sys.path.extend(
    str(Path(__file__).resolve().parents[1] / "tests" / part) for part in ("e2e", "support", ".")
)

import npm_programs
import pytest
from agents import PROGRAMS
from conftest import World
from fakes.model_server import ModelRule, ModelServer, ModelStep, ScriptedCall
from inside import installed, newest_pane, typed
from limits import claude_limit, sign_in
from moving_svg import Frame, draw
from provider_proxy import ProviderProxy
from tree import ROOT
from waiting import retry_until

PICTURE = ROOT / "docs" / "handoff.svg"
WIDTH, HEIGHT = 88, 26
FIRST = "Uploads die at a 503: retry, 30 s at most. Never touch the signature of upload()."
SECOND = "Now honour Retry-After on 429."
GOAL = "honour Retry-After on 429, 30 s at most, with a test"
CLIENT = """\
import time


def upload(session, part, url):
    return session.put(url, data=part)
"""
CALL = "    return session.put(url, data=part)\n"
RETRIES = """\
    for attempt in range(4):
        response = session.put(url, data=part)
        if response.status_code < 500:
            break
        time.sleep(2**attempt)
    return response
"""
TEST = """\
from types import SimpleNamespace as Fake

import client


def test_a_503_is_tried_again(monkeypatch):
    monkeypatch.setattr(client.time, "sleep", lambda seconds: None)
    answers = iter([Fake(status_code=503), Fake(status_code=200)])
    session = Fake(put=lambda url, data: next(answers))
    assert client.upload(session, b"", "").status_code == 200
"""
PATCH = """\
apply_patch <<'EOF'
*** Begin Patch
*** Update File: client.py
@@
         response = session.put(url, data=part)
+        if response.status_code == 429:
+            time.sleep(min(30, int(response.headers["Retry-After"])))
+            continue
         if response.status_code < 500:
*** End Patch
EOF"""
CHECK = "pytest -q"
COMMON = str.maketrans("⎿⏵", "└▸")
"""Signs that few fonts have, and what is drawn for them."""


def rules(project: Path) -> list[ModelRule]:
    """What the model answers to each prompt."""
    client = str(project / "client.py")
    edit = {"file_path": client, "old_string": CALL, "new_string": RETRIES}
    test = {"command": CHECK, "description": "Run the tests"}
    goes_on = "upload() keeps its signature, and four attempts wait 15 s at most. I add the 429 path to them."
    return [
        ModelRule("Next Goal", (
            ModelStep(goes_on, (ScriptedCall("exec_command", {"cmd": PATCH}),)),
            ModelStep("A 429 now waits as long as Retry-After says, 30 s at most. Next: its test."),
        )),
        ModelRule("Uploads die", (
            ModelStep("", (ScriptedCall("Read", {"file_path": client}),)),
            ModelStep("", (ScriptedCall("Edit", edit),)),
            ModelStep("", (ScriptedCall("Bash", test),)),
            ModelStep("A 503 is tried again, four times, 15 s in all. The test passes."),
        )),
        ModelRule("Now honour", (claude_limit(),)),
    ]  # fmt: skip


@contextmanager
def world() -> Iterator[World]:
    """A home with a project, Claude Code signed in to a plan, Codex, and tasuki installed in the former."""
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary,
        ModelServer((), ModelStep("Uploads"), Path(temporary) / "model.jsonl") as model,
        pytest.MonkeyPatch.context() as patch,
    ):
        folder = Path(temporary).resolve()
        made = World(folder, model, patch)
        made.project = made.home / "uploader"
        made.project.mkdir()
        model.rules = tuple(rules(made.project))
        (made.project / "client.py").write_text(CLIENT)
        (made.project / "test_client.py").write_text(TEST)
        for words in (("init", "-b", "main"), ("add", "."), ("commit", "-m", "Upload")):
            who = ("-c", "user.name=dev", "-c", "user.email=dev@localhost")
            subprocess.run(["git", *who, *words], cwd=made.project, check=True, capture_output=True)
        for name in ("claude", "codex"):
            PROGRAMS[name].prepare(made)
        # Without the PATH of `npm_programs.command`, in which the other program is not found.
        made.program("claude", [npm_programs.command("claude")[-1]])
        codex = Path(npm_programs.command("codex")[-1]).resolve()
        made.program("codex", [str(npm_programs.node()), str(codex), "--no-daemon"])
        made.program("pytest", [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"])
        made.write(".claude/settings.json", {
            "permissions": {"defaultMode": "acceptEdits", "allow": ["Read", f"Bash({CHECK})"]},
            "promptSuggestionEnabled": False,
        })  # fmt: skip
        sign_in(made)
        for name in ("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"):
            patch.delenv(name)
        with ProviderProxy("api.anthropic.com", model.url, folder) as proxy:
            made.set(HTTPS_PROXY=proxy.url, NODE_EXTRA_CA_CERTS=str(proxy.certificate))
            made.set(NO_PROXY="127.0.0.1", COLORTERM="truecolor", PYTHONDONTWRITEBYTECODE="1")
            (folder / "own.toml").touch()
            installed(made, "claude")
            try:
                yield made
            finally:
                made.terminal.end()


class Film:
    """What a terminal shows, moment by moment."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.frames: list[Frame] = []

    def keep(self, pane: str, seconds: float, caption: str) -> None:
        """Keep what a pane shows now, once it stands still."""
        self.world.until_quiet(pane)
        terminal = self.world.terminal
        screen = terminal.run(("capture-pane", "-p", "-e", "-N", "-t", pane))
        place = terminal.run(
            ("display-message", "-p", "-t", pane, "#{cursor_flag} #{cursor_x} #{cursor_y}")
        )
        shown, column, line = map(int, place.split())
        screen = screen.replace(str(self.world.home), "/home/you").translate(COMMON)
        filled = WIDTH if "Codex" in screen else 0  # it colours whole rows
        cursor = (column, line) if shown else None
        self.frames.append(Frame(screen, cursor, seconds, caption, filled))

    def keep_typing(self, pane: str, text: str, seconds: float, caption: str) -> None:
        """Type a text a few characters at a time, and keep each screen."""
        parts = [text[start : start + 4] for start in range(0, len(text), 4)]
        for part in parts:
            self.world.terminal.run(("send-keys", "-l", "-t", pane, part))
            self.keep(pane, seconds / len(parts), caption)


def play(world: World) -> list[Frame]:
    """Play the scene; what the terminal shows of it."""
    film = Film(world)
    claude = opened_small(world)
    for prompt, answer in ((FIRST, "15 s in all. The test"), (SECOND, "hit your")):
        typed(world, claude, prompt)
        world.shows(claude, answer)
        world.until_quiet(claude)
    film.keep(claude, 2, "1. Claude Code is at its usage limit, in the middle of the work")
    film.keep_typing(claude, f"/handoff {GOAL}", 1.6, "2. You type /handoff and what comes next")
    draft = next_pane(world, lambda: world.terminal.keys(claude, "Enter"))
    world.shows(draft, "Continue in")
    asked = "3. It offers the other agents on this machine"
    film.keep(draft, 0.8, asked)
    film.keep_typing(draft, "codex", 0.6, asked)
    world.terminal.keys(draft, "Enter")
    world.shows(draft, "^S start")
    reviewed = "4. The brief, from the thread on disk; with its sources"
    film.keep(draft, 1.4, reviewed)
    until_cited(world, draft, "Never touch")
    film.keep(draft, 2.2, reviewed)
    codex = next_pane(world, lambda: world.terminal.keys(draft, "C-s"))
    world.shows(codex, "Pasted Content", 40)
    with suppress(AssertionError):  # a warning of this machine, as that bubblewrap is missing
        retry_until(lambda: "warning" in world.terminal.capture_screen(codex).text, 3)
        world.terminal.keys(codex, "F2")
        world.until_quiet(codex)
        world.terminal.keys(codex, "Escape")
    film.keep(codex, 1.5, "5. Codex opens with the brief in its input, not yet sent")
    world.terminal.keys(codex, "Enter")
    world.shows(codex, "Next: its test")
    film.keep(codex, 2.8, "6. Codex goes on: it knows the rules, and what is done")
    return film.frames


def opened_small(world: World) -> str:
    """Claude Code in a terminal of the film's size; its pane."""
    terminal = world.terminal
    terminal.env = dict(os.environ)
    size = ("-x", str(WIDTH), "-y", str(HEIGHT))
    made = ("new-session", "-d", *size, "-P", "-F", "#{pane_id}", "sleep", "600")
    pane = terminal.run(made, cwd=str(world.project), env=terminal.env).strip()
    for option in (("status", "off"), ("focus-events", "on")):
        terminal.run(("set-option", "-g", *option))
    terminal.run(("respawn-pane", "-k", "-t", pane, "claude"))
    world.shows(pane, "❯")
    return pane


def until_cited(world: World, pane: str, words: str) -> None:
    """Move the cursor of a review down until the entry that a line cites is shown."""
    for _ in range(40):
        world.terminal.keys(pane, "Down")
        screen = world.until_quiet(pane)
        if words in screen.rpartition("Warnings")[2]:
            return
    raise SystemExit(f"The review never showed an entry with {words!r}.")


def next_pane(world: World, act: Callable[[], None]) -> str:
    """The pane that an act opens."""
    before = world.terminal.panes()
    act()
    return newest_pane(world, before)


if __name__ == "__main__":
    picture = Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE
    with world() as made:
        frames = play(made)
    picture.write_text(draw(frames, WIDTH, HEIGHT), encoding="utf-8")
    review = [frame for frame in frames if frame.caption.startswith("4.")][-1]
    still = draw([review._replace(caption="tasuki handoff")], WIDTH, HEIGHT)
    picture.with_name("review.svg").write_text(still, encoding="utf-8")
    print(f"{picture}: {picture.stat().st_size // 1000} kB, {sum(f.seconds for f in frames):.1f} s")
