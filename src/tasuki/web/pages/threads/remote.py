"""Threads of agents on other hosts: a question, which the host that has the file answers.

That host reads the thread and removes secrets; what comes over is what a page shows. Nothing is
stored here.
"""

from pathlib import Path

from msgspec import Struct

from tasuki.errors import NotPossible
from tasuki.fleet.orders.agents import find_agent_host
from tasuki.fleet.orders.order import order
from tasuki.fleet.parts import FleetParts
from tasuki.fleet.store import queries
from tasuki.fleet.store.models import FleetAgent
from tasuki.harness import registry as harnesses
from tasuki.harness.protocol import Harness
from tasuki.model import Thread
from tasuki.threads import catalog, references
from tasuki.threads.passages import EntryCleaner
from tasuki.web.pages.threads import view
from tasuki.web.pages.threads.files import THREAD_CACHE, find_thread_file
from tasuki.web.pages.threads.parts import PartQuery, ThreadPart, build_part

READ_SECONDS = 20.0
"""How long an answer is waited for: a long thread is read first."""
MOST_ENTRY_CHARACTERS = 1_000_000
"""Most characters of one entry that come from another host."""


class ThreadFacts(Struct, frozen=True):
    """What the head of a thread's page shows, without secrets."""

    title: str
    id: str
    harness: str
    """The name of its harness for people."""
    name: str
    """The name of its harness."""
    path: str
    cwd: str
    branch: str
    entries: int
    broken: str
    truncated: bool


class ThreadView(Struct, frozen=True):
    """A part of a thread as a page shows it; `kept` says where it is a kept copy."""

    thread: ThreadFacts
    part: ThreadPart
    kept: str = ""


def describe_thread(thread: Thread, cleaner: EntryCleaner) -> ThreadFacts:
    """Describe a thread for the head of its page."""
    return ThreadFacts(
        title=view.build_title(thread, cleaner), id=cleaner.clean_line(thread.id, 80),
        harness=harnesses.get_harness(thread.harness).title, name=thread.harness, path=thread.path,
        cwd=cleaner.clean_line(thread.cwd), branch=cleaner.clean_line(thread.git_branch, 120),
        entries=len(thread.entries), broken=cleaner.clean_text(references.describe_broken_lines(thread)),
        truncated=thread.report.truncated_tail,
    )  # fmt: skip


def read_entry(adapter: Harness, file: Path, ref: int) -> str:
    """Read one entry of a thread in full, without secrets. Raises ThreadNotFound."""
    thread = THREAD_CACHE.read_thread(adapter, file)
    return clean_entry_alone(references.OpenedThread(thread.id, thread), ref)


def clean_entry_alone(opened_thread: references.OpenedThread, ref: int) -> str:
    """Return one entry in full, without secrets. Raises ThreadNotFound."""
    (reading,) = references.read_entries(opened_thread, [ref])
    cleaner = EntryCleaner()
    cleaner.learn_entries([reading.entry], opened_thread.entries)
    return cleaner.clean_text(reading.text)


@order("look", find_agent_host, seconds=READ_SECONDS)
def read_thread_part(fleet: FleetParts, id: int, query: PartQuery) -> ThreadView:
    """Read a part of an agent's thread on its host. Raises HostAway, ThreadNotFound, NotPossible."""
    adapter, file = find_agent_thread(fleet, id)
    thread, cleaner = THREAD_CACHE.read_thread(adapter, file), EntryCleaner()
    part = build_part(thread, query, cleaner)
    return ThreadView(describe_thread(thread, cleaner), part, catalog.describe_copy(adapter, file))


@order("look", find_agent_host, seconds=READ_SECONDS)
def read_thread_entry(fleet: FleetParts, id: int, entry: int) -> str:
    """Read one entry of an agent's thread in full on its host. Raises as `read_thread_part`."""
    text = read_entry(*find_agent_thread(fleet, id), entry)
    if len(text) > MOST_ENTRY_CHARACTERS:
        left = len(text) - MOST_ENTRY_CHARACTERS
        text = f"{text[:MOST_ENTRY_CHARACTERS]}\n… {left:,} more characters: read it on its host."
    return text


def find_agent_thread(fleet: FleetParts, agent_id: int) -> tuple[Harness, Path]:
    """Find the thread of an agent of this host. Raises AgentNotFound, NotPossible, ThreadNotFound."""
    agent = queries.load_agent(fleet.database, agent_id)
    if agent.host != fleet.host:
        raise NotPossible(f"Agent {agent.id} is no agent of this host.")
    return find_session_thread(agent)


def find_session_thread(agent: FleetAgent) -> tuple[Harness, Path]:
    """Find the thread of an agent among the files of this host. Raises NotPossible, ThreadNotFound."""
    check_session(agent)
    return find_thread_file(agent.harness, agent.session, agent.thread)


def check_session(agent: FleetAgent) -> None:
    """Raise NotPossible where an agent has no thread yet."""
    if not agent.session:
        raise NotPossible(
            f"The thread of agent {agent.id} is not known yet: its session has not begun."
        )
