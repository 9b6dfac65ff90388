"""The verbs of the lexicon: English and French forms side by side, with who does them and to what."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

BEINGS = ("person", "family", "animal")


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


def rows(table: str) -> Iterator[list[list[str]]]:
    """Read lines of cells between bars, each cell a list of words."""
    for line in table.strip().splitlines():
        yield [cell.split() for cell in line.split("|")]


def _verbs(
    table: str, *, preposition: str = "", being: bool = False, clitic: str = "", tail: bool = False
) -> tuple[Verb, ...]:
    verbs = []
    for (base, third, past, participle, *particle), french, who, what in rows(table):
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
