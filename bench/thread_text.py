"""The text of made-up threads: what users, agents, commands and files say, in the lengths of real ones.

Sentences are templates with slots. Names, paths and words are drawn as in real projects: few often,
many once.
"""

import base64
import math
import random
import re
from collections.abc import Sequence

NOUNS = (
    "cache session parser retry upload client token branch commit index query schema worker queue handler request response config timeout buffer "
    "stream record thread ledger socket module export import render update manifest snapshot policy adapter registry planner scope cursor digest "
    "envelope quota lease journal shard replica migration fixture gateway resolver bundle payload header trailer checkpoint transcript summary"
).split()
VERBS = (
    "parse load store resolve fetch merge split validate refresh encode decode list drop rename collect condense replay attach detach rotate"
).split()
LAYERS = ("cmd/server", "internal/store", "internal/sync", "pkg/client", "src/core", "src/web", "lib/net", "tools", "docs/design", "tests/integration")  # fmt: skip
ENDINGS = (".go", ".go", ".go", "_test.go", ".py", ".ts", ".md", ".yaml")
ASKED = (
    "ah, nice", "ok, do it", "let's go", "yes please", "same result here", "yup", "looks good, next", "ok", "option {digit}", "it works now", "hmm, same {noun} as before", "yeah, {name} it is", "1. yes\n2. yes\n3. no",
    "how big is the fix?", "what are our options?", "can you push this", "commit this and open a PR",
    "rebase on main and run the linter again", "that was there before", "now the {noun}", "hmm, the {noun} was a {noun} before", "wait, {name} looks odd to me", "go ahead with {digit}",
    "yup, that one", "I restarted the {noun}, check again", "what does {name} do with an empty {noun}?", "show me the diff of {path}", "ok so the {noun} is stored before {name} runs, that explains the log",
    "is `{name}` still used anywhere?", "I think the reuse is for the scenario where the {noun} was already closed", "the {noun} works now, thanks. Let's look at the {noun} next",
    "so I started a new {noun} and it printed into the log of the old one", "got this feedback on {path}", "Let's do the {noun} too", "ah, ok, it was the {noun}",
    "can we simplify {name}? It seems quite complicated with our new {noun} model", "the {noun} fails when the {noun} is {number} ms late, see {path}", "I just {verb}d the {noun} by hand, {name} sees it now",
    "I think the {noun} should never {verb} the {noun} twice, and we must keep the old format readable", "don't change `{path}`, others depend on it",
    "why does {name} {verb} the {noun} here? I'd expect the {noun} to do that", "are there any other scenarios where we {verb} the {noun} without a {noun}?\n\nIf so add a test for each of them to {path}",
    "no, that's wrong: {name} is called from the hook, not from the {noun}. Please revert that part and use the {noun} instead",
    "We decided to go with option {digit}: keep `{name}` where it is, but make the {noun} configurable. Also update {path}", "the tests in {path} are flaky, about one of {digit} runs fails with a timeout",
    "Could we add a short note on the {noun} to {path}? It says that the limit is {number} KB, and not why we {verb} before we {verb}",
)  # fmt: skip
SAID = (
    "Now let me check how `{name}` is used.", "Let me run the tests:", "Now update the {noun} in `{path}`.", "Good point, I'll {verb} the {noun} first.", "Found it!",
    "I see the issue: `{name}` returns before the {noun} is stored.", "All tests pass. Let me commit this.", "Let me look at the {noun} and the {noun} first.",
    "The lint reports an unused parameter in `{name}`. Let me fix that:", "Several files still reference the old {noun}. Let me fix them:",
)  # fmt: skip
EXPLAINED = (
    "The {noun} is read once in `{name}` and kept until the {noun} ends, so a second `{name}` call sees the same {noun}.", "{name} takes the {noun} of `{path}` and {verb}s it per {noun}.",
    "This happened because `{path}` compares the {noun} with the {noun} of the previous commit.", "**{Noun} handling** in `{name}`: {verb}s the {noun} and returns the {noun}",
    "It now takes {number} ms instead of {number} ms.", "`{name}` is the only caller of `{name}` in {path}, lines {number}-{number}", "Then the {noun} goes through `{name}`, which knows the {noun} by its {noun}.",
    "Updated `{path}` with the {noun} of {name}", "That's the {noun} the user sees when the {noun} is closed early.", "I changed `{name}` to {verb} the {noun} before the {noun} is closed.",
    "`{path}` still needs a test for the case without a {noun}.", "The remaining failure in `{name}` is unrelated: it also fails on main.", "Option {digit} is simpler, but it would {verb} every {noun} at startup.",
    "Next I will {verb} the {noun} and update `{path}`.", "That didn't work: the {noun} was already gone when `{name}` tried to {verb} it.",
    "We should not {verb} the {noun} there, since {name} holds the lock for {number} ms.", "I decided to keep the {noun} in `{path}` because the {noun} must stay readable by older versions.",
)  # fmt: skip
CODE = (
    "func {name}(ctx context.Context, {noun} *{Noun}) error {{", "\t{noun}, err := {name}(ctx, {noun}.{Noun})", "\tif err != nil {{", '\t\treturn fmt.Errorf("{verb} {noun}: %w", err)', "\t}}", "",
    "\t// {Noun} must be set before the {noun} is read; see {path}.", "\tfor _, {noun} := range {noun}s.{Noun}() {{", "\t\t{noun}s = append({noun}s, {name}({noun}, {number}))", "\treturn nil", "}}",
    '\tassert.Equal(t, "{noun}-{number}", got.{Noun})', "    def {name}(self, {noun}: str) -> None:", '        self.{noun} = {noun}.get("{noun}", {number})', "  {noun}: {name}.{noun} ?? null,",
)  # fmt: skip
COMMANDS: tuple[tuple[int, str, str], ...] = (
    (30, "mise run lint 2>&1 | tail -20", "lint"), (22, "go test ./{layer}/... 2>&1 | tail -40", "tests"), (12, "go test ./{layer} -run Test{Name} -v -count=1 2>&1 | head -60", "tests"),
    (14, "go build ./... 2>&1", "nothing"), (12, 'grep -rn "{name}" {layer} --include=*.go', "found"), (10, 'grep -n "{noun}" {path} | head -{digit}0', "found"), (12, "git log --oneline -{digit}", "log"),
    (12, "git diff {path}", "code"), (8, "git status --short", "status"), (10, "git diff main...HEAD --stat", "stat"), (6, "git show {sha} -- {path} | head -80", "code"), (6, "ls -la {layer}", "listing"),
    (8, "gh api repos/acme/proj/pulls/{number}/comments --paginate | jq --arg who \"dev\" 'map(select(.user.login == $who)) | .[] | {{path, line, body}}'", "prose"), (5, "gh pr view {number} --json title,body 2>&1", "prose"),
    (13, "git add -A && git commit -m \"$(cat <<'EOF'\n{Verb} the {noun} of `{name}`\n\n{explained}\n\n- {explained}\n- {explained}\n\nCo-Authored-By: Claude <noreply@anthropic.com>\nEOF\n)\"", "commit"),
    (7, "git push origin {noun}-{verb} 2>&1", "push"), (4, "git fetch origin && git rebase origin/main 2>&1", "push"), (4, "cd {layer} && go vet ./... && echo done", "nothing"), (4, "cat {path} 2>/dev/null || echo missing", "code"),
    (3, "for f in {layer}/*.go; do wc -l \"$f\"; done | sort -n | tail -{digit}", "listing"), (4, "sed -n '{number},+40p' {path}", "code"), (4, "pytest -q {layer} 2>&1 | tail -20", "pytest"),
    (3, "python3 - <<'EOF'\nimport json\nfor line in open('{noun}.jsonl'):\n    {noun} = json.loads(line)\n    print({noun}['{noun}'], len({noun}))\nEOF", "listing"),
)  # fmt: skip
OUTPUTS = {
    "lint": ("[lint] $ golangci-lint run ./...", "0 issues."),
    "found": ("{path}:{number}:\t{noun}, err := {name}({noun}, {number})", "{path}:{number}:// {name} {verb}s the {noun}."),
    "log": ("{sha} {Verb} the {noun} of {name}", "{sha} {noun}: {verb} before the {noun} is stored"),
    "status": (" M {path}", "M  {path}", "?? {path}"), "stat": (" {path} | {number} ++++----",), "listing": ("-rw-r--r-- 1 dev dev {number} Nov  1 10:{digit}{digit} {noun}{number}.go", "{number} {noun}_{verb}.go"),
    "tests": ("=== RUN   Test{Name}", "--- PASS: Test{Name} (0.{digit}{digit}s)", "ok  \texample.com/proj/{layer}\t0.{number}s", "?   \texample.com/proj/{layer}/{noun}\t[no test files]"),
    "pytest": ("{path} ..{digit}.                [ {number}%]", "{number} passed in {digit}.{digit}s"),
    "push": ("To github.com:acme/proj.git", "   {sha}..{sha}  {noun}-{verb} -> {noun}-{verb}", "remote: Resolving deltas: 100% ({number}/{number}), done."),
}  # fmt: skip
FAILED = (
    "--- FAIL: Test{Name} (0.0{digit}s)\n    {noun}_test.go:{number}: {verb} {noun}: unexpected EOF\nFAIL\texample.com/proj/{layer}\t0.{number}s\nFAIL",
    "{path}:{number}:{digit}: undefined: {name}", "{layer}/{noun}.go:{number}:2: unused-parameter: parameter '{noun}' seems to be unused (revive)\n1 issues:\n* revive: 1",
    "gh: Not Found (HTTP 404)", "error: could not apply {sha}... {Verb} the {noun}\nCONFLICT (content): Merge conflict in {path}", "FAILED {path}::test_{noun} - AssertionError: {number} != {number}\n1 failed, {number} passed in {digit}.1s",
)  # fmt: skip
SECTIONS = (
    "Primary Request and Intent", "Key Technical Concepts", "Files and Code Sections", "Errors and fixes", "Problem Solving", "All user messages", "Pending Tasks", "Current Work", "Optional Next Step",
)  # fmt: skip


class TextMaker:
    """Draws text from one source of chance."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        pick = chance.choice
        self.names = [
            pick(VERBS) + "".join(pick(NOUNS).title() for _ in range(1 + n % 3))
            for n in range(4000)
        ]
        self.paths = [
            f"{pick(LAYERS)}/{pick(NOUNS)}_{pick(NOUNS)}{pick(ENDINGS)}" for _ in range(160)
        ]
        self._stated: list[str] = []
        self._code = self.fill_lines(CODE, 400_000)

    def draw_size(self, median: float, spread: float, most: int = 60_000) -> int:
        """A length in characters, log-normal like those of real threads."""
        return min(most, int(self.chance.lognormvariate(math.log(median), spread)))

    def pick_often(self, names: Sequence[str], slope: float = 2.5) -> str:
        """One of them, the first ones most often."""
        return names[int(len(names) * self.chance.random() ** slope)]

    def fill_slot(self, slot: str) -> str:
        """What stands for a slot of a template."""
        chance = self.chance
        match slot.lower():
            case "noun":
                word = self.pick_often(NOUNS)
            case "verb":
                word = chance.choice(VERBS)
            case "name":
                word = self.pick_often(self.names)
            case "path":
                word = self.pick_often(self.paths)
            case "layer":
                word = chance.choice(LAYERS)
            case "sha":
                word = f"{chance.getrandbits(28):07x}"
            case "digit":
                word = str(chance.randint(2, 9))
            case "explained":
                word = self.fill(chance.choice(EXPLAINED))
            case _:
                word = str(chance.randint(11, 990))
        return word[0].upper() + word[1:] if slot[0].isupper() else word

    def fill(self, template: str) -> str:
        """A template with its slots filled."""
        filled = re.sub(r"(?<!\{)\{(\w+)\}", lambda slot: self.fill_slot(slot[1]), template)
        return filled.replace("{{", "{").replace("}}", "}")

    def fill_lines(self, templates: Sequence[str], size: int) -> str:
        """At least `size` characters of lines."""
        lines: list[str] = []
        while size >= 0:
            lines.append(self.fill(self.chance.choice(templates)))
            size -= len(lines[-1]) + 1
        return "\n".join(lines)

    def make_signature(self, size: int) -> str:
        """The signature of a thought."""
        return base64.b64encode(self.chance.randbytes(size * 3 // 4)).decode()

    def cut_code(self, size: int) -> str:
        """About `size` characters of code, of a pool that is made once."""
        start = self._code.find("\n", self.chance.randrange(len(self._code) - size - 200)) + 1
        return self._code[start : self._code.find("\n", start + size)]

    def explain(self, sentences: int) -> str:
        """Some sentences of an agent, which says most of them again later."""
        return " ".join(self._state() for _ in range(sentences))

    def _state(self) -> str:
        if self._stated and self.chance.random() < 0.6:
            return self.chance.choice(self._stated)
        self._stated.append(self.fill(self.pick_often(EXPLAINED, 1.8)))
        return self._stated[-1]

    def narrate(self) -> str:
        """What an agent says before a call."""
        return self.fill(self.chance.choice(SAID))

    def ask(self) -> str:
        """What a user says: mostly a line, now and then with a paste."""
        kind = self.chance.random()
        asked = self.fill(self.pick_often(ASKED, 1.6))
        if kind < 0.03:
            return f"{asked}. {self.explain(2)}\n\n{self.fill(self.pick_often(ASKED, 1.6))}"
        if kind > 0.955:
            pasted = self.chance.choice(
                (
                    OUTPUTS["tests"],
                    OUTPUTS["listing"],
                    OUTPUTS["log"],
                    OUTPUTS["found"],
                    FAILED[:2],
                    CODE,
                )
            )
            return f"{asked}\n\n{self.fill_lines(pasted, self.draw_size(1300, 0.9, 13_000))}"
        return asked

    def write_report(self, size: int) -> str:
        """What an agent reports, in Markdown."""
        parts = [self.explain(2)]
        while sum(map(len, parts)) < size:
            kind, items = (
                self.chance.random(),
                [self.explain(1) for _ in range(self.chance.randint(2, 5))],
            )
            if kind < 0.3:
                parts.append("\n".join(f"- {item}" for item in items))
            elif kind < 0.5:
                parts.append("\n".join(f"{n}. {item}" for n, item in enumerate(items, 1)))
            elif kind < 0.62:
                parts.append(f"```go\n{self.cut_code(200)}\n```")
            elif kind < 0.7:
                rows = "\n".join(self.fill("| `{name}` | {number} | {noun} |") for _ in items)
                parts.append(f"| what | ms | why |\n|---|---|---|\n{rows}")
            elif kind < 0.82:
                parts.append(self.fill("## {Noun} and {noun}"))
            else:
                parts.append(" ".join(items[:3]))
        return "\n\n".join(parts)

    def summarize(self, size: int) -> str:
        """The summary of a compaction."""
        parts = ["This session is being continued from a previous conversation that ran out of context. The summary below covers the earlier portion of the conversation.\n\nAnalysis:",
                 self.write_report(size // 3), "Summary:"]  # fmt: skip
        for number, title in enumerate(SECTIONS, 1):
            wanted, lines = size // 14, list[str]()
            while sum(map(len, lines)) < wanted:
                said = (
                    f'"{self.fill(self.pick_often(ASKED, 1.6))}"'
                    if number == 6
                    else self.explain(1)
                )
                lines.append(f"   - {said}")
            parts.append(f"{number}. {title}:\n" + "\n".join(lines))
        return "\n\n".join(parts)

    def run_command(self) -> tuple[str, str, bool]:
        """A command, its output, and whether it failed."""
        _, template, kind = self.chance.choices(COMMANDS, [weight for weight, *_ in COMMANDS])[0]
        command = self.fill(template)
        if self.chance.random() < 0.075:
            above = self.fill_lines(OUTPUTS["tests"], self.draw_size(200, 1.2, 4000))
            return command, f"{above}\n{self.fill(self.chance.choice(FAILED))}", True
        size = self.draw_size(330, 1.6, 16_000)
        match kind:
            case "nothing":
                return command, "", False
            case "lint":
                return command, "\n".join(OUTPUTS["lint"]), False
            case "commit":
                return (
                    command,
                    self.fill(
                        "[{noun}-{verb} {sha}] {Verb} the {noun}\n {digit} files changed, {number} insertions(+), {digit} deletions(-)"
                    ),
                    False,
                )
            case "code":
                return command, self.cut_code(size), False
            case "status":
                size = min(size, 250)
            case "prose":
                return command, self.write_report(size), False
        return command, self.fill_lines(OUTPUTS[kind], size), False
