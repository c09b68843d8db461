"""The words of six languages by which sentences, goals and their parts are recognized.

English first, then the most telling words of German, French, Spanish, Portuguese, Italian, Chinese
and Japanese. Whoever adds a language adds it here; patterns stay with the functions that use them.
"""

WISH, DECISION, FINDING, FAILED, REVERSAL, OPEN, NEXT, HEDGE, NUMBER = (1 << i for i in range(9))
"""Flags of what a sentence seems to be."""


def _split_words(*words: str) -> frozenset[str]:
    return frozenset(" ".join(words).split())


# -- what a sentence says -----------------------------------------------------------


CUE_WORDS: dict[int, str] = {
    WISH: "only every must mustn't never always don't dont avoid keep without instead prefer should shouldn't leave stop "
    "can't cannot forbidden required require requires exactly ensure no cant max nicht nur immer nie muss darf "
    "kein keine keinen ohne soll sollen müssen nix seulement toujours jamais doit sans pas nunca siempre solo sólo debe "
    "sin ningún",
    DECISION: "decided decision chose chosen opted agreed deliberately settled picked entschieden "
    "stattdessen lieber reicht nehmen décidé plutôt decidimos decidido",
    FINDING: "because actually requires require depends otherwise gotcha caveat beware important importantly unless "
    "already since doesn't can't cannot cause caused culprit weil parce porque",
    FAILED: "reverted reverting abandoned disproportionate tried attempted regressed undid "
    "hoped pointless futile fehlgeschlagen vergeblich nix bringt probiert versucht intenté probé",
    OPEN: "unclear unknown undecided tbd unverified unconfirmed wonder unsure unanswered unklar offen ungeklärt",
    NEXT: "todo follow-up followup unfinished noch ensuite reste falta pendiente",
    HEDGE: "likely probably might presumably untested seems appears suspect assume perhaps plausible",
}
"""Single words of each flag, separated by spaces."""
CUE_PHRASES: dict[int, tuple[str, ...]] = {
    WISH: (
        "do not", "make sure", "need to", "needs to", "has to", "have to", "no longer", "at most", "at least",
        "not allowed", "off limits", "i'd like", "i would", "hands off", "off-limits", "please don't", "be careful",
    ),
    DECISION: (
        "settled on", "going with", "go with", "went with", "we'll use", "we will use", "i'll use", "let's use", "let's go",
        "let's keep", "let's do", "let's make", "let's have", "switched to", "switch to", "by design", "on purpose", "en lugar", "en vez", "moved to", "we picked", "i picked",
        "the choice", "stick with", "sticking with", "keep using", "i'm going to use", "we are using", "we're using",
    ),
    FINDING: (
        "root cause", "turns out", "turned out", "the issue is", "the issue was", "the problem is", "the problem was",
        "the bug is", "the bug was", "the trick", "the catch", "in fact", "the fix is", "the fix was", "fixed by",
        "depends on", "only when", "only if", "only after", "note that", "so that", "does not", "even though",
        "the real", "liegt an", "à cause", "means that", "that's why", "which is why", "not just", "instead of", "rather than", "the reason",
    ),
    FAILED: (
        "didn't work", "doesn't work", "don't work", "did not work", "does not work", "won't work", "not working",
        "didn't help", "did not help", "doesn't help", "dead end", "gave up", "roll back", "rolled back", "backed out",
        "no luck", "made it worse", "made things worse", "problems with this", "not viable", "ruled out", "ne marche pas",
        "no funciona", "had to back", "without success", "approach failed", "attempt failed", "failed with", "failed because",
        "fails because", "fails with", "it failed", "that failed", "this failed", "wrong approach", "was wrong", "broke the",
        "rejected the", "rejected that", "rejected this", "rejected it", "we rejected", "i rejected", "was rejected because",
        "not worth", "not possible", "no difference", "no effect", "made no", "changed nothing", "didn't change", "doesn't work out",
        "didn't work out", "to no avail", "in vain", "out of the question", "not an option", "had to give up", "too slow",
        "dead on arrival", "no way around", "there is no way", "there's no way", "bringt nichts", "geht nicht", "ging nicht",
        "no sirve", "no ayuda", "isn't possible", "can't be done", "no way to", "worse than", "didn't fix", "doesn't fix",
        "is worse", "was worse", "are worse", "takes it back", "take it back", "took it back", "me nowhere", "us nowhere", "proves nothing",
        "proved nothing", "for ever", "never came back", "not fix", "still fails", "still failing", "still broken",
    ),
    OPEN: (
        "open question", "not clear", "not sure", "not decided", "not yet decided", "to be decided", "needs a decision",
        "need a decision", "waiting for", "depends on whether", "haven't verified", "haven't checked", "haven't tested",
        "haven't decided", "not verified", "not tested", "not confirmed", "remains to be seen", "need to check",
        "need to confirm", "need to ask", "still open", "have to ask", "needs to confirm", "do we know", "do we even", "does anyone", "nobody knows", "no idea",
        "couldn't find out", "could not find out", "can't tell", "cannot tell", "only you can", "up to you", "your call", "not known",
        "don't know", "do not know", "not verified", "weiß nicht", "noch offen", "keine ahnung", "no sé", "someone needs to tell",
    ),
    NEXT: (
        "next step", "next up", "next:", "next we", "remaining work", "remaining:", "remaining steps",
        "what remains", "is pending", "are pending", "pending:", "we still", "still has to", "still have to", "left:", "up next",
        "still need", "still to do", "still missing", "left to do", "not yet", "not implemented", "not started", "not wired",
        "to-do", "follow up", "als nächstes", "noch zu", "have not", "hasn't been", "what's left",
        "remains to", "yet to", "still owe", "i owe you", "for later", "later on", "not handled", "is missing",
        "are missing", "isn't covered", "not covered", "not there yet", "i'd ", "i would", "würde ich", "nächsten schritt",
        "nächster schritt", "fehlt noch", "muss noch", "müssen noch", "en un segundo paso", "queda por", "lo siguiente",
    ),
    HEDGE: ("most plausible", "should work", "should fix", "should be", "i think", "i believe", "in theory", "may be"),
}  # fmt: skip
"""Phrases of each flag, found anywhere in a sentence in lower case."""
REVERSAL_STARTS = (
    "no,", "no ", "no.", "nope", "nah", "nevermind", "never mind", "actually", "wait", "stop", "hmm, no", "hmm no",
    "scratch that", "forget it", "forget that", "forget about", "undo", "revert", "roll back", "rollback",
    "on second thought", "i changed my mind", "don't do that", "let's not", "let's undo", "let's revert", "let's roll back",
    "let's drop", "let's skip", "nein", "doch nicht", "non,", "finalement", "mejor no", "cancel",
)  # fmt: skip
"""Beginnings of a message that takes something back."""
NOT_A_NO = ("no clue", "no idea", "no problem", "no worries", "no need", "no rush", "no hurry")
"""Beginnings that look like those, and take nothing back."""
REVERSAL_PHRASES = (
    "undo that", "revert that", "roll it back", "roll that back", "roll this back", "drop that", "drop this", "drop the",
    "no longer want", "no longer need", "changed my mind", "instead of that", "don't like it", "don't like that", "don't like this", "cancel that",
    "cancel the", "cancel this", "forget the", "not anymore", "not any more", "scrap the", "scrap that", "back out",
)  # fmt: skip
"""Phrases that take something back wherever they are."""
EAST_ASIAN_CUES: dict[int, tuple[str, ...]] = {
    WISH: (
        "不要",
        "必须",
        "只能",
        "别",
        "不能",
        "请",
        "ないで",
        "必ず",
        "だけ",
        "しないで",
        "べき",
    ),
    DECISION: ("决定", "改用", "选择", "決め", "採用", "使うことに"),
    FINDING: ("因为", "原因", "原来", "ため"),
    FAILED: ("失败", "不行", "行不通", "失敗", "うまくいか"),
    REVERSAL: ("算了", "不用了", "撤销", "やっぱり", "やめ"),
    OPEN: ("不确定", "未定", "不明"),
    NEXT: ("下一步", "待办", "还需要", "次は", "残り"),
}
"""The same as CUE_PHRASES for languages without spaces."""
NARRATION_STARTS = (
    "let me", "now let me", "i'll ", "i will ", "i'm going", "i'm now", "i'm checking", "i’m ", "i’ll ", "let's look",
    "let's check", "let's see", "let's run", "let's start", "now i", "now add", "now update", "now run", "now fix",
    "now the", "looking", "checking", "reading", "running", "done", "good", "great", "perfect", "excellent", "all tests pass",
    "first, let me", "next, i", "next i", "then i", "ok, let me", "okay, let me", "alright", "now we", "now check", "now create",
    "good, ", "now that", "i need to check", "i need to look", "i need to see", "you're right", "you’re right",
)  # fmt: skip
"""Beginnings of sentences that only announce or celebrate a step."""
BINDING_WORDS = (
    "never", "only", " every ", "must", "always", "don't", "dont", "do not", " no ", "without", "keep", "max", "at most", "at least",
    "can't", "cant", "cannot", "has to", "have to", "exactly", "not ", "nicht", "kein", "nur", "immer", "nie", "muss", "darf",
    "sin ", "nunca", "siempre", "solo ", "jamais", "toujours", "no longer", "instead", "leave", "avoid", "under ", "below", "nowhere", "nothing else",
)  # fmt: skip
"""What makes a sentence of the user bind the successor."""
AGREEING_STARTS = (
    "dann ", "ok then", "yeah ok", "ok so", "alright", "fine,", "entonces", "then we", "then let's", "so we", "ok, then",
    "yes, then", "gut, dann", "ok dann", "vale, ", "go with", "let's go with", "deal", "agreed", "settled",
)  # fmt: skip
"""Beginnings of a sentence that settles what was discussed."""

# -- any text ------------------------------------------------------------------------


STOP_WORDS = frozenset(
    "the and for with that this from are was were has have had not but you your our can could would should will "
    "what when where which who why how into onto out over under about after before then than them they their there "
    "here also just like make made want need please use using used add added get got let lets some any all more most "
    "now new one two does did done its it's i'm we're don't doesn't isn't been being very only still same other "
    "each per via way work works working thing things know see look sure und der die das ein eine nicht mit für von "
    "les des une dans pour avec sur est que qui los las una para con por del".split()
)
"""Words that name nothing."""

# -- goals ---------------------------------------------------------------------------


SMALL_WORDS = _split_words(
    # English
    "the a an my our your this that these those it its all of in on at to from with for and then now please just up off "
    "out over through here next last previous prior earlier former remaining rest open outstanding pending whole entire "
    "current agreed above we us i you me can could would let s lets go ahead ok okay so by as is are be was were one what "
    "whatever everything each every thing things work working again has have been says said say tells described written "
    "keep going carry",
    # German
    "der die das den dem des ein eine einen mein meine unser unsere dein deine euer bitte jetzt nun dann und mit an aus von vom "
    "zu zum im in am auf um ab ein fort weiter wieder hier da daran dran so wie was wo alle alles ganze ganzen nächste nächsten "
    "nächster letzte letzten letzter vorige vorigen vorherige vorherigen restliche restlichen übrigen offene offenen es ist sind "
    "ich du wir steht sagt nach laut arbeit einfach mal fertig",
    # French
    "le la les l un une de du des d en et à au aux ce c cette ces ton ta votre vos mon ma mes notre nos tout toute toutes tous "
    "ici là où on nous tu vous s t est es etes êtes sommes suis maintenant puis ensuite plaît te plait prochain prochaine "
    "prochaines suivant suivante suivantes dernier dernière précédent précédente restant restante restantes qui que qu dit "
    "avec par dans dessus y il soit travail reste j",
    # Spanish
    "el los las lo una mi tu su nuestro nuestra por favor ahora luego y e o en con del al aquí donde nos siguiente siguientes "
    "próximo próxima anterior última último todo toda todos todas que dice esté está este esta ello trabajo pendiente "
    "pendientes restantes",
    # Portuguese
    "o os as um uma meu minha seu sua teu tua nosso nossa agora e em com do da dos das no na aqui onde próximos próximas "
    "anteriores tudo diz estar esteja estiver isso nisso isto nisto trabalho restante",
    # Italian
    "il i gli un uno una mio mia tuo tua nostro nostra per favore ora poi ed con del dei delle dell della dall dalla nell nella "
    "all alla qui dove ci prossimo prossima precedente ultima ultimo tutto tutte tutti quello che dice è sia non ne lavoro "
    "restanti siamo",
)
"""Words of a goal that say nothing of what is to be done."""
PLACE_WORDS = _split_words(
    "resume continue restore reopen pick take return",
    "setz setze nimm mach mache führe arbeite fahre",
    "reprends reprendre reprenez continuer continuez poursuis poursuivre poursuivez",
    "reanuda reanudar retoma retomar continúa continua continuar sigue seguir",
    "retome prossiga prosseguir riprendi riprendere continuare prosegui",
)
"""Verbs for taking up again."""
DOING_WORDS = _split_words(
    "implement execute follow do realize realise",
    "implementiere setz setze führe mach mache befolge folge",
    "implémente implémenter implémentez mets mettre œuvre oeuvre exécute exécuter applique fais faire suis suivre réalise",
    "implementa implementar ejecuta ejecutar aplica haz hacer sigue seguir",
    "implemente execute executa executar aplique faz faça fazer siga segue",
    "implementare esegui eseguire attua attuare applica fai fare segui",
)
"""Verbs for carrying out a plan."""
ENDING_WORDS = _split_words(
    "complete finish do process tackle continue finalize finalise wrap conclude",
    "arbeite erledige mach mache bearbeite beende schließ schließe bring bringe ende",
    "termine terminer terminez complète compléter finis finir finalise fais faire",
    "completa completar termina terminar acaba acabar finaliza haz",
    "complete conclua conclui concluir termine finalize acabe faça",
    "completare finisci finire fai concludi",
)
"""Verbs for bringing to an end."""
PLAN_WORDS = _split_words(
    "plan plans step steps phase schritt schritte étape étapes paso pasos plano passo passos piano passi fase"
)
"""Plans and their parts."""
LIST_WORDS = _split_words(
    "todo todos to-do to-dos task tasks todo-liste todoliste aufgabenliste aufgaben todo-list tâches tâche tareas tarefas compiti "
    "cose attività"
)
"""Lists of tasks."""
VAGUE_SHAPES: tuple[tuple[frozenset[str], tuple[frozenset[str], ...]], ...] = (
    # The session before this one
    (
        _split_words(""),
        (
            PLACE_WORDS,
            _split_words("session sitzung sesión sessão sessione"),
            _split_words(
                "previous last prior earlier former letzte letzten letzter vorige vorigen vorherige vorherigen dernière "
                "précédente anterior última precedente ultima"
            ),
        ),
    ),
    # Where it stopped
    (
        _split_words("wir ihr hast habt haben avons avez avions avait était étions dejado"),
        (
            PLACE_WORDS,
            _split_words(
                "stopped arrêté arrêtés arrêtée aufgehört dejamos quedamos dejaste paramos parámos parou paraste fermati fermato interrotti"
            ),
        ),
    ),
    # What its reader has allegedly begun
    (
        _split_words(
            "hast habt hat tu hai as a você ce quello estabas estavas haciendo fazendo faire facendo"
        ),
        (
            ENDING_WORDS | PLACE_WORDS,
            _split_words(
                "angefangen begonnen commencé commencée iniziato cominciato empezado empezaste haciendo começaste começou fazendo"
            ),
        ),
    ),
    # What its reader allegedly knows
    (
        _split_words("you is are"),
        (_split_words("do know finish"), _split_words("left whatever what remains")),
    ),
    # The plan, its next step
    (_split_words(""), (DOING_WORDS, PLAN_WORDS)),
    # The list of tasks
    (_split_words("list lists items item liste lista listas da fare"), (ENDING_WORDS, LIST_WORDS)),
    # To an end, and into a commit
    (
        _split_words("changes push pushe pousse fais haz faça faz fai il un le hacer"),
        (
            ENDING_WORDS,
            _split_words("and then und dann et puis y luego e ed poi"),
            _split_words("commit committe commite committez commits committa commitea comita"),
        ),
    ),
    # Until it is done
    (
        _split_words(
            "tasks continue jusqu finché hasta bis que arbeiten travailler trabajando trabalhando trabalhar lavorare lavorarci a tout"
        ),
        (
            PLACE_WORDS | _split_words("keep carry work working go"),
            _split_words("until till bis jusqu hasta até finché fino"),
            _split_words(
                "done finished complete completed ready fertig erledigt fini finie terminé terminée prêt terminado acabado listo "
                "hecho pronto terminado concluído finito fatto completato"
            ),
        ),
    ),
    # The text of an empty field
    (
        _split_words("will should must"),
        (
            _split_words(
                "enter type write insert put describe state specify fill",
                "gib gebe schreib schreibe beschreib beschreibe",
                "entre entrer entrez saisis saisir saisissez écris écrivez décris décrire décrivez",
                "introduce introduzca escribe escriba describe describa ingresa ingrese",
                "digite escreva insira descreva descreve inserisci scrivi descrivi",
            ),
            _split_words("goal goals objective ziel objectif objetivo obiettivo"),
        ),
    ),
)
"""Words allowed in addition to the small ones, and groups: such a goal has a word of each and no others."""
VAGUE_WORDS = frozenset(
    # English
    "continue go on ahead proceed resume next keep going carry finish complete it up the this that fix bug bugs error "
    "errors issue issues problem problems please pls do more work working same again as before where we i you left off "
    "stuff things thing everything all rest remaining task tasks job todo todos just now and then try retry yes ok okay "
    "sure help me handle start begin make better improve done with our my your to step one a an from here code project "
    "what was were doing let's lets let us of in on is be get back "
    "pick start started stopped leaving leave where's previous last earlier prior former thread conversation chat "
    "steps stage phase part goal goals goes next's following wrapping finalize finalise conclude remaining stop "
    "coding programming implementing implementation carrying onward onwards forward further along way its there then "
    "work's above below mentioned discussed plan planned something anything somewhere like said so should would could can "
    "will need needs needed want wants must have has had been are am take over thanks thank talked about "
    "dolor sit amet asdf asdfasdf asdfasdfasdf qwer qwerty qwertz asd qwe foo bar baz blah bla lorem ipsum hello hi hey "
    # German
    "weiter weitermachen machen mach mache fortsetzen fortfahren fertig bitte den die das fehler beheben behebe reparieren "
    "rest alles und nun jetzt aufgabe so wie vorher da wo wir ich du ihr es waren war aufgehört haben hast letzten letzte "
    "letztes vorherigen vorige voriger gespräch sitzung faden arbeit an am im mit bei dem der ein eine noch mal einfach "
    "nächste nächsten schritt schritte bring bringe ende zu führe fort besprochen "
    # French
    "continuer continuez continue poursuivre poursuis reprendre reprends corrige corriger le la les bogue bogues erreur erreurs "
    "suite finir termine terminer tout s'il te vous plaît là où on nous en était s'était arrêté arrêtés avons travail "
    "conversation précédente précédent dernière la les étapes étape prochaine prochaines suivante suivantes et de du au "
    # Spanish, Portuguese, Italian
    "continuar continúa continua sigue seguir siga arregla arreglar corrige corregir el error los errores todo termina "
    "terminar por favor prosseguir corrigir consertar erro tudo continuare prosegui correggi l'errore tutto "
    "donde lo dejamos quedamos estábamos con trabajo en la conversación anterior siguiente siguientes pasos paso y "
    "de onde paramos parámos trabalho próximos próximo passos passo riprendi da dove eravamo abbiamo lasciato lavoro "
    "prossimo prossimi passi passo finisci "
    # Dutch, Polish, Russian, Turkish
    "doorgaan verder ga maak af kontynuuj dalej napraw продолжай продолжить продолжи дальше с того места где мы остановились работу исправь исправить ошибку "
    "devam et düzelt "
    # As it was discussed, see above, and other words by which a goal points to what its reader does not know
    "see agreed told asked tidy clean instructed usual what's at hand handoff needful context "
    "siehe oben gehabt vereinbart abgesprochen gesagt gleiche dasselbe nochmal geht's gehts los fang tu umsetzen setze um "
    "erledigen erledige alle restliche restlichen hab wir's "
    "vas-y fais-le finis-le allons-y allez voir ci-dessus plus haut comme convenu discuté prévu dit a fais ce qu'on reste vu tu j'ai "
    "adelante ver véase arriba como hablamos acordamos acordado discutió discutido se dijimos dije haz hazlo resto según mismo "
    "antes termínalo vamos dale hablado acuerdo "
    "vai avanti vedi sopra come discusso concordato detto fai quello che d'accordo andiamo così fallo procedi finiscilo il resto "
    "segue em frente veja acima combinado combinamos falamos conforme faça faz isso o que resto vamos lá dito prossiga "
    "zie boven hierboven zoals besproken afgesproken doe het we wat hebben waar gebleven waren vervolg zo maar met "
    "jedziemy jak ustalono ustaleniami rozmawialiśmy tak wcześniej proszę pracę omówiono zobacz powyżej patrz wyżej zrób to rób "
    "idź resztę dzieła zgodnie z dokończ "
    "lütfen yukarıya yukarıdaki bak konuştuğumuz konuşulduğu gibi anlaştığımız kaldığın kaldığımız yerden gerisini yap bunu "
    "söylediğim aynen hadi sürdür bitir tamamla "
    "давай как обсуждали обсудили договорились договаривались и раньше сделай остальное я сказал смотри см выше это то же самое "
    "делай доделай вперёд поехали закончи просил говорил обычно что заверши начатое начал оставшееся "
    # As usual, what I asked for, what is left
    "usual usually per discussion time doing requested described stated agree before "
    "beschrieben eben setz setzt offen offene offenen was noch üblich immer gesagten erwähnt genannt sagte bat gestern vorhin ist "
    "faisais j'avais demandé d'habitude qui restant ai dis pareil précédemment "
    "hacías que te pedí pediste siempre acordado estabas haciendo como dicho queda falta pendiente "
    "quello stavi facendo ti ho chiesto solito sempre rimane resta "
    "eu pedi pediu sempre falta restante parou fazendo estava acordado falei disse "
    "werk ik zei vroeg gezegd gewoonlijk altijd was bezig mee overige "
    "co robiłeś mówiłem prosiłem zwykle zostało zaczętą zaczęte robiłeś "
    "yesterday vorhin von même chose reprend fin trabajando eso acaba quanto com partir daqui hetzelfde pracuj końca işi şeyi "
    "места остановки доведи до конца всё говорили tu kram travail avant prévu ce est ça serve prima al eerder samo şekilde "
    "işe işleri kalan kalanı dediğim istediğim ne her zamanki şekilde konuştuklarımızı bıraktığın".split()
)
"""Words of which a goal that is too vague consists."""
VAGUE_PHRASES = frozenset(
    ("run it", "implement it", "implement this", "implement that", "use the context", "read the conversation", "read the thread", "hand this off",
     "ga door", "ga maar door", "ga zo door")
)  # fmt: skip
"""Whole goals that are too vague, with words that mean something elsewhere."""
VAGUE_PIECES = frozenset(
    # Chinese
    "请 請 继续 繼續 续上 接着 接著 做 的 工作 任务 任務 内容 之前 上次 刚才 剛才 前面 下一步 修复 修 一下 完成 见 見 上 上文 上面 以上 如 前 "
    "所述 同 按 按照 讨论 討論 说 說 计划 計劃 我们 我們 我 你 照 就 这样 這樣 那样 开始 開始 去 吧 了 剩下 剩余 其余 下去 进行 進行 搞定 它 "
    "把 都 全部 帮 麻烦 bug 弄 好 刚 才 办 老样子 往下 后面 没 要求 照旧 原 完 干 那个 这个 "
    # Japanese
    "続き 続けて 続けま 続行 して ください 下さい 前回 の を も に へ で と は お願い します いたします 上記 通り とおり どおり 参照 話した "
    "相談した 言った さっき 先ほど やって 進めて 同じ ように 残り お任せ 任せ 次 直して 修正 それ これ 全部 すべて 作業 仕事 ね よ 頼む 始めて "
    "終わらせて タスク あと 後 同様 そのまま よろしく いつも 頼んだ こと 前 先 進め やり やる しま "
    # Korean
    "계속 해 하세요 해주세요 주세요 줘 진행 위 에 의 참조 참고 내용 대로 논의 한 말한 그렇게 그대로 다음 이어서 나머지 마무리 아까 하던 거 것 "
    "고쳐 수정 작업 이전 전 처럼 부탁 합니다 해요 좀 다 전부 하자 시작 끝내 을 를 로 방금 남은 지금 부탁한 평소 이거 그거 이 그 거기서 부터".split()
)
"""Pieces of which such a goal consists in scripts that write words without blanks, or join them."""
