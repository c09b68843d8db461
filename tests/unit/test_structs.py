"""Structs in several threads: the process must not crash when two begin with the same one."""

import subprocess
import sys

PROGRAM = """
import sys, threading
import msgspec
from tasuki.interpreter import prepare_structs

sys.setswitchinterval(1e-6)
names = [f"f{n}" for n in range(12)]
numbers = dict[str, list[int]] | None
made = []
for n in range(400):
    inner = msgspec.defstruct(f"Inner{n}", [(name, numbers, None) for name in names])
    made.append(msgspec.defstruct(f"Outer{n}", [(name, inner | None, None) for name in names]))
if sys.argv[1:]:
    assert prepare_structs() >= 800
data = {name: {other: {"a": [1]} for other in names} for name in names}
for outer in made:
    together = threading.Barrier(4)
    def convert():
        together.wait()
        msgspec.convert(data, outer)
    threads = [threading.Thread(target=convert) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


def test_threads_convert_to_the_same_struct_at_once() -> None:
    """Structs that are prepared can be used in every thread from the first moment on."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, "prepare"], timeout=120, check=False)

    assert done.returncode == 0
