"""The tree of lines in a Claude Code thread, and the files next to it."""

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

from tasuki.harness.reading.records import may_be_damaged
from tasuki.model import Sidechain
from tasuki.patterns import compile_pattern

_UUID = rb'"([0-9a-f-]{36})"'
_HEAD_PARENT = compile_pattern(rb'\{"parentUuid": ?(?:' + _UUID + rb"|null)")
_TAIL_UUID = compile_pattern(rb'"uuid": ?' + _UUID)
_PROGRESS = compile_pattern(rb'"type": ?"progress"')
_MAIN = b'","isSidechain":false,'


class ClaudeTree:
    """The parents of lines, stored compactly.

    Nodes are numbered in the order of their lines, and nearly all follow the one before. So
    besides the uuids only the parents of the others are kept. Parallel calls may be written
    before their parents; a line whose parent never turns up follows the line before it. Of each
    uuid the hash of 64 bits is kept: a million texts would take a tenth of a gigabyte.
    """

    def __init__(self) -> None:
        self.uuids = array("q")
        self.jumps: dict[int, int] = {}
        """Nodes that may not follow the one before, and their parents."""
        self.prompts: list[int] = []
        """Nodes of what the user asked for."""
        self._known, self._counted = set[int](), 0

    def follows(self, parent: str | None) -> bool:
        """Tell whether a parent is the last line."""
        return bool(parent and self.uuids and self.uuids[-1] == hash(parent))

    def add_line(self, uuid: str, parent: str | None) -> None:
        """Add a line that was read."""
        if parent and not self.follows(parent):
            self.jumps[len(self.uuids)] = hash(parent)
        self.uuids.append(hash(uuid))

    def read_link_line(self, line: bytes) -> bool:
        """Read a line of which only its place in the tree counts.

        It begins with `{"parentUuid":"<36 characters>"…`.
        """
        start = line.rfind(b'"uuid":"') + 8
        if line[51:73] != _MAIN or start < 8 or line[start + 36 : start + 37] != b'"':
            return False
        if may_be_damaged(line):
            return False
        try:
            self.add_line(line[start : start + 36].decode("ascii"), line[15:51].decode("ascii"))
        except UnicodeDecodeError:
            return False
        return True

    def read_link_ends(self, line: bytes) -> bool:
        """Read the link of a line from both its ends.

        False if they are not where they should be.
        """
        parent = _HEAD_PARENT.match(line)
        start = line.rfind(b'"uuid":')
        uuid = _TAIL_UUID.match(line, start) if start >= 0 else None
        if not parent or not uuid:
            return False
        head = line[:600]
        if b'"isSidechain":true' not in head and b'"isSidechain": true' not in head:
            self.add_line(uuid[1].decode(), parent[1].decode() if parent[1] else None)
        return True

    def lacks_beginning(self) -> bool:
        """Return whether the first line follows one that is not in the file."""
        return 0 in self.jumps and self.jumps[0] not in set(self.uuids)

    def is_repeated(self, uuid: str) -> bool:
        """Tell whether a line was read before: Claude Code writes some again at a compaction."""
        if self._counted < len(self.uuids):
            self._known, self._counted = set(self.uuids), len(self.uuids)
        return hash(uuid) in self._known

    def find_branch(self) -> bytearray:
        """Return as flags which nodes are not on a branch that the user left.

        A branch is left where a later prompt has the same parent as the one that begins it.
        """
        parents = self._find_parents()
        siblings: dict[int, list[int]] = {}
        for node in self.prompts:
            siblings.setdefault(parents.get(node, node - 1), []).append(node)
        forks = [nodes for nodes in siblings.values() if len(nodes) > 1]
        active = bytearray(b"\1" * len(self.uuids))
        if not forks:
            return active
        begins = sorted({0, *parents, *(node for nodes in forks for node in nodes)})
        newest = set(self._walk_up(len(self.uuids) - 1, begins, parents))
        left = {n for nodes in forks for n in nodes if n != _choose_sibling(nodes, newest)}
        is_left = dict.fromkeys(left, True)
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


def _choose_sibling(nodes: list[int], newest: set[int]) -> int:
    """Return the prompt that was not left: the one that led to the last line, else the last."""
    return next((node for node in nodes if node in newest), nodes[-1])


def has_only_link(line: bytes) -> bool:
    """Tell whether only the link of a tree line counts.

    That is so for progress, and for a reply that only thinks.
    """
    head = line[:600]
    if b'"progress"' in head:
        return bool(_PROGRESS.search(head))
    if b'"thinking","thinking"' not in head and b'"thinking", "thinking"' not in head:
        return False
    return b'"text"' not in line and b'"tool_use"' not in line


def list_sidechains(path: Path) -> tuple[Sidechain, ...]:
    """List the records of sub-agents of a thread; empty ones and warm-ups are skipped."""
    chains = []
    for file in sorted((path.parent / path.stem / "subagents").glob("agent-*.jsonl")):
        if file.stat().st_size:
            chains.append(Sidechain(id=file.stem.removeprefix("agent-"), path=str(file)))
    return tuple(chains)
