"""Uncommitted work that travels from one host to another as a git bundle: functions on folders."""

from tasuki.fleet.handoff.bundles.arrivals import remove_arrival, undo_unpack, unpack_work
from tasuki.fleet.handoff.bundles.packs import (
    MOST_BUNDLE_BYTES,
    PackedWork,
    pack_work,
    remove_pack,
)
from tasuki.fleet.handoff.bundles.places import WorkPlace, is_taken, plan_place
from tasuki.fleet.handoff.bundles.repositories import (
    RepositoryState,
    describe_repository,
    is_same_origin,
)
from tasuki.fleet.handoff.bundles.work_secrets import WorkSecrets, find_secrets_in_work

__all__ = [
    "MOST_BUNDLE_BYTES",
    "PackedWork",
    "RepositoryState",
    "WorkPlace",
    "WorkSecrets",
    "describe_repository",
    "find_secrets_in_work",
    "is_same_origin",
    "is_taken",
    "pack_work",
    "plan_place",
    "remove_arrival",
    "remove_pack",
    "undo_unpack",
    "unpack_work",
]
