"""A language model as author: it extracts from the bounded view of the thread."""

from collections.abc import Sequence
from typing import Literal

from tasuki.draft.authors import answer
from tasuki.draft.authors.author import AuthorReply, AuthorTask, AuthorTurn
from tasuki.draft.authors.view import RequestView, build_view, create_fence
from tasuki.draft.models.client import ModelClient, RequestTooLong
from tasuki.draft.models.providers import ModelEndpoint
from tasuki.draft.prompts import render_prompt

CHARACTERS_PER_TOKEN = 3
"""Fewer than the usual four: code and paths take more tokens than prose."""
RETRY_SHARE = 0.4
"""Share of the room for the retry of a request that the endpoint found too long."""
FRAME_CHARACTERS = 1_000
"""Characters of a request around the goal, the facts and the thread."""


class ModelAsker:
    """Asks one model. `seconds` limits each answer."""

    name = "model"
    shape: Literal["structured", "markdown"] = "structured"

    def __init__(self, task: AuthorTask, endpoint: ModelEndpoint, seconds: float) -> None:
        self.task = task
        self.client = ModelClient(endpoint, seconds)
        self.view: RequestView | None = None
        self._room_share = 1.0
        self.system = render_prompt("system", **task.get_prompt_limits())

    def build_opening(self) -> str:
        """Return the goal, and the facts and the thread in a fence, as far as the window allows."""
        task = self.task
        room = (self.client.endpoint.window - self.client.output) * CHARACTERS_PER_TOKEN
        room = int(
            (room - len(self.system) - len(task.goal.text) - FRAME_CHARACTERS) * self._room_share
        )
        inventory = task.inventory.render_list(task.clean, max(600, min(16_000, room // 4)))
        left = max(400, room - len(inventory))
        seen = build_view(task, left)
        self.view = seen
        coverage = (
            render_prompt("coverage_whole")
            if seen.whole
            else render_prompt("coverage_part", first=seen.first)
        )
        return render_prompt(
            "extract",
            goal=task.clean(task.goal.text),
            inventory=inventory,
            thread=seen.text,
            coverage=coverage,
            fence=create_fence(seen.text, inventory),
        )

    def ask(self, turns: Sequence[AuthorTurn]) -> AuthorReply:
        """The answer to the last turn; retry with less of the thread if that was too long."""
        try:
            return self.client.ask(self.system, turns, answer.build_schema())
        except RequestTooLong:
            if self._room_share < 1.0:
                raise
        self._room_share = RETRY_SHARE
        shorter = [AuthorTurn("user", self.build_opening()), *turns[1:]]
        return self.client.ask(self.system, shorter, answer.build_schema())

    def close(self) -> None:
        """End the connections."""
        self.client.close()

    @property
    def first_whole(self) -> int:
        """The first entry that the request contains whole."""
        return 1 if self.view is None or self.view.whole else self.view.first
