"""Reads what waiting agents ask from their screens: the choices, and questions that no hook reports."""

import time

from msgspec.structs import replace

from tasuki.errors import LaunchFailed
from tasuki.fleet.delivery.typed_input import get_control
from tasuki.fleet.store import queries
from tasuki.fleet.store.agent_question import AgentQuestion
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.log import ChangeFeed
from tasuki.fleet.store.models import FleetAgent
from tasuki.fleet.store.questions import keep_of_children, read_from_screen, replace_question
from tasuki.harness.protocol import Screenshot
from tasuki.launch.tmux.panes import TmuxPanes

ANSWERED_SECONDS = 4.0
"""How long an answer may take to show; a question that is still there can be answered again."""


class QuestionReader:
    """Compares the questions of waiting agents with what their screens show."""

    def __init__(self, database: FleetDatabase, panes: TmuxPanes, changes: ChangeFeed) -> None:
        self.database = database
        self.panes = panes
        self.changes = changes

    def refresh_question(self, agent_id: int, screenshot: Screenshot) -> None:
        """Write down what the screen of a waiting agent asks, where that is news."""
        now, agent = time.time(), queries.load_agent(self.database, agent_id)
        seen = get_control(agent).read_question(screenshot)
        question = read_from_screen(agent.question, seen, now)
        if question and question.answered_at and now - question.answered_at > ANSWERED_SECONDS:
            question = replace(question, answered_at=None, answer="")
        if question != agent.question and replace_question(self.database, agent, question):
            self.changes.notify([agent.id])

    def find_question(self, agent: FleetAgent, *, is_waiting: bool) -> AgentQuestion | None:
        """Find what the screen of an agent asks, or else what its sub-agents do; None for nothing."""
        known = queries.load_agent(self.database, agent.id).question
        if not is_waiting:
            return keep_of_children(known)
        try:
            screenshot = self.panes.capture_screen(agent.pane) if agent.pane else None
        except LaunchFailed:
            return known
        seen = get_control(agent).read_question(screenshot) if screenshot else None
        return read_from_screen(known, seen, time.time())
