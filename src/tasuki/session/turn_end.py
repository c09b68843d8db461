"""What goes on after a turn of an agent, in a process of its own that nobody waits for."""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from tasuki.config.settings import Settings, load_settings
from tasuki.errors import TasukiError


def has_work(settings: Settings) -> bool:
    """Tell whether `do_work` has anything to do after a turn."""
    return settings.keep_threads == "all"


def do_work(name: str, path: str) -> None:
    """Do the work after a turn of a thread, which may be done more than once at the same time.

    Nothing is printed or raised. What shall be ready for the next command belongs here.
    """
    os.chdir("/")
    with suppress(OSError):
        os.setsid()
    with suppress(TasukiError):
        settings = load_settings(Path("/"))
        if not path or not has_work(settings):
            return
        from tasuki.threads.kept.policy import run_in_background

        run_in_background(name, path)
        if settings.cache:
            from tasuki.draft.facts.derive import read_facts
            from tasuki.harness.reading.cache import CachedThread
            from tasuki.harness.registry import get_harness

            cached = CachedThread(get_harness(name), Path(path))
            cached.derive("facts", read_facts)
            cached.save()


def start_work(name: str, path: str, settings: Settings) -> None:
    """Start a process that does the work after a turn, where there is any. Nothing is raised."""
    if not path or not has_work(settings):
        return
    words, none = [sys.executable, "-P", "-m", __name__, name, path], subprocess.DEVNULL
    with suppress(OSError, ValueError):
        # Not in the folder of the thread, whose files are not to be imported.
        subprocess.Popen(
            words, cwd="/", stdin=none, stdout=none, stderr=none, start_new_session=True
        )


if __name__ == "__main__":
    do_work(*sys.argv[1:3])
