"""What each part of redaction is worth: every figure with that part switched off alone.

A part is a file of `tasuki.draft.redact`, or one function in it. A function that finds, judges or reads is
switched off by its type: it finds nothing, says no, or returns the text as it got it.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from secrets_generator import leaked
from secrets_lookalikes import texts
from secrets_sets import SETS

import tasuki.draft.redact
from tasuki.draft.redact.redactor import redact

FALSE = "false +"


def nothing(*_: Any, **__: Any) -> Any:
    """No secret is found."""
    return iter(())


def empty(*_: Any, **__: Any) -> Any:
    """No secret is found, as a list."""
    return []


def none(*_: Any, **__: Any) -> Any:
    """There is none."""
    return None


def no(*_: Any, **__: Any) -> Any:
    """It is not so."""
    return False


def unnamed(*_: Any, **__: Any) -> Any:
    """It has no kind."""
    return ""


def first_text(*values: Any, **__: Any) -> Any:
    """The text as it is."""
    return next(value for value in values if isinstance(value, str))


_STUBS: dict[str, Callable[..., Any]] = {
    "Iterator": nothing, "list": empty, "bool": no,
}  # fmt: skip


def list_modules() -> dict[str, ModuleType]:
    """The files of redaction by their names."""
    package = tasuki.draft.redact
    names = [module.name for module in pkgutil.iter_modules(package.__path__)]
    return {name: importlib.import_module(f"{package.__name__}.{name}") for name in names}


def list_functions(module: ModuleType) -> dict[str, FunctionType]:
    """The functions and methods of a file that can be switched off."""
    owners = [module, *(c for _, c in inspect.getmembers(module, inspect.isclass))]
    found = {}
    for owner in owners:
        for name, value in vars(owner).items():
            function = inspect.unwrap(value) if callable(value) else None
            is_here = isinstance(function, FunctionType) and function.__module__ == module.__name__
            if is_here and _choose_stub(function) and not name.startswith("__"):
                found[name if owner is module else f"{owner.__name__}.{name}"] = function
    return found


def _choose_stub(function: FunctionType) -> Callable[..., Any] | None:
    given = function.__annotations__.get("return", "")
    returned = given if isinstance(given, str) else inspect.formatannotation(given)
    returned = returned.replace("tasuki.draft.redact.patterns.", "").removeprefix(
        "collections.abc."
    )
    if returned == "str":
        return unnamed if "kind" in function.__name__ else first_text
    if returned.endswith("| None"):
        return none
    return _STUBS.get(returned.partition("[")[0])


@contextmanager
def switched_off(*functions: FunctionType) -> Iterator[None]:
    """Switch functions off wherever they are used, also in tables."""
    kept = [(function, function.__code__) for function in functions]
    try:
        for function in functions:
            function.__code__ = _choose_stub(function).__code__  # type: ignore[union-attr]
        _forget()
        yield
    finally:
        for function, code in kept:
            function.__code__ = code
        _forget()


def _forget() -> None:
    for module in list_modules().values():
        for value in vars(module).values():
            if hasattr(value, "cache_clear"):
                value.cache_clear()


class Figures(NamedTuple):
    """The share of each set that is caught, and the look-alikes that are altered."""

    recall: Mapping[str, float]
    altered: int

    def compare(self, other: Figures) -> dict[str, str]:
        """What is worse here than there, with both values."""
        worse = {
            name: f"{other.recall[name]:.3f} → {value:.3f}"
            for name, value in self.recall.items()
            if value < other.recall[name]
        }
        if self.altered > other.altered:
            worse[FALSE] = f"{other.altered} → {self.altered}"
        return worse


class Bench:
    """All sets of samples, or every so many of each."""

    def __init__(self, every: int = 1) -> None:
        self.sets = {name: (make()[::every], clean) for name, (make, clean) in SETS.items()}
        self.lookalikes = texts()[::every]

    def measure(self) -> Figures:
        """Measure every set."""
        recall = {
            name: 1 - sum(leaked(s, _clean(clean, s.text)) for s in samples) / len(samples)
            for name, (samples, clean) in self.sets.items()
        }
        altered = sum(_clean(lambda t: redact(t)[0], text) != text for text in self.lookalikes)
        return Figures(recall, altered)


def _clean(clean: Callable[[str], str], text: str) -> str:
    try:
        return clean(text)
    except (StopIteration, RuntimeError, TypeError, ValueError, IndexError, AttributeError):
        return text  # what is switched off was needed


def print_parts(every: int = 1) -> None:
    """Print what is worse without each file, and without each function."""
    bench = Bench(every)
    whole = bench.measure()
    print("everything:", ", ".join(f"{name} {value:.3f}" for name, value in whole.recall.items()))
    print(f"{FALSE}: {whole.altered} of {len(bench.lookalikes)}")
    for name, module in list_modules().items():
        functions = list_functions(module)
        for part, chosen in {"": list(functions.values()), **{n: [f] for n, f in functions.items()}}.items():  # fmt: skip
            with switched_off(*chosen):
                worse = bench.measure().compare(whole)
            label = f"  {part}" if part else f"{name}.py, {len(chosen)} functions"
            print(f"{label:34}", ", ".join(f"{k} {v}" for k, v in worse.items()) or "nothing is worse", flush=True)  # fmt: skip
