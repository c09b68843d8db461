"""The pages of personas: made, read, changed and retired by forms; what agents wrote does nothing."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import fleet_records
import pytest
from fleet_records import SLUG
from lineage_records import chain
from visitors import Visitor, words
from web_servers import serving

from tasuki.fleet.agents import personas
from tasuki.fleet.agents.persona_files import propose_lessons
from tasuki.fleet.orders.bodies import NewPersona
from tasuki.fleet.store import queries

HOSTILE = "<script>alert(1)</script>\u202e\n\n[x](javascript:alert(1)) ![y](http://127.0.0.2/z)\n"


@pytest.fixture
def visitor(tmp_path: Path) -> Iterator[Visitor]:
    """Somebody who looks at a fleet of nobody."""
    with serving(tmp_path) as served:
        yield Visitor(served)


@pytest.fixture
def folder(visitor: Visitor) -> Path:
    """The folder of a persona that is there."""
    fleet = visitor.served.fleet
    personas.add_persona(
        fleet.database, fleet.root, NewPersona(role="developer", name="con", skill="# It develops")
    )
    return personas.get_persona_folder(fleet.root, SLUG)


def form_value(page: str, name: str) -> str:
    found = re.search(rf'name="{name}"[^>]* value="([^"]*)"', page)
    assert found
    return found[1]


def test_without_a_persona_the_page_says_what_one_is(visitor: Visitor) -> None:
    """The first thing to do is the form itself."""
    page = visitor.page("/personas")

    assert "Create the first persona" in page
    assert 'action="/personas"' in page


def test_a_persona_is_made_by_the_form(visitor: Visitor) -> None:
    """Its page is shown then; what was left empty is that of the settings."""
    answer = visitor.post("/personas", role="tester", name="oki", skill="# Tests", harness="pi", model=" m ", threshold="")  # fmt: skip

    assert (303, "/personas/tester-oki-1") == (answer.status, answer.headers["location"])
    made = queries.load_persona(visitor.served.fleet.database, "tester-oki-1")
    assert ("pi", "m", None, False) == (made.harness, made.model, made.threshold, made.automatic)
    assert "tester-oki-1" in visitor.page("/personas")


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (
            {"role": "Two Words"},
            "'Two Words' cannot be a persona's role: at most 32 of the letters",
        ),
        ({"threshold": "120"}, "Threshold: enter a number"),
        ({"threshold": "much"}, "Threshold: enter a number"),
        ({"harness": "nobody"}, "Unknown harness 'nobody'."),
        ({"skill": "x" * 70_000}, "A skill of 70001 bytes is too long"),
    ],
)
def test_a_refusal_keeps_what_was_typed(
    visitor: Visitor, fields: dict[str, str], sentence: str
) -> None:
    """The sentence stands beside the form, and the form is as it was sent."""
    given = {"role": "tester", "name": "oki", "skill": "\nMine", "harness": "claude", **fields}
    answer = visitor.post("/personas", **given)

    page = answer.body.decode()
    assert 400 == answer.status
    assert sentence in words(page)
    assert 'value="oki"' in page
    assert ("\nMine" if "skill" not in fields else "x" * 1000) in page
    assert [] == queries.list_personas(visitor.served.fleet.database)


def test_the_settings_are_changed(visitor: Visitor, folder: Path) -> None:
    """What is sent is kept; an empty threshold is that of the settings again."""
    for threshold, expected in (("55.5", 55.5), ("", None)):
        answer = visitor.post(f"/personas/{SLUG}", harness="codex", model="", threshold=threshold, automatic="on")  # fmt: skip
        assert 303 == answer.status
        of = queries.load_persona(visitor.served.fleet.database, SLUG)
        assert ("codex", expected, True) == (of.harness, of.threshold, of.automatic)


def test_automatic_handoffs_that_were_stopped_begin_again_only_when_that_is_said(
    visitor: Visitor,
) -> None:
    """Another change of the settings leaves them stopped."""
    base = visitor.served.fleet.database
    fleet_records.persona(base, automatic=True, automation_stopped="Three in a row.")
    fields = {"harness": "claude", "model": "m", "threshold": "", "automatic": "on"}
    visitor.post(f"/personas/{SLUG}", **fields)
    assert "Three in a row." == queries.load_persona(base, SLUG).automation_stopped

    visitor.post(f"/personas/{SLUG}", **fields, again="on")
    assert "" == queries.load_persona(base, SLUG).automation_stopped


def test_the_skill_is_edited_to_the_letter(visitor: Visitor, folder: Path) -> None:
    """Line ends, leading lines, markup and direction marks of a skill survive the form."""
    skill = '# שלום\u200f\n\n<b>bold</b> & "quoted"\n\n    code'
    page = visitor.page(f"/personas/{SLUG}")
    sent = visitor.post(f"/personas/{SLUG}/skill", skill=skill.replace("\n", "\r\n"), before=form_value(page, "before"))  # fmt: skip

    assert 303 == sent.status
    assert skill + "\n" == (folder / "skill.md").read_text()
    again = visitor.page(f"/personas/{SLUG}")
    assert "\u200f" in again.partition('id="skill-text"')[2].partition("</textarea>")[0]
    assert "&lt;b&gt;bold&lt;/b&gt;" in again


def test_a_skill_that_was_changed_meanwhile_is_not_overwritten(
    visitor: Visitor, folder: Path
) -> None:
    """What was typed is kept beside the sentence; to save again puts it there."""
    before = form_value(visitor.page(f"/personas/{SLUG}"), "before")
    (folder / "skill.md").write_text("Another's\n")
    refused = visitor.post(f"/personas/{SLUG}/skill", skill="Mine", before=before)
    page = refused.body.decode()

    assert 400 == refused.status
    assert "The skill was changed since this page showed it." in words(page)
    assert "\nMine</textarea>" in page
    assert "Another's\n" == (folder / "skill.md").read_text()
    visitor.post(f"/personas/{SLUG}/skill", skill="Mine", before=form_value(page, "before"))
    assert "Mine\n" == (folder / "skill.md").read_text()


def test_the_page_tells_history_and_documents(visitor: Visitor, folder: Path) -> None:
    """Agents, handoffs, the chain and the documents of a persona are a click away."""
    chain(visitor.served.fleet.database, [84.0, 20.0])
    (folder / "handoffs" / "1.md").write_text("# One\n\ntext")
    (folder / "experience.md").write_text("Learned **much**.")
    page = visitor.page(f"/personas/{SLUG}")

    for href in ("/agents/1", "/agents/2", f"/handoffs/{1:08x}{1:08x}{1:08x}{1:08x}", f"/personas/{SLUG}/documents/1.md", f"/lineage?persona={SLUG}"):  # fmt: skip
        assert f'href="{href}"' in page
    assert "<strong>much</strong>" in page
    assert "<h2>One</h2>" in visitor.page(f"/personas/{SLUG}/documents/1.md")


def test_documents_are_read_raw_and_downloaded(visitor: Visitor, folder: Path) -> None:
    """As text that no browser takes for a page; the name of the file survives."""
    (folder / "handoffs" / 'a "b" ü.md').write_text("<script>alert(1)</script>")
    raw = visitor.get(f"/personas/{SLUG}/documents/a%20%22b%22%20%C3%BC.md/raw?download=true")

    assert (200, b"<script>alert(1)</script>") == (raw.status, raw.body)
    assert raw.headers["content-type"].startswith("text/plain")
    assert 'attachment; filename="a__b___.md"' == raw.headers["content-disposition"]
    assert "sandbox" in raw.headers["content-security-policy"]


@pytest.mark.parametrize(
    "name", ["..%2Fskill.md", "link.md", "pipe.md", "folder.md", "%00.md", "no.md", "x" * 5000]
)
def test_what_is_no_document_is_not_shown(visitor: Visitor, folder: Path, name: str) -> None:
    """Neither a path, nor a link, a pipe or a folder of that name; nothing hangs."""
    inside = folder / "handoffs"
    (inside / "link.md").symlink_to("/etc/passwd")
    os.mkfifo(inside / "pipe.md")
    (inside / "folder.md").mkdir()

    assert 404 == visitor.get(f"/personas/{SLUG}/documents/{name}").status
    assert 404 == visitor.get(f"/personas/{SLUG}/documents/{name}/raw").status
    assert "None yet. An agent writes one" in words(visitor.page(f"/personas/{SLUG}"))


def test_a_folder_of_documents_that_leads_away_is_told(
    visitor: Visitor, folder: Path, tmp_path: Path
) -> None:
    """A link in its place is not followed; the rest of the page is there."""
    (folder / "handoffs").rmdir()
    (tmp_path / "away").mkdir()
    (tmp_path / "away" / "secret.md").write_text("secret")
    (folder / "handoffs").symlink_to(tmp_path / "away")
    page = visitor.page(f"/personas/{SLUG}")

    assert "is not a folder. Create a folder there" in words(page)
    assert "secret.md" not in page
    assert "It develops" in page


def test_what_agents_wrote_does_nothing(visitor: Visitor, folder: Path) -> None:
    """Markup, scripts, images and javascript: links in experience, skill and documents are words."""
    (folder / "experience.md").write_text(HOSTILE)
    (folder / "skill.md").write_text(HOSTILE)
    (folder / "handoffs" / "1.md").write_text(HOSTILE + "x" * (1 << 20))
    for path in (f"/personas/{SLUG}", f"/personas/{SLUG}/documents/1.md"):
        page = visitor.page(path)
        assert "<script>alert" not in page
        assert "<img" not in page
        assert 'href="javascript' not in page
        assert "alert(1)" in words(page)


def test_a_secret_in_a_document_is_left_out(visitor: Visitor, folder: Path) -> None:
    """Rendered and raw alike."""
    secret = "sk-ant-api03-" + "A1b2C3d4" * 10
    (folder / "handoffs" / "1.md").write_text(f"The key is {secret}.")
    (folder / "experience.md").write_text(f"The key is {secret}.")
    for path in ("/documents/1.md", "/documents/1.md/raw", ""):
        assert secret not in visitor.page(f"/personas/{SLUG}{path}")


def test_a_persona_whose_folder_is_gone_can_be_looked_at(visitor: Visitor) -> None:
    """The page says what is missing, and everything else of it."""
    fleet_records.persona(visitor.served.fleet.database)
    page = visitor.page(f"/personas/{SLUG}")

    assert (
        "is missing. Put it back, or, unless another host of this fleet has it, retire the persona"
        in words(page)
    )
    assert f'action="/personas/{SLUG}"' in page


def test_retiring_asks_first(visitor: Visitor, folder: Path) -> None:
    """The question is a page; one that cannot be retired says why, with the sentence of the API."""
    base = visitor.served.fleet.database
    id = fleet_records.agent(base, persona=SLUG)
    assert f"Retire {SLUG}?" in words(visitor.page(f"/personas/{SLUG}/retire"))
    refused = visitor.post(f"/personas/{SLUG}/retire")
    assert f"Agent {id} works as {SLUG}. Stop it first" in words(refused.body.decode())
    assert queries.load_persona(base, SLUG).retired_at is None

    visitor.served.fleet.lifecycle.note_end(id, "ended", "test")
    assert 303 == visitor.post(f"/personas/{SLUG}/retire").status
    assert queries.load_persona(base, SLUG).retired_at
    assert SLUG not in words(visitor.page("/personas"))
    assert SLUG in words(visitor.page("/personas?retired=true"))


def test_a_form_of_another_page_changes_nothing(visitor: Visitor, folder: Path) -> None:
    """Without a session, and from another origin, every change is refused."""
    for path in ("/personas", f"/personas/{SLUG}", f"/personas/{SLUG}/skill", f"/personas/{SLUG}/retire"):  # fmt: skip
        given = {"Content_Type": "application/x-www-form-urlencoded"}
        nobody = visitor.served.ask("POST", path, b"role=a", token="", Host=visitor.served.site, Origin=visitor.served.origin, **given)  # fmt: skip
        elsewhere = visitor.served.ask("POST", path, b"role=a", token="", Cookie=visitor.cookie, Origin="http://evil", **given)  # fmt: skip
        assert (401, 403) == (nobody.status, elsewhere.status)


@pytest.mark.parametrize("slug", ["nobody-at-1", "%3Cscript%3E", "..%2F..", "x" * 3000])
def test_an_unknown_persona_is_told(visitor: Visitor, slug: str) -> None:
    """With a sentence, and never by a fault."""
    assert 404 == visitor.get(f"/personas/{slug}").status


def test_a_proposed_lesson_is_accepted_on_its_page(visitor: Visitor, folder: Path) -> None:
    """The page shows what is proposed; once it is accepted it stands in the experience, as text alone."""
    fleet = visitor.served.fleet
    id = fleet_records.agent(fleet.database, persona=SLUG)
    fleet_records.handoff(fleet.database, "ab" * 16, id)
    document = "## Lessons for good\n\n- <b>Lint</b> before the tests\n"
    propose_lessons(
        fleet.database, fleet.root, queries.load_handoff(fleet.database, "ab" * 16), document
    )
    page = visitor.page(f"/personas/{SLUG}")
    visitor.post(f"/personas/{SLUG}/lessons", id="1", order="accept")
    after = visitor.page(f"/personas/{SLUG}")

    assert ("Proposed lessons" in page, "&lt;b&gt;Lint" in page) == (True, True)
    assert "Proposed lessons" not in after
    assert (folder / "experience.md").read_text().endswith(": <b>Lint</b> before the tests\n")
