"""The chains that stored handoffs form, derived from the handoffs themselves."""

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from tasuki.errors import HandoffNotFound
from tasuki.model import Handoff, HandoffEvent
from tasuki.text_safety import format_row, shorten_to_line
from tasuki.vault.fleet_records import FleetRecord
from tasuki.vault.store import State, Vault, derive_state

Link = Literal["", "parent", "revises", "thread", "agent"]
GOAL_WIDTH = 60


class Successor(Struct, frozen=True):
    """The thread in which a handoff was started; `path` may be empty."""

    harness: str
    id: str
    path: str = ""


class LineageNode(Struct, frozen=True):
    """A handoff in its lineage.

    `handoff` is None where only its id is known, or where an agent's handoff has no brief.
    `link` says how it belongs to the node above: its thread began with that handoff (`parent`),
    it is an edited revision of it (`revises`), its thread is the one that the events of that
    handoff name (`thread`), or its agent took over by that one (`agent`). `fleet` is the
    fleet's record of it. `successor` is known from its events, or from a handoff that follows.
    """

    id: str
    handoff: Handoff | None = None
    link: Link = ""
    state: State = "draft"
    children: tuple[str, ...] = ()
    fleet: FleetRecord | None = None
    successor: Successor | None = None


class Lineage(Struct, frozen=True):
    """Handoffs as trees: `roots` oldest first, `nodes` by id. `focus` is the requested one.

    Of a requested thread it is the newest handoff from or to it.
    """

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
    """Build the trees of all stored handoffs, or those that contain `id`, a handoff or a thread.

    `records` are handoffs of a fleet's agents, the oldest first: they and the stored ones form
    one lineage. What was only printed is left out where nothing descends from it, unless
    `printed`. Where links form a circle, the oldest handoff of the circle becomes the root.
    Raises HandoffNotFound for an unknown `id`.
    """
    fleet = {record.id: record for record in records}
    handoffs = {handoff.id: handoff for handoff in reversed(vault.list_handoffs())}
    states: dict[str, State] = {}
    successors: dict[str, Successor] = {}
    handoffs_by_thread: dict[str, str] = {}
    for handoff in handoffs.values():
        try:
            events = vault.load_events(handoff.id)
            states[handoff.id] = derive_state(events)
        except HandoffNotFound:  # The events cannot be read.
            events, states[handoff.id] = [], "uncertain"
        if successor := find_successor(events):
            successors[handoff.id] = successor
        for event in events:
            if thread := event.detail.get("successor_thread"):
                handoffs_by_thread.setdefault(thread, handoff.id)
    for record in records:
        if record.successor_session:
            handoffs_by_thread.setdefault(record.successor_session, record.id)
    parents = _remove_circles(_find_links(handoffs, fleet, handoffs_by_thread))
    for child, (parent, link) in parents.items():
        if link == "parent" and child in handoffs:
            old, before = handoffs[child].predecessor, handoffs.get(parent)
            if before and before.predecessor.thread_id == old.thread_id:
                continue
            successors.setdefault(parent, Successor(old.harness, old.thread_id, old.path))
    found = _find_wanted(vault, id, fleet, handoffs, successors) if id else ()
    wanted = [known for known in parents if known in found]
    if not printed:
        _remove_printed(parents, states, wanted)
    whole = _assemble_nodes(handoffs, states, parents, fleet, successors)
    return _extract_trees(whole, wanted) if wanted else whole


def _extract_trees(whole: Lineage, wanted: Sequence[str]) -> Lineage:
    """Leave the trees that contain what is wanted, and nothing else."""
    found = {whole.list_chain(id)[0] for id in wanted}
    roots = tuple(root for root in whole.roots if root in found)
    nodes, waiting = {}, list(roots)
    while waiting:
        node = whole.nodes[waiting.pop()]
        nodes[node.id] = node
        waiting.extend(node.children)
    return Lineage(nodes, roots, wanted[-1])


def find_successor(events: Sequence[HandoffEvent]) -> Successor | None:
    """Find the thread that the last start of a handoff names; None where that start failed."""
    named = [event.detail for event in events if event.detail.get("successor_thread")]
    if not named or derive_state(events) == "failed":
        return None
    last = named[-1]
    path = last.get("successor_path", "")
    return Successor(last.get("harness", ""), last["successor_thread"], path)


def _find_links(
    handoffs: Mapping[str, Handoff],
    fleet: Mapping[str, FleetRecord],
    handoffs_by_thread: Mapping[str, str],
) -> dict[str, tuple[str, Link]]:
    """Find what each handoff follows, and why; the oldest first."""
    handoffs_by_successor = {
        record.successor_id: record.id
        for record in fleet.values()
        if record.successor_id is not None
    }
    links: dict[str, tuple[str, Link]] = {}
    created = {h.id: h.created for h in handoffs.values()}
    known = handoffs.keys() | fleet.keys()
    for id in sorted(known, key=lambda at: (created.get(at) or fleet[at].created, at)):
        links[id] = ("", "")
        if stored := handoffs.get(id):
            parent = stored.parent  # A brief names only the first digits of its own id.
            if parent and parent not in known:
                parent = next((one for one in known if one.startswith(parent)), parent)
            links[id] = _find_parent(stored, handoffs_by_thread, parent)
        if not links[id][0] and id in fleet:
            before = handoffs_by_successor.get(fleet[id].agent_id)
            thread = fleet[id].session
            links[id] = (
                (before, "agent") if before else _link_by_thread(id, thread, handoffs_by_thread)
            )
    return links


def _link_by_thread(
    id: str, thread: str, handoffs_by_thread: Mapping[str, str]
) -> tuple[str, Link]:
    parent = handoffs_by_thread.get(thread, "") if thread else ""
    return (parent, "thread") if parent not in ("", id) else ("", "")


def _remove_printed(
    parents_by_id: dict[str, tuple[str, Link]], states: Mapping[str, State], wanted: Sequence[str]
) -> None:
    while True:
        parents = {parent for parent, _ in parents_by_id.values()}
        ends = [
            id
            for id in parents_by_id
            if states.get(id) == "printed" and id not in parents and id not in wanted
        ]
        if not ends:
            return
        for id in ends:
            del parents_by_id[id]


def _find_wanted(
    vault: Vault,
    id: str,
    fleet: Mapping[str, FleetRecord],
    handoffs: Mapping[str, Handoff],
    successors: Mapping[str, Successor],
) -> list[str]:
    """Find a handoff, or all from and to a thread. Raises HandoffNotFound."""
    try:
        return [vault.get(id).id]
    except HandoffNotFound as error:
        wanted = id.strip().lower()
        matches = [known for known in fleet if known.startswith(wanted)]
        if len(wanted) < 4 or any(h.startswith(wanted) for h in (*handoffs, *vault.unreadable)):
            raise
        if len(matches) == 1:
            return matches
        threads: dict[str, list[str]] = {}
        for handoff in handoffs.values():
            threads.setdefault(handoff.predecessor.thread_id, []).append(handoff.id)
        for known, successor in successors.items():
            threads.setdefault(successor.id, []).append(known)
        for record in fleet.values():
            threads.setdefault(record.session, []).append(record.id)
        found = [thread for thread in threads if thread.lower().startswith(wanted)]
        if len(found) > 1:
            raise HandoffNotFound(
                f"{len(found)} threads begin with {id}; give more of the id: {', '.join(found[:8])}"
            ) from error
        if not found:
            raise HandoffNotFound(
                f"Neither a handoff nor a thread that was handed off has the id {id}. "
                "List them with: tasuki handoffs, tasuki threads"
            ) from error
        return threads[found[0]]


def draw_lineage(lineage: Lineage, width: int = 400) -> str:
    """Draw the lineage for a terminal: one line a handoff, indented only where it forks.

    Where `width` columns are too few for one line, it takes several.
    """
    lines = []
    # With each node what is drawn before it, and before its children.
    waiting = [(root, "", "") for root in reversed(lineage.roots)]
    while waiting:
        id, first, rest = waiting.pop()
        node = lineage.nodes[id]
        cells, words = _describe_node(node, id == lineage.focus)
        lines.append(format_row((first + cells[0], *cells[1:]), words, width, rest))
        if len(node.children) == 1:
            waiting.append((node.children[0], rest, rest))
            continue
        for position, child in enumerate(reversed(node.children)):
            corner, bar = ("└─", "  ") if position == 0 else ("├─", "│ ")
            waiting.append((child, rest + corner, rest + bar))
    return "\n".join(lines)


def _find_parent(
    handoff: Handoff, handoffs_by_thread: Mapping[str, str], parent: str
) -> tuple[str, Link]:
    """Find the parent of a handoff: the revised one first, because it has the same place."""
    if handoff.revises and handoff.revises != handoff.id:
        return handoff.revises, "revises"
    if parent and parent != handoff.id:
        return parent, "parent"
    return _link_by_thread(handoff.id, handoff.predecessor.thread_id, handoffs_by_thread)


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
    successors: Mapping[str, Successor],
) -> Lineage:
    children: dict[str, list[str]] = {}
    for id, (parent, _) in parents_by_id.items():
        children.setdefault(parent, []).append(id)
    nodes = {}
    for id, (_, link) in parents_by_id.items():
        known, state, below = handoffs.get(id), states.get(id, "draft"), tuple(children.get(id, ()))
        nodes[id] = LineageNode(id, known, link, state, below, fleet.get(id), successors.get(id))
    missing = [parent for parent in children if parent and parent not in nodes]
    nodes |= {id: LineageNode(id, children=tuple(children[id])) for id in missing}
    first = {id: position for position, id in enumerate(nodes)}
    dated_roots = [(min(first[child] for child in children[id]), id) for id in missing]
    dated_roots += [(first[id], id) for id in children.get("", ())]
    return Lineage(nodes, tuple(id for _, id in sorted(dated_roots)))


def _describe_node(node: LineageNode, focus: bool) -> tuple[tuple[str, ...], str]:
    """Return the cells of a node's row, and its words."""
    mark = "◆" if focus else "●"
    if record := node.fleet:
        new = f" → agent {record.successor_id}" if record.successor_id is not None else ""
        who = shorten_to_line(f"{record.persona}: agent {record.agent_id}{new}", 60)
        day = record.created.replace("T", " ")[:16]
        return (f"{mark} {record.id[:8]}", day, who, record.state), record.summary
    if (handoff := node.handoff) is None:
        return (f"○ {shorten_to_line(node.id, 8)}", "(not stored here)"), ""
    old = handoff.predecessor
    way = f"{old.harness} {old.thread_id[:8]}"
    if new_thread := node.successor:
        way += f" → {new_thread.harness or handoff.to} {new_thread.id[:8]}"
    elif handoff.to:
        way += f" → {handoff.to}"
    day = shorten_to_line(handoff.created.replace("T", " ")[:16], 16)
    revision = "revision  " if node.link == "revises" else ""
    goal = revision + shorten_to_line(handoff.goal.shown, GOAL_WIDTH)
    return (f"{mark} {handoff.id[:8]}", day, shorten_to_line(way, 40), node.state), goal
