"""Lineage: the chains of a persona, or of a folder, as drawings and as tables."""

from typing import Annotated
from urllib.parse import urlencode

from litestar import get
from litestar.di import NamedDependency
from litestar.params import FromQuery, QueryParameter

from tasuki.draft.redact import Redactor
from tasuki.fleet import reading
from tasuki.fleet.service import Fleet
from tasuki.vault import Vault
from tasuki.web.pages import frame, lineage_chains, lineage_vault
from tasuki.web.pages.frame import Asked, Page
from tasuki.web.pages.lineage_chains import Story
from tasuki.web.pages.lineage_drawing import drawing

SHOWN = 4
"""Chains that are drawn on one page; the others are named."""
NAMED = 100
Word = Annotated[str, QueryParameter(max_length=4096)]


@get("/lineage", sync_to_thread=True, include_in_schema=False)
def lineage_page(
    request: Asked,
    fleet: NamedDependency[Fleet],
    persona: Word = "",
    project: Word = "",
    by: FromQuery[str] = "",
    chain: Word = "",
) -> Page:
    """The chains of a persona or of a folder, those that changed last first.

    Where none is named it is the persona whose agents changed last, or the folder of `by=project`.
    """
    if project or by == "project":
        return _of_project(request, fleet, project, chain)
    slugs = [one.slug for one in reading.personas(fleet.database, retired=None)]
    slug = persona or lineage_chains.newest_persona(fleet.database) or next(iter(slugs), "")
    found = lineage_chains.stories(fleet, reading.persona(fleet.database, slug)) if slug else []
    return _page(request, "persona", slug, slugs, found, chain)


def _of_project(request: Asked, fleet: Fleet, project: str, chain: str) -> Page:
    redactor, vault = Redactor(), Vault()
    worked = dict(lineage_chains.projects(fleet.database))
    folders = {redactor.redact(cwd): cwd for cwd in (*worked, *lineage_vault.projects(vault))}
    name = project or next(iter(folders), "")
    cwd = folders.get(name, name)
    found = lineage_vault.stories(vault, cwd) if cwd else []
    for slug in worked.get(cwd, ()):
        found += lineage_chains.stories(fleet, reading.persona(fleet.database, slug), cwd=cwd)
    found.sort(key=lambda story: -story.changed_at)
    return _page(request, "project", name, list(folders), found, chain)


def _page(
    request: Asked, by: str, name: str, names: list[str], found: list[Story], chain: str
) -> Page:
    one = [story for story in found if story.key == chain]
    drawn = one or found[:SHOWN]
    kept = {story.key for story in drawn}
    others = [(_address(by, name, story), story) for story in found if story.key not in kept]
    return frame.page(
        request, "lineage.html", by=by, name=name, names=names, all=len(found),
        stories=[(story, drawing(story.strand)) for story in drawn],
        others=others[:NAMED], left=max(len(others) - NAMED, 0),
        is_one=bool(one) and len(found) > 1, whole=f"/lineage?{urlencode({by: name})}",
    )  # fmt: skip


def _address(by: str, name: str, story: Story) -> str:
    return f"/lineage?{urlencode({by: name, 'chain': story.key})}"


HANDLERS = (lineage_page,)
