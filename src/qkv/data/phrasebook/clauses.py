"""Clauses: one meaning in English and in French.

negation     she does not eat the apple          elle ne mange pas la pomme
perfect      she has already eaten it            elle l'a déjà mangée
future       she is going to eat it              elle va la manger
"""

from __future__ import annotations

from dataclasses import dataclass

from qkv.data.phrasebook.forms import agreed_participle
from qkv.data.phrasebook.phrases import HIM, Phrase, Words
from qkv.data.phrasebook.verbs import HELPERS, Verb

BE = ("am", "are", "is", "are", "are", "are")
REFLEXIVE = ("me", "te", "se", "nous", "vous", "se")
AVOIR = ("ai", "as", "a", "avons", "avez", "ont")
ETRE = ("suis", "es", "est", "sommes", "êtes", "sont")
# English before the verb, French after it; "yet" ends the English clause.
NEGATIONS: dict[str, tuple[Words, Words]] = {
    "": ((), ()),
    "not": (("not",), ("pas",)),
    "never": (("never",), ("jamais",)),
    "no longer": (("no", "longer"), ("plus",)),
    "yet": (("not",), ("pas", "encore")),
}
OBJECT_PRONOUNS = {"I": "me", "he": "him", "she": "her", "we": "us", "they": "them"}
CLITICS = {"je": "me", "tu": "te"}


@dataclass(frozen=True, kw_only=True)
class Clause:
    """An event or a state.

    Attributes:
        subject: who does it.
        verb: what is done.
        tense: "present", "past", "perfect" or a key of `HELPERS`.
        negation: a key of `NEGATIONS`.
        adverb: how often, in both languages.
        thing: to whom or what.
        person: the pronoun of whom or what, which French puts before the verb.
        ahead: a direct object that stands before the clause; the participle agrees with it.
        rest: what follows, as pairs of English and French words.
    """

    subject: Phrase
    verb: Verb
    tense: str = "present"
    negation: str = ""
    adverb: tuple[str, str] | None = None
    thing: Phrase | None = None
    person: Phrase | None = None
    ahead: Phrase | None = None
    rest: tuple[tuple[Words, Words], ...] = ()


def english(clause: Clause, *, asked: bool = False) -> Words:
    """Return a clause in English; a question puts the auxiliary first."""
    auxiliary, group = _english_verb(clause, asked)
    who = clause.subject.english
    start = (*auxiliary, *who) if asked else (*who, *auxiliary)
    person = () if clause.person is None else object_pronoun(clause.person)
    thing = () if clause.thing is None else clause.thing.english
    rest = tuple(word for words, _ in clause.rest for word in words)
    yet = ("yet",) if clause.negation == "yet" else ()
    return (*start, *group, *clause.verb.particle.split(), *person, *thing, *rest, *yet)


def object_pronoun(phrase: Phrase) -> Words:
    """Return the English object form of a pronoun."""
    return (OBJECT_PRONOUNS.get(phrase.english[0], phrase.english[0]),)


def _english_verb(clause: Clause, asked: bool) -> tuple[Words, Words]:
    """Return the auxiliary, if there is one, and the words after it."""
    base, third, past, participle = clause.verb.english
    person, tense = clause.subject.person, clause.tense
    middle = (clause.adverb[0],) if clause.adverb else NEGATIONS[clause.negation][0]
    if tense == "perfect":
        return ("has" if person == HIM else "have",), (*middle, participle)
    if tense == "future":
        return (BE[person],), (*middle, "going", "to", base)
    if tense in ("can", "must"):
        return (tense,), (*middle, base)
    if base == "be" and tense == "present":
        return (BE[person],), middle
    infinitive: Words = ()
    if tense == "want":
        infinitive, (base, third) = ("to", base), ("want", "wants")
    if asked or clause.negation == "not":
        return ("did" if tense == "past" else "does" if person == HIM else "do",), (*middle, base, *infinitive)
    form = past if tense == "past" else third if person == HIM else base
    return (), (*middle, form, *infinitive)


def french(clause: Clause) -> Words:
    """Return a clause in French; a question keeps the order after est-ce que."""
    rest = tuple(word for _, words in clause.rest for word in words)
    return (*clause.subject.french, *_french_verb(clause), *_french_object(clause), *rest)


def _french_verb(clause: Clause) -> Words:
    """Return the verb with its pronoun, with ne and pas around the conjugated part."""
    verb, person = clause.verb, clause.subject.person
    ne = ("ne",) if clause.negation else ()
    middle = (*NEGATIONS[clause.negation][1], *((clause.adverb[1],) if clause.adverb else ()))
    clitic, tail = _clitic(clause), (verb.tail,) if verb.tail else ()
    if clause.tense == "present":
        return (*ne, *clitic, verb.present[person], *middle, *tail)
    if clause.tense in ("past", "perfect"):
        auxiliary = (ETRE if verb.being else AVOIR)[person]
        return (*ne, *clitic, auxiliary, *middle, _participle(clause), *tail)
    return (*ne, HELPERS[clause.tense][person], *middle, *clitic, verb.infinitive, *tail)


def _clitic(clause: Clause) -> Words:
    """Return the pronoun before the verb."""
    verb, whom = clause.verb, clause.person
    if verb.clitic:
        return (REFLEXIVE[clause.subject.person] if verb.clitic == "se" else verb.clitic,)
    if whom is None:
        return ()
    said = whom.french[0]
    if said in ("je", "tu", "nous", "vous"):
        return (CLITICS.get(said, said),)
    if verb.preposition == "à" or clause.thing is not None:  # to whom
        return ("leur" if whom.plural else "lui",)
    return ("les" if whom.plural else ("le", "la")[whom.female],)


def _participle(clause: Clause) -> str:
    """Agree with the subject of être, or with a direct object that precedes avoir."""
    direct = not clause.verb.preposition and clause.thing is None
    cause = clause.subject if clause.verb.being else clause.ahead or (clause.person if direct else None)
    if cause is None:
        return clause.verb.participle
    return agreed_participle(clause.verb.participle, female=cause.female, plural=cause.plural)


def _french_object(clause: Clause) -> Words:
    """Return the object; its indefinite article becomes de after a negation and disappears after de."""
    thing, preposition = clause.thing, clause.verb.preposition
    if thing is None:
        return ()
    if preposition == "de" and thing.partitive and thing.bare is not None:
        return ("de", *thing.bare)
    if not preposition and clause.negation and thing.bare is not None:
        return ("de", *thing.bare)
    return (preposition, *thing.french) if preposition else thing.french
