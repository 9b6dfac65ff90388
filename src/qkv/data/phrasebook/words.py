"""The lexicon: tables of English and French words, written to be easy to read.

Kinds keep sentences sensible: a verb names the kinds that can do it and the kinds it is done to, an adjective the kinds
it may describe. A word with two readings is left out, or appears in one of them only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

UNCOUNTED = ("mass", "drink")
BEINGS = ("person", "family", "animal")


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
class Verb:
    """A verb in both languages.

    Attributes:
        english: base, third person, past, participle.
        particle: what follows it in English ("look at").
        infinitive: the French infinitive.
        present: the six persons, from je to ils.
        participle: the French past participle.
        who: the kinds that can do it.
        what: the kinds it is done to; empty for an intransitive verb.
        preposition: what stands before the French object: nothing, "à" or "de".
        being: être forms the past.
        clitic: "se" of a reflexive verb, "y" of il y a.
        tail: what follows it in French ("avoir faim").
    """

    english: tuple[str, ...]
    particle: str
    infinitive: str
    present: tuple[str, ...]
    participle: str
    who: tuple[str, ...] = ()
    what: tuple[str, ...] = ()
    preposition: str = ""
    being: bool = False
    clitic: str = ""
    tail: str = ""


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


def _rows(table: str) -> Iterator[list[list[str]]]:
    """Parse lines of cells separated by bars; each cell is a list of words."""
    for line in table.strip().splitlines():
        yield [cell.split() for cell in line.split("|")]


def _nouns(table: str) -> tuple[Noun, ...]:
    nouns = []
    for (english, plural, french, french_plural, gender), (kind, *at) in _rows(table):
        goal = at[2:] == ["goal"]
        nouns.append(Noun((english, plural), (french, french_plural), gender == "f", kind, tuple(at[:2]), goal))
    return tuple(nouns)


def _verbs(
    table: str, *, preposition: str = "", being: bool = False, clitic: str = "", tail: bool = False
) -> tuple[Verb, ...]:
    verbs = []
    for (base, third, past, participle, *particle), french, who, what in _rows(table):
        infinitive, *present, done = french[:8]
        verb = Verb(
            english=(base, third, past, participle),
            particle=" ".join(particle),
            infinitive=infinitive,
            present=tuple(present),
            participle=done,
            who=BEINGS if who == ["being"] else ("person", "family"),
            what=tuple(what),
            preposition=preposition,
            being=being,
            clitic=clitic,
            tail=french[8] if tail else "",
        )
        verbs.append(verb)
    return tuple(verbs)


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

# Verbs with a direct object, which French puts after the verb or, as a pronoun, before it.
DIRECT = _verbs("""
eat eats ate eaten | manger mange manges mange mangeons mangez mangent mangé | being | food mass
drink drinks drank drunk | boire bois bois boit buvons buvez boivent bu | being | drink
buy buys bought bought | acheter achète achètes achète achetons achetez achètent acheté | person | food mass drink text thing clothes vehicle
sell sells sold sold | vendre vends vends vend vendons vendez vendent vendu | person | food mass text thing clothes vehicle animal
see sees saw seen | voir vois vois voit voyons voyez voient vu | being | person family animal thing vehicle place home nature
look looks looked looked at | regarder regarde regardes regarde regardons regardez regardent regardé | being | person family animal nature
look looks looked looked for | chercher cherche cherches cherche cherchons cherchez cherchent cherché | being | person family animal thing clothes text
find finds found found | trouver trouve trouves trouve trouvons trouvez trouvent trouvé | person | thing clothes text animal
lose loses lost lost | perdre perds perds perd perdons perdez perdent perdu | person | thing clothes text
wait waits waited waited for | attendre attends attends attend attendons attendez attendent attendu | being | person family
listen listens listened listened to | écouter écoute écoutes écoute écoutons écoutez écoutent écouté | being | person family
read reads read read | lire lis lis lit lisons lisez lisent lu | person | text
write writes wrote written | écrire écris écris écrit écrivons écrivez écrivent écrit | person | text
wash washes washed washed | laver lave laves lave lavons lavez lavent lavé | person | clothes vehicle animal
clean cleans cleaned cleaned | nettoyer nettoie nettoies nettoie nettoyons nettoyez nettoient nettoyé | person | home thing opening
take takes took taken | prendre prends prends prend prenons prenez prennent pris | person | thing clothes text food
choose chooses chose chosen | choisir choisis choisis choisit choisissons choisissez choisissent choisi | person | clothes thing text food
carry carries carried carried | porter porte portes porte portons portez portent porté | person | thing
wear wears wore worn | porter porte portes porte portons portez portent porté | person | clothes
draw draws drew drawn | dessiner dessine dessines dessine dessinons dessinez dessinent dessiné | person | animal nature vehicle
paint paints painted painted | peindre peins peins peint peignons peignez peignent peint | person | nature opening animal
visit visits visited visited | visiter visite visites visite visitons visitez visitent visité | person | place
help helps helped helped | aider aide aides aide aidons aidez aident aidé | person | person family
invite invites invited invited | inviter invite invites invite invitons invitez invitent invité | person | person family
meet meets met met | rencontrer rencontre rencontres rencontre rencontrons rencontrez rencontrent rencontré | person | person family
hide hides hid hidden | cacher cache caches cache cachons cachez cachent caché | person | thing food text
break breaks broke broken | casser casse casses casse cassons cassez cassent cassé | person | thing opening
repair repairs repaired repaired | réparer répare répares répare réparons réparez réparent réparé | person | vehicle opening
forget forgets forgot forgotten | oublier oublie oublies oublie oublions oubliez oublient oublié | person | thing clothes text
open opens opened opened | ouvrir ouvre ouvres ouvre ouvrons ouvrez ouvrent ouvert | person | opening
close closes closed closed | fermer ferme fermes ferme fermons fermez ferment fermé | person | opening
thank thanks thanked thanked | remercier remercie remercies remercie remercions remerciez remercient remercié | person | person family
""")  # noqa: E501

# States are used in the present only: in the past, French would need the imparfait.
STATES = _verbs("""
have has had had | avoir ai as a avons avez ont eu | person | animal vehicle thing clothes text
know knows knew known | connaître connais connais connaît connaissons connaissez connaissent connu | person | person family place
""")  # noqa: E501
TASTES = _verbs("""
like likes liked liked | aimer aime aimes aime aimons aimez aiment aimé | person | animal food mass drink text nature
love loves loved loved | adorer adore adores adore adorons adorez adorent adoré | person | animal food mass drink text nature
hate hates hated hated | détester déteste détestes déteste détestons détestez détestent détesté | person | animal food mass drink
prefer prefers preferred preferred | préférer préfère préfères préfère préférons préférez préfèrent préféré | person | animal food mass drink text
""")  # noqa: E501
FEARS = _verbs(
    "be is was been afraid of | avoir ai as a avons avez ont eu peur | person | animal", preposition="de", tail=True
)
NEEDS = _verbs(
    "need needs needed needed | avoir ai as a avons avez ont eu besoin | person | thing clothes vehicle mass drink",
    preposition="de",
    tail=True,
)
TOPICS = _verbs(
    "talk talks talked talked about | parler parle parles parle parlons parlez parlent parlé | person "
    "| person family animal text place",
    preposition="de",
)
HEARERS = _verbs(
    """
talk talks talked talked to | parler parle parles parle parlons parlez parlent parlé | person | person family
answer answers answered answered | répondre réponds réponds répond répondons répondez répondent répondu | person | person family
""",  # noqa: E501
    preposition="à",
)
GIFTS = _verbs("""
give gives gave given | donner donne donnes donne donnons donnez donnent donné | person | food text thing clothes
show shows showed shown | montrer montre montres montre montrons montrez montrent montré | person | text thing clothes animal
send sends sent sent | envoyer envoie envoies envoie envoyons envoyez envoient envoyé | person | text thing clothes
lend lends lent lent | prêter prête prêtes prête prêtons prêtez prêtent prêté | person | text thing clothes vehicle
bring brings brought brought | apporter apporte apportes apporte apportons apportez apportent apporté | person | food text thing
""")  # noqa: E501
ALONE = _verbs("""
sleep sleeps slept slept | dormir dors dors dort dormons dormez dorment dormi | being |
sing sings sang sung | chanter chante chantes chante chantons chantez chantent chanté | person |
dance dances danced danced | danser danse danses danse dansons dansez dansent dansé | person |
work works worked worked | travailler travaille travailles travaille travaillons travaillez travaillent travaillé | person |
swim swims swam swum | nager nage nages nage nageons nagez nagent nagé | being |
run runs ran run | courir cours cours court courons courez courent couru | being |
laugh laughs laughed laughed | rire ris ris rit rions riez rient ri | person |
cry cries cried cried | pleurer pleure pleures pleure pleurons pleurez pleurent pleuré | person |
play plays played played | jouer joue joues joue jouons jouez jouent joué | being |
walk walks walked walked | marcher marche marches marche marchons marchez marchent marché | being |
""")  # noqa: E501
STAYS = _verbs(
    """
arrive arrives arrived arrived | arriver arrive arrives arrive arrivons arrivez arrivent arrivé | being |
stay stays stayed stayed | rester reste restes reste restons restez restent resté | being |
fall falls fell fallen | tomber tombe tombes tombe tombons tombez tombent tombé | being |
""",
    being=True,
)
LEAVES = _verbs(
    """
leave leaves left left | partir pars pars part partons partez partent parti | being |
go goes went gone out | sortir sors sors sort sortons sortez sortent sorti | being |
""",
    being=True,
)
GOES = _verbs("go goes went gone | aller vais vas va allons allez vont allé | being |", being=True)
COMES = _verbs(
    """
come comes came come | venir viens viens vient venons venez viennent venu | being |
come comes came come back | revenir reviens reviens revient revenons revenez reviennent revenu | being |
""",
    being=True,
)
SELVES = _verbs(
    """
get gets got got up | lever lève lèves lève levons levez lèvent levé | person |
wake wakes woke woken up | réveiller réveille réveilles réveille réveillons réveillez réveillent réveillé | being |
rest rests rested rested | reposer repose reposes repose reposons reposez reposent reposé | being |
""",
    being=True,
    clitic="se",
)
LIVES = _verbs("live lives lived lived | habiter habite habites habite habitons habitez habitent habité | person |")
FEELINGS = _verbs(
    """
be is was been hungry | avoir ai as a avons avez ont eu faim | being |
be is was been thirsty | avoir ai as a avons avez ont eu soif | being |
be is was been cold | avoir ai as a avons avez ont eu froid | being |
be is was been right | avoir ai as a avons avez ont eu raison | person |
be is was been sleepy | avoir ai as a avons avez ont eu sommeil | being |
""",
    tail=True,
)
SAYS = _verbs("""
say says said said that | dire dis dis dit disons dites disent dit | person |
think thinks thought thought that | penser pense penses pense pensons pensez pensent pensé | person |
know knows knew known that | savoir sais sais sait savons savez savent su | person |
believe believes believed believed that | croire crois crois croit croyons croyez croient cru | person |
""")
BE = _verbs("be is was been | être suis es est sommes êtes sont été | being |")[0]
THERE_IS = _verbs("be is was been | avoir a a a a a a eu | being |", clitic="y")[0]
HAVE = STATES[0]
# The words before an infinitive, by the tense they form.
HELPERS = {
    "future": ("vais", "vas", "va", "allons", "allez", "vont"),
    "want": ("veux", "veux", "veut", "voulons", "voulez", "veulent"),
    "can": ("peux", "peux", "peut", "pouvons", "pouvez", "peuvent"),
    "must": ("dois", "dois", "doit", "devons", "devez", "doivent"),
}

ADJECTIVES = tuple(
    Adjective(english[0], tuple(french), place[0], tuple(kinds))
    for english, french, place, kinds in _rows("""
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
    for (english, plural), french in _rows("""
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
