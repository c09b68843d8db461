"""Ordinary work between the things that matter: reading, searching, editing, passing tests."""

from dataclasses import dataclass, field
from random import Random

from planted.script import Script
from planted.talk import ENGLISH, Talk


@dataclass
class Filler:
    """Work of one project; the same at every run.

    `chatter` is said by the agent in order, each sentence once; `symbol` makes a function's name.
    """

    script: Script
    files: tuple[str, ...]
    words: tuple[str, ...]
    code: tuple[str, ...]
    tests: tuple[str, str]
    chatter: list[str]
    log: str = "INFO  {word} {other} handled in {n} ms"
    talk: Talk = ENGLISH
    symbol: str = "{word}_{other}"
    _unsaid: dict[tuple[str, ...], list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = Random(7 + self.script.variant)

    def _fill(self, line: str) -> str:
        word, other, third = self.random.sample(self.words, 3)
        return line.format(
            word=word,
            other=other,
            fn=self.symbol.format(word=word, other=other),
            fn2=self.symbol.format(word=third, other=word),
            file=self.random.choice(self.files),
            n=self.random.randint(2, 97),
        )

    def _say(self, sentences: tuple[str, ...]) -> str:
        """One of the sentences; none comes again before all of them were said."""
        left = self._unsaid.get(sentences) or self.random.sample(sentences, len(sentences))
        self._unsaid[sentences] = left[1:]
        return self._fill(left[0])

    def source(self, lines: int) -> str:
        """Lines that look like the project's code."""
        return "\n".join(self._fill(self.random.choice(self.code)) for _ in range(lines))

    def pasted(self, lines: int) -> str:
        """Lines of a log."""
        return "\n".join(
            f"2026-01-0{1 + i % 8} 0{i % 9}:{10 + i % 49}:07 {self._fill(self.log)}"
            for i in range(lines)
        )

    def work(self, steps: int, exchanges: int = 3) -> None:
        """Tool calls with a sentence before some of them, then talk about small things."""
        self._steps(steps // 3)
        for _ in range(exchanges):
            self.random.choices((self._answer, self._task, self._calm), (42, 42, 16))[0]()
            if self.random.random() < 0.4:
                self.script.user(self._say(self.talk.thanks))

    def _steps(self, steps: int) -> None:
        for _ in range(steps):
            if self.chatter and self.random.random() < 0.4:
                self.script.agent(self.chatter.pop(0))
            elif self.random.random() < 0.5:
                self.script.agent(self._say(self.talk.notes))
            self.random.choices(
                (self._read, self._search, self._edit, self._test, self._look), (35, 25, 20, 8, 12)
            )[0]()

    def _asked(self, sentences: tuple[str, ...]) -> str:
        asides = [self._say(self.talk.asides) for _ in range(self.random.choice((0, 1, 1, 2)))]
        said = [self._say(sentences), *asides]
        ended = [s if s[-1] in ".?!" else f"{s}," for s in said]
        return " ".join(ended).removesuffix(",")

    def _answer(self) -> None:
        self.script.user(self._asked(self.talk.questions))
        self._steps(1)
        count = self.random.randint(6, 14)
        said = [self._say(self.talk.explained) for _ in range(count)]
        self.script.agent(" ".join(said[:4]) + "\n\n" + " ".join(said[4:]))

    def _task(self) -> None:
        self.script.user(self._asked(self.talk.tasks))
        self._steps(self.random.randint(1, 2))
        bullets = "\n".join(
            f"- {self._say(self.talk.bullets)}" for _ in range(self.random.randint(3, 6))
        )
        closing = " ".join(self._say(self.talk.explained) for _ in range(self.random.randint(2, 5)))
        self.script.agent(f"{self._say(self.talk.reported)}\n\n{bullets}\n\n{closing}")

    def _calm(self) -> None:
        log = self.pasted(self.random.randint(12, 30))
        self.script.user(f"{self._say(self.talk.pastes)}\n\n{log}")
        self.script.agent(f"{self._say(self.talk.calmed)} {self._say(self.talk.explained)}")

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
