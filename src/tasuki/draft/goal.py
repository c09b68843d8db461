"""The rules of a goal: a handoff is only as good as the sentence that says what comes next."""

import re
import unicodedata
from itertools import chain

from tasuki.errors import GoalTooVague
from tasuki.model import Goal
from tasuki.text_safety import remove_invisible

_TOKEN = re.compile(r"\w+(?:-\w+)*")
"""A word; what an elision leaves of an article is a word too."""
_KEY_ROWS = (
    "qwertyuiop", "asdfghjkl", "zxcvbnm", "qwertzuiop", "yxcvbnm", "azertyuiop", "qsdfghjklm", "wxcvbn",
)  # fmt: skip
_MIN_RUN = 3
_SHORT_KEY_RUNS = {"asd", "sdf", "dfg", "fgh", "ghj", "hjk", "jkl", "qwe", "zxc", "xcv"}
"""Three adjacent keys that are not a word in any language."""


def _split_words(*words: str) -> frozenset[str]:
    return frozenset(" ".join(words).split())


_SMALL = _split_words(
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
_PLACED = _split_words(
    "resume continue restore reopen pick take return",
    "setz setze nimm mach mache führe arbeite fahre",
    "reprends reprendre reprenez continuer continuez poursuis poursuivre poursuivez",
    "reanuda reanudar retoma retomar continúa continua continuar sigue seguir",
    "retome prossiga prosseguir riprendi riprendere continuare prosegui",
)
_DOING = _split_words(
    "implement execute follow do realize realise",
    "implementiere setz setze führe mach mache befolge folge",
    "implémente implémenter implémentez mets mettre œuvre oeuvre exécute exécuter applique fais faire suis suivre réalise",
    "implementa implementar ejecuta ejecutar aplica haz hacer sigue seguir",
    "implemente execute executa executar aplique faz faça fazer siga segue",
    "implementare esegui eseguire attua attuare applica fai fare segui",
)
_ENDING = _split_words(
    "complete finish do process tackle continue finalize finalise wrap conclude",
    "arbeite erledige mach mache bearbeite beende schließ schließe bring bringe ende",
    "termine terminer terminez complète compléter finis finir finalise fais faire",
    "completa completar termina terminar acaba acabar finaliza haz",
    "complete conclua conclui concluir termine finalize acabe faça",
    "completare finisci finire fai concludi",
)
_PLAN = _split_words(
    "plan plans step steps phase schritt schritte étape étapes paso pasos plano passo passos piano passi fase"
)
_LIST = _split_words(
    "todo todos to-do to-dos task tasks todo-liste todoliste aufgabenliste aufgaben todo-list tâches tâche tareas tarefas compiti "
    "cose attività"
)
_SHAPES: tuple[tuple[frozenset[str], tuple[frozenset[str], ...]], ...] = (
    # The session before this one
    (
        _split_words(""),
        (
            _PLACED,
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
            _PLACED,
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
            _ENDING | _PLACED,
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
    (_split_words(""), (_DOING, _PLAN)),
    # The list of tasks
    (_split_words("list lists items item liste lista listas da fare"), (_ENDING, _LIST)),
    # To an end, and into a commit
    (
        _split_words("changes push pushe pousse fais haz faça faz fai il un le hacer"),
        (
            _ENDING,
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
            _PLACED | _split_words("keep carry work working go"),
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
"""Words allowed in addition to the small ones, and groups: such a goal has a word of each
and no others.
"""


_KEY_RUNS = frozenset(
    row[start:end]
    for row in chain(_KEY_ROWS, (row[::-1] for row in _KEY_ROWS))
    for start in range(len(row))
    for end in range(start + _MIN_RUN, len(row) + 1)
)
_LONGEST_ROW = max(map(len, _KEY_ROWS))


def is_reference_only(text: str) -> bool:
    """Return whether a goal names only a plan, a list or a session unknown to its reader."""
    words = set(_TOKEN.findall(text.lower().replace("’", "'")))
    return any(
        all(words & group for group in groups) and words <= _SMALL.union(allowed, *groups)
        for allowed, groups in _SHAPES
    )


def is_key_run(word: str) -> bool:
    """Return whether a word is a run of adjacent keys on a keyboard, such as `asdf` and `lkjh`."""
    if len(word) <= _MIN_RUN:
        return word in _SHORT_KEY_RUNS
    index = 0
    while index < len(word):
        lengths = range(_LONGEST_ROW, _MIN_RUN - 1, -1)
        run = next((n for n in lengths if word[index : index + n] in _KEY_RUNS), 0)
        if not run:
            return False
        index += run
    return True


MIN_LENGTH = 12
GUIDANCE = "Be specific: what should the next thread accomplish?"
EXAMPLE = 'Example: "implement team-level handoff, update tests, document API."'

_VAGUE = frozenset(
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
    "devam et düzelt".split()
)
_VAGUE_PHRASES = re.compile(
    r"^(?:(?:请)?(?:继续|续上|接着做?)(?:之前|上次|刚才)?的?(?:工作|任务|内容)?|前回の続き(?:を)?(?:お願いします)?|继续|继续吧|接着做|接着|下一步|修复|修一下|修复一下|修bug|完成|请继续|続けて|続けてください|続き|続行|直して|修正|"
    r"修正して|次|お願いします|계속|계속해|계속해줘|고쳐|고쳐줘|수정|다음)[。.!！~〜\s]*$"
)
_CARRY_ON = re.compile(
    r"(?i)(?:please\s+|just\s+|can you\s+)*(?:continue|resume|carry on|go on|keep going|pick (?:it |this |things |the \w+ )?up|take over)\b"
    r".{0,40}\b(?:left off|stopped|ended|were|was|broke off)\b[\s.!]*$"
)
_WRAP_UP = re.compile(r"(?i)wrap (?:this |it |things |everything )?up\b(?: now| please)?[\s.!]*$")
_VARIABLE = re.compile(r"\$\w+")
"""A variable of a command that was not filled in."""
_WORD = re.compile(r"[\w'’-]+")
_ONE_WORD = re.compile(r"[A-Za-zÀ-ɏͰ-ϿЀ-ӿ]?[a-zß-ɏͰ-ϿЀ-ӿ]+[.!?…]*")
"""A word as in prose; a path, a name in code and a word of a script without blanks are more."""
_WIDE = re.compile(r"[぀-ヿ㐀-鿿가-힯]")


def check_goal(
    text: str, *, min_length: int = MIN_LENGTH, force: bool = False, said_by_model: bool = False
) -> Goal:
    """The goal verbatim except for invisible characters, or raise GoalTooVague with the reason.

    `min_length` counts characters without surrounding blanks; one East Asian character counts
    as three, since it carries about as much. `force` accepts any goal that is not empty.
    """
    text = remove_invisible(text)
    reason = explain_vagueness(text, min_length)
    if reason and not (force and text.strip()):
        raise GoalTooVague(f"{reason} {GUIDANCE}\n{EXAMPLE}")
    return Goal(text=text, forced=bool(reason), said_by="model" if said_by_model else "user")


def explain_vagueness(text: str, min_length: int = MIN_LENGTH) -> str:
    """Return what is wrong with a goal, as one sentence, or an empty string."""
    bare = unicodedata.normalize("NFKC", text).strip()
    if not bare:
        return "A handoff needs a goal."
    if _VAGUE_PHRASES.match(bare):
        return f"The goal {bare!r} does not say what to do."
    shortened = bare if len(bare) <= 60 else f"{bare[:59]}…"
    words = [w.lower().replace("’", "'") for w in _WORD.findall(_VARIABLE.sub("", bare))]
    if not any(c.isalpha() for word in words for c in word):
        return f"The goal {shortened!r} has no words."
    if len(set(words)) == 1 and len(words) > 1:
        return f"The goal {shortened!r} repeats one word."
    phrase = _CARRY_ON.match(bare) or _WRAP_UP.match(bare) or is_reference_only(bare)
    if phrase or all(w in _VAGUE or is_key_run(w) for w in words):
        return f"The goal {shortened!r} does not say what to do."
    if len(words) == 1 and _ONE_WORD.fullmatch(bare):
        return f"The goal {shortened!r} is one word."
    if len(bare) + 2 * len(_WIDE.findall(bare)) < min_length:
        return f"The goal {shortened!r} is too short ({len(bare)} of {min_length} characters)."
    return ""
