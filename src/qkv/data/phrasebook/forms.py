"""Word forms: elision, contraction and agreement in French; a/an and the genitive in English."""

from __future__ import annotations

from collections.abc import Sequence

ELIDED = {"je", "me", "te", "se", "le", "la", "de", "ne", "que", "ce"}
CONTRACTED = {("de", "le"): "du", ("de", "les"): "des", ("à", "le"): "au", ("à", "les"): "aux"}
VOWELS = frozenset("aeiouàâéèêîôœ")
# A silent h that prevents elision: le hibou, le huit.
ASPIRATED = {"hibou", "hiboux", "huit"}
# A vowel that sounds like a consonant: a university.
CONSONANT_SOUNDS = {"university", "universities"}


def starts_with_vowel(word: str) -> bool:
    """Return whether the word before a French word elides."""
    word = word.lower()
    return word == "y" or word[0] in VOWELS or (word[0] == "h" and word not in ASPIRATED)


def french_text(words: Sequence[str]) -> str:
    """Contract (de le -> du), elide (je aime -> j'aime) and join."""
    joined: list[str] = []
    for place, word in enumerate(words):
        after = words[place + 1] if place + 1 < len(words) else "-"
        before = joined[-1] if joined else ""
        elides = word in ELIDED and starts_with_vowel(after)
        contracted = CONTRACTED.get((before, word))
        if contracted and not elides:  # de l'eau keeps its article
            joined[-1] = contracted
        else:
            joined.append(word[:-1] + "'" if elides else word)
    return " ".join(joined).replace("' ", "'").replace(" ,", ",")


def english_text(words: Sequence[str]) -> str:
    """Choose a or an, write cannot as one word, and join."""
    chosen = [
        "an" if word == "a" and after[0] in "aeiouAEIOU" and after not in CONSONANT_SOUNDS else word
        for word, after in zip(words, [*words[1:], "-"], strict=True)
    ]
    return " ".join(chosen).replace("can not ", "cannot ").replace(" ,", ",")


def capital(text: str) -> str:
    """Capitalize the first letter and leave the rest as it is."""
    return text[0].upper() + text[1:]


def genitive(owner: str, *, plural: bool) -> str:
    """Return the English genitive: the boy's, the boys', the children's."""
    return owner + ("'" if plural and owner.endswith("s") else "'s")


def agreed(forms: Sequence[str], *, female: bool, plural: bool) -> str:
    """Select the form of an adjective by gender and number."""
    return forms[female + 2 * plural]


def agreed_participle(participle: str, *, female: bool, plural: bool) -> str:
    """Inflect a past participle: vu, vue, vus, vues; a final s is not doubled in the plural."""
    word = participle + "e" * female
    return word + "s" * (plural and not word.endswith("s"))
