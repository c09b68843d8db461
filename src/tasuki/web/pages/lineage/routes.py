"""The lineage page: the chains of a persona, or of a folder, as drawings and as tables.

The chains of a folder include those of the handoffs that the vault keeps, in the form of agents' chains.
"""

import time
from collections.abc import Sequence
from typing import Annotated
from urllib.parse import urlencode

from litestar import get
from litestar.di import NamedDependency
from litestar.params import FromQuery, QueryParameter

from tasuki.draft.redact.redactor import Redactor
from tasuki.errors import HandoffNotFound
from tasuki.fleet.service import Fleet
from tasuki.fleet.store import queries
from tasuki.model import Handoff
from tasuki.text_safety import clean_for_display, shorten_to_line
from tasuki.vault import Vault
from tasuki.vault.lineage import Lineage, LineageNode, build_lineage
from tasuki.web.pages.lineage import agents
from tasuki.web.pages.lineage.agents import ChainRow, ChainStory
from tasuki.web.pages.lineage.diagram import (
    ChainFork,
    ChainStrand,
    HandoffCut,
    ThreadStretch,
    draw_chain,
)
from tasuki.web.views import templates
from tasuki.web.views.display import StateBadge
from tasuki.web.views.templates import (
    AnyRequest,
    PageResponse,
    format_day,
    format_plural,
    get_harness_title,
    parse_moment,
)

STATE_SHAPES = {
    "draft": StateBadge("todo", "Draft", "rest"),
    "printed": StateBadge("todo", "Printed", "rest"),
    "started": StateBadge("now", "Started", "run"),
    "uncertain": StateBadge("ask", "Uncertain", "attn"),
    "failed": StateBadge("fail", "Failed", "fail"),
}
"""Shapes of a handoff that was not delivered."""


def build_vault_stories(vault: Vault, cwd: str) -> list[ChainStory]:
    """Build the chains in which a handoff was made in this folder, last changed first."""
    full_lineage = build_lineage(vault)
    describer = _HandoffDescriber(vault, full_lineage)
    chain_stories = [
        describer.build_story(root)
        for root in full_lineage.roots
        if any(
            (handoff := full_lineage.nodes[id].handoff) and handoff.predecessor.cwd == cwd
            for id in _list_descendants(full_lineage, root)
        )
    ]
    return sorted(chain_stories, key=lambda story: -story.changed_at)


def list_vault_projects(vault: Vault) -> list[str]:
    """List the folders in which handoffs were made, newest first."""
    return list(
        dict.fromkeys(
            handoff.predecessor.cwd for handoff in vault.list_handoffs() if handoff.predecessor.cwd
        )
    )


def _list_descendants(whole: Lineage, root: str) -> list[str]:
    """List a handoff and all its descendants."""
    ids, waiting = [], [root]
    while waiting:
        ids.append(id := waiting.pop())
        waiting.extend(whole.nodes[id].children)
    return ids


class _HandoffDescriber:
    """Describes each handoff by what it keeps of the thread that it was made from."""

    def __init__(self, vault: Vault, whole: Lineage) -> None:
        self.vault = vault
        self.whole = whole
        self.redactor = Redactor()

    def build_story(self, root: str) -> ChainStory:
        """Build the chain that begins with a handoff, or with one of which only the id is known."""
        main = self._follow_path(root)
        main_ids = {node.id for node in main}
        others = [
            self.whole.nodes[id] for id in _list_descendants(self.whole, root) if id not in main_ids
        ]
        forks = [
            fork for n, node in enumerate(main) for child in node.children
            if self._follow_path(child)[0].id not in main_ids and (fork := self._build_fork(n, child))
        ]  # fmt: skip
        nodes = [*main, *others]
        created_times = [_get_created(node.handoff) for node in nodes if node.handoff]
        goal = next((node.handoff.goal.shown for node in main if node.handoff), "")
        counts = [
            format_plural(len(nodes), "handoff"),
            *([format_plural(len(forks), "fork")] if forks else []),
        ]
        since = f" since {format_day(min(created_times))}" if created_times else ""
        return ChainStory(
            key=root,
            title=self._redact_line(goal, 120) or f"Handoff {root[:8]}",
            summary=f"{', '.join(counts)}{since}, in the vault.",
            changed_at=max(created_times, default=0.0),
            strand=ChainStrand(f"handoff {root[:8]}", self._build_stretches(main), tuple(forks)),
            rows=tuple(
                [self._build_row(node, str(n)) for n, node in enumerate(main, 1)]
                + [self._build_row(node, self._choose_place(node, main)) for node in others]
            ),
        )

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

    def _choose_place(self, node: LineageNode, main: Sequence[LineageNode]) -> str:
        if any(child in {one.id for one in main} for child in node.children):
            return "revised"
        return "revision" if node.link == "revises" else "fork"

    def _build_fork(self, index: int, id: str) -> ChainFork | None:
        """Build what began with a handoff; None for a revision of which nothing was started."""
        path = self._follow_path(id)
        first = self.whole.nodes[id]
        stretches = self._build_stretches(path)
        if first.link == "revises":  # its thread is that of the revised one
            stretches = stretches[1:]
        goal = self._redact_line(first.handoff.goal.shown, 80) if first.handoff else ""
        word = "Revision" if first.link == "revises" else "Fork"
        return (
            ChainFork(index, stretches, (f"{word}: {goal}", f"handoff {id[:8]}"))
            if stretches
            else None
        )

    def _build_stretches(self, path: Sequence[LineageNode]) -> tuple[ThreadStretch, ...]:
        """Build the threads of handoffs, and the one in which the last handoff continues."""
        stretches = [self._build_stretch(node, n, len(path)) for n, node in enumerate(path, 1)]
        if successor := self._find_successor(path[-1].id):
            stretches.append(successor)
        return tuple(stretches)

    def _build_stretch(self, node: LineageNode, number: int, count: int) -> ThreadStretch:
        handoff = node.handoff
        if handoff is None:
            cut = HandoffCut(f"/briefs/{node.id}", f"Handoff {number}, {node.id[:8]}: not stored here", None, False, "not stored here")  # fmt: skip
            return ThreadStretch("/threads", f"Thread {number} of {count}, not known", ("Not known", "", ""), cut=cut)  # fmt: skip
        old, when = handoff.predecessor, format_day(_get_created(handoff))
        title, short = get_harness_title(old.harness), clean_for_display(old.thread_id[:8])
        entries, goal = format_plural(old.entries, "entry", "entries"), self._redact_line(handoff.goal.shown, 120)  # fmt: skip
        return ThreadStretch(
            href=f"/threads/{old.harness}/{old.thread_id}",
            name=f"Thread {number} of {count}, {title} {short}, {when}, {entries}, context not known",
            words=(title, short, f"{when}, {entries}"),
            entries=old.entries,
            cut=HandoffCut(f"/briefs/{handoff.id}", f"Handoff {number} of {count}, {handoff.id[:8]}: {goal}", None, False, goal),
        )  # fmt: skip

    def _find_successor(self, id: str) -> ThreadStretch | None:
        """Build the thread that a handoff was started in, as its events name it."""
        try:
            details = [event.detail for event in self.vault.load_events(id)]
        except HandoffNotFound:
            return None
        named = [detail for detail in details if detail.get("successor_thread")]
        if not named:
            return None
        harness, thread = named[-1].get("harness", ""), named[-1]["successor_thread"]
        title, short = get_harness_title(harness), clean_for_display(thread[:8])
        name = f"Thread that followed, {title} {short}, entries and context not known"
        return ThreadStretch(f"/threads/{harness}/{thread}", name, (title, short, ""))

    def _build_row(self, node: LineageNode, place: str) -> ChainRow:
        handoff = node.handoff
        old = handoff.predecessor if handoff else None
        return ChainRow(
            place=place,
            thread=f"/threads/{old.harness}/{old.thread_id}" if old else "",
            title=get_harness_title(old.harness) if old else "Not known",
            id=clean_for_display(old.thread_id[:8]) if old else "",
            entries=old.entries if old else None,
            used=None,
            past=False,
            why=self._redact_line(handoff.goal.shown, 120) if handoff else "Not stored here",
            state=STATE_SHAPES.get(node.state) if handoff else None,
            handoff=f"/briefs/{node.id}" if handoff else "",
            handoff_id=node.id[:8],
            cut_at=_get_created(handoff) if handoff else None,
            acknowledged="yes" if node.state == "acknowledged" else "not known",
        )

    def _redact_line(self, text: str, width: int) -> str:
        return shorten_to_line(self.redactor.redact(text[: 8 * width]), width)


def _get_created(handoff: Handoff) -> float:
    moment_found = parse_moment(handoff.created)
    return time.time() if moment_found is None else moment_found


MOST_DRAWN = 4
"""Most chains that are drawn on one page; the others are named."""
MOST_NAMED = 100
WordQuery = Annotated[str, QueryParameter(max_length=4096)]


@get("/lineage", sync_to_thread=True, include_in_schema=False)
def show_lineage(
    request: AnyRequest,
    fleet: NamedDependency[Fleet],
    persona: WordQuery = "",
    project: WordQuery = "",
    by: FromQuery[str] = "",
    chain: WordQuery = "",
) -> PageResponse:
    """Show the chains of a persona or of a folder, those that changed last first.

    Where none is named it is the persona whose agents changed last, or the folder of
    `by=project`.
    """
    if project or by == "project":
        return _show_project(request, fleet, project, chain)
    slugs = [
        listed_persona.slug
        for listed_persona in queries.list_personas(fleet.database, retired=None)
    ]
    slug = persona or agents.find_newest_persona(fleet.database) or next(iter(slugs), "")
    stories = (
        agents.build_stories(fleet, queries.load_persona(fleet.database, slug)) if slug else []
    )
    return _render_lineage(request, "persona", slug, slugs, stories, chain)


def _show_project(request: AnyRequest, fleet: Fleet, project: str, chain: str) -> PageResponse:
    redactor, vault = Redactor(), Vault()
    folder_slugs = dict(agents.list_projects(fleet.database))
    folders = {redactor.redact(cwd): cwd for cwd in (*folder_slugs, *list_vault_projects(vault))}
    name = project or next(iter(folders), "")
    cwd = folders.get(name, name)
    stories = build_vault_stories(vault, cwd) if cwd else []
    for slug in folder_slugs.get(cwd, ()):
        stories += agents.build_stories(fleet, queries.load_persona(fleet.database, slug), cwd=cwd)
    stories.sort(key=lambda story: -story.changed_at)
    return _render_lineage(request, "project", name, list(folders), stories, chain)


def _render_lineage(
    request: AnyRequest, by: str, name: str, names: list[str], stories: list[ChainStory], chain: str
) -> PageResponse:
    selected = [story for story in stories if story.key == chain]
    drawn = selected or stories[:MOST_DRAWN]
    drawn_keys = {story.key for story in drawn}
    others = [
        (f"/lineage?{urlencode({by: name, 'chain': story.key})}", story)
        for story in stories
        if story.key not in drawn_keys
    ]
    return templates.render_page(
        request, "lineage.html", by=by, name=name, names=names, all=len(stories),
        stories=[(story, draw_chain(story.strand)) for story in drawn],
        others=others[:MOST_NAMED], left=max(len(others) - MOST_NAMED, 0),
        is_one=bool(selected) and len(stories) > 1, whole=f"/lineage?{urlencode({by: name})}",
    )  # fmt: skip


HANDLERS = (show_lineage,)
