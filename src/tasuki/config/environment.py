"""Variables that look like tasuki's, and are none: mostly a setting that was mistyped."""

import os
from collections.abc import Iterator

from tasuki.config.settings import Settings

PREFIX = "TASUKI_"
OTHERS = frozenset({
    "DATA", "CONFIG", "DATABASE_URL", "AGENT_TOKEN", "INSTALLED", "INSIDE", "PROGRESS", "TRACEBACK",
    "CACHE", "CORPORA", "CORPUS", "E2E", "ARTEFACTS", "WRITE_GOLDEN",
})  # fmt: skip
"""Variables that are no settings: the program's own, and those of its scripts and tests."""


def list_unknown_variables() -> Iterator[tuple[str, str]]:
    """Yield each variable that tasuki does not know, and a sentence about it."""
    import difflib

    settings = [name.upper() for name in Settings.__struct_fields__]
    for variable in sorted(os.environ):
        name = variable.removeprefix(PREFIX)
        if name != variable and name not in OTHERS and name not in settings:
            near = difflib.get_close_matches(name, (*settings, "DATA", "CONFIG"), n=1, cutoff=0.65)
            hint = f" Did you mean {PREFIX}{near[0]}?" if near else " Settings: tasuki config"
            yield (
                variable,
                f"{variable} is set in the environment, but tasuki does not know it.{hint}",
            )
