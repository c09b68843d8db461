"""How much each extra of tasuki takes on disk, in an environment of its own.

    .venv/bin/python bench/extras.py

Prints a line of Markdown for each: the extra, and the megabytes that it adds to tasuki alone. Packages come from the
registry that pip is set to; a few minutes, 400 MB in a folder that is removed.
"""

import argparse
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UV = Path(sys.executable).with_name("uv")


def measure(extra: str, folder: Path) -> float:
    """Install tasuki with an extra into a new environment; its megabytes (10^6 bytes)."""
    place = folder / (extra or "alone")
    subprocess.run([UV, "venv", "-q", place, "--python", sys.executable], check=True)
    what = f"{ROOT}[{extra}]" if extra else str(ROOT)
    python = str(place / "bin" / "python")
    subprocess.run(
        [UV, "pip", "install", "-q", "--cache-dir", folder / "cache", "--python", python, what],
        check=True,
    )
    sizes = {(s.st_dev, s.st_ino): s.st_size for s in map(Path.lstat, place.rglob("*"))}
    return sum(sizes.values()) / 1e6


def main() -> None:
    """Measure tasuki alone, each extra, and all."""
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    with tempfile.TemporaryDirectory() as name:
        alone = measure("", Path(name))
        print(f"| tasuki alone | {alone:.0f} |")
        for extra in project["optional-dependencies"]:
            print(f"| `{extra}` | +{measure(extra, Path(name)) - alone:.0f} |", flush=True)


if __name__ == "__main__":
    main()
