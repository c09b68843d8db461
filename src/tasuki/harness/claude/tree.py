"""Who follows whom in a thread of Claude Code, and what lies beside it."""

from bisect import bisect_right
from pathlib import Path

from tasuki.model import Sidechain


class Tree:
    """Nodes are numbered in the order of their lines, and nearly all follow the one before.

    So besides the uuids only the parents of those are kept that do not. Parallel calls may be
    written before their parents; a line whose parent never turns up follows the line before it.
    """

    def __init__(self) -> None:
        self.uuids: list[str] = []
        self.jumps: dict[int, str] = {}
        """Nodes that may not follow the one before, and their parents."""

    def add(self, uuid: str, parent: str | None) -> None:
        """A line was read."""
        uuids = self.uuids
        if parent and not (uuids and uuids[-1] == parent):
            self.jumps[len(uuids)] = parent
        uuids.append(uuid)

    def branch(self) -> bytearray:
        """Which nodes lead to the last one, as flags."""
        parents = self._parents()
        begins = sorted(parents)
        active = bytearray(len(self.uuids))
        node = len(self.uuids) - 1
        while node >= 0 and not active[node]:
            run = bisect_right(begins, node) - 1
            first = begins[run] if run >= 0 else 0
            active[first : node + 1] = b"\1" * (node + 1 - first)
            node = parents[first] if run >= 0 else -1
        return active

    def _parents(self) -> dict[int, int]:
        """Parents of the nodes that do not follow the one before."""
        jumps, index = self.jumps, dict[str, int]()
        wanted = set(jumps.values())
        parents: dict[int, int] = {}
        known = [(n, uuid) for n, uuid in enumerate(self.uuids) if n in jumps or uuid in wanted]
        for node, uuid in known:
            if node in jumps and (parent := index.get(jumps[node])) is not None:
                parents[node] = parent
            index[uuid] = node
        for node in jumps.keys() - parents.keys():
            parents[node] = index.get(jumps[node], node - 1)
        return parents


def sidechains(path: Path) -> tuple[Sidechain, ...]:
    """Records of sub-agents beside a thread; empty ones and warm-ups say nothing."""
    found = []
    for file in sorted((path.parent / path.stem / "subagents").glob("agent-*.jsonl")):
        if file.stat().st_size:
            found.append(Sidechain(id=file.stem.removeprefix("agent-"), path=str(file)))
    return tuple(found)
