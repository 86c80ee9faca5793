"""Feasts: the days on which each falls, counted from Easter Sunday or on one date every year."""

from datetime import datetime, timedelta

#: First day and number of days, counted from Easter Sunday.
_FROM_EASTER = {
    "easter monday": (1, 1),
    "easter": (-2, 4),
    "good friday": (-2, 1),
    "maundy thursday": (-3, 1),
    "palm sunday": (-7, 1),
    "holy week": (-7, 8),
    "ash wednesday": (-46, 1),
    "shrove tuesday": (-47, 1),
    "shrove monday": (-48, 1),
    "carnival": (-52, 6),
    "ascension": (39, 1),
    "whitsun": (49, 2),
    "corpus christi": (60, 1),
}

#: Month, first day and number of days.
_ON_DATE = {
    "epiphany": (1, 6, 1),
    "valentine": (2, 14, 1),
    "assumption": (8, 15, 1),
    "halloween": (10, 31, 1),
    "all saints": (11, 1, 1),
    "st nicholas": (12, 6, 1),
    "advent": (12, 1, 23),
    "christmas eve": (12, 24, 1),
    "christmas": (12, 24, 3),
    "between the years": (12, 27, 4),
    "new year": (12, 31, 2),
}

#: The words of every language for each; one whose name begins with another's is before it.
FEASTS = {
    "easter monday": "easter monday|ostermontag|tweede paasdag|lundi de pâques|lunes de pascua|pasquetta"
    "|lunedì dell['\u2019]angelo",
    "easter": "easter(?: weekend)?|ostern|pasen|pâques|pascua|pasqua|páscoa",
    "good friday": "good friday|karfreitag|goede vrijdag|vendredi saint|viernes santo|venerdì santo|sexta-feira santa",
    "maundy thursday": "maundy thursday|gründonnerstag|jeudi saint|jueves santo|giovedì santo",
    "palm sunday": "palm sunday|palmsonntag|dimanche des rameaux|rameaux|domingo de ramos|domenica delle palme",
    "holy week": "holy week|karwoche|semaine sainte|semana santa|settimana santa",
    "ash wednesday": "ash wednesday|aschermittwoch|mercredi des cendres|miércoles de ceniza|mercoledì delle ceneri"
    "|quarta-feira de cinzas",
    "shrove tuesday": "shrove tuesday|pancake day|mardi gras|faschingsdienstag|fastnachtsdienstag|veilchendienstag"
    "|mardi[ -]gras|martes de carnaval|martedì grasso",
    "shrove monday": "rosenmontag",
    "carnival": "carnival|karneval|fasching|fas(?:t)?nacht|carnaval|carnaval(?:es)?|carnevale",
    "ascension": "ascension(?: day)?|(?:christi )?himmelfahrt|himmelfahrtstag|hemelvaart(?:sdag)?|ascension|ascensión"
    "|ascensione",
    "whitsun": "whit(?:sun| sunday| monday)|pentecost|pfingsten|pfingstsonntag|pfingstmontag|pinksteren|pentecôte"
    "|pentecostés|pentecoste|pentecostes",
    "corpus christi": "corpus christi|fronleichnam|fête-dieu|corpus(?: christi)?|corpus domini",
    "epiphany": "epiphany|dreikönig(?:e|stag)?|heilige[nr]? drei könige[n]?|épiphanie|fête des rois"
    "|reyes|día de reyes|epifania|befana",
    "valentine": "valentine(?:'s|\u2019s|s)?(?: day)?|valentinstag|saint-valentin|san valentín|san valentino",
    "assumption": "assumption(?: day)?|mariä himmelfahrt|assomption|la asunción|ferragosto",
    "halloween": "halloween",
    "all saints": "all saints(?:'|\u2019)?(?: day)?|allerheiligen|toussaint|todos los santos|ognissanti"
    "|todos os santos",
    "st nicholas": "st[.]? nicholas(?:'s|\u2019s|'|\u2019)?(?: day)?|nikolaus(?:tag)?|sinterklaas|saint-nicolas"
    "|san nicolás|san nicola",
    "advent": "advent|adventszeit|avent|adviento|avvento|advento",
    "christmas eve": "christmas eve|heiligabend|heilige[nr]? abend|kerstavond|veille de noël|réveillon de noël"
    "|nochebuena|vigilia di natale|véspera de natal",
    "christmas": "christmas|xmas|weihnachten|kerstmis|kerst|noël|navidad|navidades|natale|natal",
    "between the years": "den jahren",
    "new year": "new year(?:'s|\u2019s)?(?: eve| day)?|the turn of the year|neujahr|silvester|jahreswechsel|nieuwjaar"
    "|oud en nieuw|nouvel an|saint-sylvestre|año nuevo|nochevieja|capodanno|ano novo|réveillon",
}

#: German names of feasts that are a time with no word before them, and words before them that make them a subject.
BARE_FEASTS = {
    "easter": "ostern",
    "whitsun": "pfingsten",
    "christmas eve": "heiligabend",
    "christmas": "weihnachten",
    "new year": "silvester",
}
NOT_BARE = ("für", "von", "mit", "ohne", "wegen", "frohe", "schöne")


def feast(name: str, day: datetime, year: int) -> tuple[datetime, datetime]:
    """Return when a feast begins and ends in a year, in the zone of ``day``, a midnight."""
    if name in _FROM_EASTER:
        first, days = _FROM_EASTER[name]
        start = _easter_sunday(day, year) + timedelta(days=first)
    else:
        month, first, days = _ON_DATE[name]
        start = day.replace(year=year, month=month, day=first)
    return start, start + timedelta(days=days)


def _easter_sunday(day: datetime, year: int) -> datetime:
    """Compute it by the anonymous Gregorian algorithm (Meeus, Astronomical Algorithms)."""
    golden, century, rest = year % 19, year // 100, year % 100
    epact = (19 * golden + century - century // 4 - (century - (century + 8) // 25 + 1) // 3 + 15) % 30
    weekday = (32 + 2 * (century % 4) + 2 * (rest // 4) - epact - rest % 4) % 7
    number = epact + weekday - 7 * ((golden + 11 * epact + 22 * weekday) // 451) + 114
    return day.replace(year=year, month=number // 31, day=number % 31 + 1)
