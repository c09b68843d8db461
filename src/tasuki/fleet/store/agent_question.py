"""The question of a waiting agent as callers see it, and how much of it is shown where."""

from msgspec import Struct

from tasuki.harness.questions import DialogSubject, QuestionKind
from tasuki.text_safety import cut_middle


class QuestionChoice(Struct, frozen=True):
    """A choice that a question offers, by its key: the number in front of it."""

    key: str
    label: str


_QUOTES = dict.fromkeys(map(ord, '\u201c\u201d\u201e\u201f"'), "'")


class AgentQuestion(Struct, frozen=True):
    """What an agent asks its user, without secrets, while it waits for the answer."""

    text: str
    """Of a permission or a plan tasuki's sentence, else the agent's question or its screen's."""
    mark: str
    """16 hexadecimal digits that no other question has; an answer names them."""
    asked_at: float
    detail: str = ""
    """The command, the content or the text that it is about, with a sign for what is not seen in it."""
    file: str = ""
    """The file that it is about, on one line."""
    words: str = ""
    """What the agent itself says about it, on one line."""
    lines: int = 0
    characters: int = 0
    """The size of what it is about, before anything was replaced in it."""
    kind: QuestionKind = "permission"
    choices: tuple[QuestionChoice, ...] = ()
    takes_text: bool = False
    """Words of one's own can be the answer."""
    takes_several: bool = False
    """Several of its choices can be the answer."""
    is_review: bool = False
    """It shows the answers to other questions, and asks whether to send them."""
    is_read: bool = False
    """Its choices were read from the screen."""
    obstacle: str = ""
    """Why it cannot be answered from here, as a sentence: it has no choices then, and takes no text."""
    is_reported: bool = False
    """Its hook reports what it is about."""
    subject: DialogSubject | None = None
    """What a dialog must show for it to be this question; None where nothing proves that."""
    child: str = ""
    """The sub-agent that asks it; empty for the agent itself."""
    behind: tuple["AgentQuestion", ...] = ()
    """What else its hooks report as open: the screen shows one of them at a time."""
    answered_at: float | None = None
    """When it was answered; None again where that did not reach it."""
    answer: str = ""

    @property
    def title(self) -> str:
        """What is asked: in quotes where that is not tasuki's sentence, which no quotes can end."""
        is_own = self.kind in ("permission", "plan")
        return self.text if is_own else f"\u201c{self.text.translate(_QUOTES)}\u201d"

    @property
    def said(self) -> str:
        """What the agent says about it, in quotes; empty for nothing."""
        return f"\u201c{self.words.translate(_QUOTES)}\u201d" if self.words else ""

    @property
    def has_secret(self) -> bool:
        """Whether a secret is hidden in what it is about, or in a choice."""
        labels = (choice.label for choice in self.choices)
        return any("[REDACTED:" in one for one in (self.text, self.file, self.detail, *labels))

    @property
    def is_long(self) -> bool:
        """Whether it is about so much that it is shown whole only to who asks for it."""
        return len(self.detail) > 600 or self.detail.count("\n") >= 12

    @property
    def excerpt(self) -> str:
        """The beginning and the end of what it is about; all of it where that is short."""
        return cut_middle(self.detail, 300, 200, most_lines=5) if self.is_long else self.detail

    @property
    def line(self) -> str:
        """Begin and end of the file and of what it is about, and the size, on one line for a list."""
        whole = cut_middle(self.detail.rstrip("\n").replace("\n", "\u23ce"), 80, 40)
        line = whole.replace("\n", " ").replace("\u23ce", " \u23ce ")
        file = cut_middle(self.file, 40, 30).replace("\n", " ")
        return " ".join(filter(None, (file and f"{file}:", line, self.size and f"({self.size})")))

    @property
    def size(self) -> str:
        """The size of what it is about, in words; empty where it is seen at a glance."""
        if self.lines < 2 and self.characters < 200 and not self.is_long:
            return ""
        lines = f"{self.lines:,} line{'s' if self.lines != 1 else ''}"
        return f"{lines}, {self.characters:,} characters"
