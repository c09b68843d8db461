"""What `tasuki handoffs prune` deletes: kept handoffs, and documents of the fleet's personas."""

import time

from msgspec import Struct

from tasuki.cli.fleet_kept import (
    PersonaDocument,
    find_documents,
    prunable_documents,
    read_fleet_history,
)
from tasuki.model import Handoff
from tasuki.threads.kept import prunable
from tasuki.vault import Vault


class Choice(Struct, frozen=True):
    """What the user wants to be rid of."""

    days: int
    keep: int
    only_drafts: bool


class Going:
    """What may be deleted now, and what is wrong."""

    def __init__(
        self, vault: Vault, handoffs: list[Handoff], documents: list[PersonaDocument], problem: str
    ) -> None:
        self.vault = vault
        self.handoffs = handoffs
        self.documents = documents
        self.problems = [*vault.problems, *([problem] if problem else [])]

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.handoffs) + len(self.documents)

    def delete(self, now: "Going") -> int:
        """Delete those that may still go, as things are after the question; how many that were."""
        ids, paths = {h.id for h in now.handoffs}, {d.path for d in now.documents}
        handoffs = [handoff for handoff in self.handoffs if handoff.id in ids]
        documents = [document for document in self.documents if document.path in paths]
        for handoff in handoffs:
            self.vault.remove(handoff.id)
        for document in documents:
            document.path.unlink(missing_ok=True)
        return len(handoffs) + len(documents)


def chosen(choice: Choice) -> Going:
    """What a choice means now. Documents stay while it is not known which of them are needed."""
    vault, history = Vault(), read_fleet_history()
    needed = {record.id for record in history.records if record.is_needed}
    handoffs = prunable(
        vault, days=choice.days, keep=choice.keep, only_drafts=choice.only_drafts, now=time.time(),
        needed=needed,
    )  # fmt: skip
    if choice.only_drafts or history.problem:
        said = f"Documents of personas stay. {history.problem}"
        return Going(
            vault, handoffs, [], said if history.problem and not choice.only_drafts else ""
        )
    documents = prunable_documents(find_documents(history), days=choice.days, keep=choice.keep)
    return Going(vault, handoffs, documents, "")
