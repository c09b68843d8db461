"""Results of tools in pi and omp."""

from tasuki.patterns import compile_pattern

_WALL_TIME = compile_pattern(r"\nWall time: [\d.]+ seconds\s*\Z")
_EXITED = compile_pattern(r"(?:\A|\n)Command exited with code (-?\d+)\s*\Z")


def parse_shell_result(text: str, failed: bool) -> tuple[str, int | None]:
    """Parse output without the harness's own last lines, and the exit code in those lines."""
    code = None if failed else 0
    if match := _EXITED.search(text, max(len(text) - 60, 0)):
        text, code = text[: match.start()].rstrip("\n"), int(match[1])
    if match := _WALL_TIME.search(text, max(len(text) - 60, 0)):
        text = text[: match.start()].rstrip("\n")
    return text, code
