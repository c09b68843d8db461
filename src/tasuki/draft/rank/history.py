"""What the user asked for and ruled, and the last steps of a thread, in the order of time."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate, groupby, islice

from msgspec.structs import replace

from tasuki.draft.facts.commands import (
    CommandRun,
    find_error,
    find_outcome,
    shorten_check,
    shorten_command,
)
from tasuki.draft.facts.derive import DerivedFacts
from tasuki.draft.facts.files import find_symbols, is_noise
from tasuki.draft.facts.rules import UserRule
from tasuki.draft.facts.statements import Statement
from tasuki.draft.rank.relevance import Relevance
from tasuki.draft.runs.command_kinds import list_simple_commands
from tasuki.draft.text.entries import ThreadTurn
from tasuki.draft.text.language_cues import says_nothing
from tasuki.draft.text.split import (
    fold_whitespace,
    measure_text,
    shorten,
    split_sentences,
    strip_emphasis,
)
from tasuki.model import Entry, Item, Thread, ToolCall
from tasuki.paths import make_relative
from tasuki.patterns import compile_pattern

LAST_WHOLE = 3
"""Newest messages that are quoted whole."""
JOINED = " … "
"""Between sentences of one message that do not follow one another."""
MAX_SKIPPED = 2_500
"""Characters of a message that may be left out between two sentences that are quoted as one."""
LONG_MESSAGE, ENDS = 6_000, 1_200
"""Characters of a message that is mostly pasted, and of its ends, which the user more likely wrote."""
INSIDE_PENALTY = 2.0
"""What a sentence between the ends of such a message is worth less."""
LATE_BONUS, FIRST_BONUS, RULE_BONUS, DECISION_BONUS = 3.0, 2.0, 2.0, 1.0
"""Additional worth of a sentence in the last messages, in the first one, of one that holds for all
later work, and of one that decides.
"""
DECIDES = 1.0
"""Minimum weight of a decision that is more than "ok"."""
MIN_LENGTH, LENGTH_POWER = 40, 0.5
"""Of two sentences that bind equally, the shorter one comes first."""
ANSWERED_PENALTY = 0.8
"""What a question that the agent answered is worth less."""
MIN_WORTH = 0.1
"""Minimum worth of a quoted sentence of an older message; below are small talk and finished errands."""


MAX_LEFT_OUT = 60
"""Lines that did not fit and are kept with the draft, for a review to take back."""


def quote_rulings(
    turns: Sequence[ThreadTurn],
    derived: DerivedFacts,
    stated: Sequence[Statement],
    relevance: Relevance,
    room: int,
    rules: Sequence[UserRule] = (),
) -> tuple[list[Item], list[Item]]:
    """Return the user's words as items in the order of time, and what was left out.

    The items fit into `room` characters. Each cites the message and, if the agent answered it,
    the message that concluded the turn. A last message that is the goal itself is at the end of
    the brief, and not here.
    """
    by_ref = {turn.prompt.ref: turn for turn in turns if turn.prompt}
    newest = by_ref.get(max(by_ref, default=0))
    asked = newest.prompt if newest and relevance.goal else None
    if asked and fold_whitespace(asked.text) == fold_whitespace(relevance.goal):
        del by_ref[asked.ref]
    late = set(list(by_ref)[-LAST_WHOLE:])
    first = next(iter(by_ref), 0)
    own = [s for s in stated if s.by_user and s.ref in by_ref]
    last = max(by_ref, default=0)
    forms = {t.prompt.ref for t in turns if t.prompt and t.prompt.origin == "answer"}
    inside: set[Statement] = set()  # At none of the ends of a long message.
    for _, group in groupby(own, key=lambda s: s.ref):
        message = list(group)
        size, begins = sum(len(s.text) for s in message), _measure_positions(message)
        if size > LONG_MESSAGE:
            inside |= {s for s in message if ENDS < begins[s] < size - ENDS}
    standing = {  # They hold a rule that binds, or are a part of one.
        s
        for s in own
        for rule in rules
        if rule.ref == s.ref
        and (s.text[:40] in rule.text or rule.text[:40] in s.text)
        and rule.is_binding
    }
    worth = {
        s: relevance.score_statement(s)
        + LATE_BONUS * (s.ref in late)
        + RULE_BONUS * (s in standing)
        + DECISION_BONUS * (s.kind == "decision" and s.weight >= DECIDES)
        + FIRST_BONUS * (s.ref == first)
        - INSIDE_PENALTY * (s in inside)
        - ANSWERED_PENALTY * (is_only_question(s) and bool(by_ref[s.ref].messages))
        for s in own
        if s.ref == last or s.ref in forms or s.answers or not says_nothing(s.text)
    }
    own = [s for s in own if s in worth]
    chosen: dict[int, list[Statement]] = {}
    left: list[Statement] = []
    density = {s: worth[s] / max(len(s.text), MIN_LENGTH) ** LENGTH_POWER for s in own}
    for statement in sorted(own, key=lambda s: (-density[s], -s.ref)):
        cost = measure_text(statement.quote.text) + len(statement.number)
        cost += len(statement.answers) + len(statement.refuses)
        cost += 18 if statement.ref not in chosen else 5
        if cost > room or worth[statement] < MIN_WORTH:
            left.append(statement)
            continue
        room -= cost
        chosen.setdefault(statement.ref, []).append(statement)
    order = _measure_positions(own)
    for group_statements in chosen.values():
        group_statements.sort(key=order.__getitem__)
    pasted = {s for own in chosen.values() for s in own if s.is_pasted}
    outputs: list[str] = []
    for turn in turns:  # What only repeats what a program printed is pasted, too.
        if turn.prompt and turn.prompt.ref in chosen:
            find_lines = partial(_list_pasted_lines, turn.prompt.text, outputs)
            lines = derived.remember(f"pasted {turn.prompt.ref}", find_lines)
            pasted.update(s for s in chosen[turn.prompt.ref] if lines and _is_pasted(s, lines))
        calls = (e.tool for e in turn.entries if e.tool and e.tool.kind == "shell")
        outputs += (call.output for call in calls if call.status in ("ok", "error", "unknown"))
    items = [
        replace(_build_item(by_ref[ref], group), label=PASTED if group[0] in pasted else "")
        for ref in sorted(chosen)
        for group in _group_statements(chosen[ref], order, pasted)
    ]
    telling = (s for s in left if worth[s] >= MIN_WORTH)
    return items, [_build_item(by_ref[s.ref], [s]) for s in islice(telling, MAX_LEFT_OUT)]


PASTED = "Pasted by the user"


def _group_statements(
    statements: Sequence[Statement], order: Mapping[Statement, int], pasted: Collection[Statement]
) -> list[list[Statement]]:
    """Group the chosen sentences of one message; each answer is separate, with its question.

    What is far apart in a long message is separate, too, and what is pasted. `order` is where each sentence begins.
    """
    groups: list[list[Statement]] = []
    for statement in statements:
        last = groups[-1][-1] if groups else statement
        is_near = order[statement] - order[last] - len(last.text) <= MAX_SKIPPED
        is_same = (statement in pasted) == (last in pasted)
        if groups and is_near and is_same and not statement.answers and not last.answers:
            groups[-1].append(statement)
        else:
            groups.append([statement])
    return groups


def _measure_positions(statements: Sequence[Statement]) -> dict[Statement, int]:
    """Return how many characters of all statements are before each."""
    ends = accumulate((len(s.text) for s in statements), initial=0)
    return dict(zip(statements, ends, strict=False))


def _build_item(turn: ThreadTurn, statements: Sequence[Statement]) -> Item:
    """Return the chosen sentences of one message as an item, in their own order."""
    asked, end = turn.prompt, turn.conclusion
    assert asked is not None
    answers = next((f" — answering: {s.answers}" for s in statements if s.answers), "")
    refuses = next((f" — refusing: {s.refuses}" for s in statements if s.refuses), "")
    refs = (asked.ref, *((end.ref,) if end else ()))
    if statements[0].is_chosen:
        return Item(text=statements[0].shown, refs=refs)
    words = _join_statements(statements, fold_whitespace(strip_emphasis(asked.text)))
    return Item(text=f'"{words}"{refuses or answers}', refs=refs)


_LIST_MARK = compile_pattern(r"[\s>#*+•-]*(?:\d{1,3}[.)])?[\s*]*")


def _join_statements(statements: Sequence[Statement], message: str) -> str:
    """Return sentences of a message on one line, with a mark where something is left out between two."""
    words, end = "", -1
    for statement in statements:
        place = message.find(statement.text, max(end, 0))
        between = message[end:place] if 0 <= end <= place else ""
        number = f"{statement.number} " if statement.number else ""
        if words and words.endswith("…"):
            words += f" {number}"
        elif words and between and _LIST_MARK.fullmatch(between):
            words += between if not number or number.strip() in between else f"{between}{number}"
        elif words:
            words += JOINED + number
        else:
            words = number
        words += statement.quote.text
        end = place + len(statement.text) if place >= 0 else -1
    return words


_ERROR_LINE = compile_pattern(
    r"(?:[\w./-]+: )?(?:error|fatal|remote|panic|npm ERR!|\w*(?:Error|Exception))\b(?:\[\w+\])?: |Traceback \(|\S+: \[(?:warn|error|emerg|crit|notice|info)\] |exit status \d|\s*at \S+ ?\(|time=\S+ level="
)
_LINE_LABEL = compile_pattern(r"([\w./@-]{2,30}):(?:\s|$)")
SAME_LABELS, MIN_PRINTED = 3, 24
"""Lines in a row that begin with the same label, as programs print them; characters of a line that tells its origin."""


def _list_pasted_lines(message: str, outputs: Sequence[str]) -> set[str]:
    """Return the lines of a message that a program of the thread printed before, or that only report an error."""
    lines = [fold_whitespace(line) for line in message.split("\n") if line.strip()]
    long = {line for line in lines if len(line) >= MIN_PRINTED}
    pasted = {line for line in lines if _ERROR_LINE.match(line)}
    if len(long) > 1 or pasted:  # A program may print what a user typed: one line proves nothing.
        printed = {line for line in long if any(line in output for output in outputs)}
        pasted |= printed if len(printed) > 1 or pasted else set()
    labelled = ((m[1] if (m := _LINE_LABEL.match(line)) else "", line) for line in lines)
    for label, group in groupby(labelled, lambda pair: pair[0]):
        same = [line for _, line in group]
        if label and len(same) >= SAME_LABELS:
            pasted.update(same)
    return pasted


_WORDS = compile_pattern(r"[^\W\d_]{2}")


def _is_pasted(statement: Statement, pasted: Iterable[str]) -> bool:
    """Return whether nothing is left of a sentence without some lines."""
    rest = statement.text
    if not _WORDS.search(rest):
        return False
    for line in sorted(pasted, key=len, reverse=True):
        rest = rest.replace(line, " ")
    return not _WORDS.search(rest)


def is_only_question(statement: Statement) -> bool:
    """Return whether a message, or its quoted part, asks and says nothing else."""
    return statement.kind == "question" and all(
        part.rstrip("\"')` ").endswith("?") for part in split_sentences(statement.text)
    )


MAX_COMMAND, MAX_RESULT = 140, 110
"""Characters of a command, and of the line with its result."""
MAX_NAMES = 4
"""Names listed for an edit."""
_COMMITTED = compile_pattern(r"(?m)^\[[^\]\n]+ [0-9a-f]{7,40}\] .+$")
MAX_OUTPUT_LINES = 3
"""Lines of output, other than a check's, of which the last one still gives a command's result."""
_INFORMATIVE = compile_pattern(r"\d|[Ee]rror|ERR|[Ff]ail|Exception|[Ww]arn")
"""What makes the last of many lines worth quoting: a figure, or something that went wrong."""
_LISTS = compile_pattern(
    r"git\s+(?:log|status|branch|tag|reflog|show|remote|worktree|stash\s+list|diff(?!.*--(?:short)?stat))\b|gh\s+\w+\s+(?:list|view|status|checks)\b"
)
"""Commands of whose several lines none is their result."""
STEP_WINDOW = 120
"""Newest entries in which steps are looked for."""
FEW_STEPS = 4
"""Steps below which commands that only look around are steps, too."""


def list_last_steps(
    thread: Thread,
    runs: Sequence[CommandRun],
    names: Mapping[str, str],
    limit: int,
    excluded: Collection[int] = (),
) -> list[Item]:
    """Return the newest `limit` distinct commands and edits, oldest first.

    Entries in `excluded` are left out. `names` are short names of paths.
    """
    newest = [e for e in thread.entries[-STEP_WINDOW:] if e.ref not in excluded]
    by_ref = {run.ref: run for run in runs[-STEP_WINDOW:]}

    def list_steps(*, looks: bool) -> Iterator[Item | None]:
        for entry in newest[::-1]:
            call, run = entry.tool, by_ref.get(entry.ref)
            if call and call.changes:
                yield _build_edit(entry, call, names, thread.cwd)
            elif call and run and (looks or not run.navigation):
                yield _build_command(run, call)

    steps = _list_distinct(list_steps(looks=False), limit)
    if len(steps) < FEW_STEPS:
        steps = _list_distinct(list_steps(looks=True), min(FEW_STEPS, limit))
    return steps[::-1]


def _list_distinct(steps: Iterable[Item | None], limit: int) -> list[Item]:
    """Return the first steps that do not say the same as an earlier one."""
    distinct: dict[str, Item] = {}
    for step in steps:
        if len(distinct) >= limit:
            break
        if step is not None:
            distinct.setdefault(step.text.partition(" → ")[0], step)
    return list(distinct.values())


def _build_edit(entry: Entry, call: ToolCall, names: Mapping[str, str], cwd: str) -> Item | None:
    changes = [c for c in call.changes if not is_noise(c.path)]
    if not changes or not call.was_done:
        return None
    whole = dict.fromkeys(make_relative(c.path, cwd) for c in changes)
    paths = [f"`{names.get(path, path)}`" for path in whole]
    kinds = {c.kind for c in changes}
    verbs = {"create": "wrote", "delete": "deleted", "rename": "renamed"}
    verb = verbs.get(kinds.pop(), "edited") if len(kinds) == 1 else "edited"
    failed = ", which failed" if call.status == "error" else ""
    inside = [f"`{name}`" for name in find_symbols(changes)[:MAX_NAMES]]
    name_list = f": {', '.join(inside)}" if inside else ""
    more = f" and {len(paths) - 4} more" if len(paths) > 4 else ""
    return Item(text=f"{verb} {', '.join(paths[:4])}{more}{failed}{name_list}", refs=(entry.ref,))


def _build_command(run: CommandRun, call: ToolCall) -> Item | None:
    result = _format_result(run, call)
    shown = shorten_command(run.command, MAX_COMMAND)
    if run.judged and len(run.command) > MAX_COMMAND:
        shown = shorten_check(run.command, tuple(run.judged), MAX_COMMAND)
    text = f"`{shown.replace('`', '')}`"
    return Item(text=f"{text} → {result}" if result else text, refs=(run.ref,))


def _format_result(run: CommandRun, call: ToolCall) -> str:
    if call.status == "aborted":
        return "interrupted"
    if commit := _COMMITTED.search(run.output):
        return shorten(fold_whitespace(commit[0]), MAX_RESULT)
    if run.result == "not shown":
        return f"exit code {call.exit_code}" if call.exit_code else ""
    if run.went_wrong:
        error = find_error(run)
        word = "failed" if run.result == "failed" else "did not run"
        return shorten(f"{word}: {fold_whitespace(error)}", MAX_RESULT) if error else word
    if run.check and (line := find_outcome(run)):
        return shorten(line, MAX_RESULT)
    lines = [line for line in run.output.split("\n") if line.strip()]
    ended = list_simple_commands(run.command)[-1:]
    is_list = run.navigation or bool(ended and _LISTS.match(ended[0].text))
    is_long = len(lines) > MAX_OUTPUT_LINES and "git " not in run.command
    if (is_list and len(lines) > 1) or (is_long and not _INFORMATIVE.search(lines[-1])):
        return ""  # Any one of many lines says little.
    return shorten(fold_whitespace(lines[-1]), MAX_RESULT) if lines else "no output"
