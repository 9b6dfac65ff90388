"""Random noun phrases in both languages: articles, possessives, numbers, adjectives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

from qkv.data.phrasebook.dice import Dice
from qkv.data.phrasebook.forms import agreed, genitive, starts_with_vowel
from qkv.data.phrasebook.words import ADJECTIVES, NAMES, NOUNS, NUMBERS, Adjective, Noun

Words = tuple[str, ...]
ME, THEE, HIM, US, YOU, THEM = range(6)  # the six persons of a French conjugation


@dataclass(frozen=True, kw_only=True)
class Phrase:
    """A noun phrase or a pronoun, with the features that other words agree with.

    Attributes:
        english: its words.
        french: its words, before elision.
        person: which of the six.
        female: the French gender.
        plural: the number.
        kind: the kind of its noun.
        noun: its English noun, in the singular.
        bare: French without an indefinite article, as after "pas de"; None where the article stays.
        partitive: the article is du, de la or des, which vanishes after de.
        at: the prepositions that make a place of it.
        pronoun: it stands for someone.
    """

    english: Words
    french: Words
    person: int = HIM
    female: bool = False
    plural: bool = False
    kind: str = "person"
    noun: str = ""
    bare: Words | None = None
    partitive: bool = False
    at: Words = ()
    pronoun: bool = False


# "I", "we" and a "they" without antecedent are masculine, so that each has one translation.
I = Phrase(english=("I",), french=("je",), person=ME, pronoun=True)  # noqa: E741
WE = Phrase(english=("we",), french=("nous",), person=US, plural=True, pronoun=True)
HE = Phrase(english=("he",), french=("il",), pronoun=True)
SHE = Phrase(english=("she",), french=("elle",), female=True, pronoun=True)
THEY = Phrase(english=("they",), french=("ils",), person=THEM, plural=True, pronoun=True)

# Before a masculine, a feminine and a plural.
OWNERS = {
    "my": ("mon", "ma", "mes"),
    "your": ("ton", "ta", "tes"),
    "his": ("son", "sa", "ses"),
    "her": ("son", "sa", "ses"),
    "our": ("notre", "notre", "nos"),
    "their": ("leur", "leur", "leurs"),
}
POLITE = ("votre", "votre", "vos")
OWNED = ("family", "animal", "food", "text", "thing", "clothes", "vehicle", "home")
COUNTED = ("number", "many", "several", "all", "how many")
# The frequency of each determiner in each role.
ROLES = {
    "subject": ("the",) * 7 + ("own",) * 5 + ("this", "this", "of", "of", "a", "number", "number", "many", "all"),
    "object": ("the",) * 5 + ("a",) * 5 + ("some",) * 3 + ("own",) * 3 + ("this", "of", "number", "number", "several"),
    "negated": ("the",) * 3 + ("a", "a", "some", "some", "own", "own", "this", "of"),
    "general": ("every",) * 4 + ("own", "the", "this"),
    "definite": ("the",) * 6 + ("own",) * 3 + ("this", "of"),
    "around": ("the",) * 6 + ("own",) * 3 + ("this", "of"),
    "spot": ("the",) * 6 + ("own",) * 3 + ("this", "of"),
    "goal": ("the",) * 4 + ("this",),
    "plain": ("the", "the", "own"),
    "there": ("a", "a", "some", "number", "many", "several"),
    "none": ("a", "some"),
    "choice": ("which", "how many"),
    "pointed": ("the",),
}


def you(dice: Dice) -> Phrase:
    """Return the listener as a pronoun, and remember that there is one."""
    dice.addressed = True
    if dice.listener is None:
        return Phrase(english=("you",), french=("tu",), person=THEE, pronoun=True)
    _, _, female, plural = dice.listener
    return Phrase(english=("you",), french=("vous",), person=YOU, female=female, plural=plural, pronoun=True)


def noun_phrase(dice: Dice, kinds: Sequence[str], role: str) -> Phrase:
    """Draw a noun phrase of one of the kinds; `role` selects the determiner."""
    noun = dice.pick(_nouns(tuple(kinds), role))
    determiner = _determiner(dice, noun, role)
    plural = noun.english[1] != "-" and role not in ("spot", "goal") and _plural(dice, determiner)
    adjectives = [] if role == "plain" else _adjectives(dice, noun)
    return determined(dice, noun, determiner, plural, adjectives)


@cache
def _nouns(kinds: Words, role: str) -> tuple[Noun, ...]:
    """Return the nouns of these kinds; of places, those that one can be at or go to."""
    found = (noun for noun in NOUNS if noun.kind in kinds)
    return tuple(n for n in found if (n.goal or role != "goal") and (n.at or role not in ("spot", "around")))


def _determiner(dice: Dice, noun: Noun, role: str) -> str:
    chosen = dice.pick(ROLES[role])
    if noun.kind == "family":  # always possessive
        return "of" if chosen == "of" else "own"
    if chosen in ("own", "of") and noun.kind not in OWNED:
        return "the"
    if noun.kind == "person" and chosen == "some" and role == "object":
        return "the"
    if not noun.countable and chosen in ("a", *COUNTED):
        return "some"
    return chosen


def _plural(dice: Dice, determiner: str) -> bool:
    if determiner in (*COUNTED, "some", "every"):
        return True
    return determiner != "a" and dice.chance(0.35)


@cache
def adjectives_for(kind: str, noun: str) -> tuple[Adjective, ...]:
    """Return the adjectives that may describe a noun."""
    return tuple(a for a in ADJECTIVES if kind in a.kinds or noun in a.kinds)


def _adjectives(dice: Dice, noun: Noun) -> list[Adjective]:
    """Draw none, one, or one before the noun with a colour after it."""
    fitting = [a for a in adjectives_for(noun.kind, noun.english[0]) if a.place != "only"]
    if not fitting or not dice.chance(0.4):
        return []
    first = dice.pick(fitting)
    colours = [a for a in fitting if a.place == "colour"]
    return [first, dice.pick(colours)] if first.place == "before" and colours and dice.chance(0.25) else [first]


def determined(dice: Dice, noun: Noun, determiner: str, plural: bool, adjectives: Sequence[Adjective] = ()) -> Phrase:
    """Put a determiner before a noun and its adjectives."""
    core = _core(noun, plural, adjectives)
    english: Words = (*(a.english for a in adjectives), noun.english[plural])
    leading = bool(adjectives) and adjectives[0].place == "before"
    before, article = _articles(dice, determiner, core[0], female=noun.female, plural=plural, leading=leading)
    after: Words = ()
    if determiner == "of":
        owner = noun_phrase(dice, ("person", "family"), "plain") if dice.chance(0.6) else name(dice)
        before = (*owner.english[:-1], genitive(owner.english[-1], plural=owner.plural))
        after = ("de", *owner.french)
    return Phrase(
        english=before + english,
        french=article + core + after,
        person=THEM if plural else HIM,
        female=noun.female,
        plural=plural,
        kind=noun.kind,
        noun=noun.english[0],
        bare=core if determiner in ("a", "some") else None,
        partitive=determiner == "some",
        at=noun.at,
    )


def _core(noun: Noun, plural: bool, adjectives: Sequence[Adjective]) -> Words:
    """Order noun and adjectives as French does, each in its form."""
    words = [noun.french[plural]]
    for adjective in adjectives:
        form = agreed(adjective.french, female=noun.female, plural=plural)
        if adjective.place == "before":
            masculine = not (noun.female or plural)
            special = masculine and len(adjective.french) == 5 and starts_with_vowel(words[0])
            words.insert(0, adjective.french[4] if special else form)  # un bel arbre
        else:
            words.append(form)
    return tuple(words)


def _articles(
    dice: Dice, determiner: str, following: str, *, female: bool, plural: bool, leading: bool
) -> tuple[Words, Words]:
    """Return the determiner in both languages; `leading` means that an adjective precedes the noun."""
    the = "les" if plural else ("le", "la")[female]
    vowel = starts_with_vowel(following)
    if determiner == "own":
        english = dice.pick(tuple(OWNERS))
        return (english,), (_owner(dice, english, plural, female and not vowel),)
    if determiner == "this":
        singular = "cette" if female else "cet" if vowel else "ce"
        return ("these" if plural else "this",), ("ces" if plural else singular,)
    if determiner == "number":
        english, french = dice.pick(NUMBERS)
        return (english,), (french,)
    some = ("de",) if leading else ("des",)  # de petits chats, des chats noirs
    fixed: dict[str, tuple[Words, Words]] = {
        "the": (("the",), (the,)),
        "of": ((), (the,)),
        "every": ((), (the,)),
        "a": (("a",), (("un", "une")[female],)),
        "some": ((), some if plural else ("de", the)),
        "many": (("many",), ("beaucoup", "de")),
        "several": (("several",), ("plusieurs",)),
        "how many": (("how", "many"), ("combien", "de")),
        "which": (("which",), (agreed(("quel", "quelle", "quels", "quelles"), female=female, plural=plural),)),
        "all": (("all", "the"), (("tous", "toutes")[female], "les")),
    }
    return fixed[determiner]


def _owner(dice: Dice, english: str, plural: bool, female: bool) -> str:
    forms = OWNERS[english]
    if english == "your":
        dice.addressed = True
        forms = POLITE if dice.listener else forms
    return forms[2] if plural else forms[female]  # mon école: a vowel takes the masculine


def name(dice: Dice) -> Phrase:
    """Draw a first name."""
    spelt, female = dice.pick(NAMES)
    return Phrase(english=(spelt,), french=(spelt,), female=female)


def friend(dice: Dice) -> Phrase:
    """Draw a friend with a name, which distinguishes ami and amie."""
    who = name(dice)
    english = dice.pick(tuple(OWNERS))
    french = (_owner(dice, english, plural=False, female=False), ("ami", "amie")[who.female])
    return replace(who, english=(english, "friend", *who.english), french=(*french, *who.french))


def subject(dice: Dice, kinds: Sequence[str], role: str = "subject") -> Phrase:
    """Draw a subject."""
    if dice.chance(0.3):
        drawn = dice.pick((I, None, HE, SHE, WE, THEY))
        return drawn or you(dice)
    if dice.chance(0.12):
        return name(dice) if dice.chance(0.6) else friend(dice)
    if dice.chance(0.1):
        return both(name(dice), noun_phrase(dice, ("family",), "plain"))
    return noun_phrase(dice, kinds, role)


def both(first: Phrase, second: Phrase) -> Phrase:
    """Join two phrases; one masculine makes both masculine."""
    return Phrase(
        english=(*first.english, "and", *second.english),
        french=(*first.french, "et", *second.french),
        person=THEM,
        female=first.female and second.female,
        plural=True,
    )


def echo(phrase: Phrase) -> Phrase:
    """Return the pronoun for an earlier phrase."""
    if phrase.pronoun:
        return phrase
    female = phrase.female
    if phrase.plural:
        return replace(
            THEY, french=("elles",) if female else ("ils",), female=female, kind=phrase.kind, noun=phrase.noun
        )
    english = ("he", "she")[female] if phrase.kind in ("person", "family") else "it"
    base = SHE if female else HE
    return replace(base, english=(english,), kind=phrase.kind, noun=phrase.noun)
