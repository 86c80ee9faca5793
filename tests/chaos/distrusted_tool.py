"""A tool whose key is distrusted in the middle of the chaos run, and trusted again before its end.

Meanwhile no answer may show what it has stored, whatever is killed; afterwards all of it must be found.
"""

import random
import time

import httpx
from chaos.http_engine import OK, HttpEngine
from support.running_stack import StackAddress

from memcore.ledger.access.keys import Verb
from memcore.models.origin import Channel

#: When it is distrusted, and when it is trusted again, as shares of the chaos run.
_DISTRUSTED_FROM, _TRUSTED_FROM = 1 / 3, 3 / 4

#: Seconds between two looks while it is in force.
_AGAIN_SECONDS = 0.5

#: Why, for the audit.
_WHY = {"reason": "a part of the chaos run", "confirm": True}


class DistrustedTool(HttpEngine):
    """Store as a tool all the time; distrust its key, look for what it has stored, and lift the distrust.

    Attributes:
        looks: answers that were read while the distrust was in force.
        shown: ids of memories that one of them has shown.
    """

    name, pause_seconds = "tool", 1.0
    verbs, channel = (Verb.READ, Verb.WRITE, Verb.ADMIN), Channel.TOOL

    def __init__(self, stack: StackAddress, *, agent_id: str, dice: random.Random, seconds: float) -> None:
        super().__init__(stack, agent_id=agent_id, dice=dice)
        self.looks = 0
        self.shown: set[str] = set()
        self._seconds = seconds
        self._begun = time.monotonic()
        self._place: str | None = None
        self._is_found = self._is_lifted = False

    def look(self, client: httpx.Client) -> None:
        """Do what is due, and look: nothing may be shown while the distrust is in force, else everything is."""
        share = (time.monotonic() - self._begun) / self._seconds
        if self._place is None and share >= _DISTRUSTED_FROM:
            self._distrust(client)
        elif self._place is not None and not self._is_lifted:
            if share >= _TRUSTED_FROM:
                self.end(client)
            else:
                self._look_in_vain(client)
        else:
            super().look(client)

    def end(self, client: httpx.Client) -> None:
        """Lift the distrust."""
        if self._place is not None and not self._is_lifted:
            self._is_lifted = self.asked(client, "POST", f"{self._place}/lift", "lift", json=_WHY) is not None

    def _distrust(self, client: httpx.Client) -> None:
        answer = self.asked(client, "POST", "/v1/distrusts", "distrust", json={"principal": self.key_id, **_WHY})
        if answer is not None:
            self._place = f"/v1/distrusts/{answer.json()['distrust_id']}"
            self._is_found = answer.json()["completed_at"] is not None

    def _look_in_vain(self, client: httpx.Client) -> None:
        if not self._is_found:
            completed = self.once(client, "POST", f"{self._place}/complete")
            self._is_found = completed is not None and completed.status_code == OK
        agent, mine = f"/v1/agents/{self.agent_id}", [each.memory_id for each in self.memories]
        for answer in (
            self.once(client, "GET", f"{agent}/memories/{self.dice.choice(mine)}"),
            self.once(client, "GET", f"{agent}/memories?limit=200"),
            self.once(client, "POST", f"{agent}/search", json={"text": f"{self.name} note", "limit": 20}),
        ):
            if answer is not None and answer.status_code in {OK, httpx.codes.NOT_FOUND}:
                self.looks += 1
                self.shown |= {each for each in mine if answer.status_code == OK and each in answer.text}
        time.sleep(_AGAIN_SECONDS)
