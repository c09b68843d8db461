"""The disk is full while a handoff is under way: it is told, it waits or fails with a name, and goes on."""

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fleets import World, once
from waiting import retry_until

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="root alone may mount a small disk"
)


class SmallDisk:
    """A file system of 2 MB in a namespace of the server's own, seen from outside by its process."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.path = world.folder / "small"
        self.path.mkdir()
        mount = f'mount -t tmpfs -o size=2m tmpfs "{self.path}" && exec "$@"'
        world.prefix = ["unshare", "--mount", "sh", "-c", mount, "sh"]

    @property
    def _fill(self) -> Path:
        assert self.world.server
        return Path(f"/proc/{self.world.server.pid}/root{self.path}/fill")

    def fill(self) -> None:
        """Leave no byte."""
        with self._fill.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(b"x" * 4096)
            except OSError:
                pass

    def free(self) -> None:
        """Make room again."""
        self._fill.unlink()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A fleet on SQLite."""
    made = World(tmp_path)
    (made.data / "fleet").mkdir(parents=True)
    yield made
    made.close()


def under_way(world: World) -> tuple[str, Path]:
    """A handoff whose agent writes its document once a file is there."""
    hold = world.folder / "go"
    world.serve()
    world.install()
    world.script(document=[["wait_for", str(hold)], ["document", "{path}"], ["say", "written"]])
    id = world.hand_off(world.worked(world.started()))
    retry_until(lambda: world.prompts("Write a handoff document"), 20)
    retry_until(lambda: world.handoff(id)["step"] == "await_turn", 20)
    return id, hold


def test_a_handoff_under_way_needs_no_room_of_the_engine(world: World) -> None:
    """The disk of the workflows is full: `/health` says so, and the handoff goes on to its end, once."""
    disk = SmallDisk(world)
    (world.data / "fleet" / "workflows.db").symlink_to(disk.path / "workflows.db")
    id, hold = under_way(world)
    disk.fill()
    retry_until(lambda: world.health() != "ok", 20)
    hold.touch()
    of = world.ends(id)
    full = world.health()
    disk.free()

    once(world, of)
    assert ("The database of the engine takes no writes: handoffs wait.", 1) == (
        full,
        of["attempt"],
    )
    retry_until(lambda: world.health() == "ok", 30)


@pytest.mark.long
def test_a_step_waits_for_room(world: World) -> None:
    """The disk of the fleet's own tables is full: `/health` says so, and the handoff goes on by itself."""
    disk = SmallDisk(world)
    (world.data / "fleet.db").symlink_to(disk.path / "fleet.db")
    id, hold = under_way(world)
    disk.fill()
    hold.touch()
    retry_until(lambda: world.health() != "ok", 20)
    disk.free()

    once(world, world.ends(id))
    assert "ok" == world.health()


@pytest.mark.long
def test_a_handoff_that_is_asked_for_on_a_full_disk_begins_later(world: World) -> None:
    """The disk of the workflows is full: the order is kept, `/health` and an alarm say so, and it begins by itself."""
    disk = SmallDisk(world)
    (world.data / "fleet" / "workflows.db").symlink_to(disk.path / "workflows.db")
    world.serve()
    world.install()
    agent = world.worked(world.started())
    disk.fill()
    id = world.hand_off(agent)
    full = world.health()
    alarms = [alarm["text"] for alarm in world.alarms()]
    waits = world.handoff(id)["state"]
    disk.free()

    once(world, world.ends(id))
    assert ("The database of the engine takes no writes: handoffs wait.", "running") == (
        full,
        waits,
    )
    assert ["no room" in alarm for alarm in alarms] == [True]
    assert "ok" == world.health()


@pytest.mark.long
def test_health_knows_that_a_disk_is_still_full(world: World) -> None:
    """A handoff has ended all the same, and there still is no room."""
    disk = SmallDisk(world)
    (world.data / "fleet" / "workflows.db").symlink_to(disk.path / "workflows.db")
    id, hold = under_way(world)
    disk.fill()
    hold.touch()
    world.ends(id)
    time.sleep(20)  # a sweep has looked since
    full = world.health()
    disk.free()

    assert "takes no writes" in full
    retry_until(lambda: world.health() == "ok", 10)
