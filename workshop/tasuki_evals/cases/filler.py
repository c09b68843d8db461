"""Ordinary work of a project, for `filler = N`: reading, searching, small edits, small talk.

It does not change the truth of a case: nothing is checked, committed or left open, no rule
is given, and no line satisfies what the case looks for. The same case gets the same work at
every run.
"""

import posixpath
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

FillerStep = tuple[str, tuple[str, ...]]
"""A method of `ThreadBuilder` and its arguments; each makes one entry."""
TEXTS: Mapping[str, Any] = tomllib.loads(
    Path(__file__).parents[1].joinpath("filler.toml").read_text()
)
"""Words, sentences by what they are for, and lines of code by language."""
WORDS: Sequence[str] = TEXTS["words"].split()
_LONGEST_EPISODE = 8
"""Entries of the longest episode; fewer than that are filled up with single calls."""
MAX_ATTEMPTS = 30
"""How often entries with forbidden text are made again."""


class FillerProject:
    """A project at work: neighbours of some files, written in the same language.

    `avoids` says whether a line contains what the case looks for; no text has such a line.
    """

    def __init__(
        self, name: str, paths: Sequence[str], avoids: Callable[[str], bool] = lambda line: False
    ) -> None:
        self.random = Random(name)  # noqa: S311  the same at every run
        self.avoids = avoids
        known = [p for p in paths if posixpath.splitext(p)[1]] or ["src/main.py"]
        counted = Counter(posixpath.splitext(p)[1] for p in known)
        self.ending = counted.most_common(1)[0][0]
        style = self.ending[1:]
        code: Mapping[str, Sequence[str]] = TEXTS["code"]
        self.code = code[style if style in code else TEXTS["like"].get(style, "other")]
        alike = [p for p in known if p.endswith(self.ending) and not p.startswith(("/", "~"))]
        folders = tuple(dict.fromkeys(map(posixpath.dirname, alike))) or ("src",)
        places = (*folders, *self._list_modules(folders))
        self.files = tuple(self._list_neighbours(places, set(known)))
        self.weights = [1 / (rank + 2) for rank in range(len(self.files))]
        self._unused_sentences: dict[str, list[str]] = {}

    def _list_modules(self, folders: Sequence[str]) -> Iterator[str]:
        """Yield other folders next to those of the case, twice as many."""
        for word in self.random.sample(WORDS, 2 * len(folders)):
            parent = posixpath.dirname(self.random.choice(folders))
            yield posixpath.join(parent, word)

    def _list_neighbours(self, folders: Sequence[str], known_paths: set[str]) -> Iterator[str]:
        stems = {posixpath.splitext(posixpath.basename(p))[0] for p in known_paths}
        for number, word in enumerate(self.random.sample(WORDS, 24)):
            if word not in stems:
                yield posixpath.join(folders[number % len(folders)], f"{word}{self.ending}")

    def generate_work(self, count: int) -> Iterator[FillerStep]:
        """Yield this many entries; questions asked in them are also answered."""
        left = count
        while left > 0:
            doings = self._make_allowed(is_long=left >= _LONGEST_EPISODE)
            left -= len(doings)
            yield from doings

    def _make_allowed(self, *, is_long: bool) -> list[FillerStep]:
        """Return entries without a line to be avoided."""
        for _ in range(MAX_ATTEMPTS):
            doings = self._make_episode() if is_long else [self._make_step()]
            lines = (line for _, texts in doings for text in texts for line in text.split("\n"))
            if not any(map(self.avoids, lines)):
                return doings
        return [("shell", ("pwd", ""))]

    def _make_episode(self) -> list[FillerStep]:
        chosen = self.random.choices(
            (self._make_digging, self._make_question, self._make_task, self._make_paste),
            (40, 28, 26, 6),
        )
        return chosen[0]()

    def _make_digging(self) -> list[FillerStep]:
        steps = [self._make_step() for _ in range(self.random.randint(2, _LONGEST_EPISODE - 4))]
        return [("assistant", (self._choose_sentence("notes"),)), *steps]

    def _make_question(self) -> list[FillerStep]:
        steps = [self._make_step() for _ in range(self.random.randint(1, 3))]
        return [
            ("user", (self._choose_sentence("questions"),)),
            *steps,
            *self._make_answer(self._generate_explanation(2, 6)),
        ]

    def _make_task(self) -> list[FillerStep]:
        steps = [self._make_step() for _ in range(self.random.randint(0, 2))]
        count = self.random.randint(2, 4)
        bullets = "\n".join(f"- {self._choose_sentence('bullets')}" for _ in range(count))
        said = self._choose_sentence("reports")
        report = f"{said}\n\n{bullets}\n\n{self._generate_explanation(1, 3)}"
        return [
            ("user", (self._choose_sentence("tasks"),)), *steps, self._make_edit(),
            *self._make_answer(report),
        ]  # fmt: skip

    def _make_paste(self) -> list[FillerStep]:
        lines = "\n".join(self._fill_line(TEXTS["log"]) for _ in range(self.random.randint(8, 24)))
        asked = f"{self._choose_sentence('pastes')}\n\n{lines}"
        said = f"{self._choose_sentence('calm')} {self._choose_sentence('answers')}"
        return [("user", (asked,)), *self._make_answer(said)]

    def _make_answer(self, text: str) -> list[FillerStep]:
        """Return the agent's answer, and now and then a word of thanks."""
        answer: list[FillerStep] = [("assistant", (text,))]
        thanked = self.random.random() < 0.3
        return [*answer, ("user", (self._choose_sentence("thanks"),))] if thanked else answer

    def _make_step(self) -> FillerStep:
        chosen = self.random.choices(
            (self._make_read, self._make_search, self._make_look, self._make_note, self._make_edit),
            (34, 26, 16, 14, 10),
        )
        return chosen[0]()

    def _make_note(self) -> FillerStep:
        return "assistant", (self._choose_sentence("notes"),)

    def _make_read(self) -> FillerStep:
        return "read", (self._choose_file(), self._generate_source(20, 90))

    def _make_search(self) -> FillerStep:
        lines = self._generate_source(2, 18).split("\n")
        number = self.random.randint
        found = "\n".join(f"{self._choose_file()}:{number(3, 400)}:{line}" for line in lines)
        return "shell", (f"rg -n {self.random.choice(WORDS)}", found)

    def _make_look(self) -> FillerStep:
        path, folder = self._choose_file(), posixpath.dirname(self._choose_file()) or "."
        commands = (
            (f"git log --oneline -3 -- {path}", self._fill_line("4be71c0 Tidy {word}\n91d0a3e {other} moved")),
            (f"git diff --stat -- {path}", f" {path} | 6 +++---"),
            (f"ls {folder}", "\n".join(posixpath.basename(f) for f in self.files)),
            (f"wc -l {path}", f"{self.random.randint(40, 400)} {path}"),
            (f"tail -n 40 /tmp/{self.random.choice(WORDS)}.log", "\n".join(self._fill_line(TEXTS['log']) for _ in range(40))),
        )  # fmt: skip
        return "shell", self.random.choice(commands)

    def _make_edit(self) -> FillerStep:
        return "edit", (
            self._choose_file(), self._generate_source(1, 2), self._generate_source(2, 5),
        )  # fmt: skip

    def _choose_file(self) -> str:
        """Return one of the files; the first ones are worked on more often than the last ones."""
        return self.random.choices(self.files, self.weights)[0]

    def _generate_source(self, minimum: int, maximum: int) -> str:
        count = self.random.randint(minimum, maximum)
        return "\n".join(self._fill_line(self.random.choice(self.code)) for _ in range(count))

    def _generate_explanation(self, minimum: int, maximum: int) -> str:
        count = self.random.randint(minimum, maximum)
        return " ".join(self._choose_sentence("answers") for _ in range(count))

    def _choose_sentence(self, purpose: str) -> str:
        """Return a sentence for a purpose; none is repeated before all of them were used."""
        sentences: Sequence[str] = TEXTS[purpose]
        left = self._unused_sentences.get(purpose) or self.random.sample(sentences, len(sentences))
        self._unused_sentences[purpose] = left[1:]
        return self._fill_line(left[0])

    def _fill_line(self, line: str) -> str:
        word, other, third = self.random.sample(WORDS, 3)
        return line.format(
            word=word, other=other, Word=word.title(), Other=other.title(), n=self.random.randint(2, 97),
            fn=f"{word}_{other}", fn2=f"{third}_{word}", file=self._choose_file(),
        )  # fmt: skip
