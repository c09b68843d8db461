"""tasuki hands a coding agent's work from one thread to a fresh one.

    from tasuki import prepare_handoff, start_successor

    prepared = prepare_handoff("@1", "cover the parser with tests")
    print(prepared.brief)
    start_successor(prepared)

These names are the public API; every other module may change without notice, but for
`tasuki_testing` and `tasuki.harness.protocol`, which adapters of other harnesses use. They load
when they are used, since every start of the command passes through here.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:  # Checkers take it for true; `typing` would be loaded for nothing.
    from tasuki.api import (
        Entry,
        Goal,
        Handoff,
        PreparedHandoff,
        TasukiError,
        Thread,
        ThreadHead,
        check_goal,
        find_threads,
        load_handoff,
        prepare_handoff,
        read_thread,
        redact,
        start_successor,
    )

__all__ = [
    "Entry",
    "Goal",
    "Handoff",
    "PreparedHandoff",
    "TasukiError",
    "Thread",
    "ThreadHead",
    "__version__",
    "check_goal",
    "find_threads",
    "load_handoff",
    "prepare_handoff",
    "read_thread",
    "redact",
    "start_successor",
]

__version__ = "0.2.0"


def __getattr__(name: str) -> object:
    """Load a public name when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tasuki import api

    value: object = getattr(api, name)
    globals()[name] = value
    return value
