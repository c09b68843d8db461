"""Agents of pi and oh-my-pi: what their extension tells, what their screens and titles say."""

import pytest
from controls import control, story, told

from tasuki.harness.integration import OwnFile
from tasuki.harness.protocol import Screenshot, ScreenState

PI, OMP = control("pi"), control("omp")
RULE = "─" * 60
FOOTER = f"{RULE}\n/home/dev/proj (main)\n↑2.8k ↓25 1.1%/128k (auto)"
STATUS = " π > ⬢ scripted > proj > main ▶──12%──"


def test_the_story_of_pi() -> None:
    """What the extension told: turns, one that was steered and broken off, one that failed, another session."""
    assert story("pi") == [
        "started startup", "prompt", "busy", "idle", "prompt", "busy", "prompt", "idle", "prompt",
        "busy", "idle", "compacted manual", "ended", "started new", "prompt", "busy", "idle", "ended",
    ]  # fmt: skip


def test_the_story_of_omp() -> None:
    """The same of oh-my-pi, which tells no end of a session that it leaves."""
    assert story("omp") == [
        "started startup", "prompt", "busy", "idle", "prompt", "busy", "prompt", "idle", "prompt",
        "busy", "idle", "started new", "prompt", "busy", "idle", "ended",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["pi", "omp"])
def test_a_turn_has_one_id(name: str) -> None:
    """What is typed while it works joins the turn; its end says whether it was broken off, and the use."""
    _, steered = [e for e in told(name) if e.kind == "prompt"][1:3]
    ends = [e for e in told(name) if e.kind == "idle"]

    assert [e.interrupted for e in ends] == [False, True, False, False]
    assert steered.turn == ends[1].turn
    assert all(e.used and e.tokens and e.window == 128_000 for e in ends)


@pytest.mark.parametrize("name", ["pi", "omp"])
def test_a_new_session_knows_the_one_before(name: str) -> None:
    """The thread that the program left is named, so that the agent is found again."""
    first, second = [e for e in told(name) if e.kind == "started"]

    assert second.previous == first.path


def test_the_extension_differs_only_in_what_it_is_told() -> None:
    """Where the script is, which harness it is, whether that says when a run is over."""
    (pi,), (omp,) = (made.list_additions("/h/hook.sh") for made in (PI, OMP))
    assert isinstance(pi, OwnFile)
    assert isinstance(omp, OwnFile)
    changed = set(omp.content.splitlines()) - set(pi.content.splitlines())

    assert {line.partition(";")[0] for line in changed} == {
        'const HARNESS: string = "omp"',
        "const SETTLES: boolean = false",
    }
    assert 'const HOOK: string = "/h/hook.sh";' in pi.content


@pytest.mark.parametrize(
    ("screen", "sight"),
    [
        (f"It is done.\n\n{RULE}\n\n{FOOTER}", ScreenState("ready", "")),
        (f"{RULE}\none line   \nsecond\n{FOOTER}", ScreenState("ready", "one line\nsecond")),
        (f"{RULE}\n[paste #1 +40 lines]\n{FOOTER}", ScreenState("ready", "[paste #1 +40 lines]")),
        (f"slow\n\n── ⠴ Working {RULE}\n\n{FOOTER}", ScreenState("busy", "")),
        (f"slow\n\n── Retrying (2/3) in 4s {RULE}\n\n{FOOTER}", ScreenState("busy", "")),
    ],
)
def test_what_the_screen_of_pi_says(screen: str, sight: ScreenState) -> None:
    """The rule above the input tells that it works."""
    assert PI.read_screen(Screenshot(screen, "π - proj")) == sight


@pytest.mark.parametrize(
    ("screen", "title", "sight"),
    [
        (f"╰────╯\n{STATUS}\n╰─   ", "π > proj", ScreenState("ready", "")),
        (f"{STATUS}\n╰─ one\n   two  ", "π > proj", ScreenState("ready", "one\ntwo")),
        (
            f"{STATUS}\n│    Paste inline\n│ Esc to paste inline\n╰──",
            "π > proj",
            ScreenState("ready", asks_about_paste=True),
        ),
        (f"{STATUS}\n╰─", "π ⠙ proj", ScreenState("busy", "")),
    ],
)
def test_what_the_title_of_omp_says(screen: str, title: str, sight: ScreenState) -> None:
    """A spinner stands in the title of the pane while it works."""
    assert OMP.read_screen(Screenshot(screen, title)) == sight
