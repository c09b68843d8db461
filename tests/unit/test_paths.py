"""Paths of a thread have one form, however a program spells them."""

import pytest

from tasuki.paths import is_outside, make_relative, normalize_path

SHOP = "C:/Users/dev/shop"
CAFE = "cafe\N{COMBINING ACUTE ACCENT}"


@pytest.mark.parametrize(
    "path",
    [
        r"C:\Users\dev\shop\src\Cart.cs", "c:/Users/dev/shop/src/Cart.cs", "/c/Users/dev/shop/src/Cart.cs",
        "/mnt/c/Users/dev/shop/src/Cart.cs", r"\\?\C:\Users\dev\shop\src\Cart.cs", r"src\Cart.cs", "./src/Cart.cs",
        "file:///c%3A/Users/dev/shop/src/Cart.cs", r"c:\users\DEV\Shop\src\Cart.cs", r"C:\Users\dev\shop\.\x\..\src\Cart.cs",
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "folder", [SHOP, r"C:\Users\dev\shop", "/c/Users/dev/shop", "/mnt/C/Users/dev/shop/"]
)
def test_each_spelling_is_relative_to_each(path: str, folder: str) -> None:
    """A file below the folder is the same relative path in every spelling of both."""
    assert make_relative(path, folder) == "src/Cart.cs"


@pytest.mark.parametrize(
    ("path", "folder", "shown"),
    [
        (r"D:\notes\a.txt", r"C:\Users\dev\shop", "d:/notes/a.txt"),
        (r"D:\notes\a.txt", "/mnt/c/shop", "/mnt/d/notes/a.txt"),
        (r"D:\notes\a.txt", "/c/shop", "/d/notes/a.txt"),
        ("C:/shopping/a.txt", "C:/shop", "c:/shopping/a.txt"),
        (r"\\server\share\a.txt", r"C:\shop", "//server/share/a.txt"),
        ("/mnt/c/a.txt", "/home/dev/shop", "/mnt/c/a.txt"),
        ("/srv/a.txt", "/home/dev/shop", "/srv/a.txt"),
        ("../a.txt", "/home/dev/shop", "../a.txt"),
    ],
)  # fmt: skip
def test_what_is_outside_is_spelled_as_the_folder_is(path: str, folder: str, shown: str) -> None:
    """A path outside of the folder can be used where the thread ran."""
    assert make_relative(path, folder) == shown
    assert is_outside(shown)


def test_a_backslash_of_another_system_is_a_part_of_a_name() -> None:
    """Where the folder is no folder of Windows, nothing is replaced."""
    assert make_relative(r"src/a\ b.py", "/home/dev/shop") == r"src/a\ b.py"


def test_long_names_and_letters() -> None:
    """Names of shares and of WSL lose their marks, letters are composed."""
    assert normalize_path(r"\\?\UNC\server\share\a.txt") == "//server/share/a.txt"
    assert normalize_path(r"\\wsl.localhost\Ubuntu\home\dev\a.txt") == "/home/dev/a.txt"
    assert make_relative(f"/home/{CAFE}/a.py", "/home/café") == "a.py"
