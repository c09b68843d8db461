"""The lineage page: the chains of a persona, or of a folder, as drawings and as tables."""

from typing import Annotated
from urllib.parse import urlencode

from litestar import get
from litestar.di import NamedDependency
from litestar.params import FromQuery, QueryParameter

from tasuki.draft.redact.redactor import Redactor
from tasuki.fleet.service import Fleet
from tasuki.fleet.store import queries
from tasuki.vault import Vault
from tasuki.web.pages.lineage import agents
from tasuki.web.pages.lineage import vault as lineage_vault
from tasuki.web.pages.lineage.agents import ChainStory
from tasuki.web.pages.lineage.diagram import draw_chain
from tasuki.web.views import templates
from tasuki.web.views.templates import AnyRequest, PageResponse

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
    folders = {
        redactor.redact(cwd): cwd for cwd in (*folder_slugs, *lineage_vault.list_projects(vault))
    }
    name = project or next(iter(folders), "")
    cwd = folders.get(name, name)
    stories = lineage_vault.build_stories(vault, cwd) if cwd else []
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
