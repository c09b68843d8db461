"""Real programs compact five times in a row, and after each the model has every rule of the user once."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import npm_programs
import pytest
from agents import PROGRAMS
from compaction import COMPACTIONS, RULES, SECONDS, Talk, held
from conftest import World
from fakes.model_server import ModelRequest
from inside import tasuki, typed
from selection import by_default
from waiting import retry_until

from tasuki.compaction.block import SUMMARY_TITLE
from tasuki.draft.brief import FENCE_OPEN

pytestmark = pytest.mark.e2e

NAMES = [
    n for n in PROGRAMS if npm_programs.in_every_run(n) or os.environ.get("TASUKI_E2E") == "all"
]


REPLACED = ("pi", "omp", "opencode")
"""Programs that let another one write the summary."""
WAYS = ("asked for", "in the middle of a turn")
SLOW = ("opencode",)
"""Programs that need a whole core for some seconds: one at a time."""
Talks = Callable[..., Talk]


@pytest.fixture
def talks(world: World) -> Iterator[Talks]:
    """Set a program up in the world, with a model that summarises badly."""
    waiting = ExitStack()

    def made(name: str, compactions: int = COMPACTIONS) -> Talk:
        if name in SLOW:
            waiting.enter_context(npm_programs.locked(f"run-{name}"))
        return Talk(world, name, compactions)

    with waiting:
        yield made


def keep(world: World, name: str) -> None:
    """Install what takes part in the program's compactions."""
    tasuki(world, "install", name, "--keep", "--yes")


def times(request: ModelRequest) -> list[int]:
    """How often a request to the model holds each rule."""
    return [request.count_text(rule) for rule in RULES]


@pytest.mark.parametrize("name", by_default(NAMES, "claude"))
def test_rules_hold_over_five_compactions_asked_for(name: str, talks: Talks) -> None:
    """The first request after each `/compact` is that of the next prompt, and holds each rule once."""
    talk = talks(name)
    keep(talk.world, name)
    talk.said()
    pane = talk.opened()
    for compaction in range(1, COMPACTIONS + 1):
        talk.compacted(pane, compaction)
        request = talk.asked(pane, compaction)
        assert request.count_text(f"Round {compaction}:") == 1
        assert times(request) == [1] * len(RULES), compaction


@pytest.mark.parametrize("name", by_default(NAMES, "codex", "pi"))
def test_rules_hold_over_five_compactions_in_the_middle_of_a_turn(name: str, talks: Talks) -> None:
    """The agent goes on by itself with each rule once; in Copilot CLI from its second request on."""
    talk = talks(name)
    keep(talk.world, name)
    talk.said()
    talk.worked()
    for compaction in range(1, COMPACTIONS + 1):
        request = talk.after(compaction)[talk.way.late]
        assert times(request) == [1] * len(RULES), compaction


@pytest.mark.parametrize("way", by_default(WAYS, "in the middle of a turn"))
@pytest.mark.parametrize("name", by_default(NAMES, "pi"))
def test_without_help_the_rules_that_a_summary_leaves_out_are_gone(
    name: str, way: str, talks: Talks
) -> None:
    """The model is left with the two rules that the harness's own summary holds, each once."""
    talk = talks(name, 1)
    talk.said()
    if way == "asked for":
        pane = talk.opened()
        talk.compacted(pane, 1)
        request = talk.asked(pane, 1)
    else:
        talk.worked()
        request = talk.after(1)[0]
    assert times(request) == [int(rule in held(1)) for rule in RULES]


@pytest.mark.parametrize("name", by_default(["claude", "codex"]))
def test_after_two_compactions_in_a_row_nothing_is_said_twice(name: str, talks: Talks) -> None:
    """Codex runs its hook for both at the next prompt."""
    talk = talks(name)
    keep(talk.world, name)
    talk.said()
    pane = talk.opened()
    talk.compacted(pane, 1)
    talk.compacted(pane, 2)
    typed(talk.world, pane, "What now?")
    request = retry_until(lambda: talk.world.sent("What now?"), SECONDS)[0]
    assert request.count_text(FENCE_OPEN) == 1
    assert times(request) == [1] * len(RULES)


@pytest.mark.parametrize("way", by_default(WAYS, "in the middle of a turn"))
@pytest.mark.parametrize("name", by_default([n for n in NAMES if n in REPLACED], "pi"))
def test_tasuki_writes_the_summary(name: str, way: str, talks: Talks) -> None:
    """The model goes on from tasuki's summary, with each rule once; pi and oh-my-pi ask for none."""
    talk = talks(name, 1)
    talk.world.set(TASUKI_COMPACTION="replace")
    keep(talk.world, name)
    talk.said()
    if way == "asked for":
        pane = talk.opened()
        typed(talk.world, pane, talk.way.command)
        retry_until(lambda: talk.way.compactions(talk.world.home), SECONDS)
        talk.world.until_quiet(pane)
        typed(talk.world, pane, "What now?")
        request = retry_until(lambda: talk.world.sent("What now?"), SECONDS)[0]
    else:
        talk.fill_once(SUMMARY_TITLE)
        request = retry_until(lambda: talk.world.sent(SUMMARY_TITLE), SECONDS)[0]

    assert request.count_text(SUMMARY_TITLE) == 1
    assert times(request) == [1] * len(RULES)
    asked = [one for one in talk.world.model.log if talk.way.is_summary(one)]
    assert bool(asked) == (name == "opencode")
