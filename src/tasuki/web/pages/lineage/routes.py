"""The lineage page: the chains of a persona, or of a folder, as tables.

The chains of a folder include those of the handoffs that the vault keeps.
"""

from typing import Annotated
from urllib.parse import urlencode

from litestar.params import FromQuery, QueryParameter

from tasuki.draft.redact.redactor import Redactor
from tasuki.fleet.service import Fleet
from tasuki.fleet.store import queries
from tasuki.vault import Vault
from tasuki.web.handlers import AnyRequest, TheFleet, show_page
from tasuki.web.pages.lineage import agents
from tasuki.web.pages.lineage.rows import HEIGHT, MORE, NEWEST, WIDTH, ChainStory
from tasuki.web.pages.lineage.vault_chains import build_vault_stories, list_vault_projects
from tasuki.web.views import templates
from tasuki.web.views.templates import PageResponse

MOST_SHOWN = 4
"""Most chains that are shown on one page; the others are named."""
MOST_NAMED = 100
WordQuery = Annotated[str, QueryParameter(max_length=4096)]


@show_page("/lineage")
def show_lineage(
    request: AnyRequest,
    fleet: TheFleet,
    persona: WordQuery = "",
    project: WordQuery = "",
    by: FromQuery[str] = "",
    chain: WordQuery = "",
    newest: Annotated[int, QueryParameter(ge=1, le=500)] = NEWEST,
) -> PageResponse:
    """Show the chains of a persona or of a folder, those that changed last first.

    Of each the `newest` threads, and the oldest ones.

    Where none is named it is the persona whose agents changed last, or the folder of
    `by=project`.
    """
    if project or by == "project":
        return _show_project(request, fleet, project, chain, newest)
    slugs = [one.slug for one in queries.list_personas(fleet.database, retired=None)]
    slug = persona or agents.find_newest_persona(fleet.database) or next(iter(slugs), "")
    stories = []
    if slug:
        shown_persona = queries.load_persona(fleet.database, slug)
        stories = agents.build_stories(fleet, shown_persona, newest=newest)
    return _render_lineage(request, "persona", slug, slugs, stories, chain, newest)


def _show_project(
    request: AnyRequest, fleet: Fleet, project: str, chain: str, newest: int
) -> PageResponse:
    redactor, vault = Redactor(), Vault()
    folder_slugs = dict(agents.list_projects(fleet.database))
    folders = {redactor.redact(cwd): cwd for cwd in (*folder_slugs, *list_vault_projects(vault))}
    name = project or next(iter(folders), "")
    cwd = folders.get(name, name)
    stories = build_vault_stories(vault, cwd, newest=newest) if cwd else []
    for slug in folder_slugs.get(cwd, ()):
        persona = queries.load_persona(fleet.database, slug)
        stories += agents.build_stories(fleet, persona, cwd=cwd, newest=newest)
    stories.sort(key=lambda story: -story.changed_at)
    return _render_lineage(request, "project", name, list(folders), stories, chain, newest)


def _render_lineage(
    request: AnyRequest, by: str, name: str, names: list[str], stories: list[ChainStory], chain: str,
    newest: int,
) -> PageResponse:  # fmt: skip
    selected = [story for story in stories if story.key == chain]
    shown = selected or stories[:MOST_SHOWN]

    def address(story: ChainStory | None = None, more: int = 0) -> str:
        fields = {"chain": story.key if story else "", "newest": newest + more if more else 0}
        return f"/lineage?{urlencode({by: name, **{k: v for k, v in fields.items() if v}})}"

    others = [story for story in stories if story not in shown]
    return templates.render_page(
        request, "lineage.html", by=by, name=name, names=names, all=len(stories), stories=shown,
        others=others[:MOST_NAMED], left=max(len(others) - MOST_NAMED, 0), address=address, more=MORE,
        is_one=bool(selected) and len(stories) > 1, width=WIDTH, height=HEIGHT, live="agents handoffs",
    )  # fmt: skip
