"""Tells open pages which hosts went away or came back: no line of the log says that.

Signs of life are no news, so the hosts are looked at every few seconds while a page is open; where
the fleet has one host, on SQLite, never.
"""

from tasuki.fleet.service import Fleet
from tasuki.fleet.store import queries
from tasuki.web.page_news import EVERYTHING, PageStreams
from tasuki.web.views.hosts import index_hosts, list_fleet_hosts

LOOK_SECONDS = 2.0
MOST_AGENTS = 500
"""Agents of a host that went away whose pages are told."""


class HostNews:
    """Compares the hosts with those of its last look, and passes on what changed."""

    def __init__(self, fleet: Fleet, pages: PageStreams) -> None:
        self.fleet = fleet
        self.pages = pages

    def find_news(self) -> set[str]:
        """Find the topics that changed since the last look.

        The first look is that of the first page that is opened; one that ends after the last page
        was closed finds nothing.
        """
        before = self.pages.known_hosts
        now = index_hosts(list_fleet_hosts(self.fleet.database))
        if not self.pages.keep_hosts(before, now) or before is None:
            return set()
        if set(before) != set(now):
            return {EVERYTHING}
        topics = set()
        for id, host in now.items():
            if before[id].news_key != host.news_key:
                topics |= {"hosts", "agents"}
            if (before[id].label, before[id].shown) != (host.label, host.shown):
                living = queries.list_agents(
                    self.fleet.database, ended=False, host=id, limit=MOST_AGENTS
                )
                topics |= {f"agent:{agent.id}" for agent in living}
        return topics
