"""The input of a contract, and the list of all contracts."""

from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from tasuki.harness.protocol import Harness, ThreadFile
from tasuki.model import Thread
from tasuki.testing.forms import Form, JsonLines


class Trial(Struct):
    """The input of a contract."""

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

    def read_head(self, path: Path) -> bytes:
        """Return the first 8 KiB of the file that holds a thread."""
        with self.form.file(path).open("rb") as file:
            return file.read(8192)

    def write_copy(self, units: Sequence[bytes], original: Path) -> Path:
        """Write a thread of other units under the same name."""
        path = self._create_place(original)
        self.form.write(units, path)
        return path

    def write_raw(self, content: bytes, original: Path) -> Path:
        """Write a thread whose file contains these bytes, under the same name."""
        path = self._create_place(original)
        self.form.file(path).write_bytes(content)
        return path

    def _create_place(self, original: Path) -> Path:
        folder = self.folder / f"copy-{sum(1 for _ in self.folder.iterdir())}"
        folder.mkdir()
        return folder / original.relative_to(self.form.file(original).parent)

    def build_thread_file(self, path: Path) -> ThreadFile:
        stat = self.form.file(path).stat()
        return ThreadFile(path=path, modified=stat.st_mtime, bytes=stat.st_size)


Contract = Callable[[Trial], None]
CONTRACTS: dict[int, Contract] = {}
"""All contracts by number; a number is never used again."""


def register_contract(number: int) -> Callable[[Contract], Contract]:
    """Register a function as a contract."""

    def register(function: Contract) -> Contract:
        CONTRACTS[number] = function
        return function

    return register
