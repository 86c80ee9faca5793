"""Sessions of the console: a signed cookie that names a key, and the token that each of its forms carries."""

import hmac
import secrets
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from datetime import timedelta
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers
from starlette.responses import Response

from memcore.clock import Clock
from memcore.config.settings import Settings
from memcore.ledger.access.keys import ApiKey, ApiKeys
from ops.http.access import CONSOLE
from ops.http.operations import installation_secret

#: How long a session lasts; then its key is asked for again.
LASTS = timedelta(hours=12)

#: The cookie of a session of a key, and of one of nobody: to look at the sign-in page ends no session.
COOKIE, NOBODYS_COOKIE = "memtend_console", "memtend_console_form"

#: Where a request keeps its session.
SESSION = "memtend.console.session"

#: The key id of a session of nobody, which the sign-in page, and a server without keys, protect their forms with.
NOBODY = "-"

#: Random bytes that tell two sessions apart.
_NONCE_BYTES = 16

#: Longest cookie that is looked at, in characters; a whole one has about 110.
_LONGEST = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A session.

    Attributes:
        cookie: the text of the cookie; whoever has it has the session.
        csrf: what each form of the session carries.
        is_new: whether the browser does not have the cookie yet.
    """

    key_id: str
    cookie: str
    csrf: str
    is_new: bool = False


class Sessions:
    """Signs sessions and knows them again, in every process of an installation alike; no secret of a key is in them.

    A session is signed with a secret of the installation and the hash of its key's secret: it ends with the key.
    """

    def __init__(self, settings: Settings, keys: ApiKeys, *, clock: Clock) -> None:
        self._secret = installation_secret(settings, "memtend console session")
        self._keys = keys
        self._clock = clock

    def begin(self, key_id: str = NOBODY) -> Session | None:
        """Return a new session of a key; None where the key is not valid. It blocks, unless it is nobody's."""
        found = None if key_id == NOBODY else self._keys.with_hash(key_id)
        if found is None and key_id != NOBODY:
            return None
        ends = int((self._clock() + LASTS).timestamp())
        text = f"{key_id}.{ends}.{secrets.token_hex(_NONCE_BYTES)}"
        return self._session(text, "" if found is None else found[1], is_new=True)

    def nobodys(self, cookie: str | None) -> Session:
        """Return the session of nobody that a cookie holds, or else a new one."""
        known = None if cookie is None or self._key_id(cookie) != NOBODY else self._known(cookie, "")
        made = known or self.begin()
        assert made is not None  # noqa: S101  # nobody's is always made
        return made

    def key_of(self, cookie: str) -> ApiKey | None:
        """Return the key of a session, if both are valid; it blocks."""
        found = self._found(cookie)
        return None if found is None else found[0]

    def has_ended(self, cookie: str) -> bool:
        """Return whether the time of a session, as its cookie says it, is over."""
        if self._key_id(cookie) is None:
            return True
        ends = cookie.split(".")[1]
        return not ends.isdigit() or int(ends) <= self._clock().timestamp()

    def session_of(self, cookie: str) -> Session | None:
        """Return the session of a cookie of a key, if both are valid; it blocks."""
        found = self._found(cookie)
        return None if found is None else self._known(cookie, found[1])

    def _found(self, cookie: str) -> tuple[ApiKey, str] | None:
        key_id = self._key_id(cookie)
        found = None if key_id in {None, NOBODY} else self._keys.with_hash(str(key_id))
        return found if found is not None and self._known(cookie, found[1]) is not None else None

    def _key_id(self, cookie: str) -> str | None:
        if len(cookie) > _LONGEST or not cookie.isascii() or cookie.count(".") != _DOTS:
            return None
        return cookie.partition(".")[0]

    def _known(self, cookie: str, key_hash: str) -> Session | None:
        text, _, code = cookie.rpartition(".")
        made = self._session(text, key_hash)
        is_right = hmac.compare_digest(made.cookie.rpartition(".")[2], code)
        return made if is_right and not self.has_ended(cookie) else None

    def _session(self, text: str, key_hash: str, *, is_new: bool = False) -> Session:
        key = hmac.digest(self._secret, key_hash.encode(), "sha256")
        cookie = f"{text}.{_code(key, 'session', text)}"
        return Session(key_id=text.partition(".")[0], cookie=cookie, csrf=_code(key, "form", text), is_new=is_new)


#: Dots of a cookie: key id, end, nonce and signature stand between them.
_DOTS = 3


def _code(key: bytes, purpose: str, text: str) -> str:
    return urlsafe_b64encode(hmac.digest(key, f"{purpose}\n{text}".encode(), "sha256")).decode().rstrip("=")


def cookie_of(headers: Headers, name: str) -> str | None:
    """Return a cookie of a request."""
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(name)
    except CookieError:
        return None
    return None if found is None else found.value


def set_cookie(response: Response, session: Session, *, is_secure: bool) -> None:
    """Give a session to the browser: no script reads it, and no other site's request carries it."""
    response.set_cookie(
        NOBODYS_COOKIE if session.key_id == NOBODY else COOKIE,
        session.cookie,
        max_age=int(LASTS.total_seconds()),
        path=CONSOLE,
        secure=is_secure,
        httponly=True,
        samesite="strict",
    )
