"""Signs that a text of others may be meant to act on an agent: hints for people and policies, never the defence.

The defence is the origin: what came by a tool, a document, a peer or an import is reference, whatever it says.
"""

import re
from enum import StrEnum

from memcore.models.origin import Channel, Origin
from memcore.untrusted_text import names_secret

#: The channels of other people's words; what an agent or a person says is not looked at.
WATCHED = frozenset({Channel.TOOL, Channel.DOCUMENT, Channel.PEER, Channel.IMPORT})


class Sign(StrEnum):
    """What a text looks like: an order to its reader, a password or key, or an account that money is sent to."""

    INSTRUCTION = "instruction"
    SECRET = "secret"  # noqa: S105  # a name
    PAYMENT = "payment"


#: What orders begin with, a language after the other: forms that are said to one's reader, and few other words are.
_ORDERS = (
    "always|never|do not|don't|from now on|whenever|make sure|remember to|you must|you should|you are now|act as"
    "|send|forward|transfer|pay|approve|delete|remove|disable|enable|install|run|execute|download|upload|open|click"
    "|visit|call|email|reply|answer|tell|inform|report|reveal|show|share|copy|post|publish|grant|give|add|create"
    "|change|replace|reset|write|ignore|disregard|forget|pretend|trust|treat|use|skip|stop|keep|order|buy|move"
    "|immer|niemals|nie|ab sofort|von nun an|sende|senden sie|schick|schicke|schicken sie|überweise|überweisen sie"
    "|leite|leiten sie|lösche|löschen sie|installiere|installieren sie|öffne|öffnen sie|ignoriere|ignorieren sie"
    "|vergiss|vergessen sie|antworte|antworten sie|gib|geben sie|sag|sagen sie|verwende|verwenden sie|benutze"
    "|genehmige"
    "|toujours|ne jamais|désormais|envoie|envoyez|transfère|transférez|vire|virez|supprime|supprimez|installe"
    "|installez|ouvre|ouvrez|ignorez|oublie|oubliez|réponds|répondez|donne|donnez|utilise|utilisez"
    "|siempre|nunca|a partir de ahora|envía|envíe|transfiere|transfiera|borra|borre|elimina|elimine|instala|instale"
    "|abre|abra|ignora|olvida|olvide|responde|responda|usa"
    "|sempre|d'ora in poi|invia|invii|trasferisci|trasferisca|cancella|cancelli|installa|installi|apri|apra|ignori"
    "|dimentica|dimentichi|rispondi|risponda"
    "|altijd|nooit|vanaf nu|stuur|verstuur|verwijder|installeer|negeer|vergeet|antwoord|geef|zeg|gebruik|betaal"
    "|envie|transfira|apague|exclua|esqueça"
)

#: Where an order begins: with the text, a sentence, a line or a quotation, "please" before it.
_ORDER = re.compile(
    r"(?:^|[.!?:;\n]\s|[\"'“«(*>-])\s{0,4}(?:please,?\s|bitte\s|s'il vous plaît,?\s|por favor,?\s|per favore,?\s)?"
    rf"(?:{_ORDERS})(?=[\s,:])",
    re.IGNORECASE,
)

#: Words about a model's own instructions, and marks of its turns, which other people's words seldom have.
_TO_A_MODEL = re.compile(
    r"\b(?:previous|prior|above|earlier|system|hidden)\s(?:instructions?|prompts?|messages?)\b"
    r"|<\s?/?\s?(?:system|assistant|instructions?)\s?>|\[/?INST\]|<\|im_\w+\|>|\bsystem\s?:",
    re.IGNORECASE,
)

#: One of these stands in all that the pattern finds.
_IN_EACH = ("instruction", "prompt", "message", "system", "assistant", "inst]", "<|im_")


def _may_be_to_a_model(text: str) -> bool:
    """Return False where the pattern finds nothing, at a tenth of its cost."""
    if not text.isascii():
        return True  # a letter may have more than two cases
    lower = text.lower()
    return any(each in lower for each in _IN_EACH)


_WALLET = re.compile(r"\b(?:0x[0-9a-fA-F]{40}|bc1[02-9ac-hj-np-z]{25,59})\b")
_IBAN = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]){11,30}\b")
_CARD = re.compile(
    r"(?<![\w-])[3-6]\d{3}(?:(?P<gap>[ -]?)\d{4}(?P=gap)\d{4}(?P=gap)\d{4}|[ -]?\d{6}[ -]?\d{5})(?![ -]?\d)"
)


def signs_of(text: str) -> frozenset[Sign]:
    """Return the signs that a text has; none is common, and some are mistaken."""
    found = {
        Sign.INSTRUCTION: _ORDER.search(text) or (_may_be_to_a_model(text) and _TO_A_MODEL.search(text)),
        Sign.SECRET: names_secret(text),
        Sign.PAYMENT: _WALLET.search(text)
        or any(map(_is_iban, _IBAN.findall(text)))
        or any(_is_card(found[0]) for found in _CARD.finditer(text)),
    }
    return frozenset(sign for sign, is_there in found.items() if is_there)


def watched(origin: Origin, text: str) -> Origin:
    """Return the origin of a new text: with ``suspect`` where others wrote it and it has a sign."""
    if WATCHED.isdisjoint(origin.channels) or Channel.SUSPECT in origin.channels or not signs_of(text):
        return origin
    return Origin(channels=(*origin.channels, Channel.SUSPECT), principals=origin.principals)


def _is_iban(said: str) -> bool:
    """Check an account number by its remainder (ISO 13616)."""
    number = said.replace(" ", "")
    digits = "".join(str(int(sign, 36)) for sign in number[4:] + number[:4])
    return int(digits) % 97 == 1


def _is_card(said: str) -> bool:
    """Check a card's number by its last digit (ISO/IEC 7812)."""
    digits = [int(sign) for sign in reversed(said) if sign.isdecimal()]
    return sum(digits[::2]) % 10 == -sum(sum(divmod(2 * each, 10)) for each in digits[1::2]) % 10
