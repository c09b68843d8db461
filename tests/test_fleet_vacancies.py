"""Whether a persona is free, behind handoffs that failed; and whose document is still the newest."""

import time
from collections.abc import Iterator
from pathlib import Path

import fleet_records as records
import pytest
import sqlalchemy as sa
from fleet_records import SLUG

from tasuki.config import Loaded, Settings
from tasuki.errors import AlreadyUnderWay, NotPossible
from tasuki.fleet import handing_off, reading, tables, vacancies
from tasuki.fleet.database import Database
from tasuki.fleet.failures import Stopped
from tasuki.fleet.outcomes import Outcomes
from tasuki.fleet.service import open_fleet

ID = "ab" * 16
ENDED = {"persona": SLUG, "ended_at": 2.0, "state": "ended"}
TOLD = {"code": "not_acknowledged", "step": "acknowledge", "sentence": "s", "remedy": "r"}
DIED = {"code": "successor_died", "step": "acknowledge", "sentence": "s", "remedy": "r"}
FULL = {"code": "no_room", "step": "write", "sentence": "s", "remedy": "r"}


@pytest.fixture
def fleet(database: Database) -> Database:
    """A persona, its agent 1, which was handed off to agent 2; both have ended."""
    records.persona(database)
    records.agent(database, **ENDED)
    records.agent(database, **ENDED, previous_agent_id=1)
    return database


@pytest.fixture
def steps(fleet: Database, tmp_path: Path) -> Iterator[Outcomes]:
    """What carries out the steps of a handoff."""
    made = open_fleet(tmp_path / "fleet", fleet.url, Loaded(Settings()))
    yield made.outcomes
    made.close()


def check(database: Database) -> None:
    """Raises AlreadyUnderWay where no agent of the persona may begin."""
    with database.write() as connection:
        vacancies.check_vacant(connection, SLUG)


def test_a_handoff_whose_successor_died_is_to_be_carried_on(fleet: Database) -> None:
    """Nobody took its work over: its persona is not free, and a retry starts another successor."""
    records.handoff(fleet, ID, 1, successor_id=2, state="failed", step="acknowledge", failure=DIED)

    with pytest.raises(AlreadyUnderWay, match=r"its successor has not taken over\. Carry it on"):
        check(fleet)
    assert handing_off.retry(fleet, ID).step == "create"


def test_a_handoff_behind_which_others_worked_is_history(fleet: Database) -> None:
    """Its persona is free, and no successor is started from its old document."""
    records.handoff(fleet, ID, 1, successor_id=2, state="failed", step="acknowledge", failure=DIED)
    records.agent(fleet, **ENDED, previous_agent_id=2, started_at=time.time() + 1)

    check(fleet)
    with pytest.raises(NotPossible, match="Agent 3 has worked as developer-con-1 since: what handoff abababab hands on is old"):  # fmt: skip
        handing_off.retry(fleet, ID)
    assert handing_off.finish(fleet, ID).state == "done"


def test_an_old_agent_that_is_handed_off_by_its_thread(fleet: Database) -> None:
    """Whoever worked as its persona before the handoff began makes nothing in it old."""
    records.handoff(fleet, ID, 1, from_thread=True, state="failed", step="write", failure=FULL)

    assert handing_off.retry(fleet, ID).step == "write"


def test_a_successor_that_has_its_prompt_took_over(fleet: Database) -> None:
    """A handoff that lacks its acknowledgement alone holds nobody up."""
    records.handoff(fleet, ID, 1, successor_id=2, state="failed", step="acknowledge", failure=TOLD)

    check(fleet)


def test_a_handoff_that_was_cancelled_enrols_nobody(
    fleet: Database, steps: Outcomes, tmp_path: Path
) -> None:
    """Cancelled when `create` has begun: no successor is written down."""
    records.handoff(fleet, ID, 1, step="create")
    of = reading.handoff(fleet, ID)
    handing_off.cancel(fleet, ID)

    skill = tmp_path / "data/personas" / SLUG / "skill.md"
    skill.parent.mkdir(parents=True)
    skill.touch()
    with pytest.raises(Stopped):
        steps.steps.create(of)
    with fleet.read() as connection:
        assert connection.execute(sa.select(sa.func.count(tables.agents.c.id))).scalar_one() == 2


def test_a_persona_whose_folder_is_gone_gets_no_successor(
    fleet: Database, steps: Outcomes, tmp_path: Path
) -> None:
    """The step fails by name, and says which folder is missing."""
    records.handoff(fleet, ID, 1, step="create")
    steps.carry_out(ID, 1, "create")
    failure = reading.handoff(fleet, ID).failure

    assert failure
    assert failure.code == "successor_not_started"
    assert f"{tmp_path / 'data/personas' / SLUG} is missing. Put it back" in failure.sentence
