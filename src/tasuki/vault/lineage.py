"""The chains that stored handoffs form, derived from the handoffs themselves."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from tasuki.errors import HandoffNotFound
from tasuki.model import Handoff
from tasuki.text_safety import shorten_to_line
from tasuki.vault.fleet_records import FleetRecord
from tasuki.vault.store import State, Vault, derive_state

Link = Literal["", "parent", "revises", "thread", "agent"]
GOAL_WIDTH = 60


class LineageNode(Struct, frozen=True):
    """A handoff in its lineage.

    `handoff` is None where only its id is known, or where an agent's handoff has no brief.
    `link` says how it belongs to the node above: its thread began with that handoff (`parent`),
    it is an edited revision of it (`revises`), its thread is the one that the events of that
    handoff name (`thread`), or its agent took over by that one (`agent`). `fleet` is the
    fleet's record of it.
    """

    id: str
    handoff: Handoff | None = None
    link: Link = ""
    state: State = "draft"
    children: tuple[str, ...] = ()
    fleet: FleetRecord | None = None


class Lineage(Struct, frozen=True):
    """Handoffs as trees: `roots` oldest first, `nodes` by id. `focus` is the requested one."""

    nodes: dict[str, LineageNode]
    roots: tuple[str, ...]
    focus: str = ""

    def list_chain(self, id: str) -> list[str]:
        """Return the ids from the root down to `id`."""
        parents = {child: node.id for node in self.nodes.values() for child in node.children}
        chain = [id]
        while chain[-1] in parents:
            chain.append(parents[chain[-1]])
        return chain[::-1]


def build_lineage(
    vault: Vault,
    id: str | None = None,
    records: Sequence[FleetRecord] = (),
    *,
    printed: bool = False,
) -> Lineage:
    """Build the trees of all stored handoffs, or the one tree that contains the handoff `id`.

    `records` are handoffs of a fleet's agents, the oldest first: they and the stored ones form
    one lineage. What was only printed is left out where nothing descends from it, unless
    `printed`. Where links form a circle, the oldest handoff of the circle becomes the root.
    Raises HandoffNotFound for an unknown `id`.
    """
    fleet = {record.id: record for record in records}
    focus = _find_focus(vault, id, fleet) if id else ""
    handoffs = {handoff.id: handoff for handoff in reversed(vault.list_handoffs())}
    states: dict[str, State] = {}
    handoffs_by_thread: dict[str, str] = {}
    for handoff in handoffs.values():
        try:
            events = vault.load_events(handoff.id)
            states[handoff.id] = derive_state(events)
        except HandoffNotFound:  # The events cannot be read.
            events, states[handoff.id] = [], "uncertain"
        for event in events:
            if thread := event.detail.get("successor_thread"):
                handoffs_by_thread.setdefault(thread, handoff.id)
    for record in records:
        if record.successor_session:
            handoffs_by_thread.setdefault(record.successor_session, record.id)
    handoffs_by_successor = {r.successor_id: r.id for r in records if r.successor_id is not None}
    links: dict[str, tuple[str, Link]] = {}
    created = {h.id: h.created for h in handoffs.values()}
    for handoff_id in sorted(
        fleet.keys() | handoffs.keys(), key=lambda at: (created.get(at) or fleet[at].created, at)
    ):
        links[handoff_id] = ("", "")
        if stored := handoffs.get(handoff_id):
            links[handoff_id] = _find_parent(
                stored, handoffs_by_thread, _complete_id(stored.parent, {*handoffs, *fleet})
            )
        if not links[handoff_id][0] and handoff_id in fleet:
            links[handoff_id] = _find_agent_parent(
                fleet[handoff_id], handoffs_by_thread, handoffs_by_successor
            )
    parents = _remove_circles(links)
    if not printed:
        _remove_printed(parents, states, focus)
    whole = _assemble_nodes(handoffs, states, parents, fleet)
    return _extract_tree(whole, focus) if focus else whole


def _remove_printed(
    parents_by_id: dict[str, tuple[str, Link]], states: Mapping[str, State], focus: str
) -> None:
    while True:
        parents = {parent for parent, _ in parents_by_id.values()}
        ends = [
            id
            for id in parents_by_id
            if states.get(id) == "printed" and id not in parents and id != focus
        ]
        if not ends:
            return
        for id in ends:
            del parents_by_id[id]


def _find_focus(vault: Vault, id: str, fleet: Mapping[str, FleetRecord]) -> str:
    """Find the whole id of a handoff, of the vault or of the fleet. Raises HandoffNotFound."""
    try:
        return vault.get(id).id
    except HandoffNotFound:
        matches = [known for known in fleet if known.startswith(id.strip().lower())]
        if len(matches) == 1 and len(id.strip()) >= 4:
            return matches[0]
        raise


def _find_agent_parent(
    record: FleetRecord,
    handoffs_by_thread: Mapping[str, str],
    handoffs_by_successor: Mapping[int, str],
) -> tuple[str, Link]:
    """Find the parent of an agent's handoff: the one that brought the agent."""
    if before := handoffs_by_successor.get(record.agent_id):
        return before, "agent"
    by_thread = handoffs_by_thread.get(record.session, "") if record.session else ""
    return (by_thread, "thread") if by_thread not in ("", record.id) else ("", "")


def draw_lineage(lineage: Lineage) -> str:
    """Draw the lineage for a terminal: one line a handoff, indented only where it forks."""
    lines = []
    for id, first, _ in _walk_nodes(lineage):
        lines.append(first + _format_node(lineage.nodes[id], id == lineage.focus))
    return "\n".join(lines)


def _complete_id(prefix: str, handoffs: Collection[str]) -> str:
    """Complete an id where it is stored; a brief names only the first digits of its own."""
    if prefix in handoffs or not prefix:
        return prefix
    return next((id for id in handoffs if id.startswith(prefix)), prefix)


def _find_parent(
    handoff: Handoff, handoffs_by_thread: Mapping[str, str], parent: str
) -> tuple[str, Link]:
    """Find the parent of a handoff: the revised one first, because it has the same place."""
    if handoff.revises and handoff.revises != handoff.id:
        return handoff.revises, "revises"
    if parent and parent != handoff.id:
        return parent, "parent"
    by_thread = handoffs_by_thread.get(handoff.predecessor.thread_id, "")
    return (by_thread, "thread") if by_thread not in ("", handoff.id) else ("", "")


def _remove_circles(parents_by_id: Mapping[str, tuple[str, Link]]) -> dict[str, tuple[str, Link]]:
    """Remove the upward link of the oldest member of each circle; ids are oldest first."""
    remaining = dict(parents_by_id)
    cleared: set[str] = set()
    for start in parents_by_id:
        path: dict[str, None] = {}
        id = start
        while id in remaining and id not in cleared and id not in path:
            path[id] = None
            id = remaining[id][0]
        if id in path:
            members = list(path)[list(path).index(id) :]
            remaining[next(oldest for oldest in parents_by_id if oldest in members)] = ("", "")
        cleared.update(path)
    return remaining


def _assemble_nodes(
    handoffs: Mapping[str, Handoff],
    states: Mapping[str, State],
    parents_by_id: Mapping[str, tuple[str, Link]],
    fleet: Mapping[str, FleetRecord],
) -> Lineage:
    children: dict[str, list[str]] = {}
    for id, (parent, _) in parents_by_id.items():
        children.setdefault(parent, []).append(id)
    nodes = {
        id: LineageNode(
            id,
            handoffs.get(id),
            link,
            states.get(id, "draft"),
            tuple(children.get(id, ())),
            fleet.get(id),
        )
        for id, (_, link) in parents_by_id.items()
    }
    missing = [parent for parent in children if parent and parent not in nodes]
    nodes |= {id: LineageNode(id, children=tuple(children[id])) for id in missing}
    first = {id: position for position, id in enumerate(nodes)}
    dated_roots = [(min(first[child] for child in children[id]), id) for id in missing]
    dated_roots += [(first[id], id) for id in children.get("", ())]
    return Lineage(nodes, tuple(id for _, id in sorted(dated_roots)))


def _extract_tree(whole: Lineage, focus: str) -> Lineage:
    root = whole.list_chain(focus)[0]
    nodes = {}
    waiting = [root]
    while waiting:
        node = whole.nodes[waiting.pop()]
        nodes[node.id] = node
        waiting.extend(node.children)
    return Lineage(nodes, (root,), focus)


def _walk_nodes(lineage: Lineage) -> Iterator[tuple[str, str, str]]:
    """Yield every node with the lines to draw before it, and before its children."""
    waiting = [(root, "", "") for root in reversed(lineage.roots)]
    while waiting:
        id, first, rest = waiting.pop()
        yield id, first, rest
        children = lineage.nodes[id].children
        if len(children) == 1:
            waiting.append((children[0], rest, rest))
            continue
        for position, child in enumerate(reversed(children)):
            corner, bar = ("└─", "  ") if position == 0 else ("├─", "│ ")
            waiting.append((child, rest + corner, rest + bar))


def _format_node(node: LineageNode, focus: bool) -> str:
    mark = "◆" if focus else "●"
    if node.fleet:
        return _format_agent_node(node.fleet, mark)
    if (handoff := node.handoff) is None:
        return f"○ {shorten_to_line(node.id, 8)}  (not stored here)"
    revision = "revision  " if node.link == "revises" else ""
    old = handoff.predecessor
    way = f"{old.harness} {old.thread_id[:8]}" + (f" → {handoff.to}" if handoff.to else "")
    parts = (
        f"{mark} {handoff.id[:8]}",
        shorten_to_line(handoff.created.replace("T", " ")[:16], 16),
        shorten_to_line(way, 40),
        node.state,
        revision + shorten_to_line(handoff.goal.shown, GOAL_WIDTH),
    )
    return "  ".join(parts)


def _format_agent_node(record: FleetRecord, mark: str) -> str:
    successor = f" → agent {record.successor_id}" if record.successor_id is not None else ""
    parts = (
        f"{mark} {record.id[:8]}",
        record.created.replace("T", " ")[:16],
        shorten_to_line(f"{record.persona}: agent {record.agent_id}{successor}", 60),
        record.state,
        record.summary,
    )
    return "  ".join(parts)
