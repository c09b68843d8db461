"""The folder of tasuki's data is the one that platformdirs names, also where that is not imported."""

import itertools
import os
from pathlib import Path

import pytest
from platformdirs import user_data_path

from tasuki.errors import HomeUnknown
from tasuki.files import find_home_folder, get_data_folder

BASES = (None, "", "rel/d", "~/d", "~", "./", "$HOME/d", " /d", "/d", "/d/../e", "//d")
HOMES = ("/tmp/h", "/tmp/h/", "", "rel", None)


@pytest.mark.parametrize(("base", "home"), list(itertools.product(BASES, HOMES)))
def test_it_is_that_of_platformdirs(
    base: str | None, home: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For every kind of value of XDG_DATA_HOME and HOME."""
    monkeypatch.delenv("TASUKI_DATA", raising=False)
    for name, value in (("XDG_DATA_HOME", base), ("HOME", home)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    try:
        if not os.path.isabs(base or ""):
            find_home_folder()
        expected: Path | None = Path(os.path.abspath(user_data_path("tasuki")))
    except HomeUnknown:
        expected = None
    if expected is None:
        with pytest.raises(HomeUnknown):
            get_data_folder()
    else:
        assert get_data_folder() == expected
