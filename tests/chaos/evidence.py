"""Reads what store, history, ledger, journal and broker hold once all is idle, without memtend's workers."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaos.poison import UNKNOWN_COMPANY
from sqlalchemy import create_engine, text
from support.running_stack import StackAddress
from support.stored import history_events, store_client

from examples.demo.balance import Counts, tally_of
from memcore.backends.factory import mem0_config_of
from memcore.backends.mem0.points import Key
from memcore.config.settings import Settings
from memcore.ledger.dead_letters import UNREADABLE
from memcore.ledger.ledger import Ledger
from memcore.ledger.runs import Run
from memcore.maintenance.undo import run_counts
from memcore.models.memory import ARCHIVE_OWNER_PREFIX, CANARY_OWNER

#: Rows of one page of the store.
_PAGE = 1_000

#: More runs and dead letters than a chaos run leaves.
_ALL = 100_000

#: Memories of the canary in the history, which has no owners: they are nobody's.
_CANARIES = "SELECT memory_id FROM history WHERE new_memory LIKE 'The canary of %'"

#: Ids of the history's rows that have a text.
_WITH_TEXT = "SELECT DISTINCT memory_id FROM history WHERE old_memory IS NOT NULL OR new_memory IS NOT NULL"


#: What is archived and not in the store: the entry's id and the memory's.
_OUT = "SELECT archival_id || ' ' || original_id FROM archive WHERE returned_by IS NULL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is there.

    Attributes:
        live: agent and text of each id in the store.
        replaced: the originals of each summary in the store, by its id.
        copies: the summary of each archived original that can be found, by the archive's id.
        archived: the original of each entry of the archive that is out, by the entry's id.
        history: rows by id and event.
        history_texts: ids whose text stands in the history.
        tallies: what entries did, by agent.
        runs: every run's row.
        counted: what the journal says each finished run did.
        open_entries: decided and not carried out.
        tombstoned: ids with a tombstone.
        dead: job ids of the dead letters.
        unreadable: the messages that became dead letters, as they were.
    """

    live: Mapping[str, tuple[str, str]]
    replaced: Mapping[str, Sequence[str]]
    copies: Mapping[str, str]
    archived: Mapping[str, str]
    history: Counter[tuple[str, str]]
    history_texts: frozenset[str]
    tallies: Mapping[str, Counts]
    runs: Sequence[Run]
    counted: Mapping[str, Mapping[str, int]]
    open_entries: Sequence[str]
    tombstoned: frozenset[str]
    dead: Counter[str]
    unreadable: frozenset[bytes]


def gather(stack: StackAddress, ledger: Ledger) -> Evidence:
    """Read everything once."""
    settings = stack.settings
    points = _points(settings)
    copies = {key for key, point in points.items() if point["agent_id"].startswith(ARCHIVE_OWNER_PREFIX)}
    live = {key: (point["agent_id"], point["data"]) for key, point in points.items() if key not in copies}
    runs = ledger.runs.list(settings.company, limit=_ALL)
    agents = {agent_id for agent_id, _ in live.values()} | {run.agent_id for run in runs}
    # A job of an unknown company is a letter of that company.
    named = (settings.company, UNKNOWN_COMPANY)
    letters = [letter for company in named for letter in ledger.dead_letters.list(company, limit=_ALL)]
    history, texts = history_events(settings), _column(settings.history_url, _WITH_TEXT)
    # Behind them: one that was written in between is among these, too.
    canaries = set(_column(settings.history_url, _CANARIES))
    return Evidence(
        live=live,
        replaced={key: points[key].get(Key.SUMMARY_OF) or () for key in live},
        copies={key: points[key][Key.ARCHIVED_UNDER] for key in copies},
        archived=dict(row.split(" ") for row in _column(settings.journal_url, _OUT)),
        history=Counter({event: count for event, count in history.items() if event[0] not in canaries}),
        history_texts=frozenset(texts) - canaries,
        tallies={agent_id: tally_of(ledger, settings.company, agent_id) for agent_id in agents},
        runs=runs,
        counted={run.run_id: run_counts(ledger.journal, run) for run in runs},
        open_entries=_column(settings.journal_url, "SELECT booking_id FROM bookings WHERE state = 'prepared'"),
        tombstoned=frozenset(_column(settings.journal_url, "SELECT memory_id FROM tombstones")),
        dead=Counter(letter.job_id for letter in letters if letter.job != UNREADABLE),
        unreadable=frozenset(
            json.loads(letter.payload)["text"].encode() for letter in letters if letter.job == UNREADABLE
        ),
    )


def _points(settings: Settings) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    wanted = ["agent_id", "data", Key.SUMMARY_OF.value, Key.ARCHIVED_UNDER.value]
    with store_client(settings) as client:
        offset = None
        while True:
            points, offset = client.scroll(
                mem0_config_of(settings).collection, limit=_PAGE, offset=offset, with_payload=wanted
            )
            # The canary is nobody's memory.
            payloads = {str(point.id): point.payload or {} for point in points}
            found.update({key: each for key, each in payloads.items() if each.get("agent_id") != CANARY_OWNER})
            if offset is None:
                return found


def _column(url: str, query: str) -> list[str]:
    engine = create_engine(url)
    try:
        with engine.connect() as connection:
            return [str(value) for value in connection.execute(text(query)).scalars()]
    finally:
        engine.dispose()
