"""The goal rules (B1)."""

import pytest

from tasuki.draft.goal import EXAMPLE, GUIDANCE, check_goal, explain_vagueness
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
        "continua de onde paraste",
        "sigue con lo que estabas haciendo",
        "finis ce que tu as commencé",
        "finisci quello che hai iniziato",
        "mach fertig, was du angefangen hast",
        "do whatever is left",
        "you know what to do",
        "resume the previous session", "resume work from the last session", "complete the todo list", "implement the plan",
        "implement the next step", "do what the plan says", "finish up and commit", "Please finish everything and then commit it.",
        "continue working on it until everything is done", "keep working until all tasks are done", "enter your goal here",
        "describe the next goal", "asdf jkl; asdf jkl;", "sdfghjkl sdfghjk", "qweqwe lkjhg",
        "nimm die letzte Sitzung wieder auf", "setze die Arbeit aus der letzten Sitzung fort", "arbeite die Todo-Liste ab",
        "erledige die restlichen Aufgaben", "setze den Plan um", "implementiere den nächsten Schritt", "mach was im Plan steht",
        "mach alles fertig und committe", "arbeite weiter daran bis alles fertig ist", "gib hier dein Ziel ein",
        "beschreibe das nächste Ziel", "mach da weiter, wo wir aufgehört haben",
        "reprends là où on s'est arrêté", "continue là où nous nous sommes arrêtés", "reprends la session précédente",
        "reprends le travail de la dernière session", "termine la liste des tâches", "implémente le plan",
        "implémente la prochaine étape", "fais ce que dit le plan", "termine tout et commite",
        "continue à travailler jusqu'à ce que tout soit fini", "entre ton objectif ici", "décris le prochain objectif",
        "reanuda la sesión anterior", "retoma el trabajo de la última sesión", "completa la lista de tareas",
        "implementa el plan", "implementa el siguiente paso", "haz lo que dice el plan", "termina todo y haz commit",
        "sigue trabajando hasta que todo esté listo", "escribe aquí tu objetivo", "describe el siguiente objetivo",
        "retoma donde lo dejamos", "retome a sessão anterior", "retome o trabalho da última sessão",
        "conclua a lista de tarefas", "implemente o plano", "implemente o próximo passo", "faça o que o plano diz",
        "termine tudo e faça commit", "continue trabalhando nisso até tudo estar pronto", "digite seu objetivo aqui",
        "descreva o próximo objetivo", "retoma de onde paramos", "riprendi la sessione precedente",
        "riprendi il lavoro dall'ultima sessione", "completa la lista delle cose da fare", "implementa il piano",
        "implementa il prossimo passo", "fai quello che dice il piano", "finisci tutto e fai il commit",
        "continua a lavorarci finché tutto è finito", "inserisci qui il tuo obiettivo", "descrivi il prossimo obiettivo",
        "riprendi da dove ci siamo fermati",
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


@pytest.mark.parametrize(
    "text",
    [
        "implement the retry plan in upload.py", "complete the todo list page of the web app",
        "resume the download from the last byte", "resume the previous session on start", "implement the plan command",
        "implement step 3 of the plan", "implement the next step of the onboarding wizard", "implement the todo list",
        "implement plan mode", "implement phase 2", "execute the migration plan on staging", "follow redirects in the client",
        "follow the style guide of the docs", "do what the linter says", "do what RFC 9110 says about Retry-After",
        "complete the task list endpoint", "finish the todo parser", "finish the upload and commit it",
        "commit the fix and push", "commit and push to main", "finish the commit hook", "keep retrying until the server answers",
        "continue polling until the job is done", "work through the failing tests", "describe the goal of each module",
        "enter the goal mode with a key", "write the goals page", "type the goal module", "describe the next release",
        "resume the last session in the picker", "restore the previous session after a crash", "list the previous sessions",
        "setze den Plan in upload.py um", "arbeite die Liste der Lint-Fehler ab", "beschreibe das Ziel jedes Moduls",
        "implémente le plan de reprise dans upload.py", "termine la liste des commandes de la CLI",
        "implementa el plan de reintentos", "implemente o plano de retentativas", "implementa il piano dei tentativi",
        "reopen the previous tab on start", "fix the poi search", "wer ruft den Parser auf?", "map asdf to the left hand",
        "implement the retry plan", "complete the list view", "task_complete", "resume the upload session",
    ],
)  # fmt: skip
def test_goals_of_the_same_shapes_that_name_a_thing_pass(text: str) -> None:
    """One word of the matter itself makes a goal of what says nothing without it."""
    assert explain_vagueness(text) == ""


def test_the_minimum_length_counts_characters_and_can_be_set() -> None:
    """Eleven characters are too short by default, and long enough with a minimum of five."""
    assert "11 of 12" in explain_vagueness("rename foo!")
    assert explain_vagueness("rename foo!", min_length=5) == ""


def test_force_accepts_a_vague_goal_and_says_so_but_never_an_empty_one() -> None:
    """A forced goal is marked; nothing at all stays nothing."""
    assert check_goal("continue", force=True).forced is True
    with pytest.raises(GoalTooVague):
        check_goal("  ", force=True)
