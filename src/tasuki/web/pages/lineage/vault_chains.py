"""The chains of the handoffs that the vault keeps, as rows in the form of agents' chains."""

import time

from tasuki.draft.redact.redactor import Redactor
from tasuki.model import Handoff
from tasuki.text_safety import clean_for_display, format_plural, shorten_to_line
from tasuki.vault import Vault
from tasuki.vault.lineage import Lineage, LineageNode, build_lineage
from tasuki.web.pages.lineage.rows import NEWEST, ChainRow, ChainStory, arrange_rows
from tasuki.web.pages.threads.brief_view import STATE_SHAPES
from tasuki.web.views.display import get_harness_title
from tasuki.web.views.templates import parse_moment


def build_vault_stories(vault: Vault, cwd: str, *, newest: int = NEWEST) -> list[ChainStory]:
    """Build the chains in which a handoff was made in this folder, last changed first."""
    describer = _HandoffDescriber(build_lineage(vault), newest)
    nodes = describer.whole.nodes
    stories = [
        describer.build_story(root)
        for root in describer.whole.roots
        if any(
            (handoff := nodes[id].handoff) and handoff.predecessor.cwd == cwd
            for id in _list_descendants(describer.whole, root)
        )
    ]
    return sorted(stories, key=lambda story: -story.changed_at)


def list_vault_projects(vault: Vault) -> list[str]:
    """List the folders in which handoffs were made, newest first."""
    folders = (handoff.predecessor.cwd for handoff in vault.list_handoffs())
    return list(dict.fromkeys(folder for folder in folders if folder))


def _list_descendants(whole: Lineage, root: str) -> list[str]:
    """List a handoff and all its descendants."""
    ids, waiting = [], [root]
    while waiting:
        ids.append(id := waiting.pop())
        waiting.extend(whole.nodes[id].children)
    return ids


class _HandoffDescriber:
    """Describes each handoff by what it keeps of the thread that it was made from."""

    def __init__(self, whole: Lineage, newest: int) -> None:
        self.whole = whole
        self.newest = newest
        self.redactor = Redactor()

    def build_story(self, root: str) -> ChainStory:
        """Build the chain that begins with a handoff, or with one of which only the id is known."""
        main = self._follow_path(root)
        places = {node.id: n for n, node in enumerate(main)}
        beside: dict[int, list[LineageNode]] = {}
        self._collect_beside(root, 0, places, beside)

        def build_rows(place: int) -> list[ChainRow]:
            near = [self._build_row(n, self._name_place(n, places)) for n in beside.get(place, ())]
            return [*near, self._build_row(main[place], str(place + 1))]

        successor = self._find_successor(main[-1].id, str(len(main) + 1))
        first = [successor] if successor else []
        rows, hidden, hidden_after = arrange_rows(len(main), self.newest, build_rows, first)
        ids = _list_descendants(self.whole, root)
        handoffs = [handoff for id in ids if (handoff := self.whole.nodes[id].handoff)]
        forks = sum(row.place == "fork" for row in rows)
        counts = [format_plural(len(ids), "handoff")]
        counts += [format_plural(forks, "fork")] if forks else []
        created = [_get_created(handoff) for handoff in handoffs]
        goal = next((node.handoff.goal.shown for node in main if node.handoff), "")
        return ChainStory(
            key=root, title=self.redactor.redact_line(goal, 120) or f"Handoff {root[:8]}",
            summary=f"{', '.join(counts)} in the vault", since=min(created, default=None),
            changed_at=max(created, default=0.0), rows=rows, hidden=hidden,
            hidden_after=hidden_after,
        )  # fmt: skip

    def _follow_path(self, id: str) -> list[LineageNode]:
        """Follow a handoff and its successors, at each fork the newest.

        A revision replaces the revised one.
        """
        path = [self.whole.nodes[id]]
        while path[-1].children:
            children = [self.whole.nodes[child] for child in path[-1].children]
            if successors := [node for node in children if node.link != "revises"]:
                path.append(successors[-1])
            else:
                path[-1] = children[-1]
        return path

    def _collect_beside(
        self, root: str, place: int, places: dict[str, int], beside: dict[int, list[LineageNode]]
    ) -> None:
        """Collect what is not in the chain by the place that it is beside, the newest first."""
        waiting = [(root, place)]
        while waiting:
            id, near = waiting.pop()
            near = places.get(id, near)
            if id not in places:
                beside.setdefault(near, []).insert(0, self.whole.nodes[id])
            waiting.extend((child, near) for child in reversed(self.whole.nodes[id].children))

    def _name_place(self, node: LineageNode, places: dict[str, int]) -> str:
        if any(
            child in places and self.whole.nodes[child].link == "revises" for child in node.children
        ):
            return "revised"
        return "revision" if node.link == "revises" else "fork"

    def _find_successor(self, id: str, place: str) -> ChainRow | None:
        """Build the thread that a handoff was started in, where it is known."""
        if (found := self.whole.nodes[id].successor) is None:
            return None
        return ChainRow(
            place, f"/threads/{found.harness}/{found.id}", get_harness_title(found.harness), _clean_id(found.id),
            why="Began from the handoff below",
        )  # fmt: skip

    def _build_row(self, node: LineageNode, place: str) -> ChainRow:
        handoff, is_fork = node.handoff, not place.isdigit()
        if handoff is None:
            return ChainRow(
                place, "", "Not known", "", why="Not stored here", handoff_id=node.id,
                acknowledged="not known", is_fork=is_fork,
            )  # fmt: skip
        old = handoff.predecessor
        return ChainRow(
            place=place,
            thread=f"/threads/{old.harness}/{old.thread_id}",
            title=get_harness_title(old.harness),
            id=_clean_id(old.thread_id),
            entries=old.entries,
            why=self.redactor.redact_line(handoff.goal.shown, 120),
            state=None if node.state in ("delivered", "acknowledged") else STATE_SHAPES.get(node.state),
            handoff=f"/briefs/{node.id}",
            handoff_id=node.id,
            cut_at=_get_created(handoff),
            acknowledged="confirmed" if node.state == "acknowledged" else "not known",
            is_fork=is_fork,
        )  # fmt: skip


def _clean_id(id: str) -> str:
    return shorten_to_line(clean_for_display(id), 80)


def _get_created(handoff: Handoff) -> float:
    created = parse_moment(handoff.created)
    return time.time() if created is None else created
