"""Goals that say something only to somebody who was there, such as "implement the plan", in six languages."""

import re
from itertools import chain

_TOKEN = re.compile(r"\w+(?:-\w+)*")
"""A word; what an elision leaves of an article is one of its own."""
_ROWS = (
    "qwertyuiop", "asdfghjkl", "zxcvbnm", "qwertzuiop", "yxcvbnm", "azertyuiop", "qsdfghjklm", "wxcvbn",
)  # fmt: skip
_RUN = 3
_STRUCK = {"asd", "sdf", "dfg", "fgh", "ghj", "hjk", "jkl", "qwe", "zxc", "xcv"}
"""Three keys beside each other that are no word of anybody's."""


def _set(*words: str) -> frozenset[str]:
    return frozenset(" ".join(words).split())


_SMALL = _set(
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
)  # fmt: skip
_PLACED = _set(
    "resume continue restore reopen pick take return",
    "setz setze nimm mach mache führe arbeite fahre",
    "reprends reprendre reprenez continuer continuez poursuis poursuivre poursuivez",
    "reanuda reanudar retoma retomar continúa continua continuar sigue seguir",
    "retome prossiga prosseguir riprendi riprendere continuare prosegui",
)
_DOING = _set(
    "implement execute follow do realize realise",
    "implementiere setz setze führe mach mache befolge folge",
    "implémente implémenter implémentez mets mettre œuvre oeuvre exécute exécuter applique fais faire suis suivre réalise",
    "implementa implementar ejecuta ejecutar aplica haz hacer sigue seguir",
    "implemente execute executa executar aplique faz faça fazer siga segue",
    "implementare esegui eseguire attua attuare applica fai fare segui",
)
_ENDING = _set(
    "complete finish do process tackle continue finalize finalise wrap conclude",
    "arbeite erledige mach mache bearbeite beende schließ schließe bring bringe ende",
    "termine terminer terminez complète compléter finis finir finalise fais faire",
    "completa completar termina terminar acaba acabar finaliza haz",
    "complete conclua conclui concluir termine finalize acabe faça",
    "completare finisci finire fai concludi",
)
_PLAN = _set(
    "plan plans step steps phase schritt schritte étape étapes paso pasos plano passo passos piano passi fase"
)
_LIST = _set(
    "todo todos to-do to-dos task tasks todo-liste todoliste aufgabenliste aufgaben todo-list tâches tâche tareas tarefas compiti "
    "cose attività"
)
_SHAPES: tuple[tuple[frozenset[str], tuple[frozenset[str], ...]], ...] = (
    # The session before this one
    (
        _set(""),
        (
            _PLACED,
            _set("session sitzung sesión sessão sessione"),
            _set(
                "previous last prior earlier former letzte letzten letzter vorige vorigen vorherige vorherigen dernière "
                "précédente anterior última precedente ultima"
            ),
        ),
    ),
    # Where it stopped
    (
        _set("wir ihr hast habt haben avons avez avions avait était étions dejado"),
        (
            _PLACED,
            _set(
                "stopped arrêté arrêtés arrêtée aufgehört dejamos quedamos dejaste paramos parámos parou paraste fermati fermato interrotti"
            ),
        ),
    ),
    # What its reader is said to have begun
    (
        _set(
            "hast habt hat tu hai as a você ce quello estabas estavas haciendo fazendo faire facendo"
        ),
        (
            _ENDING | _PLACED,
            _set(
                "angefangen begonnen commencé commencée iniziato cominciato empezado empezaste haciendo começaste começou fazendo"
            ),
        ),
    ),
    # What its reader is said to know
    (_set("you is are"), (_set("do know finish"), _set("left whatever what remains"))),
    # The plan, its next step
    (_set(""), (_DOING, _PLAN)),
    # The list of tasks
    (
        _set("list lists items item liste lista listas da fare"),
        (_ENDING, _LIST),
    ),
    # To an end, and into a commit
    (
        _set("changes push pushe pousse fais haz faça faz fai il un le hacer"),
        (
            _ENDING,
            _set("and then und dann et puis y luego e ed poi"),
            _set("commit committe commite committez commits committa commitea comita"),
        ),
    ),
    # Until it is done
    (
        _set(
            "tasks continue jusqu finché hasta bis que arbeiten travailler trabajando trabalhando trabalhar lavorare lavorarci a tout"
        ),
        (
            _PLACED | _set("keep carry work working go"),
            _set("until till bis jusqu hasta até finché fino"),
            _set(
                "done finished complete completed ready fertig erledigt fini finie terminé terminée prêt terminado acabado listo "
                "hecho pronto terminado concluído finito fatto completato"
            ),
        ),
    ),
    # What stands in an empty field
    (
        _set("will should must"),
        (
            _set(
                "enter type write insert put describe state specify fill",
                "gib gebe schreib schreibe beschreib beschreibe",
                "entre entrer entrez saisis saisir saisissez écris écrivez décris décrire décrivez",
                "introduce introduzca escribe escriba describe describa ingresa ingrese",
                "digite escreva insira descreva descreve inserisci scrivi descrivi",
            ),
            _set("goal goals objective ziel objectif objetivo obiettivo"),
        ),
    ),
)
"""Words that may stand beside the small ones, and groups of which a goal has one each and nothing else."""


_STRIKES = frozenset(
    row[start:end]
    for row in chain(_ROWS, (row[::-1] for row in _ROWS))
    for start in range(len(row))
    for end in range(start + _RUN, len(row) + 1)
)
_LONGEST = max(map(len, _ROWS))


def refers_to_nothing(text: str) -> bool:
    """Whether a goal names only a plan, a list or a session that its reader does not know."""
    words = set(_TOKEN.findall(text.lower().replace("’", "'")))
    return any(
        all(words & group for group in groups) and words <= _SMALL.union(beside, *groups)
        for beside, groups in _SHAPES
    )


def is_struck(word: str) -> bool:
    """Whether a word is keys that lie beside each other on a keyboard, such as `asdf` and `lkjh`."""
    if len(word) <= _RUN:
        return word in _STRUCK
    at = 0
    while at < len(word):
        lengths = range(_LONGEST, _RUN - 1, -1)
        run = next((n for n in lengths if word[at : at + n] in _STRIKES), 0)
        if not run:
            return False
        at += run
    return True
