"""Renders pages: templates that escape what they are given, times, figures and texts as people read them."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from fastapi import Request
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.responses import HTMLResponse, RedirectResponse, Response

from memcore.clock import span, utc_now
from memcore.ledger.access.keys import Verb
from ops.http.access import CONSOLE, NO_KEY, Caller
from ops.http.problems import Problem
from ops.web.sessions import SESSION, Session

#: The cookie of the look that a person chose.
THEME_COOKIE = "memtend_theme"

#: The looks; ``auto`` follows the system.
THEMES = ("auto", "light", "dark")


class Place(NamedTuple):
    """An entry of the menu.

    Attributes:
        key: the letter that leads there, after ``g``.
        verb: what a key must be for.
        is_company_wide: whether a key for some agents is refused.
    """

    path: str
    label: str
    key: str
    verb: Verb = Verb.READ
    is_company_wide: bool = True


#: The menu.
PLACES = (
    Place("activity", "Last night", "l", is_company_wide=False),
    Place("fleet", "Fleet", "f", is_company_wide=False),
    Place("runs", "Runs", "r", is_company_wide=False),
    Place("memories", "Memory", "m", is_company_wide=False),
    Place("approvals", "Approvals", "a"),
    Place("skills", "Skills", "s"),
    Place("distrusts", "Distrust", "d", Verb.ADMIN),
    Place("queues", "Queues", "q", Verb.ADMIN),
    Place("cost", "Cost", "c", is_company_wide=False),
    Place("embedder", "Embedder", "e", Verb.ADMIN),
    Place("audit", "Audit", "u", Verb.ADMIN),
)

#: What a page says after an action, by the word in its address: no text of a request is repeated.
DONE = {
    "added": "Added: searches find it.",
    "adopted": "Adopted. A worker replaces the memories, if they are still as shown.",
    "approved": "Approved and carried out.",
    "asked": "Asked for: a worker carries it out. The page shows it once it has begun.",
    "changed": "Changed. The version before is kept, and its run's undo brings it back.",
    "cancelled": "The fine-tune run ends within seconds.",
    "deleted": "Deleted for good.",
    "deploying": "A collection is being filled; it serves once it has caught up.",
    "dismissed": "Dismissed: nothing is removed.",
    "distrusted": "Distrusted: nothing that came of it is shown any more.",
    "forgotten": "Forgotten. The undo of its run brings it back.",
    "nothing": "There was nothing to do.",
    "paused": "Paused: nothing is removed until it is resumed.",
    "proposed": "Proposed: it is raised once a person who may approve has read it.",
    "rejected": "Rejected: nothing is published.",
    "released": "Released: a worker carries out what the plan showed.",
    "replayed": "Sent again under the same ids.",
    "resumed": "Resumed.",
    "trusted": "Trusted again: what came of it is shown.",
    "undone": "Undone: what it published is gone, what it had replaced is back.",
}

#: Characters that a fenced text shows as their escapes: controls, and marks that turn the direction of writing.
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

#: The marks alone.
_TURNING = re.compile("[\u202a-\u202e\u2066-\u2069]")


def page(request: Request, name: str, /, *, status: int = HTTPStatus.OK, **values: Any) -> HTMLResponse:
    """Return a page from the template of that name."""
    caller: Caller | None = request.scope.get("caller")
    session: Session | None = request.scope.get(SESSION)
    theme = request.cookies.get(THEME_COOKIE, THEMES[0])
    shared = {
        "caller": caller,
        "is_open": caller is not None and caller.key_id == NO_KEY,
        "csrf": "" if session is None else session.csrf,
        "theme": theme if theme in THEMES else THEMES[0],
        "themes": THEMES,
        "places": [] if caller is None else [each for each in PLACES if _may(caller, each)],
        "here": request.scope["path"].removeprefix(f"{CONSOLE}/").partition("/")[0],
        "address": _address(request),
        "done": DONE.get(request.query_params.get("done", "")),
        "now": utc_now(),
    }
    text: str = _environment().get_template(f"{name}.html").render({**values, **shared})
    return HTMLResponse(text, status)


def error_page(request: Request, problem: Problem) -> HTMLResponse:
    """Return what went wrong as a page."""
    return page(request, "problem", status=problem.status, problem=problem)


def back_to(path: str, done: str, /, **query: str | None) -> Response:
    """Return the answer to a form that was carried out: the browser loads a page that says what was done."""
    given = {name: value for name, value in query.items() if value is not None}
    return RedirectResponse(f"{CONSOLE}/{path}?{urlencode({**given, 'done': done})}", HTTPStatus.SEE_OTHER)


def _may(caller: Caller, place: Place) -> bool:
    return place.verb in caller.verbs and (caller.agents is None or not place.is_company_wide)


def _address(request: Request) -> str:
    pairs = [(name, value) for name, value in request.query_params.multi_items() if name != "done"]
    path: str = request.scope["path"]
    return path + (f"?{urlencode(pairs)}" if pairs else "")


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        when=when, ago=ago, span=span, number=number, fenced=fenced, editable=editable, word=word, part=part
    )
    made.globals.update(link=link, Verb=Verb)
    return made


def link(path: str, /, **query: object) -> str:
    """Return the address of a page of the console; values that are None or empty are left out."""
    given = {name: str(value) for name, value in query.items() if value is not None and value != ""}
    return f"{CONSOLE}/{path}" + (f"?{urlencode(given)}" if given else "")


def part(value: str) -> str:
    """Return a text as one part of a path."""
    return quote(value, safe="")


def when(at: datetime) -> str:
    """Return a time in UTC, to the minute."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M}"


def ago(at: datetime, now: datetime) -> str:
    """Return how far a time lies before or behind another: ``3 min ago``, ``in 2 h``."""
    return f"in {span(at - now)}" if at > now else f"{span(now - at)} ago"


def number(value: float) -> str:
    """Return a number with commas; of a fraction four digits behind the point at most."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4f}".rstrip("0").rstrip(".")


def fenced(text: str) -> str:
    """Return the text of a memory with what acts or hides in it written as its escape."""
    return _HIDDEN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def editable(text: str) -> Markup:
    """Return the text of a field as it is, so that it comes back so; marks that turn the page's source by number."""
    return Markup(_TURNING.sub(lambda found: f"&#{ord(found[0])};", escape(text)))  # noqa: S704  # escaped before


def word(name: object) -> str:
    """Return the name of a kind, a state or a count as words."""
    return str(name).replace("_", " ").replace("finetune", "fine-tune")


def facts(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return figures by name, as a table shows them."""
    shown = (
        (word(name), number(value) if isinstance(value, (int, float)) else str(value)) for name, value in values.items()
    )
    return list(shown)
