"""Regular expressions, compiled once for an installation and not at each start.

Python keeps compiled modules in `__pycache__`, but no compiled patterns: some four hundred of
them would cost a command 60 ms at each start. So they lie in a file a package there, under the rules of
Python's own: only who can change the code can change it, `PYTHONDONTWRITEBYTECODE` writes none, and
where it cannot be read or written, or another Python wrote it, patterns are compiled as usual.

Only patterns that are fixed belong here; one with words of a user is compiled by `re`.
"""

import atexit
import marshal
import os
import re
import sys
import zlib
from array import array
from typing import Any, TypeVar

AnyText = TypeVar("AnyText", str, bytes)

STORE = "store"
"""Begins the names of the modules in the place of whose compiled files the patterns are kept."""
_MOST = 1_000
"""Patterns in the file from which on it is begun anew: those of earlier versions are in it."""


class PatternCache:
    """Compiled patterns in one file, by their text and flags.

    `path` is empty where none can be kept. What is missing is compiled, and `save` adds it.
    """

    def __init__(self, path: str, *, is_written: bool = True) -> None:
        self.path = path
        self.is_written = is_written
        self._known = self._load()
        self._is_changed = False

    def compile(self, pattern: AnyText, flags: int = 0) -> re.Pattern[AnyText]:
        """Return the compiled pattern, as `re.compile` does."""
        known = self._known.get((pattern.__class__ is str, int(flags), pattern))
        if known is not None:
            try:
                return _build_pattern(pattern, known)
            except (TypeError, ValueError, RuntimeError, OverflowError):
                pass  # Not what this Python understands: it is compiled anew.
        compiled = re.compile(pattern, flags)
        if (
            self.path
            and self.is_written
            and (parts := _compile_parts(pattern, int(flags), compiled))
        ):
            self._known[pattern.__class__ is str, int(flags), pattern] = parts
            self._is_changed = True
        return compiled

    def save(self) -> None:
        """Write the file if a pattern was missing in it: whole or not at all, and no word if it fails."""
        if not self._is_changed or not self.path:
            return
        self._is_changed = False
        temporary = f"{self.path}.{os.getpid()}"
        try:
            with open(temporary, "xb") as file:
                content = marshal.dumps((_PYTHON, self._known))
                file.write(zlib.crc32(content).to_bytes(4, "big") + content)
            os.replace(temporary, self.path)
        except (OSError, ValueError, KeyboardInterrupt, SystemExit):  # The program ends anyway.
            try:
                os.unlink(temporary)
            except OSError:
                pass

    def _load(self) -> dict[tuple[bool, int, str | bytes], Any]:
        try:
            with open(self.path, "rb") as file:
                checksum, content = file.read(4), file.read()
            if zlib.crc32(content).to_bytes(4, "big") != checksum:
                return {}  # A damaged program could do anything.
            python, known = marshal.loads(content)  # noqa: S302 - as safe as the modules beside it
        except (OSError, ValueError, EOFError, TypeError):
            return {}
        is_ours = python == _PYTHON and isinstance(known, dict) and len(known) < _MOST
        return known if is_ours else {}


def _build_pattern(pattern: Any, parts: Any) -> re.Pattern[Any]:
    flags, code, groups, names, order = parts
    numbers = array("I")
    numbers.frombytes(code)
    return _sre.compile(pattern, flags, numbers.tolist(), groups, names, order)  # type: ignore[no-any-return]


def _compile_parts(pattern: str | bytes, flags: int, compiled: re.Pattern[Any]) -> Any:
    """Return what `_sre.compile` needs to build a pattern; None where this Python does it otherwise."""
    try:
        from re import _compiler, _parser  # type: ignore[attr-defined]

        parsed = _parser.parse(pattern, flags)
        code = array("I", _compiler._code(parsed, flags)).tobytes()
        names = dict(parsed.state.groupdict)
        order: list[str | None] = [None] * parsed.state.groups
        for name, index in names.items():
            order[index] = name
        parts = (compiled.flags, code, parsed.state.groups - 1, names, tuple(order))
        return parts if _build_pattern(pattern, parts) == compiled else None
    except Exception:  # The inside of `re` may change with any version of Python.
        return None


def _find_path(package: str) -> str:
    cached = __spec__.cached if __spec__ is not None else None
    folder, name = os.path.split(cached or "")
    file = name.replace("__init__", f"{STORE}-{package}", 1)
    return os.path.join(folder, file) if folder and _PYTHON else ""


try:
    import _sre  # type: ignore[import-not-found]

    _PYTHON: tuple[Any, ...] = (
        sys.version,
        _sre.MAGIC,
        _sre.CODESIZE,
        array("I").itemsize,
        sys.byteorder,
    )
    if _sre.CODESIZE != array("I").itemsize:
        _PYTHON = ()
except (ImportError, AttributeError):
    _PYTHON = ()

_CACHES: dict[str, PatternCache] = {}
"""The patterns of each package: a command loads those of the packages that it uses."""


def compile_pattern(pattern: AnyText, flags: int = 0) -> re.Pattern[AnyText]:
    """Return the compiled pattern of a module, as `re.compile` does."""
    package = str(sys._getframe(1).f_globals.get("__package__"))
    if (cache := _CACHES.get(package)) is None:
        cache = PatternCache(_find_path(package), is_written=not sys.dont_write_bytecode)
        _CACHES[package] = cache
        atexit.register(cache.save)
    return cache.compile(pattern, flags)
