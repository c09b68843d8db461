"""Names, addresses and rows that nobody expects: pages stay whole, and lead nowhere else."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import fleet_records
import pytest
from litestar.testing import RequestFactory
from visitors import Visitor, words
from web_servers import Served, serving

from tasuki.fleet.orders import agents
from tasuki.web.views import templates

_ID = re.compile(r'\sid="([^"]*)"')


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A server with an agent that waits and one that works."""
    with serving(tmp_path) as made:
        fleet_records.persona(made.fleet.database)
        fleet_records.agent(
            made.fleet.database, persona=fleet_records.SLUG, cwd="/src/shop", state="waiting"
        )
        fleet_records.agent(made.fleet.database, cwd="/src/shop", state="busy")
        yield made


@pytest.fixture
def visitor(served: Served) -> Visitor:
    """Signed in."""
    return Visitor(served)


@pytest.mark.parametrize("name", ["needs", "others", "working", "quiet", "-", '"><b>', "é" * 200])
@pytest.mark.parametrize("look", ["", "list"])
def test_a_project_has_a_group_of_its_own(
    served: Served, visitor: Visitor, name: str, look: str
) -> None:
    """Also where its name is that of another group: no two elements have the same id."""
    fleet_records.agent(served.fleet.database, cwd=f"/src/{name}", state="busy")
    page = visitor.page(f"/?{urlencode({'by': 'project', 'look': look})}")

    assert [] == [id for id, count in Counter(_ID.findall(page)).items() if count > 1]


@pytest.mark.parametrize(
    "path", ["/", "/?by=harness", "/palette", "/figures", "/bulk?do=stop&id=3", "/agents/3"]
)
def test_an_agent_of_a_harness_that_is_gone_hides_no_other(
    served: Served, visitor: Visitor, path: str
) -> None:
    """Its plugin was removed, or only another host has it: it is shown by its own name."""
    fleet_records.agent(served.fleet.database, cwd="/src/odd", state="busy", harness="gone-plugin")

    assert "gone-plugin" in words(visitor.page(path)) or path == "/figures"


@pytest.mark.parametrize(
    "referer",
    [
        "http://[",
        "http://h:1/\\/evil.example",
        "http://h:1//evil.example",
        "http://evil.example/",
        "",
    ],
)
def test_the_way_back_stays_on_this_server(referer: str) -> None:
    """Whatever a browser names as the page that it comes from."""
    request = RequestFactory().post("/agents/1/answer", headers={"referer": referer, "host": "h:1"})

    assert re.match(r"/(?![/\\])", templates.find_way_back(request, "/agents/1"))


def test_agents_beyond_those_of_one_order_are_told(served: Served, visitor: Visitor) -> None:
    """Nobody takes an order for given to all that were selected."""
    ids = [
        fleet_records.agent(served.fleet.database, cwd="/src/many", pane=f"%{n}")
        for n in range(203)
    ]
    page = visitor.page("/bulk?do=stop&" + urlencode([("id", id) for id in ids]))

    assert "3 that were selected are not in this one" in words(page)
    assert page.count("checked") == 200


def test_a_prompt_for_many_is_typed_once(
    served: Served, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second click, and a browser that asks again, send the same form: it has the same key."""
    keys = []

    def send(_: object, id: int, data: object, key: str = "") -> dict[str, str]:
        keys.append(key)
        return {"state": "proven", "why": ""}

    monkeypatch.setattr(agents, "send_text", send)
    form = {}
    for _ in range(2):
        fields = re.findall(r'name="(\w+)" value="(\w*)"', visitor.page("/bulk?do=send&id=1"))
        form = {**dict(fields), "text": "go on"}
        visitor.post("/bulk", **form)
    visitor.post("/bulk", **form)

    assert (len(keys), len(set(keys)), "" in keys) == (3, 2, False)
