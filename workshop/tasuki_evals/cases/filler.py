"""Ordinary work of a project, for `filler = N`: reading, searching, small edits, small talk.

It does not change the truth of a case: nothing is checked, committed or left open, no rule
is given, and no line satisfies what the case looks for. The same case gets the same work at
every run.
"""

import posixpath
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from random import Random

FillerStep = tuple[str, tuple[str, ...]]
"""A method of `ThreadBuilder` and its arguments; each makes one entry."""
WORDS = tuple(
    "anchor badge banner basket beacon bundle canvas carrier catalog channel cluster column corner counter courier cursor "
    "digest drawer envelope feature fragment gallery gateway handle header helper holder icon inbox index label lantern "
    "layout ledger legend locale marker matrix member mirror module notice outline packet palette panel parcel picker "
    "planner pointer portal preview profile puzzle record region ribbon roster sample schema screen section segment "
    "shelf sidebar signal sketch socket spinner sticker summary switcher table teaser ticker toolbar tracker variant "
    "vendor viewer visitor widget window wizard".split()
)
NOTES = (
    "Let me look at `{fn}`.",
    "I'll see where the {word} comes from.",
    "Now `{file}`.",
    "`{fn}` looks right, so I go one level up.",
    "Let me see who else uses the {other}.",
    "Next, the callers of `{fn2}`.",
    "I want to see the whole {word} before I go on.",
    "That is the place.",
    "The {other} has no part in this.",
    "A quick look at `{file}` as well.",
    "Line {n} is the one.",
    "One more search, for `{fn2}`.",
    "Most of the {n} matches are in comments.",
    "The {word} is next.",
    "I'll read the rest of `{file}`.",
)
ANSWERS = (
    "`{fn}` takes the {word} from its caller and hands it to `{fn2}`.",
    "The {word} is built once at the start and read afterwards.",
    "In `{file}` the same pattern comes again around line {n}.",
    "An empty {word} ends the loop on its first round.",
    "The comment above it is older than the code, hence the odd wording.",
    "There are {n} callers, and they pass the {word} by name.",
    "Whoever wrote it kept the {other} next to the {word} for the debugger.",
    "With a missing {other} you get the default and a line in the log.",
    "The {word} is shared between the two, and `{fn2}` copies it.",
    "You see the same in `{file}`, where the {word} is spelled out.",
    "It looks expensive, but the list has {n} elements.",
    "The second argument is left over from an older {other}.",
    "In short: {word} in, {other} out.",
    "Both names mean the same thing, `{fn}` is the older one.",
    "One {word} can belong to several of them, and the loop at line {n} goes through each.",
    "What the debugger shows is the proxy and the {word} sits behind it.",
    "When the {other} changes, `{fn}` starts over.",
    "It has been like that since the first commit of `{file}`.",
    "The {word} keeps its id, the {other} gets a new one.",
    "Both branches end in `{fn2}`.",
    "The {word} is sorted here, so two runs print the same.",
    "The helper in `{file}` does the reverse.",
    "With the flag set, the {other} is printed as well.",
    "The value travels through {n} layers before anything reads it.",
    "`{fn2}` is a thin wrapper around that.",
    "The generated part starts after line {n}.",
    "The log has one line per {word} and one for the sum.",
    "Everything else in `{file}` is plumbing.",
    "On the second pass the {word} is sorted already, so it ends early.",
    "Think of the {other} as a view on the {word} with fewer columns.",
)
BULLETS = (
    "`{fn}` looks at the {word} first",
    "moved `{fn2}` next to its caller",
    "an import less in `{file}`",
    "the {other} is passed along",
    "{n} call sites follow",
    "the docstring of `{fn}` says what it returns",
    "the message names the {other}",
    "`{file}`: two lines shorter",
    "a lookup in place of the loop",
    "the log line has the id of the {other}",
    "spelling in {n} comments",
)
REPORTS = ("Done:", "That is in:", "Changed:", "Here is what I did:")
QUESTIONS = (
    "what does `{fn}` do with the {word}?",
    "where does the {other} in `{file}` come from?",
    "is `{fn2}` the one that the {word} page calls?",
    "I get lost in `{file}`, how does the {word} get to the {other}?",
    "how many places build their own {word}?",
    "can you explain line {n} of `{file}` to me?",
    "who calls `{fn}`?",
    "remind me, what was the {other} again?",
)
TASKS = (
    "rename `{fn}` to `{fn2}` in `{file}`, please",
    "tidy up the imports in `{file}` while you are there",
    "the log line in `{fn}` could have the id of the {word} in it",
    "there is a typo in the comment at line {n} of `{file}`",
    "move `{fn2}` to the bottom of `{file}`",
    "give `{fn}` a docstring",
    "the heading of the {word} page reads {other}, make it {word}",
    "the two constants at the top of `{file}` can become one",
)
THANKS = ("ok", "thanks", "nice", "great, thank you", "good", "ah, I see", "makes sense")
PASTES = ("I see this when I open the {word}, is that normal?", "this scrolls by, what is it?")
CALM = (
    "That is ordinary output of the {word}.",
    "Nothing to see there: the {other} says hello once per start.",
)
LOG = "INFO {word}: {other} handled, {n} left"
_CODE: dict[str, tuple[str, ...]] = {
    "py": (
        "def {fn}({word}, {other}=None):", "    {word} = {fn2}({other})", "    if not {word}:", "        return {other}",
        "    for {word} in {other}:", "        {other}.append({word}.value)", "    return {word}", "", "# {word} and {other}",
        "class {Word}{Other}:", "    {word}: int = {n}",
    ),
    "ts": (
        "export function {fn}({word}: {Word}): {Other} {{", "  const {other} = {fn2}({word});", "  if (!{other}) return [];",
        "  return {other}.map((x) => x.{word});", "}}", "", "// {word} and {other}", "  const [{word}, set] = useState({n});",
        'import {{ {fn2} }} from "./{word}";',
    ),
    "go": (
        "func {fn}({word} *{Word}) ({Other}, error) {{", "\t{other} := {fn2}({word})", "\tif {other} == nil {{",
        "\t\treturn nil, nil", "\t}}", "\tfor _, {word} := range {other} {{", "}}", "", "// {word} and {other}",
    ),
    "rs": (
        "pub fn {fn}({word}: &{Word}) -> Option<{Other}> {{", "    let {other} = {fn2}({word})?;",
        "    {other}.iter().map(|x| x.{word}).collect()", "}}", "", "/// The {word} of a {other}.", "    {word}: u32,",
    ),
    "other": ("{word}: {n}", "  {other}: {word}", "  - {word}-{other}", "", "# {word}", "  {fn}: {n}", "  {fn2}: {other}"),
}  # fmt: skip
_LIKE = {"tsx": "ts", "js": "ts", "jsx": "ts", "mjs": "ts", "vue": "ts", "java": "ts", "kt": "ts", "swift": "ts",
         "dart": "ts", "c": "rs", "cpp": "rs", "h": "rs", "rb": "py"}  # fmt: skip
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
        self.code = _CODE[style if style in _CODE else _LIKE.get(style, "other")]
        alike = [p for p in known if p.endswith(self.ending) and not p.startswith(("/", "~"))]
        folders = tuple(dict.fromkeys(map(posixpath.dirname, alike))) or ("src",)
        self.files = tuple(
            self._list_neighbours((*folders, *self._list_modules(folders)), set(known))
        )
        self.weights = [1 / (rank + 2) for rank in range(len(self.files))]
        self._unused_sentences: dict[tuple[str, ...], list[str]] = {}

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
            doings = self._make_allowed(
                self._make_episode if left >= _LONGEST_EPISODE else lambda: [self._make_step()]
            )
            left -= len(doings)
            yield from doings

    def _make_allowed(self, make: Callable[[], list[FillerStep]]) -> list[FillerStep]:
        """Return entries without a line to be avoided."""
        for _ in range(MAX_ATTEMPTS):
            doings = make()
            lines = (line for _, texts in doings for text in texts for line in text.split("\n"))
            if not any(map(self.avoids, lines)):
                return doings
        return [("shell", ("pwd", ""))]

    # -- episodes ----------------------------------------------------------------------

    def _make_episode(self) -> list[FillerStep]:
        chosen = self.random.choices(
            (self._make_digging, self._make_question, self._make_task, self._make_paste),
            (40, 28, 26, 6),
        )
        return chosen[0]()

    def _make_digging(self) -> list[FillerStep]:
        steps = [self._make_step() for _ in range(self.random.randint(2, _LONGEST_EPISODE - 4))]
        return [("assistant", (self._choose_sentence(NOTES),)), *steps]

    def _make_question(self) -> list[FillerStep]:
        steps = [self._make_step() for _ in range(self.random.randint(1, 3))]
        return [
            ("user", (self._choose_sentence(QUESTIONS),)),
            *steps,
            *self._make_answer(self._generate_explanation(2, 6)),
        ]

    def _make_task(self) -> list[FillerStep]:
        steps = [self._make_step() for _ in range(self.random.randint(0, 2))]
        bullets = "\n".join(
            f"- {self._choose_sentence(BULLETS)}" for _ in range(self.random.randint(2, 4))
        )
        report = (
            f"{self._choose_sentence(REPORTS)}\n\n{bullets}\n\n{self._generate_explanation(1, 3)}"
        )
        return [
            ("user", (self._choose_sentence(TASKS),)),
            *steps,
            self._make_edit(),
            *self._make_answer(report),
        ]

    def _make_paste(self) -> list[FillerStep]:
        lines = "\n".join(self._fill_line(LOG) for _ in range(self.random.randint(8, 24)))
        asked = f"{self._choose_sentence(PASTES)}\n\n{lines}"
        return [
            ("user", (asked,)),
            *self._make_answer(f"{self._choose_sentence(CALM)} {self._choose_sentence(ANSWERS)}"),
        ]

    def _make_answer(self, text: str) -> list[FillerStep]:
        """Return the agent's answer, and now and then a word of thanks."""
        answer: list[FillerStep] = [("assistant", (text,))]
        thanked = self.random.random() < 0.3
        return [*answer, ("user", (self._choose_sentence(THANKS),))] if thanked else answer

    # -- single calls ------------------------------------------------------------------

    def _make_step(self) -> FillerStep:
        chosen = self.random.choices(
            (self._make_read, self._make_search, self._make_look, self._make_note, self._make_edit),
            (34, 26, 16, 14, 10),
        )
        return chosen[0]()

    def _make_note(self) -> FillerStep:
        return "assistant", (self._choose_sentence(NOTES),)

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
            (f"tail -n 40 /tmp/{self.random.choice(WORDS)}.log", "\n".join(self._fill_line(LOG) for _ in range(40))),
        )  # fmt: skip
        return "shell", self.random.choice(commands)

    def _make_edit(self) -> FillerStep:
        return "edit", (
            self._choose_file(),
            self._generate_source(1, 2),
            self._generate_source(2, 5),
        )

    # -- words -------------------------------------------------------------------------

    def _choose_file(self) -> str:
        """Return one of the files; the first ones are worked on more often than the last ones."""
        return self.random.choices(self.files, self.weights)[0]

    def _generate_source(self, minimum: int, maximum: int) -> str:
        count = self.random.randint(minimum, maximum)
        return "\n".join(self._fill_line(self.random.choice(self.code)) for _ in range(count))

    def _generate_explanation(self, minimum: int, maximum: int) -> str:
        return " ".join(
            self._choose_sentence(ANSWERS) for _ in range(self.random.randint(minimum, maximum))
        )

    def _choose_sentence(self, sentences: tuple[str, ...]) -> str:
        """Return one of the sentences; none is repeated before all of them were used."""
        left = self._unused_sentences.get(sentences) or self.random.sample(
            sentences, len(sentences)
        )
        self._unused_sentences[sentences] = left[1:]
        return self._fill_line(left[0])

    def _fill_line(self, line: str) -> str:
        word, other, third = self.random.sample(WORDS, 3)
        return line.format(
            word=word, other=other, Word=word.title(), Other=other.title(), n=self.random.randint(2, 97),
            fn=f"{word}_{other}", fn2=f"{third}_{word}", file=self._choose_file(),
        )  # fmt: skip
