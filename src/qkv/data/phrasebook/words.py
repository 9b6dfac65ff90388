"""The lexicon: tables of English and French words, written to be easy to read.

Kinds keep sentences sensible: a verb names the kinds that can do it and the kinds it is done to, an adjective the kinds
it may describe. A word with two readings is left out, or appears in one of them only.
"""

from __future__ import annotations

from dataclasses import dataclass

from qkv.data.phrasebook.verbs import rows

UNCOUNTED = ("mass", "drink")


@dataclass(frozen=True)
class Noun:
    """A noun in both languages.

    Attributes:
        english: singular and plural.
        french: singular and plural.
        female: the French gender.
        kind: what it is, for the choice of verbs and adjectives.
        at: the two prepositions that say one is there ("in", "dans"); empty for what is no place.
        goal: one can go "to" it, and French says "à".
    """

    english: tuple[str, str]
    french: tuple[str, str]
    female: bool
    kind: str
    at: tuple[str, ...] = ()
    goal: bool = False

    @property
    def countable(self) -> bool:
        """Whether it has a plural."""
        return self.kind not in UNCOUNTED


@dataclass(frozen=True)
class Adjective:
    """An adjective in both languages.

    Attributes:
        english: its one form.
        french: masculine, feminine, both in the plural; a fifth form for a masculine before a vowel.
        place: "before" or "after" the French noun, "colour" (after, and joins an adjective before), "only" with être.
        kinds: the kinds of nouns, or the nouns, that it may describe.
    """

    english: str
    french: tuple[str, ...]
    place: str
    kinds: tuple[str, ...]


def _nouns(table: str) -> tuple[Noun, ...]:
    nouns = []
    for (english, plural, french, french_plural, gender), (kind, *at) in rows(table):
        goal = at[2:] == ["goal"]
        nouns.append(Noun((english, plural), (french, french_plural), gender == "f", kind, tuple(at[:2]), goal))
    return tuple(nouns)


NOUNS = _nouns("""
man men homme hommes m | person
woman women femme femmes f | person
boy boys garçon garçons m | person
girl girls fille filles f | person
child children enfant enfants m | person
neighbour neighbours voisin voisins m | person
king kings roi rois m | person
queen queens reine reines f | person
doctor doctors médecin médecins m | person
teacher teachers professeur professeurs m | person
student students étudiant étudiants m | person
brother brothers frère frères m | family
sister sisters sœur sœurs f | family
uncle uncles oncle oncles m | family
aunt aunts tante tantes f | family
son sons fils fils m | family
daughter daughters fille filles f | family
mother - mère - f | family
father - père - m | family
grandmother - grand-mère - f | family
cat cats chat chats m | animal
dog dogs chien chiens m | animal
horse horses cheval chevaux m | animal
bird birds oiseau oiseaux m | animal
mouse mice souris souris f | animal
cow cows vache vaches f | animal
goose geese oie oies f | animal
wolf wolves loup loups m | animal
owl owls hibou hiboux m | animal
elephant elephants éléphant éléphants m | animal
apple apples pomme pommes f | food
orange oranges orange oranges f | food
egg eggs œuf œufs m | food
cake cakes gâteau gâteaux m | food
strawberry strawberries fraise fraises f | food
tomato tomatoes tomate tomates f | food
onion onions oignon oignons m | food
bread - pain - m | mass
cheese - fromage - m | mass
soup - soupe - f | mass
meat - viande - f | mass
rice - riz - m | mass
water - eau - f | drink
milk - lait - m | drink
coffee - café - m | drink
tea - thé - m | drink
beer - bière - f | drink
book books livre livres m | text
letter letters lettre lettres f | text
story stories histoire histoires f | text
poem poems poème poèmes m | text
table tables table tables f | thing on sur
chair chairs chaise chaises f | thing on sur
box boxes boîte boîtes f | thing in dans
bag bags sac sacs m | thing in dans
key keys clé clés f | thing
clock clocks horloge horloges f | thing
lamp lamps lampe lampes f | thing
knife knives couteau couteaux m | thing
plate plates assiette assiettes f | thing
umbrella umbrellas parapluie parapluies m | thing
toy toys jouet jouets m | thing
gift gifts cadeau cadeaux m | thing
hat hats chapeau chapeaux m | clothes
coat coats manteau manteaux m | clothes
dress dresses robe robes f | clothes
shirt shirts chemise chemises f | clothes
car cars voiture voitures f | vehicle in dans
boat boats bateau bateaux m | vehicle on sur
plane planes avion avions m | vehicle in dans
bicycle bicycles vélo vélos m | vehicle
house houses maison maisons f | home in dans
garden gardens jardin jardins m | home in dans
kitchen kitchens cuisine cuisines f | home in dans
bedroom bedrooms chambre chambres f | home in dans
office offices bureau bureaux m | home in dans
door doors porte portes f | opening
window windows fenêtre fenêtres f | opening
tree trees arbre arbres m | nature
flower flowers fleur fleurs f | nature
star stars étoile étoiles f | nature
mountain mountains montagne montagnes f | nature
river rivers rivière rivières f | nature
school schools école écoles f | place at à goal
church churches église églises f | place in dans
hotel hotels hôtel hôtels m | place at à goal
market markets marché marchés m | place at à goal
station stations gare gares f | place at à goal
hospital hospitals hôpital hôpitaux m | place at à goal
university universities université universités f | place at à goal
library libraries bibliothèque bibliothèques f | place at à goal
museum museums musée musées m | place at à goal
beach beaches plage plages f | place on sur goal
village villages village villages m | place in dans
park parks parc parcs m | place in dans
forest forests forêt forêts f | place in dans
castle castles château châteaux m | place in dans
bridge bridges pont ponts m | place on sur
island islands île îles f | place on sur
street streets rue rues f | place in dans
""")

ADJECTIVES = tuple(
    Adjective(english[0], tuple(french), place[0], tuple(kinds))
    for english, french, place, kinds in rows("""
small | petit petite petits petites | before | animal food text thing clothes vehicle place home opening nature
little | petit petite petits petites | before | boy girl child brother sister
big | grand grande grands grandes | before | animal thing clothes vehicle place home opening nature
young | jeune jeune jeunes jeunes | before | person animal
old | vieux vieille vieux vieilles vieil | before | man woman neighbour king queen doctor teacher uncle aunt mother father grandmother animal text thing clothes vehicle home opening tree village school church hotel market station hospital university library museum castle bridge street
old | vieux vieille vieux vieilles | only | person family
new | nouveau nouvelle nouveaux nouvelles nouvel | before | text thing clothes vehicle home opening school church hotel market station hospital university library museum castle bridge street
beautiful | beau belle beaux belles bel | before | animal text thing clothes vehicle place home opening nature
pretty | joli jolie jolis jolies | before | text thing clothes home nature
good | bon bonne bons bonnes | before | food mass drink text
long | long longue longs longues | before | text clothes
red | rouge rouge rouges rouges | colour | food thing clothes vehicle opening
white | blanc blanche blancs blanches | colour | animal thing clothes vehicle home opening
black | noir noire noirs noires | colour | animal thing clothes vehicle opening
grey | gris grise gris grises | colour | animal thing clothes vehicle home
brown | marron marron marron marron | colour | animal thing clothes opening
green | vert verte verts vertes | colour | food thing clothes vehicle opening
blue | bleu bleue bleus bleues | colour | thing clothes vehicle opening
yellow | jaune jaune jaunes jaunes | colour | thing clothes vehicle home
rich | riche riche riches riches | after | person family
famous | célèbre célèbre célèbres célèbres | after | king queen doctor teacher uncle aunt place text
happy | heureux heureuse heureux heureuses | after | person family
sad | triste triste tristes tristes | after | person family text
intelligent | intelligent intelligente intelligents intelligentes | after | person family animal
strong | fort forte forts fortes | after | person animal
dangerous | dangereux dangereuse dangereux dangereuses | after | wolf dog horse elephant mountain river street
interesting | intéressant intéressante intéressants intéressantes | after | text museum castle village island university
expensive | cher chère chers chères | after | food book thing clothes vehicle mass drink
heavy | lourd lourde lourds lourdes | after | thing clothes
dirty | sale sale sales sales | after | animal thing clothes vehicle home opening
clean | propre propre propres propres | after | animal thing clothes vehicle home opening
broken | cassé cassée cassés cassées | after | thing opening
quiet | calme calme calmes calmes | after | street village park beach hotel library island forest animal
hot | chaud chaude chauds chaudes | after | mass drink
fresh | frais fraîche frais fraîches | after | food mass
French | français française français françaises | after | mass drink text vehicle clothes
Italian | italien italienne italiens italiennes | after | mass drink text vehicle clothes
tall | grand grande grands grandes | only | person family
tired | fatigué fatiguée fatigués fatiguées | only | person family animal
ill | malade malade malades malades | only | person family animal
ready | prêt prête prêts prêtes | only | person family
""")  # noqa: E501
)
# English forms these comparatives with "more".
LONG_ADJECTIVES = ("beautiful", "famous", "intelligent", "dangerous", "interesting", "expensive", "tired")

TRADES = tuple(
    ((english, plural), tuple(french))
    for (english, plural), french in rows("""
doctor doctors | médecin médecin médecins médecins
student students | étudiant étudiante étudiants étudiantes
baker bakers | boulanger boulangère boulangers boulangères
musician musicians | musicien musicienne musiciens musiciennes
singer singers | chanteur chanteuse chanteurs chanteuses
actor actors | acteur actrice acteurs actrices
farmer farmers | agriculteur agricultrice agriculteurs agricultrices
""")
)
NAMES = (("Marie", True), ("Anne", True), ("Alice", True), ("Paul", False), ("Victor", False), ("Antoine", False))
NUMBERS = tuple(
    zip(
        ["two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"],
        ["deux", "trois", "quatre", "cinq", "six", "sept", "huit", "neuf", "dix"],
        strict=True,
    )
)
CITIES = (
    ("Paris", "à Paris", "de Paris"),
    ("London", "à Londres", "de Londres"),
    ("Athens", "à Athènes", "de Athènes"),
    ("France", "en France", "de France"),
    ("Italy", "en Italie", "de Italie"),
    ("Japan", "au Japon", "du Japon"),
    ("Canada", "au Canada", "du Canada"),
    ("the United States", "aux États-Unis", "des États-Unis"),
)
HABITS = (("often", "souvent"), ("always", "toujours"), ("sometimes", "parfois"), ("rarely", "rarement"))
WAYS = (("slowly", "lentement"), ("quickly", "rapidement"), ("quietly", "silencieusement"))

# Manners that suit verbs of motion or creation.
WAYS_OF = ("sing", "dance", "work", "swim", "run", "walk")
DAYS = (
    ("Monday", "lundi"),
    ("Tuesday", "mardi"),
    ("Thursday", "jeudi"),
    ("Saturday", "samedi"),
    ("Sunday", "dimanche"),
)
_LATER = (
    ("tomorrow", "demain"),
    ("tomorrow morning", "demain matin"),
    ("tonight", "ce soir"),
    ("next week", "la semaine prochaine"),
    ("next year", "l'année prochaine"),
    *((f"next {day}", f"{jour} prochain") for day, jour in DAYS),
)
# By tense; the perfect has none.
TIMES: dict[str, tuple[tuple[str, str], ...]] = {
    "present": (
        ("every day", "tous les jours"),
        ("every morning", "tous les matins"),
        ("in the evening", "le soir"),
        ("in summer", "en été"),
        ("in winter", "en hiver"),
        *((f"on {day}s", f"le {jour}") for day, jour in DAYS),
    ),
    "past": (
        ("yesterday", "hier"),
        ("yesterday evening", "hier soir"),
        ("this morning", "ce matin"),
        ("last week", "la semaine dernière"),
        ("last year", "l'année dernière"),
        ("a month ago", "il y a un mois"),
        *((f"{number} days ago", f"il y a {nombre} jours") for number, nombre in NUMBERS),
        *((f"last {day}", f"{jour} dernier") for day, jour in DAYS),
    ),
    "future": (
        *_LATER,
        ("soon", "bientôt"),
        *((f"in {number} days", f"dans {nombre} jours") for number, nombre in NUMBERS),
    ),
    "want": _LATER,
    "can": _LATER,
    "must": _LATER,
}
