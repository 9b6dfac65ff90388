"""The phrasebook's French and English, checked by rules that do not come from its own code."""

import random
import re
from collections import Counter
from itertools import combinations

import pytest

from qkv.common.errors import UsageError
from qkv.data.phrasebook import part, phrasebook, sentence, split, verbs
from qkv.data.phrasebook import words as lexicon

VOWEL = "[aeiouyâàéèêîôœAÉÎO]"
SOUND = f"(?:{VOWEL}|h(?!ibou|uit))"  # what a French word elides before
PLURAL_DETERMINERS = "mes|tes|ses|nos|vos|leurs|ces|deux|trois|quatre|cinq|six|sept|huit|neuf|dix|plusieurs"
BEFORE = "petite?s|grande?s|jeunes|vieux|vieilles|nouveaux|nouvelles|beaux|belles|jolie?s|bon(?:ne)?s|long(?:ue)?s"
WENT = "allé|venu|revenu|arrivé|parti|resté|tombé|sorti|levé|réveillé|reposé"

FORBIDDEN_FRENCH = {
    "elision": rf"\b(je|me|te|se|le|la|de|ne|que|ce) {SOUND}",
    "elision before an aspirated h": r"'(hibou|huit)",
    "contraction": r"\b(de|à) les?\b",
    "contraction before a vowel": rf"\b(du|au) {SOUND}",
    "my before a vowel": rf"\b(ma|ta|sa) {SOUND}",
    "this before a vowel": rf"\bce {SOUND}",
    "this before a consonant": r"\bcet (?![aeiouâéêîôœh])",
    "these forms stand before a vowel only": r"\b(bel|nouvel|vieil) (?![aeiouâéêîôœh])",
    "this and an aspirated h": r"\b(cet|bel|nouvel|vieil) hibou",
    "beau before a vowel": rf"\b(un|mon|ton|son|notre|votre|leur|ce|[Ll]e) (beau|nouveau|vieux) {SOUND}",
    "des before an adjective": rf"\by a des ({BEFORE})\b",
    "an article after a negation": r"\b(mange|boit|achète|vend|lit|porte|prend|écrit) (pas|plus|jamais) (une?|du|des) ",
    "être forms the past": rf"\b(ai|as|a|avons|avez|ont) (pas |jamais |déjà |pas encore )?({WENT})(e|s|es)?\b",
    "persons": r"\b([Jj]e|[Tt]u) (n'|ne )?(est|a|va|veut|peut|doit|mange[nt]+|prend|voit)\b",
    "plural persons": r"\b([Ii]ls|[Ee]lles) (n'|ne )?(est|a|va|veut|peut|doit|prend|voit|boit|lit)\b",
    "ne without pas": r"\bne \S+ (?!.*\b(pas|plus|jamais)\b)",
    "feminine nouns": r"\b(un|le|ce|du|au) (pomme|maison|voiture|femme|fille|clé|robe|lettre|soupe|vache|gare|rue)\b",
    "masculine nouns": r"\b(une|la|ma|ta|sa|cette) (chat|chien|cheval|livre|pain|couteau|roi|pont|sac|père|musée)\b",
    "irregular plurals": r"cheval[s]|\b\w+eaus\b|hôpitals|hibous|bleux",
    "brown has one form": r"marrons|marronne",
    "spacing": r"  | [,.']|' |\S\?",
}
FORBIDDEN_ENGLISH = {
    "a before a vowel": r"\b[Aa] (?=[aeiou])(?!universit)",
    "an before a consonant": r"\b[Aa]n (?![aeiouI])",
    "an university": r"\b[Aa]n universit",
    "third person": r"(^|and |but |because |that )([Hh]e|[Ss]he|it) (do|have|want|eat|buy|go|see|are|am)\b",
    "other persons": r"(?<!and )\b(I|[Ww]e|[Tt]hey|[Yy]ou) (does|has|wants|eats|buys|goes|is)\b",
    "base after do": r"\b(do|does|did) not (\w+s|ate|went|bought|saw)\b",
    "plurals": r"mans\b|childs|mouses|gooses|knifes|wolfs|storys|tomatos|boxs|churchs",
    "pasts": r"eated|goed|buyed|drinked|seed\b|finded|breaked|choosed|sleeped|swimmed|runned",
    "participles": r"\b(has|have) (already |never |not )?(ate|drank|saw|took|wrote|went|gave|broke|chose|fell)\b",
    "can": r"\bcan not\b",
    "spacing": r"  | [,.?]",
}


@pytest.fixture(scope="module")
def pairs():
    return list(phrasebook(12_000, seed=3))


@pytest.mark.parametrize("rule", FORBIDDEN_FRENCH)
def test_french_breaks_no_rule(pairs, rule):
    wrong = re.compile(FORBIDDEN_FRENCH[rule])
    assert [french for _, french in pairs if wrong.search(french)] == []


@pytest.mark.parametrize("rule", FORBIDDEN_ENGLISH)
def test_english_breaks_no_rule(pairs, rule):
    wrong = re.compile(FORBIDDEN_ENGLISH[rule])
    assert [english for english, _ in pairs if wrong.search(english)] == []


@pytest.mark.parametrize(
    ("rule", "wrong"),
    [
        ("elision", "Je vois le arbre."),
        ("elision", "Elle ne a pas de pain."),
        ("contraction", "Il parle de le roi."),
        ("contraction", "Il parle à les filles."),
        ("my before a vowel", "C'est ma école."),
        ("être forms the past", "Elle a pas allé à la gare."),
        ("an article after a negation", "Il ne mange pas une pomme."),
        ("ne without pas", "Elle ne mange la pomme."),
        ("feminine nouns", "Il voit le maison."),
    ],
)
def test_the_rules_find_what_is_wrong(rule, wrong):
    assert re.search(FORBIDDEN_FRENCH[rule], wrong)


def test_a_plural_determiner_has_a_plural_after_it(pairs):
    following = re.compile(rf"\b(?:{PLURAL_DETERMINERS}) (\w[\w-]*)")
    found = Counter(word for _, french in pairs for word in following.findall(french))
    assert len(found) > 80
    assert [word for word in found if word[-1] not in "sx"] == []


@pytest.mark.parametrize(
    ("subject", "ending"),
    [
        (r"\b[Ee]lle (?:s'|n')?est", "e"),
        (r"^(?:\w+ |Toutes les )(?:femmes|filles|reines|sœurs|tantes|vaches|oies) (?:se )?sont", "es"),
        (r"\b[Ii]ls (?:se )?sont", "s"),
    ],
)
def test_etre_agrees_with_the_subject(pairs, subject, ending):
    went = re.compile(rf"{subject} (?:pas |déjà |pas encore )?({WENT})(\w*)")
    endings = [found for _, french in pairs for _, found in went.findall(french)]
    assert len(endings) > 3
    assert set(endings) == {ending}


@pytest.mark.parametrize(
    ("noun", "ending"),
    [
        ("pomme|fraise|clé|robe|lettre|lampe|boîte|porte|voiture", "e"),
        ("pommes|fraises|clés|robes|lettres|lampes|boîtes|portes|voitures", "es"),
        ("livre|sac|chapeau|couteau|gâteau|manteau|vélo|cadeau", ""),
    ],
)
def test_avoir_agrees_with_an_object_before_it(pairs, noun, ending):
    done = "acheté|vendu|trouvé|perdu|lavé|nettoyé|choisi|porté|dessiné|caché|cassé|oublié|fermé"
    before = re.compile(
        rf" (?:la|les|le) (?:{noun})(?: \w+)? (?:qu|que) ?'?.*\b(?:ai|as|a|avons|avez|ont) (?:{done})(\w*)"
    )
    endings = [found for _, french in pairs for found in before.findall(french)]
    assert len(endings) > 3
    assert set(endings) == {ending}


def test_a_pronoun_takes_its_gender_from_the_noun(pairs):
    bought = re.compile(
        r" (un|une) [^,]* et (?:je|tu|il|elle|ils|elles) l'(?:ai|as|a|ont) (?:vendu|mangé|lavé|lu|cassé|perdu)(e?)\."
    )
    found = {pair for _, french in pairs for pair in bought.findall(french)}
    assert found == {("un", ""), ("une", "e")}


def test_every_phenomenon_is_there(pairs):
    text = "\n".join(french for _, french in pairs)
    for form in (
        "l'arbre", "J'ai", "n'a pas", "d'eau", " du ", " des ", " au ", " aux ", "mon amie", "mon assiette", "bel ",
        "vieil ", "nouvel ", "cet ", "le hibou", "Est-ce qu", "Qu'est-ce qu", "Combien d'", "Quelle ", "s'est",
        "ne les", " lui ", "il y a ", "parce qu'", ", mais ", "madame ?", "il va ", "plus ", "de petit", "C'est", "œuf",
    ):  # fmt: skip
        assert form in text, form


def test_one_translation_each(pairs):
    assert _conflicts(pairs) == []


@pytest.mark.slow
def test_one_translation_each_in_many_draws():
    drawn = list(phrasebook(200_000, seed=11))
    assert _conflicts(drawn) == []
    assert len(set(drawn[:100_000])) > 97_000
    assert len({french for _, french in drawn[:100_000]}) > 97_000


def _conflicts(pairs):
    known = {}
    return [(e, f, known[e]) for e, f in pairs if known.setdefault(e, f) != f]


def test_sentences_are_different_and_of_sensible_length(pairs):
    assert len(set(pairs)) > 0.98 * len(pairs)
    for english, french in pairs:
        for text in (english, french.replace(" ?", "?")):
            assert 3 <= len(text.split()) <= 16
            assert text[0].isupper()
            assert text[-1] in ".?"
        assert english[-1] == french[-1]


def test_word_order_differs(pairs):
    """Words with one translation cross in many sentences: adjectives, adverbs, pronouns, owners."""
    forms = {a.english: set(a.french) for a in lexicon.ADJECTIVES}
    forms |= {n.english[i]: {n.french[i]} for n in lexicon.NOUNS for i in (0, 1)}
    forms |= {"him": {"le", "lui"}, "her": {"la"}, "them": {"les"}, "often": {"souvent"}, "always": {"toujours"}}
    forms |= {verb.english[2]: {verb.participle} for verb in verbs.DIRECT}
    crossed = sum(_crosses(english, french, forms) for english, french in pairs)
    assert crossed > 0.3 * len(pairs)


def _crosses(english, french, forms):
    there = {}
    for place, word in enumerate(re.findall(r"[\w-]+", french)):
        there.setdefault(word.lower(), place)
    places = [
        next((there[form] for form in forms.get(word, ()) if form in there), None)
        for word in re.findall(r"\w+", english.lower())
    ]
    return any(a > b for a, b in combinations([p for p in places if p is not None], 2))


class OnlyRandom:
    """A generator that can do nothing but `random()`; what uses only that is the same in every Python."""

    def __init__(self, seed):
        self._inner = random.Random(seed)

    def random(self):
        return self._inner.random()


def test_draws_need_random_alone_and_repeat():
    rng = OnlyRandom(5)
    first = [sentence(rng) for _ in range(200)]
    assert first == list(phrasebook(200, seed=5))
    assert first != list(phrasebook(200, seed=6))


def test_split_has_no_sentence_twice():
    parts = split(3000, 1, 150)
    assert [len(pairs) for pairs in parts] == [3000, 150, 150]
    for one, other in combinations(parts, 2):
        for side in (0, 1):
            assert {pair[side] for pair in one}.isdisjoint(pair[side] for pair in other)
    assert all(len({english for english, _ in pairs}) == len(pairs) for pairs in parts)
    assert split(300, 1, 20) == split(300, 1, 20)


def test_what_is_held_out_does_not_depend_on_the_count():
    small, large = split(0, 1, 30), split(900, 1, 30)
    assert small[1:] == large[1:]
    assert {part(french) for _, french in large[0]} == {"train"}


def test_a_negative_count_is_refused():
    with pytest.raises(UsageError, match="-1"):
        split(-1, 1, 10)


def test_the_lexicon_is_whole():
    tables = [table for table in vars(verbs).values() if isinstance(table, tuple)]
    known = [word for table in tables for word in table if isinstance(word, verbs.Verb)]
    assert len(known) >= 40
    for verb in known:
        assert (len(verb.english), len(verb.present)) == (4, 6), verb
        assert verb.infinitive.endswith(("er", "ir", "re")), verb
        assert verb.present[3].endswith("ons"), verb
        assert verb.present[5].endswith("nt"), verb
    assert len(lexicon.NOUNS) >= 60
    assert len(lexicon.ADJECTIVES) >= 30
    assert all(len(adjective.french) in (4, 5) for adjective in lexicon.ADJECTIVES)
