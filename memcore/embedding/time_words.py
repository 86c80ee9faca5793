"""The words in which people name times, a table a language: what memcore.backends.when reads.

Most values are alternatives of a regular expression in folded text. Names of months and weekdays stand in their order.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeWords:
    """The vocabulary of one language; an empty value stands for a phrase that it does not have.

    Attributes:
        in_month, in_season, at_feast, on_day, on_weekend: what stands before a name that is a time, not another word.
        the_day, the_unit: the article of "the 3rd" and of "the month".
        units: singular and plural forms of day or night, week, month, quarter and year, each pair with a ``;`` between.
        numbers: from one on; several rows where words are inflected.
        ordinals: first to fourth; ``last_of`` is the last of several.
        parts_of_day: morning, afternoon, evening, night; ``this_part`` has phrases of today's by their place.
        night_before: the night before last.
        no_subject: words of time that say nothing else, where they cannot be read.
        no_event: words beside a time that ask for whatever was then.
        recently: within weeks; ``other_day`` within days.
        hours: singular and plural; nothing but an earlier time is counted in them.
        half, early, middle, late: parts of a longer time, before its name; ``earlier`` is anywhere in one.
        about, exactly: beside a number that is counted back; ``scores`` are numbers that say "about" themselves.
        this_time: the same part of a longer time that is named beside it.
        to_the_day: behind a time that is counted back; it names a day of it, as "today" does.
        week_of: between "the week" and a day of it.
        shortly: before "before" and "after".
        onwards: behind the start of an open range; ``from_on`` before it and ``on`` behind it.
    """

    months: str
    weekdays: tuple[str, ...]
    seasons: tuple[str, str, str, str]
    units: tuple[str, str, str, str, str]
    numbers: tuple[str, ...]
    ordinals: tuple[str, str, str, str]
    last_of: str
    days_before: dict[str, int]
    parts_of_day: tuple[str, str, str, str]
    this_part: dict[str, int] = field(default_factory=dict)
    last_night: str = ""
    night_before: str = ""
    weekend: str
    hours: str
    in_month: str
    in_season: str
    at_feast: str
    on_day: str
    on_weekend: str
    the_day: str
    the_unit: str
    last: str
    last_after: str = ""
    this: str
    before_last: str = ""
    before_last_after: str = ""
    ago_before: str = ""
    ago_after: str = ""
    few: str
    couple: str
    recently: str
    other_day: str
    half: str
    early: str
    earlier: str = ""
    middle: str
    late: str
    of: str
    since: str
    since_number: str
    before: str
    until: str
    after: str
    around: str
    between: str
    joins: str
    no_subject: str
    no_event: str
    about: str = ""
    exactly: str = ""
    scores: dict[str, int] = field(default_factory=dict)
    this_time: str = ""
    to_the_day: str = ""
    week_of: str = ""
    shortly: str = ""
    onwards: str = ""
    from_on: str = ""
    on: str = ""


ENGLISH = TimeWords(
    months="january february march april may june july august september october november december",
    weekdays=("monday tuesday wednesday thursday friday saturday sunday",),
    seasons=("spring", "summer", "autumn|fall", "winter"),
    units=("day night;days nights", "week;weeks", "month;months", "quarter;quarters", "year;years"),
    numbers=("one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen", "a", "an"),
    ordinals=("first|1st", "second|2nd", "third|3rd", "fourth|4th"),
    last_of="last|final",
    days_before={"today": 0, "yesterday": 1, "the day before yesterday": 2},
    parts_of_day=("morning", "afternoon", "evening", "night"),
    this_part={"tonight": 2},
    last_night="last night",
    night_before="the night before last",
    weekend="weekends?",
    hours="hours?",
    in_month="in|during|from|throughout|in the course of",
    in_season="(?:in|during|over|throughout)(?: the)?|from the",
    at_feast="at|on|over|during|from|in",
    on_day="on|from",
    on_weekend="on|on the|at the|over the|from the|during the|(?:this )?past",
    the_day=r"the(?=\s\d+(?:st|nd|rd|th)\b)",
    the_unit="the",
    last="last|previous",
    last_after=r"before(?=\s?(?:[?.,;!]|$))",
    this="this|the current",
    before_last_after="before last",
    ago_after="ago|back|earlier",
    few="a few|few|several|some",
    couple="a couple of|a couple|couple of|couple",
    recently="recently|lately|of late|these days|in recent times",
    other_day="the other (?:day|night|evening|morning|week)",
    half="half",
    early="(?:the )?(?:very )?(?:beginning|start|early days|early part) of|early in|early",
    earlier="earlier(?: on)?",
    middle="(?:the )?(?:middle|mid) of|in the middle of|mid|(?:mid|half)way through",
    late="(?:the )?(?:very )?(?:end|latter part) of|late in|late",
    of="of|in|on|of the|in the|at|'s|\u2019s",
    since="since|ever since",
    since_number="since|for",
    before="before|prior to|earlier than",
    until="until|till|up to|up until",
    after="after|following",
    around="around|round about",
    between="between|from",
    joins="to|and|until|till|through|or",
    no_subject="ago while whiles once earlier previously formerly lately recently time times",
    no_event="change changed going went happen happens happened happening occur occurred come comes came",
    about="about|around|roughly|approximately|some|nearly|almost|(?:a little |just )?(?:over|under)|(?:more|less) than"
    "|(?:a )?good",
    exactly="exactly|precisely",
    scores={"a dozen": 12},
    this_time="(?:at |around |about )?(?:this|the same) time(?: of (?:the )?(?:year|month|week))?",
    to_the_day="to the day",
    week_of="of|beginning|starting|from",
    shortly="just|shortly|right|soon",
    onwards=r"onwards?|on(?=\s?(?:[?.,;!]|$))",
)

GERMAN = TimeWords(
    months="januar februar märz april mai juni juli august september oktober november dezember",
    weekdays=(
        "montag dienstag mittwoch donnerstag freitag samstag sonntag",
        "montag dienstag mittwoch donnerstag freitag sonnabend sonntag",
    ),
    seasons=("frühlings?|frühjahrs?", "sommers?", "herbst(?:e?s)?", "winters?"),
    units=(
        "tag tages nacht;tage tagen nächten",
        "woche;wochen",
        "monat monats;monate monaten",
        "quartal quartals;quartale quartalen",
        "jahr jahres jahre;jahren",
    ),
    numbers=(
        "einem zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn",
        "einer zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn",
        "ein",
    ),
    ordinals=(r"erste[nrs]?|1\.", r"zweite[nrs]?|2\.", r"dritte[nrs]?|3\.", r"vierte[nrs]?|4\."),
    last_of="letzte[nrs]?",
    days_before={"heute": 0, "gestern": 1, "vorgestern": 2, "vorvorgestern": 3},
    parts_of_day=("morgen|früh|vormittag", "nachmittag", "abend", "nacht"),
    this_part={"heute früh": 0},
    last_night="letzte nacht|vergangene nacht",
    night_before="vorletzte nacht",
    weekend="wochenenden?",
    hours="stunden?",
    in_month="im|vom|im laufe des",
    in_season="im|über den|während des",
    at_feast="an|am|zum?|über|in|im|zwischen",
    on_day="am|vom",
    on_weekend="am|vom",
    the_day="dem|den|zum",
    the_unit="des|dem|der",
    last="letzte[nrsm]?|vorige[nrsm]?|vergangene[nrsm]?",
    last_after="davor|zuvor",
    this="diese[nrsm]?",
    before_last="vorletzte[nrsm]?",
    ago_before="vor",
    few="ein paar|einigen?|mehreren?|wenigen",
    couple="ein paar",
    recently="kürzlich|vor kurzem|unlängst|in letzter zeit|in der letzten zeit|letzthin|jüngst",
    other_day="neulich|letztens",
    half="hälfte",
    early="(?:am |zu )?(?:anfang|beginn)",
    earlier="früher|eher",
    middle="(?:in der )?mitte",
    late="(?:am |gegen )?ende",
    of="in|im|am|an|zu|des|der|von|vom|in der",
    since="seit|ab",
    since_number="seit",
    before="vor|bis vor",
    until="bis|bis zum",
    after="nach",
    around="um|rund um|gegen|um den",
    between="zwischen|vom|von",
    joins="und|bis|bis zum|oder",
    no_subject="damals früher einst vorher zuvor längst letztens neulich kürzlich zeit zeiten her vor",
    no_event="passiert geschah geschehen los geändert",
    about="gut(?:en)?|knapp(?:en)?|etwa|ungefähr|rund|circa|ca[.]?|fast|beinahe|über|mehr als|weniger als",
    exactly="genau|exakt",
    this_time="(?:um|zu) diese[r]? (?:jahres)?zeit",
    to_the_day="auf den tag(?: genau)?",
    week_of="vom|ab|um den",
    shortly="kurz|direkt|gleich|unmittelbar",
    from_on="von|vom",
    on="an",
)

DUTCH = TimeWords(
    months="januari februari maart april mei juni juli augustus september oktober november december",
    weekdays=("maandag dinsdag woensdag donderdag vrijdag zaterdag zondag",),
    seasons=("lente|voorjaar", "zomer", "herfst|najaar", "winter"),
    units=("dag nacht;dagen nachten", "week;weken", "maand;maanden", "kwartaal;kwartalen", "jaar;jaren"),
    numbers=("een twee drie vier vijf zes zeven acht negen tien elf twaalf dertien veertien vijftien",),
    ordinals=("eerste", "tweede", "derde", "vierde"),
    last_of="laatste",
    days_before={"vandaag": 0, "gisteren": 1, "eergisteren": 2},
    parts_of_day=("ochtend|morgen", "middag", "avond", "nacht"),
    this_part={"vanmorgen": 0, "vanochtend": 0, "vanmiddag": 1, "vanavond": 2},
    last_night="vannacht|afgelopen nacht",
    weekend="weekends?|weekenden|weekeinden?",
    hours="uur|uren",
    in_month="in",
    in_season="in de|tijdens de",
    at_feast="met|tijdens",
    on_day="op",
    on_weekend="in het|van het",
    the_day="de",
    the_unit="het|de",
    last="vorige?|afgelopen|verleden",
    this="deze|dit",
    before_last="eervorige?",
    ago_after="geleden",
    few="een paar|enkele|enige",
    couple="een paar",
    recently="onlangs|de laatste tijd|recent|recentelijk",
    other_day="laatst|pas geleden",
    half="helft",
    early="(?:aan )?(?:het )?begin",
    earlier="eerder",
    middle="midden|half|medio",
    late="(?:aan )?(?:het )?(?:eind|einde)",
    of="van|van de|van het|in|op|in de",
    since="sinds|vanaf",
    since_number="sinds|al",
    before="voor|vóór",
    until="tot|tot en met",
    after="",
    around="rond|rondom|omstreeks",
    between="tussen|van",
    joins="en|tot|tot en met",
    no_subject="vroeger destijds toen eerder onlangs laatst tijd geleden",
    no_event="gebeurt gebeurde gebeurd",
)

FRENCH = TimeWords(
    months="janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    weekdays=("lundi mardi mercredi jeudi vendredi samedi dimanche",),
    seasons=("printemps", "été|étés", "automne", "hiver"),
    units=("jour nuit;jours nuits", "semaine;semaines", "mois;mois", "trimestre;trimestres", "an année;ans années"),
    numbers=(
        "un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze",
        "une deux trois quatre cinq six sept huit neuf dix onze douze",
    ),
    ordinals=("premi(?:er|ère)s?|1(?:er|re|ère)", "deuxième|second|seconde|2e", "troisième|3e", "quatrième|4e"),
    last_of="derni(?:er|ère)s?",
    days_before={"aujourd'hui": 0, "aujourd\u2019hui": 0, "avant-hier": 2},
    parts_of_day=("matin|matinée", "après-midi", "soir|soirée", "nuit"),
    last_night="la nuit dernière|cette nuit",
    night_before="l['\u2019]avant-dernière nuit",
    weekend="week-ends?|weekends?",
    hours="heures?",
    in_month="en|au (?:mois|cours) d[e'\u2019]|courant",
    in_season="en|au|pendant l'|durant l'|pendant l\u2019|pendant le",
    at_feast="à|a|au|pendant|le|durant",
    on_day="le",
    on_weekend="le|du",
    the_day="le|du",
    the_unit="du|de l'|de l\u2019|la|d'|d\u2019",
    last="derni(?:er|ère)s?",
    last_after="derni(?:er|ère)s?|passée?s?|précédente?s?|d['\u2019]avant",
    this="cette|cet|ce",
    before_last="avant-derni(?:er|ère)",
    ago_before="il y a",
    few="quelques|plusieurs",
    couple="deux ou trois",
    recently="récemment|dernièrement|ces derniers temps|ces temps-ci",
    other_day="l['\u2019]autre (?:jour|soir|matin|semaine|fois)",
    half="moitié|quinzaine",
    early="(?:au |le |du |en )?(?:début|commencement)",
    earlier="plus tôt",
    middle="(?:au |le |à la )?(?:milieu|mi)",
    late="(?:à |vers |la |à la |vers la )?fin",
    of="de|du|des|de l'|de l\u2019|de la|d'|d\u2019|en|le|au|à|dans|dans la|de cette",
    since="depuis|dès|à partir de|à partir du|à partir d'",
    since_number="depuis",
    before="avant|avant l'|avant l\u2019",
    until="jusqu'(?:en|à|au)?|jusqu\u2019(?:en|à|au)?|jusque",
    after="après",
    around="vers|autour de|autour du|aux alentours de|aux alentours du",
    between="entre|du|de",
    joins="et|à|au|jusqu'au|jusqu\u2019au|ou|et le",
    no_subject="autrefois jadis naguère auparavant avant longtemps récemment temps fois",
    no_event="passe passé arrivé changé",
    about="environ|bien|à peu près|presque|près d[e'\u2019]|bonne?|petite?|(?:un peu )?(?:plus|moins) d[e'\u2019]",
    exactly="exactement|tout juste",
    scores={"une huitaine de": 8, "une dizaine de": 10, "une quinzaine de": 15, "une vingtaine de": 20},
    this_time="à (?:cette|la même) (?:époque|période|saison)(?: de l['\u2019]année)?",
    to_the_day="jour pour jour",
    week_of="du",
    shortly="juste|peu|un peu",
)

SPANISH = TimeWords(
    months="enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    weekdays=("lunes martes miércoles jueves viernes sábado domingo",),
    seasons=("primavera", "verano", "otoño", "invierno"),
    units=("día dia noche;días dias noches", "semana;semanas", "mes;meses", "trimestre;trimestres", "año;años"),
    numbers=("una dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince", "un"),
    ordinals=("primer(?:[oa]s?)?|1er", "segund[oa]", "tercera?|tercero", "cuart[oa]"),
    last_of="últim[oa]s?",
    days_before={"hoy": 0, "ayer": 1, "anteayer": 2, "antes de ayer": 2, "antier": 2},
    parts_of_day=("mañana", "tarde", "", "noche"),
    last_night="anoche",
    night_before="anteanoche|antenoche|antes de anoche",
    weekend="fin(?:es)? de semana",
    hours="horas?",
    in_month="en|durante|a lo largo de",
    in_season="en|durante (?:el|la)|en (?:el|la)",
    at_feast="en|por|durante|el",
    on_day="el",
    on_weekend="el|del",
    the_day="el|del",
    the_unit="el|del|la",
    last="últim[oa]s?|pasad[oa]s?",
    last_after="pasad[oa]s?|anterior(?:es)?",
    this="est[ae]",
    before_last="penúltim[oa]|antepasad[oa]",
    before_last_after="antepasad[oa]|antes del pasado|antes de la pasada",
    ago_before="hace",
    ago_after="atrás",
    few="unos|unas|algunos|algunas|unos pocos|unas pocas|varios|varias",
    couple="un par de",
    recently="recientemente|últimamente|hace poco|en los últimos tiempos",
    other_day="el otro día|la otra (?:noche|tarde|semana)",
    half="mitad|quincena",
    early="(?:a |al )?(?:principios|primeros|comienzos|inicios|principio|comienzo|inicio)",
    middle="(?:a )?mediados|a (?:la )?mitad",
    late="(?:a |al )?(?:finales|fines|fin|final)",
    of="de|del|de la|en|en el|el|en la|por la|de este|por el",
    since="desde|a partir del?",
    since_number="desde hace",
    before="antes(?: del?)?",
    until="hasta",
    after="después(?: del?)?|tras",
    around="alrededor de|alrededor del|en torno a|hacia",
    between="entre|desde|del|de",
    joins="y|a|al|hasta|o|y el",
    no_subject="antes antaño entonces tiempo tiempos vez recientemente últimamente hace",
    no_event="pasó pasado ocurrió sucedió cambió cambiado",
    about="un[oa]s|cosa de|casi|como|más o menos|alrededor de|cerca de|(?:poco |algo )?(?:más|menos) de",
    exactly="exactamente|justo",
    scores={"una decena de": 10, "una quincena de": 15},
    this_time="(?:por|en) estas (?:mismas )?fechas|a estas alturas|(?:por|en) (?:esta|la misma) época",
    week_of="del|del día",
    shortly="justo|poco|un poco",
    onwards="en adelante",
)

ITALIAN = TimeWords(
    months="gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
    weekdays=(
        "lunedì martedì mercoledì giovedì venerdì sabato domenica",
        "lunedì martedì mercoledì giovedì venerdì sabati domeniche",
    ),
    seasons=("primaver[ae]", "estat[ei]", "autunn[oi]", "invern[oi]"),
    units=("giorno notte;giorni notti", "settimana;settimane", "mese;mesi", "trimestre;trimestri", "anno;anni"),
    numbers=("una due tre quattro cinque sei sette otto nove dieci undici dodici tredici quattordici quindici", "un"),
    ordinals=("prim[oaie]", "second[oa]", "terz[oa]", "quart[oa]"),
    last_of="ultim[oaie]",
    days_before={"oggi": 0, "ieri": 1, "l'altro ieri": 2, "l\u2019altro ieri": 2, "altroieri": 2, "ieri l'altro": 2},
    parts_of_day=("mattina|mattino", "pomeriggio", "sera", "notte"),
    this_part={"stamattina": 0, "stasera": 2},
    last_night="stanotte|la notte scorsa",
    night_before="l['\u2019]altra notte",
    weekend="weekend|fine settimana",
    hours="ora|ore",
    in_month="a|ad|in|nel (?:mese|corso) di",
    in_season="in|d'|d\u2019|durante l'|durante la",
    at_feast="a|per|durante|il|la|nella|al",
    on_day="il|la",
    on_weekend="nel",
    the_day="il|del",
    the_unit=r"del|della|dell'|dell\u2019|(?<=inizio\s)|(?<=fine\s)|(?<=metà\s)",
    last="ultim[oaie]|scors[oaie]",
    last_after=r"scors[oaie]|passat[oaie]|prima(?=\s?(?:[?.,;!]|$))",
    this="quest[oa]|quest'|quest\u2019",
    before_last="penultim[oa]",
    ago_after="fa|or sono",
    few="alcuni|alcune|qualche|pochi|poche",
    couple="un paio di",
    recently="recentemente|di recente|ultimamente|negli ultimi tempi",
    other_day="l['\u2019]altr[oa] (?:giorno|sera|mattina|settimana|volta)",
    half="metà",
    early="(?:a |all['\u2019])?inizio|agli inizi|ai primi",
    middle="(?:a )?metà",
    late="(?:alla |a )?fine",
    of="di|del|della|dell'|dell\u2019|in|nel|il",
    since="da|dal|dalla|dall'|a partire da",
    since_number="da",
    before="prima(?: di| del| della)?",
    until="fino(?: al?)?|fino alla",
    after="dopo|dopo il|dopo la",
    around="intorno a|verso|attorno a",
    between="tra|fra|dal|da",
    joins="e|a|ad|al|fino al|o",
    no_subject="allora prima tempo volta recentemente ultimamente fa",
    no_event="successo accaduto cambiato",
    about="circa|quasi|più o meno|all['\u2019]incirca|(?:poco )?(?:più|meno) di",
    exactly="esattamente|giusto",
    scores={"una decina di": 10, "una quindicina di": 15, "una ventina di": 20},
    this_time="(?:in questo|nello) (?:stesso )?periodo|di questi tempi|a quest['\u2019]epoca",
    week_of="del",
    shortly="poco|subito",
    onwards="in poi|in avanti",
)

PORTUGUESE = TimeWords(
    months="janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
    weekdays=(
        "segunda-feira terça-feira quarta-feira quinta-feira sexta-feira sábado domingo",
        "segunda terça quarta quinta sexta sábado domingo",
    ),
    seasons=("primavera", "verão", "outono", "inverno"),
    units=("dia noite;dias noites", "semana;semanas", "mês;meses", "trimestre;trimestres", "ano;anos"),
    numbers=(
        "uma dois três quatro cinco seis sete oito nove dez onze doze treze catorze quinze",
        "um duas três quatro cinco seis sete oito nove dez onze doze treze catorze quinze",
    ),
    ordinals=("primeir[oa]s?", "segund[oa]", "terceir[oa]", "quart[oa]"),
    last_of="últim[oa]s?",
    days_before={"hoje": 0, "ontem": 1, "anteontem": 2},
    parts_of_day=("manhã", "tarde", "", "noite"),
    weekend="fi(?:m|ns) de semana",
    hours="horas?",
    in_month="em",
    in_season="no|na|durante o|durante a",
    at_feast="na|no|durante",
    on_day="na|no",
    on_weekend="no",
    the_day="o|do",
    the_unit="do|da",
    last="últim[oa]s?",
    last_after="passad[oa]s?",
    this="est[ae]|nest[ae]",
    before_last="penúltim[oa]",
    before_last_after="retrasad[oa]",
    ago_before="há",
    ago_after="atrás",
    few="alguns|algumas|uns|umas|poucos|poucas",
    couple="um par de|uns dois|umas duas",
    recently="recentemente|ultimamente|há pouco",
    other_day="outro dia|no outro dia",
    half="metade|quinzena",
    early="(?:n?o )?(?:início|começo|princípio)",
    middle="(?:em )?meados|meio",
    late="(?:n?o )?(?:fim|final)",
    of="de|do|da|em|no|na|à|de manhã",
    since="desde|a partir de",
    since_number="há|faz",
    before="antes(?: d[eoa])?",
    until="até",
    after="depois(?: d[eoa])?|após",
    around="por volta de|por volta do|cerca de",
    between="entre|de",
    joins="e|a|até|ou",
    no_subject="antes outrora então tempo vez recentemente ultimamente atrás",
    no_event="aconteceu",
)

#: By the names of memcore.embedding.languages.
BY_LANGUAGE = {
    "english": ENGLISH,
    "german": GERMAN,
    "dutch": DUTCH,
    "french": FRENCH,
    "spanish": SPANISH,
    "italian": ITALIAN,
    "portuguese": PORTUGUESE,
}
LANGUAGES = tuple(BY_LANGUAGE.values())

#: These alone may be other words, so they count beside a day or a year only.
SHORT_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec"

#: Verbs, too: without a year they need a capital letter or "in".
VERBS = frozenset({"may", "mar", "march"})

#: "hier" is "here" in German and in Dutch, so it needs a French word beside it.
FRENCH_BESIDE = (
    r"\b(?:ai|avons|avez|ont|fait|quoi|quel|quelle|nous|vous|soir|matin|après-midi|est-ce|que|depuis)\b"
    r"|\b(?:qu|j|c)['\u2019]"
)

#: Hours, with which nothing but an earlier time is counted.
CJK_HOURS = "時間|个?小时|個?小時|시간"

HALF_YEAR = "half[- ]year|halben? jahr|halbjahr|half ?jaar|semestre"

#: What is so many half years ago.
HALF_YEARS_AGO = {
    1: "half a year ago|vor einem halben jahr|(?:een )?half jaar geleden|hace medio año|há meio ano|mezzo anno fa",
    3: "(?:a year and a half|one and a half years) ago|vor (?:anderthalb|eineinhalb) jahren|anderhalf jaar geleden"
    "|il y a un an et demi|hace (?:un )?año y medio|há um ano e meio|un anno e mezzo fa",
}
CJK_HALF_YEARS_AGO = {1: "半年前|반년 전", 3: "一年半前|1年半前"}

#: German joins a longer time and the name of a part of it: "Oktoberhälfte", "Monatsende".
GERMAN_WHOLES, GERMAN_NTHS = "wochen(?!ende)|monats|quartals|jahres", "hälfte|(?P<week>woche)"
GERMAN_THIRDS = ("anfang|beginn", "mitte", "ende")

#: A week of the calendar, before its number, where it has a name of its own.
CALENDAR_WEEK = "calendar week|kw|kalenderwoche"

#: Two weeks.
FORTNIGHT = "fortnight"

#: Words of time in Japanese, Chinese and Korean, which stand without spaces: days before today.
CJK_DAYS = {
    **dict.fromkeys(("今日", "きょう", "今天", "오늘"), 0),
    **dict.fromkeys(("昨日", "きのう", "昨天", "어제"), 1),
    **dict.fromkeys(("一昨日", "おととい", "前天", "그제"), 2),
}

#: Weeks, months, quarters and years before the present one.
CJK_UNITS_BEFORE = {
    **dict.fromkeys(("先週", "上周", "上週", "上星期", "上个星期", "上個星期", "지난주", "지난 주"), ("week", 1)),
    **dict.fromkeys(("先々週", "上上周"), ("week", 2)),
    **dict.fromkeys(("今週", "这周", "本周", "这个星期", "이번 주", "이번주"), ("week", 0)),
    **dict.fromkeys(("先月", "上个月", "上個月", "上月", "지난달", "지난 달"), ("month", 1)),
    **dict.fromkeys(("先々月",), ("month", 2)),
    **dict.fromkeys(("今月", "这个月", "本月", "이번 달"), ("month", 0)),
    **dict.fromkeys(("前四半期", "上个季度", "上季度"), ("quarter", 1)),
    **dict.fromkeys(("今四半期", "本季度"), ("quarter", 0)),
    **dict.fromkeys(("去年", "昨年", "작년"), ("year", 1)),
    **dict.fromkeys(("一昨年", "おととし", "前年", "재작년"), ("year", 2)),
    **dict.fromkeys(("今年", "올해"), ("year", 0)),
}

CJK_UNITS = {
    **dict.fromkeys(("日", "天", "일"), "day"),
    **dict.fromkeys(("週間", "周", "週", "个星期", "個星期", "주"), "week"),
    **dict.fromkeys(("か月", "ヶ月", "ケ月", "カ月", "ヵ月", "个月", "個月", "달", "개월"), "month"),
    **dict.fromkeys(("年", "년"), "year"),
}

CJK_NUMBERS = "一 二 三 四 五 六 七 八 九 十"
CJK_WEEKDAYS = ("月火水木金土日", "一二三四五六日", "월화수목금토일")
CJK_SEASONS = ("春|봄", "夏|여름", "秋|가을", "冬|겨울")
CJK_PARTS_OF_DAY = ("朝|午前|早上|上午|아침", "午後|昼|下午|오후", "夕方|夜|晩|晚上|저녁", "深夜|夜中|밤")

#: Parts of today, and the night before it.
CJK_THIS_PART = {"今朝": 0, "今夜": 2, "今晩": 2, "今晚": 2}
CJK_LAST_NIGHT = "昨夜|昨晩|昨晚|ゆうべ|어젯밤"

CJK_WEEKEND = "週末|周末|주말"
CJK_RECENTLY = "最近|近頃|このところ|近来|요즘|최근"
CJK_OTHER_DAY = "先日|この間|こないだ|前几天|며칠 전"
CJK_FEW = "数|几|幾|몇"
CJK_THIS = "この|今|这个|이번"
CJK_LAST = "この前の|前の|先の|上个|지난"

#: What follows the name of a longer time: its parts, the halves by their places, then the thirds.
CJK_HALVES = ("前半|上旬半|上半月", "後半|下半月")
CJK_THIRDS = ("初め|始め|はじめ|初旬|上旬|初", "半ば|中旬|中頃", "終わり|末|下旬|底")

#: What follows a time that an open range begins or ends with.
CJK_SINCE, CJK_BEFORE, CJK_UNTIL, CJK_AFTER, CJK_AROUND = (
    "から|以来|以降|부터",
    "より前|以前|の前|之前|前に|前は|이전",
    "まで|为止|까지",
    "より後|以後|の後|之后|以后|이후",
    "頃|ごろ|ころ|前後|左右|쯤",
)
CJK_JOINS = "から|到|至|~|〜"
