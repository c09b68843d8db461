"""Ordinary work between the things that matter: reading, searching, editing, passing tests."""

from dataclasses import dataclass, field
from random import Random

from planted.script import Script


@dataclass
class Filler:
    """Work of one project; the same at every run.

    `chatter` is said by the agent in order, each sentence once.
    """

    script: Script
    files: tuple[str, ...]
    words: tuple[str, ...]
    code: tuple[str, ...]
    tests: tuple[str, str]
    chatter: list[str]
    log: str = "INFO  {word} {other} handled in {n} ms"
    random: Random = field(default_factory=lambda: Random(7))

    def _fill(self, line: str) -> str:
        word, other = self.random.sample(self.words, 2)
        return line.format(word=word, other=other, n=self.random.randint(2, 97))

    def source(self, lines: int) -> str:
        """Lines that look like the project's code."""
        return "\n".join(self._fill(self.random.choice(self.code)) for _ in range(lines))

    def pasted(self, lines: int) -> str:
        """Lines of a log."""
        return "\n".join(
            f"2026-01-0{1 + i % 8} 0{i % 9}:{10 + i % 49}:07 {self._fill(self.log)}"
            for i in range(lines)
        )

    def work(self, steps: int) -> None:
        """Tool calls with, every third or fourth time, a sentence before them."""
        for _ in range(steps):
            if self.chatter and self.random.random() < 0.3:
                self.script.agent(self.chatter.pop(0))
            self.random.choices(
                (self._read, self._search, self._edit, self._test, self._look), (35, 25, 20, 8, 12)
            )[0]()

    def _read(self) -> None:
        self.script.read(self.random.choice(self.files), self.source(self.random.randint(25, 140)))

    def _search(self) -> None:
        word = self.random.choice(self.words)
        found = "\n".join(
            f"{self.random.choice(self.files)}:{self.random.randint(3, 400)}:{self.source(1)}"
            for _ in range(self.random.randint(2, 22))
        )
        self.script.shell(f'rg -n "{word}"', found)

    def _edit(self) -> None:
        path = self.random.choice(self.files)
        self.script.edit(path, self.source(2), self.source(self.random.randint(2, 6)))

    def _test(self) -> None:
        command, output = self.tests
        self.script.shell(command, self._fill(output))

    def _look(self) -> None:
        path = self.random.choice(self.files)
        commands = (
            ("git status --short", f" M {path}"),
            (f"git diff --stat -- {path}", f" {path} | 14 +++++++++-----\n 1 file changed"),
            (f"git log --oneline -5 -- {path}", self._fill("4be71c0 {word}: tidy {other}")),
            (f"ls -la {path.rsplit('/', 1)[0]}", self.source(12)),
            (f"tail -n 60 /tmp/{self.random.choice(self.words)}.log", self.pasted(60)),
        )
        self.script.shell(*self.random.choice(commands))
