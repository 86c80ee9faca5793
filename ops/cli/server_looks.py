"""What the doctor looks at around servers: the broker and its workers, the vector store, the databases."""

import http.client
import json
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

from sqlalchemy import text

from memcore.backends.factory import require_shared_backends
from memcore.client.celery_app import OwnCelery
from memcore.config.settings import Settings
from memcore.errors import MemoryConnectionError, MemoryError  # noqa: A004  # the reference fixes the name
from memcore.ledger.engine import Database, parse_url
from ops.cli.finding import ANSWER_SECONDS, Finding, require_listener
from ops.cli.session import policy_of
from workers.broker import broker_conf, look_at_queues, person_options
from workers.groups import GROUPS, STORE

#: PostgreSQL's port where a URL names none.
_POSTGRES_PORT = 5432

#: How a server says that it answers, and that it wants another key.
_OK, _REFUSED = 200, (401, 403)

#: Bytes of an answer of the store that are read; a longer one is none of ours.
_LARGEST_ANSWER = 1_048_576


def broker(settings: Settings) -> Iterator[Finding]:
    """Look whether the broker answers, what waits on it, and what it holds that no worker can read."""
    try:
        look = look_at_queues(settings)
    except MemoryConnectionError as error:
        yield Finding(
            check="broker", ok=False, seen=str(error), mend="start it, or see its log; workers come back alone"
        )
        return
    yield Finding(check="broker", ok=True, seen="answers")
    yield Finding(
        check="unreadable messages",
        ok=not look.unreadable,
        seen=f"{look.unreadable} wait to become dead letters" if look.unreadable else "none",
        mend="a worker writes the letters within seconds: does one run, and does the ledger answer?",
    )
    for queue, count in look.waiting.items():
        yield Finding(check=f"queue {queue}", ok=True, seen=f"{count} waiting", group="queues")


def workers(settings: Settings) -> Iterator[Finding]:
    """Ask the workers of each group whether they take jobs."""
    with closing(OwnCelery("memtend-doctor")) as app:
        asking = broker_conf(settings, STORE) | {"broker_transport_options": person_options(settings)}
        app.conf.update(**asking, accept_content=["json"], task_serializer="json")
        wanted = {name for name, group in GROUPS.items() if not group.on_demand}
        # So many answers usually are all; with several workers of a group they may not be.
        present = _answering(app, limit=len(wanted))
        if not wanted <= present:
            present |= _answering(app, limit=None)
    for name, group in GROUPS.items():
        if group.on_demand and name not in present:
            continue  # `memtend finetune status` says when a run waits for it
        yield Finding(
            check=f"worker {name}",
            ok=name in present,
            seen="answers" if name in present else "does not answer",
            mend=f"start it: `memtend worker --group {name}`, or see its log",
        )


def store(settings: Settings) -> Iterator[Finding]:
    """Look whether the vector store answers, and to our key; a policy that workers cannot share is told here too."""
    policy = policy_of(settings)
    require_shared_backends(policy)
    if "mem0" not in policy.memory.backends.values():
        return
    try:
        status, _ = _asked_of_store(settings, "/collections")
    except MemoryConnectionError as error:
        status, seen = 0, str(error)
    else:
        seen = "answers" if status == _OK else f"answers {status}"
    mend = "set MEMTEND_QDRANT_API_KEY" if status in _REFUSED else "start it, or see its log"
    yield Finding(check="store", ok=status == _OK, seen=seen, mend=mend)


def collections(settings: Settings) -> Iterator[Finding]:
    """Yield a finding for each collection that the embedded store refuses because it is damaged."""
    try:
        status, body = _asked_of_store(settings, "/issues")
        issues = json.loads(body)["result"]["issues"] if status == _OK else []
    except (MemoryConnectionError, ValueError, KeyError, TypeError):
        return  # the look before this one says that nobody answers; and other stores have no such page
    for issue in issues:
        yield Finding(
            check=f"collection {issue.get('related_collection')}",
            ok=False,
            seen=str(issue.get("description")),
            mend="see docs/how-to/operate.md#a-collection-is-refused",
        )


def databases(settings: Settings) -> Iterator[Finding]:
    """Look whether ledger, journal and history can be opened, read and written."""
    urls = {"ledger": settings.database_url, "journal": settings.journal_url, "history": settings.history_url}
    for name, url in urls.items():
        yield _database(name, url)


def _asked_of_store(settings: Settings, path: str) -> tuple[int, bytes]:
    url, key = urlsplit(settings.qdrant_url), settings.qdrant_api_key
    kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
    with closing(kind(url.hostname or "", url.port, timeout=ANSWER_SECONDS)) as line:
        try:
            line.request("GET", f"{url.path}{path}", headers={"api-key": key.get_secret_value()} if key else {})
            answer = line.getresponse()
            return answer.status, answer.read(_LARGEST_ANSWER)
        except (OSError, http.client.HTTPException) as error:
            raise MemoryConnectionError(f"does not answer ({error or type(error).__name__})") from None


def _answering(app: OwnCelery, *, limit: int | None) -> set[str]:
    answers = app.control.ping(timeout=ANSWER_SECONDS, limit=limit)
    return {name.partition("@")[0] for answer in answers for name in answer}


def _database(name: str, url: str) -> Finding:
    parsed = parse_url(url, name=name)
    if parsed.get_backend_name() == "sqlite":
        seen = _file_trouble(Path(parsed.database or ""))
        mend = "put it back from a backup (docs/how-to/operate.md#restore), or give it to the user who runs memtend"
        if seen:
            return Finding(check=name, ok=False, seen=seen, mend=mend)
    else:
        mend = "start it, or see its log; `memtend migrate` makes its tables"
    try:
        if parsed.host:
            require_listener(parsed.host, parsed.port or _POSTGRES_PORT)
        with closing(Database(url, name=name)) as database, database.read() as connection:
            connection.execute(text(f"SELECT version_num FROM alembic_version_{name}"))  # noqa: S608  # our own names
    except MemoryError as error:
        return Finding(check=name, ok=False, seen=str(error), mend=mend)
    return Finding(check=name, ok=True, seen="answers")


def _file_trouble(file: Path) -> str:
    # Opening a SQLite file that is missing would make an empty one.
    if not file.is_file():
        return f"{file} is not there" if not file.exists() else f"{file} is not a regular file"
    if not (os.access(file, os.W_OK) and os.access(file.parent, os.W_OK)):
        return f"{file} cannot be written"
    return ""
