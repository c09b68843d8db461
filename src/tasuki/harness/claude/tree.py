"""The tree of lines in a Claude Code thread."""

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from zlib import crc32


def hash_id(id: str | None) -> int:
    """Return a number of 63 bits for an id, the same in every process; 0 for none."""
    if not id:
        return 0
    data = id.encode("utf-8", "surrogatepass")
    half = len(data) >> 1
    return crc32(data[:half]) << 31 ^ crc32(data[half:]) or 1


class ClaudeTree:
    """The parents of lines, stored compactly.

    Nodes are numbered in the order of their lines, and nearly all follow the one before. So
    besides the uuids only the parents of the others are kept. Parallel calls may be written
    before their parents; a line whose parent is not read, such as progress, or never turns up
    follows the line before it. Of each uuid a number is kept: a million texts would take a tenth of a gigabyte.
    """

    def __init__(self) -> None:
        self.uuids = array("q")
        self.last = ""
        """The uuid of the last line."""
        self.jumps: dict[int, int] = {}
        """Nodes that may not follow the one before, and their parents."""
        self.prompts: list[tuple[int, int]] = []
        """Nodes of what the user asked for, each with its parent's hash."""
        self._known, self._counted = set[int](), 0

    def follows(self, parent: str | None) -> bool:
        """Tell whether a parent is the last line."""
        return bool(parent and parent == self.last)

    def add_line(self, uuid: str, parent: str | None) -> None:
        """Add a line that was read."""
        if parent and parent != self.last:
            self.jumps[len(self.uuids)] = hash_id(parent)
        self.uuids.append(hash_id(uuid))
        self.last = uuid

    def add_prompt(self) -> None:
        """Note that the last line is what the user asked for."""
        node = len(self.uuids) - 1
        before = self.uuids[node - 1] if node > 0 else 0
        self.prompts.append((node, self.jumps.get(node, before)))

    def lacks_beginning(self) -> bool:
        """Return whether the first line follows one that is not in the file."""
        return 0 in self.jumps and self.jumps[0] not in set(self.uuids)

    def is_repeated(self, uuid: str) -> bool:
        """Tell whether a line was read before: Claude Code writes some again at a compaction."""
        if self._counted < len(self.uuids):
            self._known.update(self.uuids[self._counted :])
            self._counted = len(self.uuids)
        return hash_id(uuid) in self._known

    def find_branch(self) -> bytearray:
        """Return as flags which nodes are not on a branch that the user left.

        A branch is left where a later prompt has the same parent as the one that begins it.
        """
        parents = self._find_parents()
        siblings: dict[int, list[int]] = {}
        for node, parent in self.prompts:
            siblings.setdefault(parent, []).append(node)
        forks = [nodes for nodes in siblings.values() if len(nodes) > 1]
        active = bytearray(b"\1" * len(self.uuids))
        if not forks:
            return active
        begins = sorted({0, *parents, *(node for nodes in forks for node in nodes)})
        newest = set(self._walk_up(len(self.uuids) - 1, begins, parents))
        # Not left is the prompt that led to the last line, else the last one.
        chosen = [next((node for node in nodes if node in newest), nodes[-1]) for nodes in forks]
        is_left = {n: True for nodes in forks for n in nodes if n not in chosen}
        for first, after in zip(begins, [*begins[1:], len(self.uuids)], strict=True):
            path = []
            for node in self._walk_up(first, begins, parents):
                path.append(node)
                if node in is_left:
                    break
            is_left.update(dict.fromkeys(path, is_left.get(path[-1], False)))
            if is_left[first]:
                active[first:after] = bytes(after - first)
        return active

    def _walk_up(self, node: int, begins: list[int], parents: dict[int, int]) -> Iterator[int]:
        """Yield where each run of lines begins that leads to a node, the nearest first."""
        seen: set[int] = set()
        while node >= 0:
            node = begins[bisect_right(begins, node) - 1]
            if node in seen:
                return
            seen.add(node)
            yield node
            node = parents.get(node, node - 1)

    def _find_parents(self) -> dict[int, int]:
        """Find the parents of the nodes that do not follow the one before."""
        jumps, index = self.jumps, dict[int, int]()
        if not jumps:
            return {}
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
