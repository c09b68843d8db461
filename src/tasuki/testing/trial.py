"""What a contract is tried on, and the list of all contracts."""

from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from tasuki.harness.protocol import Harness, ThreadFile
from tasuki.model import Thread
from tasuki.testing.forms import Form, JsonLines


class Trial(Struct):
    """What a contract is tried on."""

    harness: Harness
    samples: Sequence[Path]
    """Real thread files of the harness."""
    story: Path
    """The thread of `tasuki.testing.story`, in the harness's format."""
    folder: Path
    """An empty folder to work in."""
    form: Form = JsonLines()
    """What the files are made of."""

    def read(self, path: Path) -> Thread:
        return self.harness.read(path)

    def first(self, path: Path) -> bytes:
        """The first 8 KiB of the file that holds a thread."""
        with self.form.file(path).open("rb") as file:
            return file.read(8192)

    def copy(self, units: Sequence[bytes], like: Path) -> Path:
        """A thread of other units under the same name."""
        path = self._place(like)
        self.form.write(units, path)
        return path

    def raw(self, content: bytes, like: Path) -> Path:
        """A thread whose file holds these bytes, under the same name."""
        path = self._place(like)
        self.form.file(path).write_bytes(content)
        return path

    def _place(self, like: Path) -> Path:
        folder = self.folder / f"copy-{sum(1 for _ in self.folder.iterdir())}"
        folder.mkdir()
        return folder / like.relative_to(self.form.file(like).parent)

    def file(self, path: Path) -> ThreadFile:
        stat = self.form.file(path).stat()
        return ThreadFile(path=path, modified=stat.st_mtime, bytes=stat.st_size)


Contract = Callable[[Trial], None]
CONTRACTS: dict[int, Contract] = {}
"""All contracts by number; numbers are never given anew."""


def contract(number: int) -> Callable[[Contract], Contract]:
    """Put a function among the contracts."""

    def put(function: Contract) -> Contract:
        CONTRACTS[number] = function
        return function

    return put
