"""The author that is the outgoing agent: it writes with all it knows, and its thread is not touched."""

import json
from collections.abc import Sequence
from typing import Literal

from tasuki.draft.authors import answer
from tasuki.draft.authors.asker import Reply, Turn
from tasuki.draft.authors.asking import ask
from tasuki.draft.authors.task import Task
from tasuki.draft.authors.view import entry_list, fence
from tasuki.draft.prompts import render
from tasuki.harness.protocol import Harness

INVENTORY = 12_000
"""Characters of the facts in a question: the agent has its thread in view already."""


class AgentAsker:
    """Asks the agent of a thread, each time in a fork of it. `seconds` bounds each answer."""

    name = "agent"

    def __init__(
        self, task: Task, harness: Harness, shape: Literal["structured", "markdown"], seconds: float
    ) -> None:
        self.task = task
        self.harness = harness
        self.shape = shape
        self.seconds = seconds

    def opening(self) -> str:
        """The goal, the facts to choose from and the numbers of the entries."""
        task = self.task
        inventory = task.inventory.text(task.clean, INVENTORY)
        entries = entry_list(task.thread.entries, task.clean)
        known = {"goal": task.clean(task.goal.text), "inventory": inventory, "entries": entries,
                 "fence": fence(inventory, entries)}  # fmt: skip
        if self.shape == "markdown":
            return render("agent_markdown", **known)
        return render("agent", **known, **task.prompt_limits())

    def ask(self, turns: Sequence[Turn]) -> Reply:
        """The answer to the last turn. A fork does not know the one before it, so it is told."""
        question = turns[0].text
        if len(turns) > 1:
            said, request = turns[-2].text, turns[-1].text
            question = render("again", question=question, answer=said, request=request)
        schema = json.dumps(answer.schema()) if self.shape == "structured" else ""
        said_now = ask(
            self.harness, self.task.thread, question, schema=schema, seconds=self.seconds
        )
        return Reply(
            text=said_now.text,
            model=said_now.model or self.task.thread.model,
            input_tokens=said_now.input_tokens,
            output_tokens=said_now.output_tokens,
            price=said_now.price,
            note=said_now.note,
        )

    def close(self) -> None:
        """Nothing is held."""

    @property
    def first_whole(self) -> int:
        """The agent has all that it ever had."""
        return 1
