"""Secrets on a screen are replaced also where a line ends in the middle of one."""

import shlex
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from waiting import retry_until

from tasuki.draft.redact.redactor import redact
from tasuki.draft.redact.screen import redact_screen
from tasuki.fleet.delivery.terminals import read_screen
from tasuki.fleet.store.models import FleetAgent
from tasuki.launch.tmux.panes import TmuxPanes
from tasuki.launch.tmux.server import Tmux

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
SECRETS = {
    "github": TOKEN,
    "anthropic": "sk-ant-api03-" + "Zx9Qw8Er7Ty6Ui5Op4As3Df2Gh1Jk0Lz",
    "named": "AWS_SECRET_ACCESS_KEY=" + "wJalrXUtnFEMIK7MDENGbPxRfiCYq3x7LmPo4Rt",
    "bearer": "Authorization: Bearer " + "q8Wn3Lx0Zr6Tb1Vy5Kd9Mf2Hs7Jg4Pc",
    "address": "postgres://app:" + "n7Q2x9Lm4Rt8" + "@db.example/app",
}
DRAWN = {
    "as it is": "  {0}\n{1}  ",
    "indented": "  \u23bf {0}\n      {1} and more",
    "in a box": "\u2502 > {0} \u2502\n\u2502   {1} \u2502",
    "beside another column": "\u2502 {0} \u2502 left \u2502\n\u2502 {1} \u2502 right \u2502",
    "behind another column": "one \u2502 {0}\ntwo \u2502 {1}",
    "with a backslash": "{0} \\\n  {1}",
}


@pytest.mark.parametrize("drawn", DRAWN)
@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_that_is_broken_over_lines_is_replaced(name: str, drawn: str) -> None:
    """Wherever a program breaks it, no part of eight characters of it is left that one line alone gives away."""
    secret = SECRETS[name]
    assert redact(secret)[1]
    value = secret.split("=")[-1].split()[-1].removeprefix("postgres://app:").partition("@")[0]
    start = secret.index(value)
    for cut in range(start + 1, start + len(value)):
        said = redact_screen(DRAWN[drawn].format(secret[:cut], secret[cut:]))
        left = [value[n : n + 8] for n in range(len(value) - 8) if value[n : n + 8] in said]

        assert left == [], (cut, said)


def test_a_secret_over_three_lines_is_replaced() -> None:
    """A narrow pane breaks a token more than once."""
    said = redact_screen(
        f"\u2502 {TOKEN[:14]} \u2502\n\u2502 {TOKEN[14:28]} \u2502\n\u2502 {TOKEN[28:]} \u2502\nend"
    )

    assert not any(TOKEN[n : n + 6] in said for n in range(4, 34))
    assert said.endswith("end")


@pytest.mark.parametrize(
    "drawn",
    ["{k} {0}\n  {1}\ndone", "\u25cf {k} {0}\n  {1}\n  and more", "{k}\n  {0}\n  {1}\ndone"],
)
def test_the_secret_half_of_an_aws_key_is_replaced(drawn: str) -> None:
    """It has no shape but its length, so that what stands below it must not be taken for a part of it."""
    key, half = "AKIA" + "Q3EGRJ7XK2LMNOP4", "wJalrXUtnFEMIK7MDENGbPxRfiCYq3x7LmPo4Rt8"
    for cut in range(1, len(half)):
        said = redact_screen(drawn.format(half[:cut], half[cut:], k=key))
        left = [half[n : n + 8] for n in range(len(half) - 7) if half[n : n + 8] in said]

        assert left == [], (cut, said)
        # A first part as short as the next line's word leaves room for that word in the forty characters.
        assert cut < 5 or said.endswith(drawn.rpartition("\n")[2])


@pytest.mark.parametrize(
    "text",
    ["The quick brown fox\njumps over the lazy dog", "src/tasuki/web/\nsessions.py:12", "\u2502 a \u2502 b \u2502\n\u2502 c \u2502 d \u2502",
     "commit 3f2a9c1b7d\n5e8f0a6c4b", "token\nbucket", "password:\n  must be long", "", "\n\n", "12 passed in 3.1s\n$ git status"],
)  # fmt: skip
def test_other_lines_stay_as_they_are(text: str) -> None:
    """Words that end one line and begin the next are no secret."""
    assert redact_screen(text) == text


def test_a_redacted_screen_stays() -> None:
    """To redact again changes nothing."""
    once = redact_screen(f"x {TOKEN[:9]}\n{TOKEN[9:]} y\n{TOKEN}")

    assert redact_screen(once) == once


@pytest.fixture
def panes(tmp_path: Path) -> Iterator[TmuxPanes]:
    """A tmux server of the test's own, with one narrow window."""
    with tempfile.TemporaryDirectory(prefix="t-", dir="/tmp") as folder:
        tmux = Tmux(f"{folder}/s")
        tmux.run(("new-session", "-d", "-s", "x", "-x", "60", "-y", "8", "sh"))
        made = TmuxPanes(tmux, tmp_path, stays=False)
        yield made
        subprocess.run([*tmux.base, "kill-server"], capture_output=True, check=False)


def shows(panes: TmuxPanes, program: str, last: str) -> str:
    """The screen as the fleet shows it, once a program has written its last word."""
    agent = FleetAgent(1, "claude", "idle", 0.0, "/", "host", 0.0, pane="%0")
    panes.tmux.run(("send-keys", "-t", "%0", "-l", f"clear; {program}"), ("send-keys", "-t", "%0", "Enter"))  # fmt: skip
    retry_until(lambda: f"\n{last}" in panes.capture_screen("%0").text)
    return read_screen(panes, agent)


def written(tmp_path: Path, text: str) -> str:
    """A command that writes a text and then a last word."""
    file = tmp_path / "text"
    file.write_text(f"{text}\ndone\n")
    return f"cat {shlex.quote(str(file))}"


@pytest.mark.parametrize("cut", [8, 19, 30])
def test_a_pane_shows_no_part_of_a_token(panes: TmuxPanes, tmp_path: Path, cut: int) -> None:
    """Broken by the terminal, by the program, in a box, on the alternate screen, or above the screen's first line."""
    boxed = f"\u2502 {TOKEN[:cut]:<50} \u2502\n\u2502 {TOKEN[cut:]:<50} \u2502"
    seen = {
        "wrapped": shows(panes, written(tmp_path, f"{'x' * (59 - cut)} {TOKEN}"), "done"),
        "broken": shows(panes, written(tmp_path, f"{TOKEN[:cut]}\n  {TOKEN[cut:]}"), "done"),
        "boxed": shows(panes, written(tmp_path, boxed), "done"),
        "scrolled": shows(panes, written(tmp_path, f"{TOKEN[:cut]}\n{TOKEN[cut:]}\n1\n2\n3\n4\n5"), "done"),
        "wrapped above": shows(panes, written(tmp_path, f"{'x' * (59 - cut)} {TOKEN}\n1\n2\n3\n4\n5"), "done"),
        "alternate": shows(panes, f"printf '\\033[?1049h'; {written(tmp_path, boxed)}", "done"),
    }  # fmt: skip
    leaks = {
        name: text for name, text in seen.items()
        if any(TOKEN[n : n + 8] in text for n in range(4, 33))
    }  # fmt: skip

    assert leaks == {}
