"""What can happen, drawn at random: one function for each kind of clause."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from qkv.data.phrasebook import verbs, words
from qkv.data.phrasebook.clauses import Clause
from qkv.data.phrasebook.dice import Dice
from qkv.data.phrasebook.forms import agreed
from qkv.data.phrasebook.phrases import (
    HE,
    HIM,
    ME,
    SHE,
    THEE,
    THEY,
    US,
    WE,
    YOU,
    I,
    Phrase,
    Words,
    adjectives_for,
    noun_phrase,
    you,
)
from qkv.data.phrasebook.phrases import subject as draw_subject
from qkv.data.phrasebook.verbs import Verb

Pair = tuple[Words, Words]
THINGS = ("animal", "food", "mass", "drink", "text", "thing", "clothes", "vehicle", "home", "place", "opening")
NEAR = (("near", "près de"), ("behind", "derrière"), ("in front of", "devant"), ("next to", "à côté de"))
# These are places already, so no second place follows.
SETTLED = ("place", "home", "opening", "nature", "vehicle")
UNGRADED = ("broken", "French", "Italian", "ready")
# States do not combine with "often".
LASTING = ("be", "have", "know", "like", "love", "hate", "prefer", "need", "live")
SAME_SIDE = ({ME, US}, {THEE, YOU})


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is fixed before a clause is drawn.

    Attributes:
        tense: see `Clause`.
        who: the subject, or None to draw one.
        calm: neither negation nor adverb, as in most questions.
        second: another clause was said before; a new "they" or "them" would seem to mean someone in it.
    """

    tense: str = "present"
    who: Phrase | None = None
    calm: bool = False
    second: bool = False


Action = Callable[[Dice, Plan], Clause]


def begin(dice: Dice, plan: Plan, verbs: Sequence[Verb], kinds: Sequence[str] = ()) -> Clause:
    """Draw a subject, a verb and an adverb or a negation; `kinds` can restrict the subject."""
    able = [verb for verb in verbs if plan.who is None or plan.who.kind in verb.who]
    verb = dice.pick(able or verbs)
    negation, adverb = ("", None) if plan.calm else _polarity(dice, plan.tense, verb.english[0])
    known = plan.who if able else None
    who = known
    while who is None or (known is None and plan.second and (who == THEY or "and" in who.english)):
        who = draw_subject(dice, kinds or verb.who, "definite" if negation else "subject")
    base, _, past, _ = verb.english
    both = plan.tense == "past" and base == past and who.person != HIM  # "we read" is ambiguous
    return Clause(subject=who, verb=verb, tense="present" if both else plan.tense, negation=negation, adverb=adverb)


def _polarity(dice: Dice, tense: str, verb: str) -> tuple[str, tuple[str, str] | None]:
    if tense == "perfect":
        return dice.pick((("", ("already", "déjà")), ("never", None), ("yet", None)))
    if tense != "present" or verb in LASTING:
        return (dice.pick(("not", "no longer") if tense == "present" else ("not",)) if dice.chance(0.2) else "", None)
    if dice.chance(0.15):
        return "", dice.pick(words.HABITS)
    return (dice.pick(("not", "not", "never", "no longer")) if dice.chance(0.25) else "", None)


def _whom(dice: Dice, clause: Clause, plan: Plan) -> Phrase | None:
    """Draw an object pronoun that is not the subject itself."""
    drawn = dice.pick((I, None, HE, SHE, WE, THEY))
    if drawn == THEY and plan.second:
        return None
    person = THEE if drawn is None else drawn.person
    if any({person, clause.subject.person} <= side for side in SAME_SIDE):
        return None
    return drawn or you(dice)


def _on(dice: Dice, plan: Plan, verbs: Sequence[Verb], role: str = "object") -> Clause:
    """Draw a clause with an object: a noun phrase, or a pronoun for someone."""
    clause = begin(dice, plan, verbs)
    verb = clause.verb
    if "person" in verb.what and verb.preposition != "de" and dice.chance(0.35):
        whom = _whom(dice, clause, plan)
        if whom is not None:
            return replace(clause, person=whom)
    negated = clause.negation and role == "object"
    return replace(clause, thing=noun_phrase(dice, verb.what, "negated" if negated else role))


def act(dice: Dice, plan: Plan) -> Clause:
    """Someone does something to something."""
    clause = _on(dice, plan, verbs.DIRECT)
    settled = clause.thing is not None and clause.thing.kind in SETTLED
    return clause if settled or dice.chance(0.75) else replace(clause, rest=(place(dice),))


def talk(dice: Dice, plan: Plan) -> Clause:
    """Someone talks to someone, or about something."""
    return _on(dice, plan, verbs.HEARERS) if dice.chance(0.6) else _on(dice, plan, verbs.TOPICS)


def give(dice: Dice, plan: Plan) -> Clause:
    """Someone gives something to someone: a pronoun comes first in both languages."""
    clause = begin(dice, plan, verbs.GIFTS)
    clause = replace(clause, thing=noun_phrase(dice, clause.verb.what, "negated" if clause.negation else "object"))
    whom = _whom(dice, clause, plan) if dice.chance(0.4) else None
    if whom is not None:
        return replace(clause, person=whom)
    hearer = noun_phrase(dice, ("person", "family"), "plain")
    return replace(clause, rest=((("to", *hearer.english), ("à", *hearer.french)),))


def live(dice: Dice, plan: Plan) -> Clause:
    """Someone sleeps, sings or plays: somewhere, somehow or with someone."""
    clause = begin(dice, plan, verbs.ALONE)
    active = clause.verb.english[0] in words.WAYS_OF
    how = dice.pick((place, place, _way, _company) if active else (place,))
    return replace(clause, rest=(how(dice),))


def move(dice: Dice, plan: Plan) -> Clause:
    """Someone goes, comes, stays or falls; French uses être."""
    some, where = dice.pick(
        (
            (verbs.STAYS, place),
            (verbs.GOES, _goal),
            (verbs.GOES, _goal),
            (verbs.COMES, _origin),
            (verbs.LEAVES, _company),
        )
    )
    clause = begin(dice, plan, some)
    return replace(clause, rest=(where(dice),))


def rise(dice: Dice, plan: Plan) -> Clause:
    """Someone gets up or rests, which is reflexive in French."""
    clause = begin(dice, plan, verbs.SELVES)
    return replace(clause, rest=(place(dice),)) if clause.verb.english[0] == "rest" else clause


def own(dice: Dice, plan: Plan) -> Clause:
    """Someone has, knows or needs something."""
    return _on(dice, plan, verbs.STATES) if dice.chance(0.7) else _on(dice, plan, verbs.NEEDS)


def taste(dice: Dice, plan: Plan) -> Clause:
    """Someone likes something, or is afraid of it: French uses a definite article."""
    return _on(dice, plan, verbs.TASTES if dice.chance(0.8) else verbs.FEARS, "general")


def feel(dice: Dice, plan: Plan) -> Clause:
    """Someone is hungry, where French uses avoir."""
    return begin(dice, plan, verbs.FEELINGS)


def reside(dice: Dice, plan: Plan) -> Clause:
    """Someone lives somewhere."""
    return replace(begin(dice, plan, verbs.LIVES), rest=(place(dice, inside=False),))


def stand(dice: Dice, plan: Plan) -> Clause:
    """Something is somewhere."""
    who = plan.who or noun_phrase(dice, ("animal", "person", "family", "thing", "text", "clothes"), "definite")
    return replace(begin(dice, replace(plan, who=who), (BE,)), rest=(place(dice, things=True),))


def be(dice: Dice, plan: Plan) -> Clause:
    """Something has a quality."""
    who = plan.who or (noun_phrase(dice, THINGS, "definite") if dice.chance(0.6) else None)
    clause = begin(dice, replace(plan, who=who), (BE,), ("person", "family", "animal"))
    return replace(clause, rest=(quality(dice, clause.subject),))


def work(dice: Dice, plan: Plan) -> Clause:
    """Someone has a profession, which takes no article in French."""
    clause = begin(dice, plan, (BE,), ("family",))
    who = clause.subject
    (one, many), forms = dice.pick(words.TRADES)
    english: Words = (many,) if who.plural else ("a", one)
    return replace(clause, rest=((english, (agreed(forms, female=who.female, plural=who.plural),)),))


def age(dice: Dice, plan: Plan) -> Clause:
    """Someone has an age, where French uses avoir."""
    clause = begin(dice, replace(plan, calm=True), (AGE,), ("animal",))
    number, nombre = dice.pick(words.NUMBERS)
    return replace(clause, rest=(((number, "years", "old"), (nombre, "ans")),))


BE = replace(verbs.BE, who=(*THINGS, "person", "family", "nature"))
AGE = replace(verbs.HAVE, english=verbs.BE.english, who=verbs.BEINGS)
# Events, and states.
EVENTS: tuple[Action, ...] = (act,) * 10 + (give,) * 4 + (live,) * 3 + (move,) * 3 + (talk,) * 2 + (rise,)
STATES: tuple[Action, ...] = (own, own, own, taste, taste, taste, be, be, be, stand, stand, reside, work, age, feel)


def quality(dice: Dice, phrase: Phrase) -> Pair:
    """Draw an adjective that is not in a phrase and agrees with it, sometimes with a degree."""
    fitting = [a for a in adjectives_for(phrase.kind, phrase.noun) if a.english not in (*phrase.english, "new")]
    coloured = any(a.place == "colour" and a.english in phrase.english for a in words.ADJECTIVES)
    adjective = dice.pick([a for a in fitting if not (coloured and a.place == "colour")])
    french = agreed(adjective.french, female=phrase.female, plural=phrase.plural)
    if adjective.place == "colour" or adjective.english in UNGRADED or dice.chance(0.6):
        return (adjective.english,), (french,)
    degree, degré = dice.pick((("very", "très"), ("too", "trop")))
    return (degree, adjective.english), (degré, french)


def place(dice: Dice, *, inside: bool = True, things: bool = False) -> Pair:
    """Draw where something happens: inside or beside a place, or a thing, or in a city."""
    if not things and dice.chance(0.2 if inside else 0.5):
        city, there, _ = dice.pick(words.CITIES)
        return ("in", *city.split()), tuple(there.split())
    beside = not inside or dice.chance(0.4)
    kinds = ("place", "home", "thing", "vehicle") if things else ("place", "home")
    spot = noun_phrase(dice, kinds, "around" if beside else "spot")
    near = dice.pick(NEAR) if beside else spot.at
    return (*near[0].split(), *spot.english), (*near[1].split(), *spot.french)


def _goal(dice: Dice) -> Pair:
    if dice.chance(0.3):
        city, there, _ = dice.pick(words.CITIES)
        return ("to", *city.split()), tuple(there.split())
    spot = noun_phrase(dice, ("place",), "goal")
    return ("to", *spot.english), ("à", *spot.french)


def _origin(dice: Dice) -> Pair:
    if dice.chance(0.3):
        city, _, thence = dice.pick(words.CITIES)
        return ("from", *city.split()), tuple(thence.split())
    spot = noun_phrase(dice, ("place",), "goal")
    return ("from", *spot.english), ("de", *spot.french)


def _way(dice: Dice) -> Pair:
    english, french = dice.pick(words.WAYS)
    return (english,), (french,)


def _company(dice: Dice) -> Pair:
    friend = noun_phrase(dice, ("person", "family"), "definite")
    return ("with", *friend.english), ("avec", *friend.french)
