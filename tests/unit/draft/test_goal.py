"""The goal rules (B1)."""

import time

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
    """One word needs twelve by default; several that are not all vague need half as many."""
    assert "11 of 12" in explain_vagueness("MIN_LENGTHS")
    assert explain_vagueness("MIN_LENGTHS", min_length=5) == ""
    assert "5 of 6" in explain_vagueness("go x!")
    assert explain_vagueness("rename foo!") == ""


def test_force_accepts_a_vague_goal_and_says_so_but_never_an_empty_one() -> None:
    """A forced goal is marked; nothing at all stays nothing."""
    assert check_goal("continue", force=True).forced is True
    with pytest.raises(GoalTooVague):
        check_goal("  ", force=True)


VAGUE_IN = {
    "en": """
        continue | go on | see above | as discussed | do it | as we discussed | do what we discussed | like I said |
        same as before | keep at it | just do it | get it done | do the needful | carry on | proceed | next | what's
        next | finish it | what I said before | please see above | as agreed | go ahead and do it | do that | the rest
        | make it work | fix everything | fix it all | start | let's go | you know what | as above | as planned |
        follow the plan | the above | see the conversation | see the thread above | read the conversation | use the
        context | handoff | hand this off | hand off | hand over | do as I said | same task | same again | as
        mentioned
    """,
    "de": """
        weiter | mach weiter | weitermachen | wie besprochen | siehe oben | mach das | mach es | tu es | fortfahren |
        wie gehabt | wie vereinbart | mach es fertig | den Rest | mach den Rest | los | los geht's | fang an | wie
        oben | wie gesagt | das Gleiche nochmal | mach wie besprochen weiter | bitte wie besprochen umsetzen | so wie
        abgesprochen | weiter geht's | alles erledigen
    """,
    "fr": """
        continue | continuer | vas-y | voir ci-dessus | comme convenu | comme discuté | fais-le | poursuis | continue
        comme prévu | comme on a dit | fais comme convenu | la suite | finis-le | allez | voir plus haut | on continue
        | fais ce qu'on a dit | fais le reste | comme prévu | allons-y
    """,
    "es": """
        continúa | continua | sigue | sigue adelante | ver arriba | como lo hablamos | como acordamos | hazlo |
        adelante | dale | lo de arriba | como hablamos | como se discutió | haz lo que dijimos | haz el resto | véase
        arriba | termínalo | vamos | lo mismo de antes | según lo acordado
    """,
    "it": """
        continua | continuare | vai avanti | vedi sopra | come discusso | come concordato | fallo | procedi | prosegui
        | come detto | fai il resto | come sopra | avanti | come d'accordo | fai quello che abbiamo detto | finiscilo
        | andiamo avanti | continua così
    """,
    "pt": """
        continue | continua | continuar | segue | siga em frente | vai em frente | ver acima | veja acima | como
        combinado | como discutido | faça isso | faz isso | prossiga | como falamos | conforme combinado | faça o
        resto | vamos lá | como dito | faça o que combinamos
    """,
    "nl": """
        ga door | doorgaan | ga verder | zie boven | zoals besproken | zoals afgesproken | doe het | doe maar | ga
        maar door | verder | maak het af | de rest | doe de rest | zie hierboven | ga zo door | vervolg | ga verder
        waar we gebleven waren | doe wat we besproken hebben
    """,
    "pl": """
        kontynuuj | dalej | jedziemy dalej | patrz wyżej | jak ustalono | jak rozmawialiśmy | zrób to | rób dalej |
        idź dalej | dokończ | zrób resztę | zgodnie z ustaleniami | tak jak wcześniej | kontynuuj proszę | jak
        omówiono | jak wyżej | zobacz powyżej | kontynuuj pracę | do dzieła
    """,
    "ja": """
        続けて | 続き | 続行 | 続行して | 上記参照 | 上記の通り | 上の通り | 話した通りに | 相談した通り | やって | やってください | 進めて | 進めてください | お願い | お願いします |
        続けてお願いします | さっきの続き | 話した通りにやって | 同じように | 残りもお願いします | 残りをやって | お任せします | 続きをやって | 次へ
    """,
    "ko": """
        계속 | 계속해 | 계속해줘 | 계속하세요 | 계속 진행해줘 | 계속 진행 | 진행해 | 진행해줘 | 위 참조 | 위에 참고 | 위 내용대로 | 논의한 대로 | 논의한대로 해줘 | 말한 대로 |
        말한대로 해 | 해줘 | 그렇게 해줘 | 다음 | 이어서 | 이어서 해줘 | 이어서 진행해줘 | 나머지 해줘 | 하던 거 계속 | 마무리해줘 | 아까 말한 대로
    """,
    "zh": """
        继续 | 请继续 | 继续吧 | 接着 | 接着做 | 见上 | 如上 | 见上文 | 如上所述 | 按照讨论的 | 按讨论的做 | 按之前说的做 | 照做 | 做吧 | 去做 | 开始 | 开始吧 | 下一步 |
        继续做 | 继续完成 | 完成剩下的 | 剩下的 | 做剩下的 | 同上 | 請繼續 | 繼續 | 如前所述 | 继续下去 | 按计划进行 | 按我们说的做 | 就这样做 | 搞定它
    """,
    "tr": """
        devam | devam et | devam et lütfen | yukarıya bak | konuştuğumuz gibi | konuşulduğu gibi | yap | yap bunu |
        bunu yap | hadi | sürdür | yukarıdaki gibi | anlaştığımız gibi | kaldığın yerden devam et | kaldığımız yerden
        devam et | gerisini yap | bitir | tamamla | söylediğim gibi | aynen devam
    """,
    "ru": """
        продолжай | продолжи | продолжить | дальше | давай дальше | смотри выше | см. выше | как обсуждали | как
        договорились | сделай это | делай | как обсудили | продолжай дальше | как и раньше | то же самое | сделай
        остальное | доделай | вперёд | поехали | как я сказал | как договаривались | закончи
    """,
    "more": """
        keep working on this | do what I asked | please continue with what you were doing | as per our discussion
        | same thing as last time | work on the remaining stuff | pls go on | continue with the plan above |
        finish what we talked about | mach das fertig | mach da weiter bitte | wie oben beschrieben | so wie eben
        besprochen | setz das um | mach alles was noch offen ist | continue ce que tu faisais | fais ce que j'ai
        demandé | comme d'habitude | termine ce qui reste | continúa con lo que hacías | haz lo que te dije | como
        siempre | sigue con el plan | continua quello che stavi facendo | fai come ti ho detto | come al solito |
        continua de onde parou | faça o que eu pedi | como sempre | ga verder met het werk | doe wat ik zei |
        zoals gezegd | kontynuuj to co robiłeś | zrób jak mówiłem | jak zwykle | 作業を続けて | さっきの作業を続けてください |
        言った通りにして | 残りのタスクをやって | 작업을 계속해줘 | 아까 하던 작업 이어서 해줘 | 방금 말한 거 해줘 | 남은 작업 해줘 | 继续刚才的任务 | 把剩下的做完 | 就按刚才说的办 |
        接着上面的做 | işe devam et | dediğim gibi yap | kalan işleri yap | продолжай работу | сделай как я сказал | как
        обычно | заверши начатое | get on with it | do everything we said | continue as before | more of the same
        please | finish the job | carry on with the work as planned | mach weiter wie vorher | erledige den Rest
        wie besprochen | mach den Kram fertig | continue le travail comme avant | fais ce qui est prévu | sigue
        con lo mismo | haz lo acordado | termina lo que falta | vai avanti con il lavoro | fai quello che serve |
        come prima | faz o que falta | continua o trabalho | segue o plano | ga verder zoals eerder | maak de rest
        af | rób to samo co wcześniej | dokończ to | 続きをよろしく | 前と同じでお願いします | 残りを進めて | 아까처럼 계속해줘 | 남은 거 해줘 | 照旧 |
        按原计划继续 | 把它做完 | kaldığın yerden sürdür | делай как раньше | закончи то что начал | продолжай как
        договорились | please carry on | keep going with the plan | do the same as yesterday | finish up here |
        what we said | work on it | wie immer weiter | mach den nächsten Schritt | bring das zu Ende | das von
        vorhin | poursuis ce travail | fais la même chose | on reprend | suite et fin | sigue trabajando en eso |
        acaba lo pendiente | lo que te dije antes | prosegui con quanto detto | finisci tutto | segue com isso |
        termina o que começou | continua a partir daqui | doe hetzelfde | werk verder | maak alles af | pracuj
        dalej | zrób to do końca | 作業の続きをお願い | 前回同様にお願いします | そのまま進めて | 이전 작업 계속 | 그대로 진행해주세요 | 接着干 | 继续完成剩余任务 |
        照刚才说的做 | işi bitir | konuştuğumuz şeyi yap | продолжи с места остановки | доведи до конца | сделай всё как
        говорили
    """,
}
"""Goals that say nothing, in each language: go on, see above, as discussed, do it."""
CONCRETE_IN = {
    "en": """
        fix #42 | add retries | fix login | run tests | add tests | drop py38 | bump deps | update docs | write docs |
        fix CI | fix typo | lint it with ruff | fix issue 42 | fix the login bug | add --json | use uv | support
        py3.13 | rename foo | port to go | try pnpm | fix GH-42 | do #42 | close #42 | revert abc1234 | merge PR 7 |
        continue with #42 | add i18n | run lint | debug OOM | test foo | deploy it | commit and push | fix 2 failing
        tests | remove dead code | see above but for the CLI | apply the discussed retry fix in upload.py | fix
        above-the-fold CSS | fix the build | squash commits | write tests | release 1.2 | go on with the parser | add
        dark mode | fix tests | improve performance | review my diff | refactor the login handler | explain the error
        | fix bug 17 | add CORS | resume upload
    """,
    "de": """
        Tests schreiben | Login reparieren | füge Retries hinzu | fix #42 | README übersetzen | mach den Login
        schneller | Doku ergänzen | wie besprochen die Retries in upload.py einbauen | baue Caching ein | lösche toten
        Code | Parser fixen
    """,
    "fr": """
        ajoute des tests | corrige le login | corrige #42 | ajoute des retries | lance les tests | traduis le README |
        mets à jour la doc | renomme foo | comme convenu ajoute le cache
    """,
    "es": """
        añade tests | arregla el login | arregla #42 | añade reintentos | ejecuta las pruebas | traduce el README |
        corrige el enlace | borra la caché
    """,
    "it": """
        aggiungi i test | correggi il login | aggiungi i retry | correggi #42 | lancia i test | traduci il README |
        rinomina foo | aggiorna la doc
    """,
    "pt": """
        adicione testes | corrija o login | corrija #42 | adicione retries | rode os testes | traduza o README |
        atualize a doc
    """,
    "nl": """
        voeg tests toe | fix de login | fix #42 | voeg retries toe | draai de tests | vertaal de README | update de
        docs
    """,
    "pl": """
        dodaj testy | napraw logowanie | napraw #42 | dodaj ponowienia | uruchom testy | przetłumacz README | zmień
        nazwę foo
    """,
    "ja": """
        テスト追加 | ログイン修正 | #42を修正 | テストを書く | リトライ追加 | READMEを翻訳 | 型を直して | 続けてテストを書く | 上記のリトライを実装 | テスト実行 | 依存更新
    """,
    "ko": """
        테스트 추가 | 로그인 수정 | #42 수정 | 재시도 추가 | 테스트 실행 | README 번역 | 로그인 고쳐줘 | 계속해서 테스트 작성 | 타입 오류 수정 | 캐시 추가
    """,
    "zh": """
        修复登录 | 加测试 | 添加重试 | 修复#42 | 跑测试 | 写文档 | 翻译README | 继续写解析器测试 | 修复登录错误 | 升级依赖 | 加缓存 | 按讨论的方案给上传加重试 | 重构解析器 |
        删除死代码
    """,
    "tr": """
        test ekle | girişi düzelt | #42'yi düzelt | yeniden deneme ekle | testleri çalıştır | README'yi çevir |
        önbellek ekle
    """,
    "ru": """
        добавь тесты | почини логин | исправь #42 | добавь повторы | запусти тесты | переведи README | обнови доки |
        удали мёртвый код
    """,
    "more": """
        ship v2 | try mypy | add a CLI | use ruff | bump node | fix #7 | fix deps | pin numpy | close GH-9 | drop
        py2 | add docs | fix CI cache | undo 3f2a1bc | mach CI grün | Tests für Parser | Logs kürzen | ajoute un
        cache | corrige la CI | arregla CI | añade logs | sistema i test | aggiungi log | conserta o CI | adiciona
        log | maak CI groen | fix tests | napraw CI | dodaj logi | CI修正 | ログ追加 | 型追加 | キャッシュを入れて | CI 고쳐줘 | 로그 추가
        | 문서 작성 | 加日志 | 写单元测试 | 改超时 | CI'yı düzelt | log ekle | почини CI | добавь логи | add a test | fix race |
        trim logs | speed up CI | try bun | enable TLS | hide banner | sort imports | cut v3 | use pathlib | Cache
        leeren | Icon tauschen | Tippfehler beheben | ajoute le TLS | change l'icône | quita el log | usa pnpm |
        togli il banner | usa uv | troca o ícone | gebruik pnpm | usuń banner | użyj uv | 並び替え修正 | キャッシュ削除 | ポート変更
        | 포트 변경 | 배너 제거 | 改端口 | 删缓存 | 换图标 | portu değiştir | убери баннер | используй uv | bump CI | tag v1.4 |
        lint docs | mock S3 | kill zombie jobs | fix N+1 | trim PATH | add ETA | use ruff 0.6 | close #12 | Port
        ändern | Farben anpassen | CSV exportieren | Rate-Limit einbauen | supprime le log | teste le parseur |
        exporta a CSV | sube a py3.12 | rinomina utils | testa o parser | vertaal docs | dodaj CSV | usuń logi |
        CSV出力 | テスト修正 | 色を変更 | CSV 내보내기 | 색 변경 | 导出CSV | 改颜色 | testi düzelt | CSV ekle | экспорт в CSV | смени
        порт
    """,
}
"""The shortest goals that name something, in each language."""


def split_table(text: str) -> list[str]:
    """The goals of a language."""
    return [" ".join(goal.split()) for goal in text.split("|")]


@pytest.mark.parametrize("language", VAGUE_IN)
def test_in_thirteen_languages_vague_goals_are_asked_again(language: str) -> None:
    """None of them passes, with capitals or a full stop neither."""
    goals = split_table(VAGUE_IN[language])
    changed = [*goals, *(goal.capitalize() for goal in goals), *(f"{goal}." for goal in goals)]

    assert [goal for goal in changed if not explain_vagueness(goal)] == []


@pytest.mark.parametrize("language", CONCRETE_IN)
def test_in_thirteen_languages_short_goals_that_name_something_pass(language: str) -> None:
    """A verb and a thing are enough."""
    goals = split_table(CONCRETE_IN[language])

    assert [goal for goal in goals if explain_vagueness(goal)] == []


def test_a_long_goal_is_examined_quickly() -> None:
    """A hundred thousand characters of vague pieces, and one that is none, take no time."""
    began = time.monotonic()
    explain_vagueness("続けてしてください" * 10_000 + "x")

    assert time.monotonic() - began < 1
