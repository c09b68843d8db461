"""Settings for access from outside: what each may be, and what they mean together."""

import subprocess
import sys
from pathlib import Path

import pytest

from tasuki.config import outside
from tasuki.config import settings as config
from tasuki.errors import ConfigInvalid

ALL = {"public_url": "https://fleet.example.com", "proxy": "user:caddy", "proxy_user_header": "Remote-User", "proxy_users": "ann"}  # fmt: skip


@pytest.fixture(autouse=True)
def own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own file lies in the test's folder."""
    path = tmp_path / "user.toml"
    path.touch()
    monkeypatch.setenv("TASUKI_CONFIG", str(path))
    return path


def load(own_file: Path, **values: str) -> config.LoadedSettings:
    """The settings of a file with these values."""
    own_file.write_text("".join(f'{name} = "{value}"\n' for name, value in values.items()))
    return config.load_with_sources(own_file.parent)


def test_all_four_together_are_right(own_file: Path) -> None:
    """They are taken as they are, with nothing to warn of."""
    loaded = load(own_file, **ALL)

    assert {name: getattr(loaded.settings, name) for name in ALL} == ALL
    assert loaded.problems == ()


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("http://fleet.example.com", "must begin with https://: a browser would send its cookie unencrypted"),
        ("HTTP://fleet.example.com", "must begin with https://"),
        ("https://fleet.example.com/tasuki", "must have no path"),
        ("https://fleet.example.com//", "must have no path"),
        ("https://fleet.example.com?", "must have no path"),
        ("https://fleet.example.com#x", "must have no path"),
        ("https://fleet.example.com.", "must have no dot at the end"),
        ("https://localhost", "must have a name of its own"),
        ("https://tasuki.localhost:8443", "must have a name of its own"),
        ("https://127.0.0.1", "must have a name of its own"),
        ("https://192.168.1.7:8443", "must have a name of its own"),
        ("https://[::1]", "must have a name of its own"),
        ("https://0x7f.1", "must have a name of its own"),
        ("https://127.0x1", "must have a name of its own"),
        ("fleet.example.com", "must be an address such as https://fleet.example.com"),
        ("https://", "must be an address"),
        ("https://ann:secret@fleet.example.com", "must be an address"),
        ("https://fleet.example.com:0", "must be an address"),
        ("https://fleet.example.com:70000", "must be an address"),
        ("https://fleet.example.com:x", "must be an address"),
        ("https://fleet .example.com", "must be an address"),
        ("https://flotte.exämple.com", "must be an address"),
        ("https://-x.example.com", "must be an address"),
        ("https://a_b.example.com", "must be an address"),
        ("https://*.example.com", "must be an address"),
        (f"https://{'a' * 64}.com", "must be an address"),
        ("https://[::1", "must be an address"),
        ("ftp://fleet.example.com", "must be an address"),
    ],
)  # fmt: skip
def test_another_public_url_is_refused(own_file: Path, url: str, sentence: str) -> None:
    """The message names the file and the setting, and what to write; never a password."""
    with pytest.raises(ConfigInvalid, match=r"user\.toml: public_url ") as caught:
        load(own_file, public_url=url)

    assert sentence in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("proxy", "sentence"),
    [
        ("127.0.0.1", "must not contain an address of this machine"),
        ("127.8.8.8", "must not contain an address of this machine"),
        ("::1", "must not contain an address of this machine"),
        ("127.0.0.0/8", "must not contain an address of this machine"),
        ("0.0.0.0/0", "must not contain an address of this machine"),
        ("::/0", "must not contain an address of this machine"),
        ("::ffff:127.0.0.1", "must not contain an address of this machine"),
        ("0.0.0.0", "must not contain an address of this machine"),
        ("fe80::7", "must not contain an address of one link"),
        ("fe80::/9", "must not contain an address of one link"),
        ("localhost", "must be user:NAME"),
        ("proxy.example.com", "must be user:NAME"),
        ("10.0.0.7/8", "must be user:NAME"),
        ("10.0.0.7, 10.0.0.8", "must be user:NAME"),
        ("caddy", "must be user:NAME"),
        ("user:", "must name a system user"),
        ("user:a b", "must name a system user"),
        ("user:../x", "must name a system user"),
    ],
)
def test_a_proxy_that_anybody_could_be_is_refused(
    own_file: Path, proxy: str, sentence: str
) -> None:
    """Loopback, every address, a name: the header could come from any program."""
    with pytest.raises(ConfigInvalid, match=r"user\.toml: proxy ") as caught:
        load(own_file, **{**ALL, "proxy": proxy})

    assert sentence in str(caught.value)


@pytest.mark.parametrize("proxy", ["10.0.0.7", "10.1.0.0/16", "fd00::7", "fd7a:115c::/48", "user:www-data", "user:_caddy"])  # fmt: skip
def test_proxies_that_are_taken(own_file: Path, proxy: str) -> None:
    """Another machine, a network of them, a system user."""
    assert load(own_file, **{**ALL, "proxy": proxy}).settings.proxy == proxy


@pytest.mark.parametrize("header", ["Remote_User", "Remote User", "X:", "é", "1x", "x" * 80, "X-A\\nHost"])  # fmt: skip
def test_a_header_is_a_name_of_one(own_file: Path, header: str) -> None:
    """Letters, digits and hyphens: proxies treat an underscore in different ways."""
    with pytest.raises(ConfigInvalid, match="proxy_user_header must be the name of a header"):
        load(own_file, **{**ALL, "proxy_user_header": header})


@pytest.mark.parametrize("header", ["Host", "cookie", "Authorization", "X-Forwarded-For", "Sec-Fetch-Site", "X-Tasuki-Agent"])  # fmt: skip
def test_a_header_of_another_meaning_is_refused(own_file: Path, header: str) -> None:
    """Browsers and proxies send it for something else."""
    with pytest.raises(ConfigInvalid, match="must be a header in which the proxy names the user"):
        load(own_file, **{**ALL, "proxy_user_header": header})


@pytest.mark.parametrize(
    ("missing", "sentence"),
    [
        (["proxy"], "proxy_user_header is set without proxy: the proxy signs nobody in."),
        (["proxy_user_header"], "proxy is set without proxy_user_header:"),
        (["proxy_users"], "proxy is set without proxy_users:"),
        (["proxy", "proxy_user_header"], "proxy_users is set without proxy and proxy_user_header:"),
        (["public_url"], "proxy is set without public_url:"),
    ],
)
def test_some_of_them_mean_nothing(own_file: Path, missing: list[str], sentence: str) -> None:
    """That is no error, and it is said."""
    (problem,) = load(own_file, **{k: v for k, v in ALL.items() if k not in missing}).problems

    assert problem.startswith(sentence)


def test_a_repository_sets_none_of_them(tmp_path: Path) -> None:
    """A stranger's file names no address and no proxy."""
    (tmp_path / ".tasuki.toml").write_text("".join(f'{k} = "{v}"\n' for k, v in ALL.items()))
    loaded = config.load_with_sources(tmp_path)

    assert loaded.settings == config.Settings()
    assert len(loaded.problems) == 4


def test_the_networks_of_this_machine_are_whole() -> None:
    """Every loopback address of both families, mapped ones too."""
    for text in ("127.255.255.255", "::1", "::ffff:10.0.0.1", "::"):
        with pytest.raises(ValueError, match="an address of this machine"):
            outside.parse_proxy(text)


def test_commands_that_set_none_do_not_read_addresses(tmp_path: Path) -> None:
    """The checks are imported only where one of the settings is there."""
    code = "import sys; from pathlib import Path; from tasuki.config import settings; settings.load_settings(Path.cwd()); print('tasuki.config.outside' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)  # fmt: skip

    assert done.stdout == "False\n"
