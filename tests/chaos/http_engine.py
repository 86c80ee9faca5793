"""An engine that speaks HTTP: it stores and searches through ``serve`` while that is killed, too.

Each store has an Idempotency-Key and is sent again under it until an answer comes, so that it counts as sent once. From
then on it is asked for until it can be read: the store-to-findable time.
"""

import json
import random
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

import httpx
from chaos.fault_thread import FaultThread
from chaos.receipt import Receipt
from support.running_stack import StackAddress

from memcore.ledger.access.keys import Verb
from memcore.models.origin import Channel
from ops.cli.session import ledger_of

#: Seconds between two looks at what is not found yet, and before a request is sent again.
_AGAIN_SECONDS = 0.1

#: Seconds after the chaos run in which the last ones must be found.
_HOME_SECONDS = 180.0

#: Seconds that one request may take.
_TIMEOUT_SECONDS = 10.0

#: Of so many stores one is of several memories, and so often it is searched.
_BATCH_EVERY, _SEARCH_EVERY = 5, 2

#: Answers for which a client tries again.
_LATER = frozenset({429, 500, 502, 503, 504})

#: The pages of people: asked for where ``serve`` has them.
_CONSOLE = "/console"

OK = 200


@dataclass(slots=True, kw_only=True)
class HttpMemory:
    """A memory that ``serve`` has taken.

    Attributes:
        begun: when it was first sent, in seconds of the wall clock.
        ended: when it was first read; None so far.
    """

    memory_id: str
    begun: float
    ended: float | None = None


class HttpEngine(FaultThread):
    """Store, search and read over HTTP until the chaos run is over, then wait for what is not found yet.

    Attributes:
        answers: how many requests of each kind were answered.
        retries: how many were sent again.
        replayed: how many answers were those of an earlier attempt.
        refused: answers that no client should get.
        key_id: the id of its key, once it has begun.
    """

    #: What its notes and its key are called, and the seconds between two stores.
    name, pause_seconds = "HTTP", 0.3

    #: What its key may do, and the channel that it claims.
    verbs: tuple[Verb, ...] = (Verb.READ, Verb.WRITE)
    channel: Channel | None = None

    def __init__(self, stack: StackAddress, *, agent_id: str, dice: random.Random) -> None:
        super().__init__()
        self.memories: list[HttpMemory] = []
        self.receipts: list[Receipt] = []
        self.answers: Counter[str] = Counter()
        self.retries = self.replayed = 0
        self.refused: list[str] = []
        self.key_id = ""
        self._stack = stack
        self.agent_id = agent_id
        self.dice = dice

    @property
    def moments(self) -> list[tuple[float, float]]:
        """When each memory was first sent, and when it was found."""
        return [(each.begun, each.ended) for each in self.memories if each.ended is not None]

    @property
    def lost(self) -> list[str]:
        """The ids of memories that were never found."""
        return [each.memory_id for each in self.memories if each.ended is None]

    def work(self) -> None:
        """Send and look."""
        company = self._stack.settings.company
        with ledger_of(self._stack.settings) as ledger:
            made = ledger.api_keys.create(company, name=f"chaos-{self.name}", verbs=self.verbs, channel=self.channel)
        self.key_id = made.key.key_id
        headers = {"Authorization": f"Bearer {made.token}"}
        with httpx.Client(headers=headers, timeout=_TIMEOUT_SECONDS) as client:
            number, due = 0, time.monotonic()
            while not self.is_over.wait(_AGAIN_SECONDS):
                if time.monotonic() >= due:
                    self._store(client, number)
                    if number % _SEARCH_EVERY == 0:
                        self._search(client, number)
                    number += 1
                    due = max(due + self.pause_seconds, time.monotonic())
                self.look(client)
            self.end(client)
            until = time.monotonic() + _HOME_SECONDS
            while self.lost and time.monotonic() < until:
                time.sleep(_AGAIN_SECONDS)
                self.look(client)

    def end(self, client: httpx.Client) -> None:
        """Do what is due when the chaos run is over."""

    def _store(self, client: httpx.Client, number: int) -> None:
        count = self.dice.randint(2, 6) if number % _BATCH_EVERY == 0 else 1
        bodies = [
            {"content": f"{self.name} note {number}-{place}: the parcel arrived.", "category": "social"}
            for place in range(count)
        ]
        begun, place = time.time(), f"/v1/agents/{self.agent_id}/memories"
        given: dict[str, Any] = {"headers": {"Idempotency-Key": f"{self.name}-{number}"}}
        if count == 1:
            answer = self.asked(client, "POST", place, "store", **given, json=bodies[0])
        else:
            answer = self.asked(client, "POST", f"{place}:batch", "batch", **given, json={"memories": bodies})
        if answer is None:
            return
        self.replayed += "Idempotency-Replayed" in answer.headers
        ids = [str(each) for each in answer.json()["memory_ids"]]
        self.memories += [HttpMemory(memory_id=each, begun=begun) for each in ids]
        self.receipts.append(
            Receipt(call="http", jobs=1, sends=1, at=time.time(), memories=[(self.agent_id, each) for each in ids])
        )

    def _search(self, client: httpx.Client, number: int) -> None:
        body = {"text": f"note {number}", "limit": 5}
        self.asked(client, "POST", f"/v1/agents/{self.agent_id}/search", "search", json=body)
        self.asked(client, "GET", _CONSOLE, "page", may_miss=True)

    def look(self, client: httpx.Client) -> None:
        """Look for what was not found yet."""
        for each in self.memories:
            if each.ended is None:
                answer = self.once(client, "GET", f"/v1/agents/{self.agent_id}/memories/{each.memory_id}")
                if answer is None:
                    return
                if answer.status_code == OK:
                    each.ended = time.time()

    def asked(
        self, client: httpx.Client, method: str, path: str, kind: str, *, may_miss: bool = False, **given: Any
    ) -> httpx.Response | None:
        """Ask until there is an answer; None for one that tells a client to give up."""
        while True:
            answer = self.once(client, method, path, **given)
            if answer is not None and answer.status_code not in _LATER:
                break
            self.retries += 1
            time.sleep(_AGAIN_SECONDS)
        if answer.is_success or answer.is_redirect:
            self.answers[kind] += 1
            return answer
        if not may_miss:
            self.refused.append(f"{method} {kind} {answer.status_code}")
        return None

    def once(self, client: httpx.Client, method: str, path: str, **given: Any) -> httpx.Response | None:
        try:
            port = json.loads((self._stack.home / "run" / "doors.json").read_text("utf-8"))["serve_port"]
            return client.request(method, f"http://127.0.0.1:{port}{path}", **given)
        except httpx.HTTPError:
            return None
