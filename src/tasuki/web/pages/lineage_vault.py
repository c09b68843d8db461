"""The chains of handoffs that the vault keeps of one folder, in the form in which agents' are drawn."""

import time
from collections.abc import Sequence

from tasuki.draft.redact import Redactor
from tasuki.errors import HandoffNotFound
from tasuki.model import Handoff
from tasuki.plain import one_line, shown
from tasuki.vault import Vault
from tasuki.vault.lineage import Lineage, Node, lineage
from tasuki.web.pages.lineage_chains import Row, Story
from tasuki.web.pages.lineage_drawing import Cut, Fork, Strand, Stretch
from tasuki.web.pages.lineage_words import counted, day, harness_title, moment
from tasuki.web.pages.shapes import Shown

STATES = {
    "draft": Shown("todo", "Draft", "rest"),
    "printed": Shown("todo", "Printed", "rest"),
    "started": Shown("now", "Started", "run"),
    "uncertain": Shown("ask", "Uncertain", "attn"),
    "failed": Shown("fail", "Failed", "fail"),
}
"""Of a handoff that was not delivered."""


def stories(vault: Vault, cwd: str) -> list[Story]:
    """The chains in which a handoff was made in this folder, those that changed last first."""
    whole = lineage(vault)
    teller = _Teller(vault, whole)
    found = [teller.story(root) for root in whole.roots if _is_of(whole, root, cwd)]
    return sorted(found, key=lambda story: -story.changed_at)


def projects(vault: Vault) -> list[str]:
    """The folders in which handoffs were made, the newest first."""
    return list(dict.fromkeys(of.predecessor.cwd for of in vault.all() if of.predecessor.cwd))


def _is_of(whole: Lineage, root: str, cwd: str) -> bool:
    nodes = (whole.nodes[id] for id in _below(whole, root))
    return any(node.handoff and node.handoff.predecessor.cwd == cwd for node in nodes)


def _below(whole: Lineage, root: str) -> list[str]:
    """A handoff and all that hang on it."""
    found, waiting = [], [root]
    while waiting:
        found.append(id := waiting.pop())
        waiting.extend(whole.nodes[id].children)
    return found


class _Teller:
    """Says of each handoff what it keeps of the thread that it was made from."""

    def __init__(self, vault: Vault, whole: Lineage) -> None:
        self.vault = vault
        self.whole = whole
        self.redactor = Redactor()

    def story(self, root: str) -> Story:
        """The chain that begins with a handoff, or with one of which only the id is known."""
        main = self._path(root)
        known = {node.id for node in main}
        others = [self.whole.nodes[id] for id in _below(self.whole, root) if id not in known]
        forks = [
            fork for n, node in enumerate(main) for child in node.children
            if self._path(child)[0].id not in known and (fork := self._fork(n, child))
        ]  # fmt: skip
        nodes = [*main, *others]
        made = [_made(node.handoff) for node in nodes if node.handoff]
        goal = next((node.handoff.goal.shown for node in main if node.handoff), "")
        said = [counted(len(nodes), "handoff"), *([counted(len(forks), "fork")] if forks else [])]
        since = f" since {day(min(made))}" if made else ""
        return Story(
            key=root,
            title=self._line(goal, 120) or f"Handoff {root[:8]}",
            summary=f"{', '.join(said)}{since}, in the vault.",
            changed_at=max(made, default=0.0),
            strand=Strand(f"handoff {root[:8]}", self._stretches(main), tuple(forks)),
            rows=tuple(
                [self._row(node, str(n)) for n, node in enumerate(main, 1)]
                + [self._row(node, self._place(node, main)) for node in others]
            ),
        )  # fmt: skip

    def _path(self, id: str) -> list[Node]:
        """A handoff and those that followed, at each fork the newest; a revision stands for the revised."""
        path = [self.whole.nodes[id]]
        while path[-1].children:
            children = [self.whole.nodes[child] for child in path[-1].children]
            if followed := [node for node in children if node.link != "revises"]:
                path.append(followed[-1])
            else:
                path[-1] = children[-1]
        return path

    def _place(self, node: Node, main: Sequence[Node]) -> str:
        if any(child in {one.id for one in main} for child in node.children):
            return "revised"
        return "revision" if node.link == "revises" else "fork"

    def _fork(self, after: int, id: str) -> Fork | None:
        """What began with a handoff; None for a revision of which nothing was started."""
        path = self._path(id)
        first = self.whole.nodes[id]
        stretches = self._stretches(path)
        if first.link == "revises":  # its thread is that of the revised one
            stretches = stretches[1:]
        goal = self._line(first.handoff.goal.shown, 80) if first.handoff else ""
        word = "Revision" if first.link == "revises" else "Fork"
        return (
            Fork(after, stretches, (f"{word}: {goal}", f"handoff {id[:8]}")) if stretches else None
        )

    def _stretches(self, path: Sequence[Node]) -> tuple[Stretch, ...]:
        """The threads that handoffs were made from, and that with which the last one goes on."""
        made = [self._stretch(node, n, len(path)) for n, node in enumerate(path, 1)]
        if after := self._successor(path[-1].id):
            made.append(after)
        return tuple(made)

    def _stretch(self, node: Node, number: int, count: int) -> Stretch:
        of = node.handoff
        if of is None:
            cut = Cut(f"/briefs/{node.id}", f"Handoff {number}, {node.id[:8]}: not stored here", None, False, "not stored here")  # fmt: skip
            return Stretch("/threads", f"Thread {number} of {count}, not known", ("Not known", "", ""), cut=cut)  # fmt: skip
        old, when = of.predecessor, day(_made(of))
        title, short = harness_title(old.harness), shown(old.thread_id[:8])
        entries, goal = counted(old.entries, "entry", "entries"), self._line(of.goal.shown, 120)  # fmt: skip
        return Stretch(
            href=f"/threads/{old.harness}/{old.thread_id}",
            name=f"Thread {number} of {count}, {title} {short}, {when}, {entries}, context not known",
            words=(title, short, f"{when}, {entries}"),
            entries=old.entries,
            cut=Cut(f"/briefs/{of.id}", f"Handoff {number} of {count}, {of.id[:8]}: {goal}", None, False, goal),
        )  # fmt: skip

    def _successor(self, id: str) -> Stretch | None:
        """The thread that a handoff was started in, as its events name it."""
        try:
            details = [event.detail for event in self.vault.events(id)]
        except HandoffNotFound:
            return None
        known = [detail for detail in details if detail.get("successor_thread")]
        if not known:
            return None
        harness, thread = known[-1].get("harness", ""), known[-1]["successor_thread"]
        title, short = harness_title(harness), shown(thread[:8])
        name = f"Thread that followed, {title} {short}, entries and context not known"
        return Stretch(f"/threads/{harness}/{thread}", name, (title, short, ""))

    def _row(self, node: Node, place: str) -> Row:
        of = node.handoff
        old = of.predecessor if of else None
        return Row(
            place=place,
            thread=f"/threads/{old.harness}/{old.thread_id}" if old else "",
            title=harness_title(old.harness) if old else "Not known",
            id=shown(old.thread_id[:8]) if old else "",
            entries=old.entries if old else None,
            used=None,
            past=False,
            why=self._line(of.goal.shown, 120) if of else "Not stored here",
            state=STATES.get(node.state) if of else None,
            handoff=f"/briefs/{node.id}" if of else "",
            handoff_id=node.id[:8],
            cut_at=_made(of) if of else None,
            acknowledged="yes" if node.state == "acknowledged" else "not known",
        )

    def _line(self, text: str, width: int) -> str:
        return one_line(self.redactor.redact(text[: 8 * width]), width)


def _made(of: Handoff) -> float:
    found = moment(of.created)
    return time.time() if found is None else found
