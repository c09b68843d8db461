"""The chains that stored handoffs form, derived from the handoffs themselves."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from tasuki.errors import HandoffNotFound
from tasuki.model import Handoff
from tasuki.plain import one_line
from tasuki.vault.fleet_records import FleetRecord
from tasuki.vault.store import State, Vault, state_of

Link = Literal["", "parent", "revises", "thread", "agent"]
GOAL_WIDTH = 60


class Node(Struct, frozen=True):
    """A handoff in its lineage; `handoff` is None where only its id is known, or an agent's handoff is no brief.

    `link` says how it hangs on the node above: its thread began with that handoff (`parent`),
    it is an edited revision of it (`revises`), its thread is the one that the events of that
    handoff name (`thread`), or its agent took over by that one (`agent`). `fleet` is what the fleet
    knows of it.
    """

    id: str
    handoff: Handoff | None = None
    link: Link = ""
    state: State = "draft"
    children: tuple[str, ...] = ()
    fleet: FleetRecord | None = None


class Lineage(Struct, frozen=True):
    """Handoffs as trees: `roots` oldest first, `nodes` by id. `focus` is the one asked for."""

    nodes: dict[str, Node]
    roots: tuple[str, ...]
    focus: str = ""

    def chain(self, id: str) -> list[str]:
        """The ids from the root down to `id`."""
        above = {child: node.id for node in self.nodes.values() for child in node.children}
        chain = [id]
        while chain[-1] in above:
            chain.append(above[chain[-1]])
        return chain[::-1]


def lineage(
    vault: Vault,
    id: str | None = None,
    records: Sequence[FleetRecord] = (),
    *,
    printed: bool = False,
) -> Lineage:
    """The trees of all stored handoffs, or the one tree that the handoff `id` belongs to.

    `records` are handoffs of a fleet's agents, the oldest first: they and the stored ones are one lineage.
    What was only printed is left out where nothing descends from it, unless `printed`.
    Where links run in a circle, the oldest handoff of the circle becomes the root. Raises
    HandoffNotFound for an unknown `id`.
    """
    fleet = {record.id: record for record in records}
    focus = _focus(vault, id, fleet) if id else ""
    handoffs = {handoff.id: handoff for handoff in reversed(vault.all())}
    states: dict[str, State] = {}
    begun_by: dict[str, str] = {}
    for handoff in handoffs.values():
        try:
            events = vault.events(handoff.id)
            states[handoff.id] = state_of(events)
        except HandoffNotFound:  # they cannot be read
            events, states[handoff.id] = [], "uncertain"
        for event in events:
            if thread := event.detail.get("successor_thread"):
                begun_by.setdefault(thread, handoff.id)
    for record in records:
        if record.successor_session:
            begun_by.setdefault(record.successor_session, record.id)
    came_by = {r.successor_id: r.id for r in records if r.successor_id is not None}
    links: dict[str, tuple[str, Link]] = {}
    created = {h.id: h.created for h in handoffs.values()}
    for at in sorted(
        fleet.keys() | handoffs.keys(), key=lambda at: (created.get(at) or fleet[at].created, at)
    ):
        links[at] = ("", "")
        if stored := handoffs.get(at):
            links[at] = _above(stored, begun_by, _whole(stored.parent, {*handoffs, *fleet}))
        if not links[at][0] and at in fleet:
            links[at] = _above_of_agent(fleet[at], begun_by, came_by)
    above = _without_circles(links)
    if not printed:
        _leave_out_printed(above, states, focus)
    whole = _assemble(handoffs, states, above, fleet)
    return _tree_of(whole, focus) if focus else whole


def _leave_out_printed(
    above: dict[str, tuple[str, Link]], states: Mapping[str, State], focus: str
) -> None:
    while True:
        parents = {parent for parent, _ in above.values()}
        ends = [
            id for id in above if states.get(id) == "printed" and id not in parents and id != focus
        ]
        if not ends:
            return
        for id in ends:
            del above[id]


def _focus(vault: Vault, id: str, fleet: Mapping[str, FleetRecord]) -> str:
    """The whole id of a handoff, of the vault or of the fleet. Raises HandoffNotFound."""
    try:
        return vault.get(id).id
    except HandoffNotFound:
        found = [known for known in fleet if known.startswith(id.strip().lower())]
        if len(found) == 1 and len(id.strip()) >= 4:
            return found[0]
        raise


def _above_of_agent(
    record: FleetRecord, begun_by: Mapping[str, str], came_by: Mapping[int, str]
) -> tuple[str, Link]:
    """What the handoff of an agent hangs on: the one by which the agent came."""
    if before := came_by.get(record.agent_id):
        return before, "agent"
    by_thread = begun_by.get(record.session, "") if record.session else ""
    return (by_thread, "thread") if by_thread not in ("", record.id) else ("", "")


def draw(lineage: Lineage) -> str:
    """The lineage for a terminal: one line a handoff, indented only where it forks."""
    lines = []
    for id, first, _ in _walk(lineage):
        lines.append(first + _line(lineage.nodes[id], id == lineage.focus))
    return "\n".join(lines)


def _whole(prefix: str, handoffs: Collection[str]) -> str:
    """The id that begins so, where one is stored; a brief names but the first digits of its own."""
    if prefix in handoffs or not prefix:
        return prefix
    return next((id for id in handoffs if id.startswith(prefix)), prefix)


def _above(handoff: Handoff, begun_by: Mapping[str, str], parent: str) -> tuple[str, Link]:
    """What a handoff hangs on: the revised one first, for it stands in the same place."""
    if handoff.revises and handoff.revises != handoff.id:
        return handoff.revises, "revises"
    if parent and parent != handoff.id:
        return parent, "parent"
    by_thread = begun_by.get(handoff.predecessor.thread_id, "")
    return (by_thread, "thread") if by_thread not in ("", handoff.id) else ("", "")


def _without_circles(above: Mapping[str, tuple[str, Link]]) -> dict[str, tuple[str, Link]]:
    """The links without the upward one of the oldest member of each circle; ids oldest first."""
    kept = dict(above)
    cleared: set[str] = set()
    for start in above:
        path: dict[str, None] = {}
        id = start
        while id in kept and id not in cleared and id not in path:
            path[id] = None
            id = kept[id][0]
        if id in path:
            members = list(path)[list(path).index(id) :]
            kept[next(oldest for oldest in above if oldest in members)] = ("", "")
        cleared.update(path)
    return kept


def _assemble(
    handoffs: Mapping[str, Handoff],
    states: Mapping[str, State],
    above: Mapping[str, tuple[str, Link]],
    fleet: Mapping[str, FleetRecord],
) -> Lineage:
    children: dict[str, list[str]] = {}
    for id, (parent, _) in above.items():
        children.setdefault(parent, []).append(id)
    nodes = {
        id: Node(
            id,
            handoffs.get(id),
            link,
            states.get(id, "draft"),
            tuple(children.get(id, ())),
            fleet.get(id),
        )
        for id, (_, link) in above.items()
    }
    missing = [parent for parent in children if parent and parent not in nodes]
    nodes |= {id: Node(id, children=tuple(children[id])) for id in missing}
    first = {id: position for position, id in enumerate(nodes)}
    begun = [(min(first[child] for child in children[id]), id) for id in missing]
    begun += [(first[id], id) for id in children.get("", ())]
    return Lineage(nodes, tuple(id for _, id in sorted(begun)))


def _tree_of(whole: Lineage, focus: str) -> Lineage:
    root = whole.chain(focus)[0]
    nodes = {}
    waiting = [root]
    while waiting:
        node = whole.nodes[waiting.pop()]
        nodes[node.id] = node
        waiting.extend(node.children)
    return Lineage(nodes, (root,), focus)


def _walk(lineage: Lineage) -> Iterator[tuple[str, str, str]]:
    """Every node with what is drawn before it, and before what hangs on it."""
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


def _line(node: Node, focus: bool) -> str:
    mark = "◆" if focus else "●"
    if node.fleet:
        return _line_of_agent(node.fleet, mark)
    if (handoff := node.handoff) is None:
        return f"○ {one_line(node.id, 8)}  (not stored here)"
    revision = "revision  " if node.link == "revises" else ""
    old = handoff.predecessor
    way = f"{old.harness} {old.thread_id[:8]}" + (f" → {handoff.to}" if handoff.to else "")
    parts = (
        f"{mark} {handoff.id[:8]}",
        one_line(handoff.created.replace("T", " ")[:16], 16),
        one_line(way, 40),
        node.state,
        revision + one_line(handoff.goal.shown, GOAL_WIDTH),
    )
    return "  ".join(parts)


def _line_of_agent(record: FleetRecord, mark: str) -> str:
    successor = f" → agent {record.successor_id}" if record.successor_id is not None else ""
    parts = (
        f"{mark} {record.id[:8]}",
        record.created.replace("T", " ")[:16],
        one_line(f"{record.persona}: agent {record.agent_id}{successor}", 60),
        record.state,
        record.line,
    )
    return "  ".join(parts)
