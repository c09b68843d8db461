"""The goal rules (B1)."""

import pytest

from tasuki.draft.goal import EXAMPLE, GUIDANCE, check_goal, why_vague
from tasuki.errors import GoalTooVague


@pytest.mark.parametrize(
    "text",
    [
        "continue", "fix", "Fix it please", "keep going where we left off", "continue with the next step",
        "do the rest of the tasks", "weiter machen bitte", "Behebe den Fehler", "corrige les erreurs",
        "arregla los errores", "продолжай дальше", "继续", "请继续。", "続けてください", "계속해줘",
        "pick up where we left off", "continue the work from the previous thread", "finish what you started",
        "next steps please", "wrap this up now", "continue coding", "your goal here",
        "mach bitte da weiter wo wir waren", "asdfasdfasdf", "Please continue from where the last session stopped.",
        "pick up the conversation where we stopped", "do the next step of the plan", "go on with the implementation",
        "bring die Arbeit bitte zu Ende", "mach mit dem nächsten Schritt weiter",
        "reprends là où on s'était arrêté", "sigue donde lo dejamos por favor", "continue de onde paramos",
        "riprendi da dove abbiamo lasciato", "请继续之前的工作", "前回の続きをお願いします", "1234567890123",
        "продолжай с того места где остановились", "lorem ipsum dolor sit amet", "$1 $ARGUMENTS", "GOAL GOES HERE",
        "take over from here, thanks", "do the thing we talked about", "führe die Arbeit fort",
        "finish the remaining work and then stop", "weitermachen wie besprochen", "aaaa aaaa aaaa aaaa", "improvements", "Weiterentwicklung!",
        "", "   \n\t", "???", "...!!!", "ok", "yes do it",
    ],
)  # fmt: skip
def test_vague_goals_are_refused_with_the_guidance(text: str) -> None:
    """A goal that says nothing is refused in any language, with the seed's guidance and example."""
    with pytest.raises(GoalTooVague) as caught:
        check_goal(text)

    assert GUIDANCE in str(caught.value)
    assert EXAMPLE in str(caught.value)
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    "text",
    [
        "implement team-level handoff, update tests, document API.",
        "fix the race in SessionStore.flush and add a regression test",
        "Schreibe Tests für den Parser", "把超时改成可配置的并补测试", "リトライ回数を設定可能にする",
        "make upload.py retry on 429", "src/upload/client.py", "SessionStore.flush()", "continue with the retry tests",
        "finish the CSV export", "resume the previous session on start", "wrap all errors with context",
        "keep the last session on start", "plan the agent task", "pick up the flaky login test", "ทำให้จำนวนครั้งที่ลองใหม่ตั้งค่าได้",
        "where is the token refreshed?", "explain what the last commit does", "mach den Parser schneller",
    ],
)  # fmt: skip
def test_goals_that_say_something_pass_to_the_letter(text: str) -> None:
    """A specific goal passes and keeps every character."""
    goal = check_goal(f"  {text}\n")

    assert goal.text == f"  {text}\n"
    assert goal.forced is False


def test_the_minimum_length_counts_characters_and_can_be_set() -> None:
    """Eleven characters are too short by default, and long enough with a minimum of five."""
    assert "11 of 12" in why_vague("rename foo!")
    assert why_vague("rename foo!", min_length=5) == ""


def test_force_accepts_a_vague_goal_and_says_so_but_never_an_empty_one() -> None:
    """A forced goal is marked; nothing at all stays nothing."""
    assert check_goal("continue", force=True).forced is True
    with pytest.raises(GoalTooVague):
        check_goal("  ", force=True)
