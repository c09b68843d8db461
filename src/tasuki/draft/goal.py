"""The goal rules: a handoff is only as good as the sentence that says what comes next."""

import re
import unicodedata

from tasuki.draft.vague_goals import is_struck, refers_to_nothing
from tasuki.errors import GoalTooVague
from tasuki.model import Goal
from tasuki.plain import visible

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
"""Of a command that was not filled in."""
_WORD = re.compile(r"[\w'’-]+")
_ONE_WORD = re.compile(r"[A-Za-zÀ-ɏͰ-ϿЀ-ӿ]?[a-zß-ɏͰ-ϿЀ-ӿ]+[.!?…]*")
"""A word as in prose; a path, a name in code and a word of a script without blanks are more."""
_WIDE = re.compile(r"[぀-ヿ㐀-鿿가-힯]")


def check_goal(
    text: str, *, min_length: int = MIN_LENGTH, force: bool = False, said_by_model: bool = False
) -> Goal:
    """The goal to the letter, but for characters that nobody sees; or GoalTooVague with what is wrong.

    `min_length` counts characters without surrounding blanks; one East Asian character counts
    as three, since it carries about as much. `force` lets any goal pass that is not empty.
    """
    text = visible(text)
    reason = why_vague(text, min_length)
    if reason and not (force and text.strip()):
        raise GoalTooVague(f"{reason} {GUIDANCE}\n{EXAMPLE}")
    return Goal(text=text, forced=bool(reason), said_by="model" if said_by_model else "user")


def why_vague(text: str, min_length: int = MIN_LENGTH) -> str:
    """What is wrong with a goal, as one sentence; empty if nothing is."""
    bare = unicodedata.normalize("NFKC", text).strip()
    if not bare:
        return "A handoff needs a goal."
    if _VAGUE_PHRASES.match(bare):
        return f"The goal {bare!r} does not say what to do."
    said = bare if len(bare) <= 60 else f"{bare[:59]}…"
    words = [w.lower().replace("’", "'") for w in _WORD.findall(_VARIABLE.sub("", bare))]
    if not any(c.isalpha() for word in words for c in word):
        return f"The goal {said!r} has no words."
    if len(set(words)) == 1 and len(words) > 1:
        return f"The goal {said!r} says one word again and again."
    phrase = _CARRY_ON.match(bare) or _WRAP_UP.match(bare) or refers_to_nothing(bare)
    if phrase or all(w in _VAGUE or is_struck(w) for w in words):
        return f"The goal {said!r} does not say what to do."
    if len(words) == 1 and _ONE_WORD.fullmatch(bare):
        return f"The goal {said!r} is one word."
    if len(bare) + 2 * len(_WIDE.findall(bare)) < min_length:
        return f"The goal {said!r} is too short ({len(bare)} of {min_length} characters)."
    return ""
