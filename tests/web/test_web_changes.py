"""What agents changed, over HTTP: the fleet's page asks nothing of git, and other pages say what is wrong."""

from collections.abc import Iterator
from pathlib import Path

import fleet_records
import pytest
from web_servers import Answer, Served, serving
from work_trees import WorkFolder

from tasuki.fleet.store.database import FleetDatabase

SECRET = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC2dF4hJ6"
WORK = {
    "branch": "retries", "added": 1120, "removed": 14, "files": 6, "commits": 2,
    "command": "npm test", "problem": "", "at": 5.0,
}  # fmt: skip


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A server whose agents a test writes."""
    with serving(tmp_path) as made:
        fleet_records.persona(made.fleet.database)
        yield made


def seen(served: Served, path: str) -> Answer:
    """What a browser with a session is given."""
    cookie = f"{served.sessions.cookie_name}={served.sessions.sign_in('a browser')}"
    return served.ask("GET", path, token="", Cookie=cookie, Accept="text/html")


def agent(database: FleetDatabase, **values: object) -> int:
    """A busy agent of a persona."""
    given = {"persona": fleet_records.SLUG, "state": "busy", "registered_at": 1.0, **values}
    return fleet_records.agent(database, **given)


def test_the_fleets_page_runs_no_git(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """A card shows the kept summary, and the command that runs, where no program can be run at all."""
    id = agent(served.fleet.database, changes=WORK)
    monkeypatch.setenv("PATH", "/nowhere")
    page = seen(served, "/").body.decode()

    assert f'href="/agents/{id}/changes"' in page
    assert "+1,120 −14</span> in 6 files, 2 commits" in page
    assert "<code>retries</code>" in page
    assert "Runs npm test" in page


def test_a_summary_with_a_problem_is_not_on_the_card(served: Served) -> None:
    """A folder without a repository has no line on its card, and a sentence on its page."""
    problem = {
        **WORK,
        "branch": "",
        "files": 0,
        "commits": 0,
        "problem": "/x is in no git repository.",
    }
    id = agent(served.fleet.database, changes=problem, ended_at=2.0, state="ended")

    assert f"/agents/{id}/changes" not in seen(served, "/").body.decode()
    assert "/x is in no git repository." in seen(served, f"/agents/{id}").body.decode()


def test_pages_and_api_of_an_agent(served: Served, tmp_path: Path) -> None:
    """The pages show it to those who are signed in, the API to those with the token."""
    made = WorkFolder(tmp_path / "repository")
    made.write("app.py", f"one\n{SECRET}\n")
    id = agent(served.fleet.database, cwd=str(made.folder), begun_commit=made.begun)
    page = seen(served, f"/agents/{id}/changes")
    part = seen(served, f"/agents/{id}/changes/summary")
    said = served.ask("GET", f"/api/agents/{id}/changes?diff=all")

    assert [200, 200, 200] == [page.status, part.status, said.status]
    assert b"app.py" in page.body
    assert b"app.py" in part.body
    assert ["app.py"] == [file["path"] for file in said.json["files"]]
    assert not any(SECRET.encode() in answer.body for answer in (page, part, said))


@pytest.mark.parametrize(
    ("path", "status"),
    [("/agents/1/changes?since=ever", 400), ("/agents/999/changes", 404),
     ("/agents/999/context", 404), ("/figures?period=year", 400),
     ("/agents/1/changes?file=" + "x" * 41, 400), ("/agents/1/changes?file=nothing", 200),
     ("/agents/1/context", 200), ("/agents/1/pull-request", 200)],
)  # fmt: skip
def test_what_is_asked_wrongly(served: Served, path: str, status: int) -> None:
    """An unknown agent, a period or a start that there is not, and a file that does not differ."""
    agent(served.fleet.database)

    assert status == seen(served, path).status


@pytest.mark.parametrize(
    "path",
    ["/agents/1/changes", "/agents/1/changes/summary", "/agents/1/pull-request", "/agents/1/context",
     "/figures", "/api/agents/1/changes", "/api/agents/1/pull-request"],
)  # fmt: skip
def test_nothing_is_shown_to_strangers(served: Served, path: str) -> None:
    """Without a session, or a token, none of it is shown."""
    agent(served.fleet.database, changes=WORK)

    assert 401 == served.ask("GET", path, token="").status
