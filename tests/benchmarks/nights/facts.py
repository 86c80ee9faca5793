"""Facts to keep over many days: of many kinds, alike, repeated, outdated, as code, and in four languages.

All are made up here. A fact has a question, and a value that must stand in what an agent is shown.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A memory of one sentence.

    Attributes:
        kind: what it is about.
        question: what somebody asks who needs it; empty where nobody asks.
        value: the words of the text that answer the question.
        outdated: the value that it replaces, where it is the newer of two that contradict one another.
    """

    kind: str
    text: str
    question: str = ""
    value: str = ""
    outdated: str = ""


_NAMES = (
    "Amara Birgit Cemal Dolores Edvin Farida Gustaf Halina Ignacio Jolanta Kwame Ludmila Matteo Nadira Okello Petra "
    "Quentin Rosalind Sanjay Tomasz Ulrike Valentina Wenceslas Ximena Yusuf Zofia Anselm Beatriz Corentin Dagny Emeka "
    "Freya Gideon Hortense"
)

_PEOPLE = tuple(_NAMES.split(" "))

#: For each kind: two forms of the sentence, its question, and the values that go round.
_KINDS: dict[str, tuple[tuple[str, str], str, tuple[str, ...]]] = {
    "allergy": (
        ("{who} gets a rash from {what} and must be served none.", "Never give {who} anything that contains {what}."),
        "What must {who} not eat?",
        ("peanuts", "shellfish", "sesame", "lupin flour", "celery root", "kiwi fruit", "mustard seed", "buckwheat"),
    ),
    "birthday": (
        ("{who} celebrates a birthday on {what}.", "The birthday of {who} falls on {what} every year."),
        "When is the birthday of {who}?",
        ("3 March", "17 August", "29 February", "11 November", "6 June", "24 April", "30 September", "8 January"),
    ),
    "medicine": (
        ("{who} takes {what} with breakfast.", "The doctor has put {who} on {what} for the time being."),
        "Which medicine does {who} take?",
        ("5 mg of bisoprolol", "75 mg of levothyroxine", "two drops of timolol", "20 mg of pantoprazole"),
    ),
    "address": (
        ("{who} has moved to {what}.", "Post for {who} goes to {what}."),
        "What is the address of {who}?",
        ("12 Alder Lane", "48 Quay Street", "7 Mill Close", "230 Station Road", "91 Harbour View", "5 Orchard Rise"),
    ),
    "food": (
        ("{who} orders {what} whenever it is on the menu.", "For lunch {who} would rather have {what} than anything."),
        "What does {who} like to eat?",
        ("pumpkin gnocchi", "lentil dal", "mushroom risotto", "smoked trout", "okonomiyaki", "shakshuka", "pierogi"),
    ),
    "travel": (
        ("{who} will be away in {what} for the whole holiday.", "The next trip of {who} leads to {what}."),
        "Where does {who} travel?",
        ("Tbilisi", "the Faroe Islands", "Oaxaca", "Ljubljana", "Hokkaido", "Zanzibar", "Patagonia", "Riga"),
    ),
    "pet": (
        ("{who} shares the flat with a {what}.", "The {what} of {who} needs food at seven."),
        "Which animal lives with {who}?",
        ("greyhound named Biscuit", "tortoise named Plato", "parrot named Domino", "cat named Marzipan"),
    ),
    "work": (
        ("{who} looks after {what} at work.", "Questions about {what} should go to {who}."),
        "What is {who} responsible for?",
        ("the payroll export", "the tape archive", "the Lisbon warehouse", "vendor contracts", "the badge printers"),
    ),
    "deadline": (
        ("{who} has to hand in the report by {what}.", "The contract of {who} must be signed before {what}."),
        "Until when does {who} have time?",
        ("noon on 14 May", "the end of week 37", "Friday the 13th", "2 October at 18:00", "Easter Monday"),
    ),
    "instruction": (
        ("When you write to {who}, {what}.", "Whatever is sent to {who}: {what}."),
        "How should one write to {who}?",
        ("use the formal address", "attach a PDF", "copy the legal team", "leave out all emoji", "answer in Spanish"),
    ),
    "device": (
        ("The laptop of {who} runs {what}.", "{who} works on a machine with {what}."),
        "What does the computer of {who} run?",
        ("OpenBSD 7.5", "Fedora Silverblue", "Windows 11 on ARM", "NixOS unstable", "ChromeOS Flex"),
    ),
    "learning": (
        ("{who} has started to learn {what}.", "On Tuesdays {who} practises {what}."),
        "What does {who} learn?",
        ("the hurdy-gurdy", "Norwegian", "glass blowing", "archery", "bookbinding", "sign language", "fencing"),
    ),
}


def facts() -> list[Fact]:
    """Return 408 facts of 12 kinds, of which no two say the same."""
    found = []
    for kind, (forms, question, values) in _KINDS.items():
        for number, (who, what) in enumerate(zip(_PEOPLE, cycle(values), strict=False)):
            text = forms[number % 2].format(who=who, what=what)
            found.append(Fact(kind=kind, text=text, question=question.format(who=who), value=what))
    return found


_SERVICE_NAMES = (
    "billing search checkout ledger parcel signup avatar invoice webhook refund catalog pricing coupon session gateway "
    "mailer archive metrics tracing sandbox notifier scraper indexer renderer scheduler uploader importer exporter "
    "resolver limiter planner matcher ranker tagger auditor crawler builder tester packer shipper"
)
_SERVICES = tuple(_SERVICE_NAMES.split(" "))
_LIKENESSES = (
    ("The {service} dashboard is owned by team {value}.", ("Red", "Blue", "Green", "Amber", "Violet")),
    ("Deploys of {service} are frozen until {value}.", ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")),
    ("The {service} service listens on port {value}.", ("8081", "8443", "9090", "7070", "6060")),
    ("Alerts of {service} page {value} after hours.", ("Imre", "Saoirse", "Takumi", "Leila", "Bogdan")),
    ("The {service} database is kept in {value}.", ("Dublin", "Mumbai", "Oregon", "Osaka", "Zurich")),
)


def lookalikes() -> list[Fact]:
    """Return 200 facts of five forms that differ in a name and a value alone."""
    return [
        Fact(
            kind="alike",
            text=form.format(service=service, value=values[number % len(values)]),
            question=form.format(service=service, value="whom or which or what").rstrip(".") + "?",
            value=values[number % len(values)],
        )
        for form, values in _LIKENESSES
        for number, service in enumerate(_SERVICES)
    ]


_CHANGES = (
    ("The phone number of {who} is {value}.", "What is the phone number of {who}?", ("555 0{n:03}", "555 1{n:03}")),
    ("{who} sits in room {value}.", "Where does {who} sit?", ("{n} east", "{n} west")),
    ("The manager of {who} is {value}.", "Who manages {who}?", ("Mr Aldo Brandt {n}", "Ms Irene Costa {n}")),
)


def contradictions() -> list[tuple[Fact, Fact]]:
    """Return 102 pairs: a fact, and what is true since."""
    pairs = []
    for form, question, (before, after) in _CHANGES:
        for number, who in enumerate(_PEOPLE, start=100):
            old, new = before.format(n=number), after.format(n=number)
            pairs.append(
                (
                    Fact(kind="outdated", text=form.format(who=who, value=old)),
                    Fact(
                        kind="current",
                        text=form.format(who=who, value=new),
                        question=question.format(who=who),
                        value=new,
                        outdated=old,
                    ),
                )
            )
    return pairs


#: What people put around the same sentence when they say it again.
_AGAIN = (
    "{0}",
    "{0} ",
    "{1}",
    "Reminder: {0}",
    "Note that {0}",
    "{2}",
)


def repeated(some: list[Fact]) -> list[Fact]:
    """Return each fact said again: in other spaces, letters or marks, or with a word before it."""
    return [
        Fact(
            kind="again",
            text=form.format(fact.text, fact.text.replace(" ", "  "), fact.text.rstrip(".") + "!"),
            question=fact.question,
            value=fact.value,
        )
        for fact, form in zip(some, cycle(_AGAIN), strict=False)
    ]


def paraphrases() -> list[tuple[Fact, Fact]]:
    """Return 50 pairs that say the same in other words: neither may go as a repetition of the other."""
    pairs = []
    for number, who in enumerate(_PEOPLE[:25]):
        pairs.append(
            (
                Fact(kind="paraphrase", text=f"{who} prefers trains to planes for trips inside Europe."),
                Fact(kind="paraphrase", text=f"Inside Europe, {who} would rather go by rail than fly."),
            )
        )
        pairs.append(
            (
                Fact(kind="paraphrase", text=f"The locker code of {who} ends in {number + 40}."),
                Fact(kind="paraphrase", text=f"{number + 40} are the last digits of the locker code of {who}."),
            )
        )
    return pairs


def structured() -> list[Fact]:
    """Return 40 texts of JSON and code."""
    found = []
    for number, service in enumerate(_SERVICES[:20]):
        settings = f'{{"service": "{service}", "retries": {number}, "timeout_s": {30 + number}, "enabled": true}}'
        code = f"def {service}_key(user):\n    return f'{service}:{{user}}:{number}'"
        found.append(
            Fact(kind="json", text=settings, question=f"How many seconds may {service} take?", value=str(30 + number))
        )
        found.append(
            Fact(kind="code", text=code, question=f"What does {service}_key return?", value=f"{service}:{{user}}")
        )
    return found


_LANGUAGES = {
    "de": ("{who} verträgt keine {what} und bekommt davon Fieber.", ("Walnüsse", "Erdbeeren", "Muscheln", "Tomaten")),
    "fr": ("{who} ne supporte pas les {what}, même cuites.", ("noisettes", "moules", "courgettes", "aubergines")),
    "es": ("{who} nunca viaja sin su {what} en la mochila.", ("brújula", "cámara", "libreta", "linterna")),
    "zh": ("{who}对{what}过敏,不能吃。", ("花生", "虾", "芒果", "牛奶")),
}


def languages() -> list[Fact]:
    """Return 100 facts in four languages; each is asked for by its own words."""
    return [
        Fact(
            kind=language,
            text=form.format(who=who, what=what),
            question=form.format(who=who, what="?"),
            value=what,
        )
        for language, (form, values) in _LANGUAGES.items()
        for who, what in zip(_PEOPLE[:25], cycle(values), strict=False)
    ]


def newer(day: int) -> Iterator[Fact]:
    """Yield the ten facts that an agent learns between two runs."""
    for number in range(10):
        who = _PEOPLE[(day + number) % len(_PEOPLE)]
        text = f"On day {day} parcel {day:02}{number} was left with neighbour {who}."
        yield Fact(kind="new", text=text, question=f"Where is parcel {day:02}{number}?", value=who)
