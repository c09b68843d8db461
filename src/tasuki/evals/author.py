"""Who writes the briefs that are measured, so that figures can be compared."""

from msgspec.structs import replace

from tasuki.config import Loaded, Settings

_OWN = ("author", "agent_format", "author_seconds", "strict", "use_current_model", "model",
        "model_window", "providers")  # fmt: skip
"""Settings that are the user's own here too; all others have their defaults, so figures compare."""


def settings(usual: Loaded, budget: int) -> Loaded:
    """The settings to measure with: the user's choice of author and model, and defaults."""
    own = {name: getattr(usual.settings, name) for name in _OWN}
    return replace(usual, settings=Settings(**own, budget=budget))
