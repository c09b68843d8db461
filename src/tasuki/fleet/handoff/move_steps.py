"""The steps of a move between hosts; `workflow.py` has the order, `moves.py` the plan.

On the old host `pack`; on the new one `unpack` and `fetch`; `restore` where the old host is gone.
What fails before the old agent has ended is undone on the new host.
"""

import os
import threading
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec.structs import replace

from tasuki.errors import HandoffNotFound, StoreFailed, TasukiError
from tasuki.fleet import prompts
from tasuki.fleet.agents import limits
from tasuki.fleet.exchange import shared_files, thread_copies
from tasuki.fleet.exchange.host_list import read_labels
from tasuki.fleet.handoff import documents
from tasuki.fleet.handoff.bundles import arrivals, packs, places, repositories, work_secrets
from tasuki.fleet.handoff.moves import list_taken_folders
from tasuki.fleet.handoff.step_context import StepContext
from tasuki.fleet.store.failures import ServerClosing, StepFailed
from tasuki.fleet.store.models import FleetHandoff, MovePlan
from tasuki.model import Handoff
from tasuki.vault import Vault

BUNDLE, RECORD, BRIEF = "bundle", "record", "brief"
"""Names of parcels."""
_CHOOSING = threading.Lock()
"""Held while a place is chosen: of two moves that arrive at once the second sees the first one's."""


def pack_work(context: StepContext, handoff: FleetHandoff) -> str:
    """Put what the successor needs into the database: uncommitted work, thread, brief."""
    plan, agent = _get_plan(handoff), context.load_agent(handoff.agent_id)
    thread_copies.store_thread(context.database, agent)
    _pack_record(context, handoff)
    if not plan.checkout:
        return "the thread; there is no repository"
    if not plan.with_secrets and (found := work_secrets.find_secrets_in_work(agent.cwd).found):
        raise StepFailed("work_not_packed", f"{found[0]}. It would travel with the work.")
    packed = packs.pack_work(agent.cwd, handoff.id)
    shared_files.store_parcel(context.database, handoff.id, BUNDLE, packed.bundle)
    _update_plan(
        context, handoff,
        replace(
            plan, commit=packed.commit, branch=packed.branch, index_commit=packed.index_commit,
            work_commit=packed.work_commit, left_out=packed.left_out, undone="",
        ),
    )  # fmt: skip
    count = len(packed.files)
    return f"uncommitted files: {count or 'none'}; {len(packed.bundle) / 1024:.0f} KiB travel"


def forget_pack(context: StepContext, handoff: FleetHandoff) -> None:
    """Let git forget on the old host what travelled, once the agent has ended."""
    agent = context.load_agent(handoff.agent_id)
    if handoff.move and handoff.move.checkout:
        with suppress(TasukiError, OSError):  # it costs some room in the repository, no more
            packs.remove_pack(agent.cwd, handoff.id)


def restore_thread(context: StepContext, handoff: FleetHandoff) -> str:
    """Write the thread of an agent whose host is gone into the kept copies of this host."""
    return thread_copies.restore_thread(context.database, context.load_agent(handoff.agent_id))


def unpack_work(context: StepContext, handoff: FleetHandoff) -> str:
    """Make the place in which the successor works, with the work that travelled."""
    plan, agent = _get_plan(handoff), context.load_agent(handoff.agent_id)
    lifecycle = context.lifecycle
    limits.check_target(lifecycle.data, handoff.harness or agent.harness)
    shared_files.share_persona(context.database, lifecycle.root, handoff.persona)
    notes = [thread_copies.restore_thread(context.database, agent)] if plan.kind == "move" else []
    if not plan.checkout:
        if not os.path.isdir(plan.folder):
            raise StepFailed("work_not_unpacked", f"There is no folder {plan.folder} any more.")
        return " · ".join([*notes, plan.folder])
    plan, place = _choose_place(context, handoff, plan)
    bundle = shared_files.load_parcel(context.database, handoff.id, BUNDLE)
    packed = packs.PackedWork(plan.commit, plan.branch, plan.index_commit, plan.work_commit, bundle)
    notes.append(arrivals.unpack_work(plan.checkout, place, packed, handoff.id))
    return " · ".join(notes)


def _choose_place(
    context: StepContext, handoff: FleetHandoff, plan: MovePlan
) -> tuple[MovePlan, places.WorkPlace]:
    """Choose the place now: others may work in the foreseen one. After a crash it is the same."""
    if not plan.commit:  # the old host is gone: what the checkout has is all there is
        state = repositories.describe_repository(plan.checkout)
        plan = replace(plan, commit=state.commit, branch=state.branch, origin=state.origin)
    with _CHOOSING:
        if not (plan.place and plan.is_placed):
            taken = list_taken_folders(context.database, handoff.id)
            place = places.plan_place(
                plan.checkout, plan.origin, plan.branch, plan.commit, handoff.persona, plan.wanted,
                taken,
            )  # fmt: skip
            folder = os.path.normpath(os.path.join(place.folder, plan.inside))
            plan = replace(
                plan, place=place.folder, folder=folder, place_branch=place.branch,
                in_place=place.in_place, is_placed=True,
            )  # fmt: skip
        _update_plan(context, handoff, plan)
    return plan, _get_place(plan)


def fetch_document(context: StepContext, handoff: FleetHandoff) -> str:
    """Write the document, the thread and the brief on this host, as they are after the end."""
    plan, agent = _get_plan(handoff), context.load_agent(handoff.agent_id)
    content = shared_files.load_document(context.database, handoff.id)
    if content is None:
        raise StepFailed("document_missing", "The document is not in the database.")
    root = context.lifecycle.root
    session = agent.session or f"agent{agent.id}"
    path = Path(handoff.file_path)
    if not path.is_relative_to(documents.get_documents_folder(root, handoff.persona)) or (
        not path.is_file()
    ):
        path = documents.reserve_path(
            root, handoff.persona, session, handoff.created_at, handoff.id
        )
    documents.write_document(path, content)
    documents.release_path(path)
    notes = [
        thread_copies.restore_thread(context.database, agent),
        _unpack_record(context, handoff),
    ]
    moved = replace(handoff, file_path=str(path))
    prompt = prompts.render_injection(moved, agent, path, describe_place(context, handoff, plan))
    context.update_handoff(handoff, file_path=str(path), injection_prompt=prompt)
    shared_files.delete_parcels(context.database, handoff.id)
    if plan.checkout:  # from here on nothing is undone
        arrivals.remove_arrival(plan.checkout, handoff.id)
    return " · ".join(filter(None, notes))


def describe_place(context: StepContext, handoff: FleetHandoff, plan: MovePlan) -> str:
    """Describe where the successor works, and what did not travel."""
    agent = context.load_agent(handoff.agent_id)
    labels = read_labels(context.database, [agent.host, handoff.target_host])
    there, here = labels.get(agent.host, agent.host), labels.get(handoff.target_host, "")
    place = f"{plan.folder} on the host {here}. Your predecessor worked in {agent.cwd} on the host {there}"
    if plan.place_branch and plan.kind == "rescue":
        place += f"; here you are on the branch {plan.place_branch}, which has only what this checkout had"
    elif plan.place_branch:
        place += (
            f"; its commits and its uncommitted work are here, on the branch {plan.place_branch}"
        )
    return " ".join([f"{place}.", *plan.left_out])


def undo_arrival(context: StepContext, handoff: FleetHandoff) -> str:
    """Undo on this host what a move that failed has made here; return what, as a sentence.

    The program of a successor ends, and the place goes, unless somebody changed something there.
    """
    plan = _get_plan(handoff)
    done = [*_end_successor(context, handoff)]
    if plan.checkout and plan.place:
        try:
            done.append(arrivals.undo_unpack(plan.checkout, _get_place(plan), handoff.id))
        except (TasukiError, OSError) as error:
            done.append(f"{plan.place} could not be taken back: {error}")
    sentence = " ".join(f"{one.rstrip('.')}." for one in done if one) or "Nothing had been made."
    undone = replace(plan, place="", folder="" if plan.checkout else plan.folder, place_branch="", in_place=False, undone=sentence)  # fmt: skip
    _update_plan(context, handoff, undone)
    return sentence


def _end_successor(context: StepContext, handoff: FleetHandoff) -> list[str]:
    if handoff.successor_id is None:
        return []
    agent = context.load_agent(handoff.successor_id)
    if agent.ended_at is not None or agent.host != context.database.host:
        return []
    try:
        context.shutdown.shut_down_agent(agent.id)
    except ServerClosing:
        raise
    except (TasukiError, OSError) as error:
        return [f"Agent {agent.id} could not be ended: {error}"]
    return [f"Agent {agent.id} was ended"]


def _pack_record(context: StepContext, handoff: FleetHandoff) -> None:
    """Let the record of the vault travel: citations open from it. It may be missing."""
    if not handoff.from_thread:
        return
    vault = Vault()
    try:
        record, brief = vault.get(handoff.id), vault.load_brief(handoff.id)
    except HandoffNotFound:
        return
    store = shared_files.store_parcel
    store(context.database, handoff.id, RECORD, msgspec.json.encode(record))
    store(context.database, handoff.id, BRIEF, brief.encode("utf-8", "replace"))


def _unpack_record(context: StepContext, handoff: FleetHandoff) -> str:
    content = shared_files.load_parcel(context.database, handoff.id, RECORD)
    if not content:
        return ""
    vault = Vault()
    try:
        vault.get(handoff.id)
    except HandoffNotFound:
        brief = shared_files.load_parcel(context.database, handoff.id, BRIEF)
        try:
            vault.save(msgspec.json.decode(content, type=Handoff), brief.decode())
        except (StoreFailed, msgspec.ValidationError) as error:
            return f"Its brief could not be kept here: {error}"
    return f"brief {handoff.id[:8]}"


def _get_plan(handoff: FleetHandoff) -> MovePlan:
    assert handoff.move
    return handoff.move


def _get_place(plan: MovePlan) -> places.WorkPlace:
    return places.WorkPlace(plan.place, plan.place_branch, plan.in_place)


def _update_plan(context: StepContext, handoff: FleetHandoff, plan: MovePlan) -> None:
    context.update_handoff(handoff, move=msgspec.to_builtins(plan))
