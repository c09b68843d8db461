"""Reads what waiting agents ask from their screens, and answers it.

A question is answered once, and only while that very question is on its screen.

    its mark is that of the open question ─▶ its screen shows it ─▶ marked as answered ─▶ keys pressed

It is marked before a key is pressed: after a crash, and at a second click, nothing is pressed twice.
Where nothing shows that the answer was taken, it is open again.
"""

import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, TypeVar

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import replace

from tasuki.errors import LaunchFailed, NotPossible, PaneGone
from tasuki.fleet.delivery.messages import check_managed
from tasuki.fleet.delivery.prompt_delivery import PromptDelivery
from tasuki.fleet.delivery.typed_input import NOT_IN_FRONT, get_control, is_in_front
from tasuki.fleet.orders.bodies import QuestionAnswer
from tasuki.fleet.store import log, queries, questions, tables
from tasuki.fleet.store.agent_question import AgentQuestion
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.log import ChangeFeed
from tasuki.fleet.store.models import FleetAgent
from tasuki.harness.protocol import Screenshot, ScreenState
from tasuki.harness.questions import ScreenChoice, ScreenQuestion
from tasuki.launch.tmux.panes import TmuxPanes
from tasuki.text_safety import clean_text, shorten_to_line

SETTLED_SECONDS = 1.5
"""How long a dialog may take no keys after it was drawn: Claude Code ignores early ones."""
ANSWERED_SECONDS = 4.0
"""How long an answer may take to show; a question that is still there can be answered again."""
MOST_CHARACTERS = 10_000
STILL_THERE = (
    "The keys were pressed, and nothing shows yet that the answer was taken. Look at its pane."
)


def refresh_question(
    database: FleetDatabase, changes: ChangeFeed, agent_id: int, screenshot: Screenshot
) -> None:
    """Write down what the screen of a waiting agent asks, where that is news."""
    now, agent = time.time(), queries.load_agent(database, agent_id)
    question = questions.read_from_screen(
        agent.question, get_control(agent).read_question(screenshot), now
    )
    if question and question.answered_at and now - question.answered_at > ANSWERED_SECONDS:
        question = replace(question, answered_at=None, answer="")
    if question != agent.question and questions.replace_question(database, agent, question):
        changes.notify([agent.id])


def find_question(
    database: FleetDatabase, panes: TmuxPanes, agent: FleetAgent, *, is_waiting: bool
) -> AgentQuestion | None:
    """Find what the screen of an agent asks, or else what its sub-agents do; None for nothing."""
    known = queries.load_agent(database, agent.id).question
    if not is_waiting:
        return questions.keep_of_children(known)
    try:
        screenshot = panes.capture_screen(agent.pane) if agent.pane else None
    except LaunchFailed:
        return known
    seen = get_control(agent).read_question(screenshot) if screenshot else None
    return questions.read_from_screen(known, seen, time.time())


class _PlannedAnswer(Struct, frozen=True):
    """What is typed: keys, a text and Enter, or boxes that are ticked; `label` is for people."""

    label: str
    keys: tuple[str, ...] = ()
    text: str = ""
    boxes: tuple[str, ...] = ()


def answer_question(
    database: FleetDatabase, delivery: PromptDelivery, agent_id: int, answer: QuestionAnswer
) -> dict[str, Any]:
    """Answer a question; return whether the agent took it: proven or uncertain, why, and what.

    Raises AgentNotFound; NotPossible, with nothing typed, where it asks nothing, or asks something
    else by now, where its screen does not show the question and all of it, or the choice is none of
    its own. Also where the screen shows something else once boxes are ticked, or the pane is gone:
    the question is open again then.
    """
    agent = queries.load_agent(database, agent_id)
    _check_open(agent, answer.mark)
    check_managed(agent)
    with delivery.panes.lock(agent.pane):
        agent = queries.load_agent(database, agent_id)
        question = _check_open(agent, answer.mark)
        time.sleep(min(max(question.asked_at + SETTLED_SECONDS - time.time(), 0), SETTLED_SECONDS))
        seen, question = _check_screen(delivery, agent, question)
        planned = _plan_answer(question, answer, seen)
        answered = replace(question, answered_at=time.time(), answer=planned.label)
        if not questions.replace_question(database, agent, answered):
            raise NotPossible(_describe_other(agent_id))
        try:
            _type_answer(delivery, agent, question, planned)
        except (NotPossible, PaneGone) as error:
            _reopen(database, agent, answered)
            raise NotPossible(str(error)) from error
        shown = _await_taken(database, delivery, agent, question)
    return _record_outcome(database, agent, answered, shown)


def _check_open(agent: FleetAgent, mark: str) -> AgentQuestion:
    """Return the open question of an agent. Raises NotPossible where it is not the one meant."""
    if agent.ended_at is not None:
        raise NotPossible("Agent is not active")
    if not agent.pane:
        raise NotPossible("Agent has no tmux pane")
    if agent.state != "waiting" or agent.question is None:
        raise NotPossible(f"Agent {agent.id} asks nothing now. Nothing was typed.")
    if agent.question.mark != mark:
        raise NotPossible(_describe_other(agent.id))
    if agent.question.answered_at is not None:
        raise NotPossible(
            f"This question was answered already: {agent.question.answer} Nothing was typed again."
        )
    if agent.question.obstacle:
        raise NotPossible(f"{agent.question.obstacle} Nothing was typed.")
    return agent.question


def _describe_other(agent_id: int) -> str:
    return f"Agent {agent_id} asks something else by now. Nothing was typed. Look at it again."


def _check_screen(
    delivery: PromptDelivery, agent: FleetAgent, question: AgentQuestion
) -> tuple[ScreenQuestion, AgentQuestion]:
    """Return what the screen asks, and the question as it is there. Raises NotPossible otherwise."""
    if not is_in_front(agent):
        raise NotPossible(f"Nothing is typed to agent {agent.id}: {NOT_IN_FRONT}.")
    state, seen = _read_screen(delivery, agent)
    shown = questions.read_from_screen(question, seen, time.time())
    has_mark = shown is not None and shown.mark == question.mark
    is_same = shown and (not question.is_read or shown.choices == question.choices)
    if shown and has_mark and shown.obstacle:
        raise NotPossible(f"{shown.obstacle} Nothing was typed.")
    is_there = seen and shown and has_mark and questions.is_on_screen(shown, seen)
    if not (seen and shown and is_there and is_same and state.state in ("waiting", "unknown")):
        raise NotPossible(
            f"The pane of agent {agent.id} does not show this question now. Nothing was typed. "
            "Look at it again."
        )
    return seen, shown


def _read_screen(
    delivery: PromptDelivery, agent: FleetAgent
) -> tuple[ScreenState, ScreenQuestion | None]:
    try:
        screenshot = delivery.capture_screen(agent)
    except PaneGone as error:
        raise NotPossible(str(error)) from error
    control = get_control(agent)
    return control.read_screen(screenshot), control.read_question(screenshot)


def _plan_answer(
    question: AgentQuestion, answer: QuestionAnswer, seen: ScreenQuestion
) -> _PlannedAnswer:
    """Plan the keys of an answer. Raises NotPossible for one that the question does not take."""
    text = clean_text(answer.text).strip()
    if chosen := answer.choices or list(filter(None, (answer.choice,))):
        return _plan_choices(question, chosen, seen)
    if not text and seen.takes_several:
        raise NotPossible("Choose at least one of its choices: there is nothing to answer.")
    if not text:
        raise NotPossible("Name a choice, or write a text: there is nothing to answer.")
    if len(text) > MOST_CHARACTERS:
        raise NotPossible(f"A text of {len(text)} characters is too long for an answer.")
    if seen.text_keys is None:
        raise NotPossible("It takes one of its choices, and no words of your own.")
    return _PlannedAnswer("words of your own", seen.text_keys, " ".join(text.split()))


def _plan_choices(
    question: AgentQuestion, chosen: Sequence[str], seen: ScreenQuestion
) -> _PlannedAnswer:
    labels = {choice.key: choice.label for choice in question.choices}
    keys = {choice.key: choice.keys for choice in seen.choices}
    for key in chosen:
        if key not in labels or not keys.get(key):
            offered = ", ".join(key for key in labels if key in keys) or "none"
            raise NotPossible(
                f"It offers no choice {shorten_to_line(key, 20)!r} now. Its choices: {offered}."
            )
    boxes = tuple(key for key in labels if key in chosen)
    label = "; ".join(f"{key}. {labels[key]}" for key in boxes)
    if seen.takes_several:
        return _PlannedAnswer(label, boxes=boxes)
    if len(boxes) > 1:
        raise NotPossible("It takes one of its choices. Nothing was typed.")
    return _PlannedAnswer(label, keys[boxes[0]])


def _type_answer(
    delivery: PromptDelivery, agent: FleetAgent, question: AgentQuestion, planned: _PlannedAnswer
) -> None:
    def press(names: tuple[str, ...]) -> None:
        delivery.panes.press_keys(agent.pane, *names, pid=agent.pid or 0)

    if planned.boxes:
        screen = QuestionScreen(question, lambda: _read_screen(delivery, agent)[1], press)
        tick_boxes(screen, planned.boxes)
    elif planned.text:
        delivery.type_words(agent, planned.keys, planned.text)
    else:
        press(planned.keys)


def _await_taken(
    database: FleetDatabase, delivery: PromptDelivery, agent: FleetAgent, question: AgentQuestion
) -> ScreenState | None:
    """Wait until the screen, or else a hook, shows the question no more; None where it stays."""
    deadline = time.monotonic() + TAKEN_SECONDS
    while time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
        try:
            state, seen = _read_screen(delivery, agent)
        except NotPossible:  # its answer has ended it
            return ScreenState("unknown")
        if seen:
            is_sent = seen.answers != 1 or not questions.is_reviewed(question, seen)
            is_open = questions.is_on_screen(question, seen) or not is_sent
        elif state.state in ("busy", "ready"):
            is_open = False
        else:
            is_open = queries.load_agent(database, agent.id).state == "waiting"
        if not is_open:
            return state
    return None


def _record_outcome(
    database: FleetDatabase, agent: FleetAgent, answered: AgentQuestion, shown: ScreenState | None
) -> dict[str, Any]:
    agents = tables.agents.c
    label = answered.answer
    note = f"The question of agent {agent.id} was answered: {label}"
    log.note(database, "message", note, agent_id=agent.id, data={"taken": shown is not None})
    if shown is None:
        _reopen(database, agent, answered)
        return {"state": "uncertain", "why": STILL_THERE, "answer": label}
    answered_agent = replace(agent, question=answered)
    following = questions.take_next(answered)
    is_replaced = questions.replace_question(database, answered_agent, following)
    if is_replaced and shown.state == "busy":
        query = sa.update(tables.agents).where(
            agents.id == agent.id, agents.state == "waiting", agents.question.is_(None)
        )
        database.change(query.values(state="busy", state_at=time.time(), waiting_for=""))
    return {"state": "proven", "why": "", "answer": label}


def _reopen(database: FleetDatabase, agent: FleetAgent, answered: AgentQuestion) -> None:
    """Make a question that was marked as answered open again, where it is still the agent's."""
    again = replace(answered, answered_at=None, answer="")
    questions.replace_question(database, replace(agent, question=answered), again)


TAKEN_SECONDS = 3.0
"""How long the screen may take to show that a key was taken."""
POLL_SECONDS = 0.1
MOST_KEYS = 20
Found = TypeVar("Found")


class QuestionScreen(Struct, frozen=True):
    """The screen that shows a question: what it asks now, and how a key is pressed."""

    question: AgentQuestion
    read: Callable[[], ScreenQuestion | None]
    press: Callable[[tuple[str, ...]], None]

    def await_shown(self) -> ScreenQuestion:
        """Return what the screen asks, once drawn; NotPossible where it is another question."""
        seen = _wait_for(self.find_boxes)
        if seen is None:
            raise NotPossible(
                "The pane shows something else by now: boxes may be ticked, and nothing was sent. Look at it."
            )
        return seen

    def find_boxes(self) -> ScreenQuestion | None:
        """Return what the screen asks; None where it does not show the boxes of this question."""
        seen = self.read()
        is_shown = seen and seen.takes_several and questions.is_on_screen(self.question, seen)
        return seen if is_shown else None

    def find_next(self) -> ScreenQuestion | None:
        """Return what the screen asks after this question; None while it shows none."""
        seen = self.read()
        return None if seen is None or questions.is_on_screen(self.question, seen) else seen


def tick_boxes(screen: QuestionScreen, keys: Collection[str]) -> None:
    """Tick these boxes and no other one, and go on; send the answer where it is the only one.

    What is sent last is a review of the answers. One of several stays on the screen, as a question
    of its own. Stops where nothing shows that a key was taken. Raises NotPossible.
    """
    for _ in range(MOST_KEYS):
        seen = screen.await_shown()
        wrong = next((one for one in seen.choices if one.is_ticked != (one.key in keys)), None)
        if wrong is None:
            break
        screen.press(wrong.keys)
        if not _wait_for(partial(_is_turned, screen, wrong)):
            screen.await_shown()
            return
    else:
        return
    screen.press(seen.next_keys)
    review = _wait_for(screen.find_next)
    if review and review.answers == 1 and questions.is_reviewed(screen.question, review):
        time.sleep(3 * POLL_SECONDS)
        screen.press(review.choices[0].keys)


def _is_turned(screen: QuestionScreen, box: ScreenChoice) -> bool:
    """Whether a box is seen to be turned; on a screen that is half drawn it is not yet."""
    seen = screen.find_boxes()
    return seen is not None and any(
        one.key == box.key and one.is_ticked != box.is_ticked for one in seen.choices
    )


def _wait_for(find: Callable[[], Found]) -> Found | None:
    """Return what is found first; None where nothing is in time."""
    deadline = time.monotonic() + TAKEN_SECONDS
    while True:
        if found := find():
            return found
        if time.monotonic() >= deadline:
            return None
        time.sleep(POLL_SECONDS)
