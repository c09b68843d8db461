"""The tree of lines in a Claude Code thread, and the files next to it."""

from bisect import bisect_right
from pathlib import Path

from tasuki.model import Sidechain


class ClaudeTree:
    """The parents of lines, stored compactly.

    Nodes are numbered in the order of their lines, and nearly all follow the one before. So
    besides the uuids only the parents of the others are kept. Parallel calls may be written
    before their parents; a line whose parent never turns up follows the line before it.
    """

    def __init__(self) -> None:
        self.uuids: list[str] = []
        self.jumps: dict[int, str] = {}
        """Nodes that may not follow the one before, and their parents."""

    def add_line(self, uuid: str, parent: str | None) -> None:
        """Add a line that was read."""
        uuids = self.uuids
        if parent and not (uuids and uuids[-1] == parent):
            self.jumps[len(uuids)] = parent
        uuids.append(uuid)

    def find_branch(self) -> bytearray:
        """Return which nodes lead to the last one, as flags."""
        parents = self._find_parents()
        begins = sorted(parents)
        active = bytearray(len(self.uuids))
        node = len(self.uuids) - 1
        while node >= 0 and not active[node]:
            run = bisect_right(begins, node) - 1
            first = begins[run] if run >= 0 else 0
            active[first : node + 1] = b"\1" * (node + 1 - first)
            node = parents[first] if run >= 0 else -1
        return active

    def _find_parents(self) -> dict[int, int]:
        """Find the parents of the nodes that do not follow the one before."""
        jumps, index = self.jumps, dict[str, int]()
        wanted = set(jumps.values())
        parents: dict[int, int] = {}
        relevant = [(n, uuid) for n, uuid in enumerate(self.uuids) if n in jumps or uuid in wanted]
        for node, uuid in relevant:
            if node in jumps and (parent := index.get(jumps[node])) is not None:
                parents[node] = parent
            index[uuid] = node
        for node in jumps.keys() - parents.keys():
            parents[node] = index.get(jumps[node], node - 1)
        return parents


def list_sidechains(path: Path) -> tuple[Sidechain, ...]:
    """List the records of sub-agents of a thread; empty ones and warm-ups are skipped."""
    chains = []
    for file in sorted((path.parent / path.stem / "subagents").glob("agent-*.jsonl")):
        if file.stat().st_size:
            chains.append(Sidechain(id=file.stem.removeprefix("agent-"), path=str(file)))
    return tuple(chains)
