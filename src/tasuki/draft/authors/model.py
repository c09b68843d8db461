"""The author that is a language model: it extracts from the bounded view of the thread."""

from collections.abc import Sequence
from typing import Literal

from tasuki.draft.authors import answer
from tasuki.draft.authors.asker import Reply, Turn
from tasuki.draft.authors.client import Client, TooLong
from tasuki.draft.authors.providers import Endpoint
from tasuki.draft.authors.task import Task
from tasuki.draft.authors.view import View, fence, view
from tasuki.draft.prompts import render

CHARACTERS_A_TOKEN = 3
"""Fewer than the usual four: code and paths take more tokens than prose."""
SMALLER = 0.4
"""Part of the room with which a request is tried again that the endpoint found too long."""
AROUND = 1_000
"""Characters of a request around the goal, the facts and the thread."""


class ModelAsker:
    """Asks one model. `seconds` bounds each answer."""

    name = "model"
    shape: Literal["structured", "markdown"] = "structured"

    def __init__(self, task: Task, endpoint: Endpoint, seconds: float) -> None:
        self.task = task
        self.client = Client(endpoint, seconds)
        self.view: View | None = None
        self._part = 1.0
        self.system = render("system", **task.prompt_limits())

    def opening(self) -> str:
        """The goal, and the facts and the thread in a fence, as much as goes into the window."""
        task = self.task
        room = (self.client.endpoint.window - self.client.output) * CHARACTERS_A_TOKEN
        room = int((room - len(self.system) - len(task.goal.text) - AROUND) * self._part)
        inventory = task.inventory.text(task.clean, max(600, min(16_000, room // 4)))
        left = max(400, room - len(inventory))
        seen = view(task, left)
        self.view = seen
        coverage = (
            render("coverage_whole") if seen.whole else render("coverage_part", first=seen.first)
        )
        return render(
            "extract",
            goal=task.clean(task.goal.text),
            inventory=inventory,
            thread=seen.text,
            coverage=coverage,
            fence=fence(seen.text, inventory),
        )

    def ask(self, turns: Sequence[Turn]) -> Reply:
        """The answer to the last turn; once more with less of the thread if that was too long."""
        try:
            return self.client.ask(self.system, turns, answer.schema())
        except TooLong:
            if self._part < 1.0:
                raise
        self._part = SMALLER
        shorter = [Turn("user", self.opening()), *turns[1:]]
        return self.client.ask(self.system, shorter, answer.schema())

    def close(self) -> None:
        """End the connections."""
        self.client.close()

    @property
    def first_whole(self) -> int:
        """The first entry that the request holds whole."""
        return 1 if self.view is None or self.view.whole else self.view.first
