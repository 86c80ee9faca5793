"""The words by which ``memcore.llm.grounding`` reads texts: numbers, units, negations, what models say of themselves.

All are in folded text. A language that is missing here loses the forms of its numbers and negations, no more.
"""
# ruff: noqa: RUF001  # letters of other scripts are meant

import re
from collections.abc import Mapping

from memcore.embedding.languages import without_accents
from memcore.embedding.time_words import BY_LANGUAGE, SHORT_MONTHS

#: From thirteen on, and the tens; what is below stands among the words of time.
_LARGER = {
    "english": """thirteen=13 fourteen=14 fifteen=15 sixteen=16 seventeen=17 eighteen=18 nineteen=19 twenty=20 thirty=30
        forty=40 fifty=50 sixty=60 seventy=70 eighty=80 ninety=90 hundred=100 thousand=1000 twice=2 thrice=3
        dozen=12""",
    "german": """eins=1 dreizehn=13 vierzehn=14 fünfzehn=15 zwanzig=20 dreißig=30 vierzig=40 fünfzig=50 sechzig=60
        siebzig=70 achtzig=80 neunzig=90 hundert=100 tausend=1000 zweimal=2 dreimal=3 viermal=4""",
    "dutch": """dertien=13 veertien=14 vijftien=15 twintig=20 dertig=30 veertig=40 vijftig=50 honderd=100 duizend=1000
        tweemaal=2 driemaal=3""",
    "french": "vingt=20 trente=30 quarante=40 cinquante=50 soixante=60 cent=100 mille=1000",
    "spanish": """dos=2 veinte=20 treinta=30 cuarenta=40 cincuenta=50 sesenta=60 setenta=70 ochenta=80 noventa=90
        cien=100 mil=1000""",
    "italian": """tredici=13 quattordici=14 quindici=15 venti=20 trenta=30 quaranta=40 cinquanta=50 cento=100
        mille=1000""",
    "portuguese": "treze=13 catorze=14 quinze=15 vinte=20 trinta=30 quarenta=40 cinquenta=50 cem=100 mil=1000",
    "russian": """один=1 два=2 две=2 три=3 четыре=4 пять=5 шесть=6 семь=7 восемь=8 девять=9 десять=10 двадцать=20
        тридцать=30 сорок=40 пятьдесят=50 сто=100 тысяча=1000 дважды=2 трижды=3""",
}


def _numbers_of(language: str) -> dict[str, int]:
    found = {word: int(value) for word, _, value in (each.partition("=") for each in _LARGER[language].split())}
    if language in BY_LANGUAGE:
        for row in BY_LANGUAGE[language].numbers:
            words = row.split()
            # A row of one word is another form of "one".
            found |= {word: place for place, word in enumerate(words, start=1)}
    return {without_accents(word): value for word, value in found.items()}


#: The value of each number word, by language.
NUMBER_WORDS = {language: _numbers_of(language) for language in _LARGER}

#: First to fourth, of all languages, with accents.
ORDINALS = tuple(
    re.compile(rf"\b(?:{'|'.join(forms)})(?!\w)")
    for forms in zip(*(each.ordinals for each in BY_LANGUAGE.values()), strict=True)
)

#: What a number is multiplied by, as people write it behind it.
MULTIPLIERS = {
    **dict.fromkeys(("k", "thousand", "tausend", "mille", "mil", "mila", "duizend", "тыс"), 1_000),
    **dict.fromkeys(
        ("million", "millions", "mio", "millionen", "millones", "milioni", "milhões", "miljoen"), 1_000_000
    ),
    **dict.fromkeys(("万", "萬"), 10_000),
}

#: Name a time from the day on which they were said: its date may be written out.
RELATIVE = re.compile(
    r"\b(?:today|tonight|yesterday|tomorrow|ago|last|next|this|past|coming|recently|in (?:a|one|two|three|\d+) \w+|"
    r"heute|gestern|vorgestern|morgen|ubermorgen|letzte[nrs]?|vorige[nrs]?|nachste[nrs]?|diese[nrs]?|kommende[nrs]?|vor|"
    r"vandaag|gisteren|vorige|volgende?|afgelopen|geleden|aujourd'hui|hier|demain|derniere?|prochaine?|il y a|dans|"
    r"hoy|ayer|manana|pasad[oa]|proxim[oa]|hace|dentro de|oggi|ieri|domani|scors[oa]|prossim[oa]|fa|fra|tra|"
    r"hoje|ontem|amanha|ha|daqui|сегодня|вчера|завтра|прошл\w+|следующ\w+|назад|через)\b"
    r"|今[日天年月週周]|昨[日天年]|明[日天年]|先[週月]|来[週月年]|去年|上[个周]|下[个周]|前"
)

#: Speak of a year or a season.
YEARLY = re.compile(
    r"\b(?:years?|jahr\w*|annees?|ans?|anos?|annos?|anni|jaar|jaren|spring|summer|autumn|winter|fruhling|sommer|herbst|"
    r"printemps|ete|automne|hiver|primavera|verano|otono|invierno|estate|autunno|inverno|verao|лет\w*|год\w*)\b|[年春夏秋冬]"
)

#: Units that people write in several ways; each line is one unit.
_UNITS = """
    % percent prozent procent pour-cent por-ciento per-cento porcento процент процента процентов パーセント
    ms millisecond milliseconds millisekunde millisekunden millisecondi millisecondes milisegundos
    s sec second seconds sekunde sekunden seconde secondes segundo segundos secondi
    min minute minutes minuten minuto minutos minuti
    h hr hrs hour hours stunde stunden heure heures hora horas ora ore uur
    day days tag tage tagen jour jours día dias días dia giorno giorni dag dagen день дня дней
    week weeks woche wochen semaine semaines semana semanas settimana settimane weken
    month months monat monate monaten mois mes meses mese mesi maand maanden
    year years jahr jahre jahren an ans año años anno anni ano anos jaar
    kb kilobyte kilobytes
    mb megabyte megabytes
    gb gigabyte gigabytes
    tb terabyte terabytes
    m meter metre meters metres metro metri
    km kilometer kilometre kilometers kilometres
    kg kilo kilos kilogram kilograms
    € eur euro euros
    $ usd dollar dollars dólares
    £ gbp pound pounds
"""
UNITS = {form.replace("-", " "): line.split()[0] for line in _UNITS.strip().splitlines() for form in line.split()}

#: The month of each name, without accents.
MONTHS = {
    without_accents(name): month
    for words in BY_LANGUAGE.values()
    for month, name in enumerate(words.months.split(), start=1)
} | {name: month for month, name in enumerate(SHORT_MONTHS.split(), start=1)}

#: Of these, the ones that without their accents are names of people.
NO_MONTHS = frozenset({"marco"})

#: The day of the week of each name, Monday is 0.
WEEKDAYS = {
    without_accents(name): day
    for words in BY_LANGUAGE.values()
    for row in words.weekdays
    for day, name in enumerate(row.split())
}

#: Say that something is not so, by language, without accents.
NEGATIONS = {
    language: frozenset(words.split())
    for language, words in {
        "english": "not no never none nobody nothing neither nor cannot aren couldn didn doesn don hadn hasn haven isn "
        "mustn shouldn wasn weren won wouldn ain",
        "german": "nicht kein keine keinen keinem keiner keines nie niemals niemand nichts weder nirgends",
        "dutch": "niet geen nooit niemand niets",
        "french": "ne n pas jamais aucun aucune rien",
        "spanish": "no nunca jamas nadie nada ningun ninguna ninguno tampoco ni",
        "italian": "non mai nessuno nessuna niente nulla",
        "portuguese": "nao nunca jamais ninguem nada nenhum nenhuma nem",
        "russian": "не нет никогда никто ничего ни нельзя",
        "arabic": "لا لم لن ليس ليست",
    }.items()
}

#: Stand beside a negation and say nothing by themselves, without accents.
BESIDE_NEGATIONS = frozenset("longer anymore any more yet even mehr meer plus mas piu mais encore ancora".split())  # noqa: SIM905

#: Negations of scripts without spaces.
CJK_NEGATIONS = re.compile("ない|なく|ません|なかった|不|没|沒|無い|无法|未|안 |않|없")

#: Begin words that take something back without a negation, or that make it depend: where one of two clauses has one,
#: nobody can tell whether they deny each other.
TAKES_BACK = tuple(
    """
    cancel remov delet stop avoid refus reject disagre fail lack miss except instead without unable unlik quit ceas
    reduc lost voluntar entfern kundig vermeid ablehn ohne statt fehl aufgehor annul supprim evit sans manqu contest
    plutot elimin rechaz falt dejo dejar rimoss tolt senza smess deix zonder geannul vermijd gestopt без переста отмен
    anstell lieu
    """.split()  # noqa: SIM905  # a list of one word a line would be unreadable
)
TAKES_BACK_WHOLE = frozenset("if unless until wenn falls als si sin se sem plaats lugar".split())  # noqa: SIM905

#: Of these, the ones that two clauses may both have and deny each other all the same: "prices without tax".
WITHOUT = ("without", "ohn", "sans", "sin", "senza", "sem", "zonder", "без")

#: Make the contrary of a word.
CONTRARY = ("un", "dis", "in", "im", "ir", "non", "des", "не")

#: What parts clauses beside their marks.
CLAUSE_JOINS = re.compile(
    r"[,;:.!?\u2013\u2014\u3001\u3002\uff0c\uff1b\uff1a\n](?=[\s,;:.!?]|$|[^\x00-\x7f])"
    r"|\b(?:and|but|because|since|while|so that|und|aber|sondern|weil|denn|et|mais|car|y|pero|porque|e|ma|perche|mas|"
    r"en|maar|want|и|но|а|потому)\b"
)

#: Words for people and for who answers, which summaries and rules have of their own.
REFERENTS = frozenset(
    """
    user users person people agent assistant ai model memory memories note notes nutzer nutzerin benutzer
    agente assistent assistente utilisateur utilisatrice usuario usuaria utente utilizador gebruiker persona persoon
    personne пользователь
    """.split()  # noqa: SIM905  # see NEGATIONS
)

#: Verbs by which summaries say who said what, without accents: they say nothing themselves.
REPORTING = frozenset(
    """
    ask asks asked asking say says said saying tell tells told telling talk talks talked talking speak speaks spoke
    speaking mention mentions mentioned discuss discusses discussed discussing explain explains explained describe
    describes described report reports reported want wants wanted plan plans planned planning introduce introduced
    around again thing things conversation session turn short overall summary
    fragt fragte sagt sagte erzahlt erzahlte spricht sprach erwahnt erwahnte mochte wollte will plant plante erklart
    erklarte gesprach sitzung
    vraagt vroeg zegt zei vertelt vertelde wil wilde plant plande gesprek
    demande dit parle mentionne explique veut voulait conversation
    pide pidio pregunta pregunto dice dijo habla hablo menciona menciono quiere queria conversacion
    chiede chiese dice disse parla parlo vuole voleva conversazione
    pede pediu pergunta perguntou diz disse fala falou quer queria conversa
    просит просил просила говорит сказал сказала рассказал рассказала хочет хотел хотела спросил спросила разговор
    """.split()  # noqa: SIM905  # see NEGATIONS
)

#: Words about how somebody is to be answered, a line for each meaning: one in a rule stands for another in the turn.
_MANNERS = """
    answer answers answering reply replies respond responding response responses explain tell write say
    short brief briefly concise concisely terse phone tldr
    long detail details detailed detailedly thorough
    put show start first before lead begin
    use include add give list provide show
    sort order first cheapest
    duzen duze du
    antworten antworte antwort antwortet
    usar usa use usando utilizar
    mostrar muestres muestra muestre
"""
MANNERS = {
    word: frozenset(number for number, line in enumerate(_MANNERS.strip().splitlines()) if word in line.split())
    for word in _MANNERS.split()
}

#: How models refuse, at the beginning of a sentence, and what they call themselves anywhere.
REFUSALS = re.compile(
    r"^(?:i'?m |i am |we are |we're )?(?:very |so |really )?(?:sorry|afraid)\b"
    r"|^(?:unfortunately,? |sorry,? (?:but )?)?i (?:can(?:'?t|not| not)|won'?t|am (?:unable|not able)"
    r"|'?m (?:unable|not able)|do(?:n't| not) have (?:access|enough))\b"
    r"|\bas an? (?:ai|artificial|large language|language)\b|\bi(?:'m| am) an? (?:ai|artificial|large|language)\b"
    r"|^(?:es )?tut mir (?:sehr )?leid\b|\bals (?:eine? )?ki(?:-| |\b)"
    r"|^(?:leider )?kann ich (?:dabei|das|ihnen|dir)? ?nicht\b"
    r"|^(?:je suis |nous sommes )?(?:vraiment )?d[eé]sol[eé]|\ben tant qu'(?:ia|intelligence|assistant|un mod)"
    r"|^je ne peux pas\b"
    r"|^lo siento\b|\bcomo (?:un )?(?:modelo|modelo de) lengua|\bcomo (?:una )?(?:ia|inteligencia)\b|^no puedo\b"
    r"|^mi (?:dispiace|scuso)\b|\bin quanto (?:ia|modello)|^non posso\b"
    r"|^(?:desculpe|lamento|sinto muito)\b|\bcomo (?:uma )?(?:ia|inteligencia|inteligência)\b|^nao posso\b|^não posso\b"
    r"|^het spijt me\b|\bals (?:een )?(?:ai|taalmodel)\b|^ik kan (?:daar|dat|u|je) niet\b"
    r"|^(?:大変)?申し訳|^すみません|お応えできません|お手伝いできません|^(?:很)?(?:抱歉|对不起|對不起)|我无法|作为(?:一个)?(?:ai|人工智能|语言模型)"
    r"|^(?:извините|простите|к сожалению)\b|\bкак (?:ии|языковая|искусственный)\b|^я не могу\b"
    r"|^(?:عذر|آسف|اعتذر|أعتذر)|كنموذج لغوي|لا يمكنني|^죄송|도와드릴 수 없"
)

#: What models say about their task, at the beginning of a sentence or, of the last line, anywhere.
CHATTER = re.compile(
    r"^(?:sure|certainly|absolutely|okay|ok|of course|great|understood|got it)(?:[!,.:]|$)"
    r"|^(?:here(?:'s| is| are)|below is|this is|the following is) (?:a|an|the|your|my)?\b.{0,40}"
    r"\b(?:summary|version|merge|merged|text|memor|lesson|answer|result|json|output|list)"
    r"|^(?:hier (?:ist|sind|is)|voici|aqui (?:esta|tienes|tem)|aquí (?:está|tienes)"
    r"|ecco|вот|以下(?:は|是)).{0,60}[:.：。]?$"
    r"|^(?:gerne|natürlich|naturlich|bien sûr|claro|certo|natuurlijk|конечно)(?:[!,.:]|$)"
    r"|\bi hope (?:this|that|it) helps|\blet me know if\b|\bas (?:you )?requested\b"
    r"|\bi(?:'ve| have) (?:merged|summari[sz]ed|shortened)"
    r"|\bi (?:obey|comply)\b"
)

#: Words of open questions, which stand at their beginnings.
ASKING: Mapping[str, frozenset[str]] = {
    language: frozenset(words.split())
    for language, words in {
        "english": "who whom whose what which when where why how",
        "german": "wer wen wem wessen was welche welcher welches welchem welchen wann wo wohin woher warum wieso wie",
        "french": "qui que quoi quel quelle quels quelles quand ou pourquoi comment combien",
        "spanish": "quien quienes que cual cuales cuando donde adonde como cuanto cuanta cuantos cuantas",
        "italian": "chi che cosa quale quali quando dove perche come quanto quanta quanti quante",
        "portuguese": "quem que qual quais quando onde como quanto quanta quantos quantas",
    }.items()
}
