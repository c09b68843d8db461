"""Whether a persona is free, behind handoffs that failed; and whose document is still the newest."""

import time
from collections.abc import Iterator
from pathlib import Path

import fleet_records as records
import pytest
import sqlalchemy as sa
from fleet_records import SLUG

from tasuki.config.settings import LoadedSettings, Settings
from tasuki.errors import AlreadyUnderWay, NotPossible
from tasuki.fleet.agents import personas
from tasuki.fleet.handoff import commands
from tasuki.fleet.handoff.runner import StepRunner
from tasuki.fleet.handoff.successor_steps import create_successor
from tasuki.fleet.service import open_fleet
from tasuki.fleet.store import queries, tables
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.failures import HandoffStopped

ID = "ab" * 16
ENDED = {"persona": SLUG, "ended_at": 2.0, "state": "ended"}
TOLD = {"code": "not_acknowledged", "step": "acknowledge", "sentence": "s", "remedy": "r"}
DIED = {"code": "successor_died", "step": "acknowledge", "sentence": "s", "remedy": "r"}
FULL = {"code": "no_room", "step": "write", "sentence": "s", "remedy": "r"}


@pytest.fixture
def fleet(database: FleetDatabase) -> FleetDatabase:
    """A persona, its agent 1, which was handed off to agent 2; both have ended."""
    records.persona(database)
    records.agent(database, **ENDED)
    records.agent(database, **ENDED, previous_agent_id=1)
    return database


@pytest.fixture
def steps(fleet: FleetDatabase, tmp_path: Path) -> Iterator[StepRunner]:
    """What carries out the steps of a handoff."""
    made = open_fleet(tmp_path / "fleet", fleet.url, LoadedSettings(Settings()))
    yield made.step_runner
    made.close()


def check(database: FleetDatabase) -> None:
    """Raises AlreadyUnderWay where no agent of the persona may begin."""
    with database.write() as connection:
        personas.check_available(connection, SLUG)


def test_a_handoff_whose_successor_died_is_to_be_carried_on(fleet: FleetDatabase) -> None:
    """Nobody took its work over: its persona is not free, and a retry starts another successor."""
    records.handoff(fleet, ID, 1, successor_id=2, state="failed", step="acknowledge", failure=DIED)

    with pytest.raises(AlreadyUnderWay, match=r"its successor has not taken over\. Continue it"):
        check(fleet)
    assert commands.retry_handoff(fleet, ID).step == "create"


def test_a_handoff_behind_which_others_worked_is_history(fleet: FleetDatabase) -> None:
    """Its persona is free, and no successor is started from its old document."""
    records.handoff(fleet, ID, 1, successor_id=2, state="failed", step="acknowledge", failure=DIED)
    records.agent(fleet, **ENDED, previous_agent_id=2, started_at=time.time() + 1)

    check(fleet)
    with pytest.raises(NotPossible, match="Agent 3 has worked as developer-con-1 since, so handoff abababab is out of date"):  # fmt: skip
        commands.retry_handoff(fleet, ID)
    assert commands.finish_handoff(fleet, ID).state == "done"


def test_an_old_agent_that_is_handed_off_by_its_thread(fleet: FleetDatabase) -> None:
    """Whoever worked as its persona before the handoff began makes nothing in it old."""
    records.handoff(fleet, ID, 1, from_thread=True, state="failed", step="write", failure=FULL)

    assert commands.retry_handoff(fleet, ID).step == "write"


def test_a_successor_that_has_its_prompt_took_over(fleet: FleetDatabase) -> None:
    """A handoff that lacks its acknowledgement alone holds nobody up."""
    records.handoff(fleet, ID, 1, successor_id=2, state="failed", step="acknowledge", failure=TOLD)

    check(fleet)


def test_a_handoff_that_was_cancelled_enrols_nobody(
    fleet: FleetDatabase, steps: StepRunner, tmp_path: Path
) -> None:
    """Cancelled when `create` has begun: no successor is written down."""
    records.handoff(fleet, ID, 1, step="create")
    of = queries.load_handoff(fleet, ID)
    commands.cancel_handoff(fleet, ID)

    skill = tmp_path / "data/personas" / SLUG / "skill.md"
    skill.parent.mkdir(parents=True)
    skill.touch()
    with pytest.raises(HandoffStopped):
        create_successor(steps.context, of)
    with fleet.read() as connection:
        assert connection.execute(sa.select(sa.func.count(tables.agents.c.id))).scalar_one() == 2


def test_a_persona_whose_folder_is_gone_gets_no_successor(
    fleet: FleetDatabase, steps: StepRunner, tmp_path: Path
) -> None:
    """The step fails by name, and says which folder is missing."""
    records.handoff(fleet, ID, 1, step="create")
    steps.carry_out(ID, 1, "create")
    failure = queries.load_handoff(fleet, ID).failure

    assert failure
    assert failure.code == "successor_not_started"
    assert f"{tmp_path / 'data/personas' / SLUG} is missing. Put it back" in failure.sentence
