"""Whole sentences: statements, questions, comparisons, and two clauses in one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from qkv.data.phrasebook import verbs, words
from qkv.data.phrasebook.actions import BE, EVENTS, STATES, THINGS, Pair, Plan, act, be, begin, place, quality
from qkv.data.phrasebook.clauses import Clause, english, french
from qkv.data.phrasebook.dice import Dice
from qkv.data.phrasebook.forms import agreed
from qkv.data.phrasebook.phrases import Phrase, adjectives_for, echo, name, noun_phrase

Draft = tuple[Pair, str]  # the words of both languages, and the mark at the end
TENSES = ("present",) * 7 + ("past",) * 6 + ("future",) * 3 + ("perfect", "want", "can", "must")
SIMPLE_TENSES = ("present", "past", "past", "future")
WHO = Phrase(english=("who",), french=("qui",))
ASKING: tuple[Pair, ...] = (((), ()), ((), ()), (("why",), ("pourquoi",)), (("when",), ("quand",)))
BECAUSE: Pair = (("because",), ("parce", "que"))
AND: Pair = (("and",), ("et",))
BUT: Pair = ((",", "but"), (",", "mais"))
ON_THINGS = tuple(verb for verb in verbs.DIRECT if "person" not in verb.what)
# Pairs of actions on one object: the first, and those that can follow.
FIRST = ("buy", "find", "choose", "take", "write", "meet", "invite", "help", "forget", "lose")
THEN = (
    "eat", "drink", "sell", "lose", "wait", "listen", "read", "wash", "clean", "carry", "help", "hide", "break", "thank"
)  # fmt: skip
THEN_SEARCH = ("look", "find")
GRADED = (
    "big", "old", "beautiful", "rich", "intelligent", "strong", "expensive", "heavy", "tall", "tired", "interesting",
)  # fmt: skip
COLOURS = {adjective.english for adjective in words.ADJECTIVES if adjective.place == "colour"}
COMPARED = {"as": ("as", "aussi"), "more": ("than", "plus"), "less": ("than", "moins")}


def statement(dice: Dice) -> Draft:
    """Make a statement."""
    if dice.chance(0.3):
        return _said(dice.pick(STATES)(dice, Plan())), "."
    return _timed(dice, dice.pick(EVENTS)(dice, Plan(tense=dice.pick(TENSES)))), "."


def _said(clause: Clause) -> Pair:
    return english(clause), french(clause)


def _timed(dice: Dice, clause: Clause, *, lead: float = 0.3) -> Pair:
    """Return a clause, often with a time after it, or before it with probability `lead`."""
    timeless = clause.tense == "perfect" or clause.adverb or clause.negation in ("never", "no longer")
    if timeless or dice.chance(0.4):
        return _said(clause)
    said, dit = dice.pick(words.TIMES[clause.tense])
    time = (tuple(said.split()), tuple(dit.split()))
    if dice.chance(lead):
        return (*time[0], ",", *english(clause)), (*time[1], ",", *french(clause))
    return _said(replace(clause, rest=(*clause.rest, time)))


def question(dice: Dice) -> Draft:
    """Ask whether, why or when something happens, or whether it is true."""
    if dice.chance(0.3):
        return _asked(((), ()), dice.pick(STATES)(dice, Plan(calm=True))), "?"
    clause = dice.pick(EVENTS)(dice, Plan(tense=dice.pick(TENSES), calm=True))
    asking = ((), ()) if clause.tense == "perfect" else dice.pick(ASKING)  # when did she, not when has she
    return _asked(asking, clause), "?"


def _asked(asking: Pair, clause: Clause) -> Pair:
    return (*asking[0], *english(clause, asked=True)), (*asking[1], "est-ce", "que", *french(clause))


def question_of_place(dice: Dice) -> Draft:
    """Ask where something is, or where it happens."""
    if dice.chance(0.3):
        who = noun_phrase(dice, ("animal", "person", "family", "thing", "text", "clothes"), "definite")
        is_, est = ("are", "sont") if who.plural else ("is", "est")
        return (("where", is_, *who.english), ("où", est, *who.french)), "?"
    clause = act(dice, Plan(tense=dice.pick(SIMPLE_TENSES), calm=True))
    return _asked((("where",), ("où",)), replace(clause, rest=())), "?"


def question_of_subject(dice: Dice) -> Draft:
    """Ask who does something."""
    clause = dice.pick(EVENTS)(dice, Plan(tense=dice.pick(TENSES), who=WHO))
    return _said(clause), "?"


def question_of_object(dice: Dice) -> Draft:
    """Ask what, which or how many; the participle agrees with the object of the question."""
    clause = begin(dice, Plan(tense=dice.pick(TENSES), calm=True), ON_THINGS)
    kinds = [kind for kind in clause.verb.what if kind not in words.UNCOUNTED]
    if not kinds or dice.chance(0.3):
        return _asked((("what",), ("que",)), clause), "?"
    thing = noun_phrase(dice, kinds, "choice")
    return _asked((thing.english, thing.french), replace(clause, ahead=thing)), "?"


def there(dice: Dice) -> Draft:
    """State or ask whether something is somewhere."""
    kinds = ("animal", "person", "food", "text", "thing", "clothes", "drink", "mass")
    none = dice.chance(0.25)
    thing = noun_phrase(dice, kinds, "none" if none else "there")
    where = place(dice, things=True)
    subject = Phrase(english=("there",), french=("il",), person=thing.person, plural=thing.plural)
    clause = Clause(subject=subject, verb=verbs.THERE_IS, thing=thing, rest=(where,))
    if none:  # English negates the noun, French the verb
        bare = thing.english[1:] if thing.english[0] == "a" else thing.english
        told = english(replace(clause, thing=replace(thing, english=("no", *bare))))
        return (told, french(replace(clause, negation="not"))), "."
    return (_asked(((), ()), clause), "?") if dice.chance(0.25) else (_said(clause), ".")


def comparison(dice: Dice) -> Draft:
    """Compare two things."""
    kind = dice.pick(("person", "family", "animal", "text", "clothes", "vehicle"))
    first, second = _compared(dice, kind), _compared(dice, kind)
    adjective = dice.pick([a for a in adjectives_for(kind, "") if a.english in GRADED])
    how = dice.pick(tuple(COMPARED)) if adjective.english in words.LONG_ADJECTIVES else "as"
    than, comme = COMPARED[how]
    form = agreed(adjective.french, female=first.female, plural=first.plural)
    rest = ((how, adjective.english, than, *second.english), (comme, form, "que", *second.french))
    clause = Clause(subject=first, verb=BE, negation="not" if dice.chance(0.2) else "", rest=(rest,))
    return (_said(clause), ".") if first != second else comparison(dice)


def _compared(dice: Dice, kind: str) -> Phrase:
    return name(dice) if kind == "person" and dice.chance(0.5) else noun_phrase(dice, (kind,), "plain")


def pair(dice: Dice) -> Draft:
    """Join two clauses of one tense."""
    tense = dice.pick(SIMPLE_TENSES)
    first = dice.pick(EVENTS)(dice, Plan(tense=tense))
    again = echo(first.subject) if dice.chance(0.5) else None
    second = dice.pick(EVENTS)(dice, Plan(tense=tense, who=again, second=True))
    ending = _timed(dice, second, lead=0) if tense == "past" else _said(second)
    return _joined(dice.pick((AND, BUT, BECAUSE)), _said(first), ending), "."


def _joined(joint: Pair, first: Pair, second: Pair) -> Pair:
    return (*first[0], *joint[0], *second[0]), (*first[1], *joint[1], *second[1])


def chain(dice: Dice) -> Draft:
    """Do two things to one object: a pronoun takes its gender from the noun before."""
    tense = dice.pick(SIMPLE_TENSES)
    first = begin(dice, Plan(tense=tense, calm=True), [verb for verb in verbs.DIRECT if verb.english[0] in FIRST])
    thing = noun_phrase(dice, first.verb.what, "object")
    then = THEN_SEARCH if first.verb.english[0] in ("forget", "lose") else THEN
    able = [v for v in verbs.DIRECT if v.english[0] in then and thing.kind in v.what and v != first.verb]
    second = begin(dice, Plan(tense=tense, who=echo(first.subject), second=True), able)
    second = replace(second, person=echo(thing), adverb=None)
    joint = BUT if second.negation else AND
    return _joined(joint, _said(replace(first, thing=thing)), _said(second)), "."


def contrast(dice: Dice) -> Draft:
    """Make two statements about one subject, the second with a pronoun."""
    subject = noun_phrase(dice, THINGS, "definite")
    first = be(dice, Plan(who=subject, calm=True))
    second = be(dice, Plan(who=echo(subject), second=True, calm=dice.chance(0.7)))
    said = [*subject.english, first.rest[0][0][-1], second.rest[0][0][-1]]
    if said[-1] in said[:-1] or len(COLOURS & set(said)) > 1:  # the second says something new, and no second colour
        return contrast(dice)
    return _joined(dice.pick((AND, BUT)), _said(first), _said(second)), "."


def report(dice: Dice) -> Draft:
    """Report what someone says or thinks."""
    outer = begin(dice, Plan(calm=True), verbs.SAYS)
    again = echo(outer.subject) if dice.chance(0.3) else None
    if dice.chance(0.3):
        inner = _said(dice.pick(STATES)(dice, Plan(who=again, second=True)))
    else:
        inner = _said(dice.pick(EVENTS)(dice, Plan(tense=dice.pick(TENSES), who=again, second=True)))
    return _joined(((), ("que",)), _said(outer), inner), "."


def relative(dice: Dice) -> Draft:
    """Point at the object of an action; the participle agrees with it."""
    inner = begin(dice, Plan(tense=dice.pick(TENSES), calm=True), ON_THINGS)
    thing = noun_phrase(dice, inner.verb.what, "pointed")
    told, dit = _timed(dice, replace(inner, ahead=thing), lead=0)
    if dice.chance(0.5):
        start = ("these", "are") if thing.plural else ("this", "is")
        debut = ("ce", "sont") if thing.plural else ("ce", "est")
        return ((*start, *thing.english, "that", *told), (*debut, *thing.french, "que", *dit)), "."
    said, en = quality(dice, thing)
    is_, est = ("are", "sont") if thing.plural else ("is", "est")
    return ((*thing.english, "that", *told, is_, *said), (*thing.french, "que", *dit, est, *en)), "."


KINDS: tuple[Callable[[Dice], Draft], ...] = (
    *(statement,) * 14,
    *(question,) * 4,
    question_of_place,
    question_of_subject,
    question_of_object,
    question_of_object,
    *(there,) * 2,
    comparison,
    *(pair,) * 5,
    *(chain,) * 4,
    contrast,
    *(report,) * 2,
    *(relative,) * 2,
)
