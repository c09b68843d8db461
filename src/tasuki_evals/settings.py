"""The author of the briefs that are measured, chosen so that figures can be compared."""

from msgspec.structs import replace

from tasuki.config.settings import LoadedSettings, Settings

_USER_SETTINGS = ("author", "agent_format", "author_seconds", "strict", "use_current_model", "model",
        "model_window", "providers")  # fmt: skip
"""Settings taken from the user; all others have their defaults, so figures can be compared."""


def build_settings(loaded: LoadedSettings, budget: int) -> LoadedSettings:
    """Return the settings to measure with: the user's author and model, and defaults."""
    own = {name: getattr(loaded.settings, name) for name in _USER_SETTINGS}
    return replace(loaded, settings=Settings(**own, budget=budget))
