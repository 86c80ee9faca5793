"""`serve` is killed again and again while engines store through it with Idempotency-Keys: each memory is kept once.

``MEMTEND_TEST_STORES=5000`` says how many; a few hundred when it is not set.
"""

import asyncio
import os
from collections import Counter
from collections.abc import Generator

import httpx
import pytest
from support.memories import new_agent
from support.running_stack import StackAddress, running_stack, wait_until
from support.serve_process import ServeProcess, serve_process

from memcore.ledger.access.keys import Verb
from ops.cli.session import ledger_of

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(1_800)]

#: Memories that are stored, by so many engines at once.
STORES, ENGINES = int(os.environ.get("MEMTEND_TEST_STORES", "300")), 8

#: How often the process is killed: after each such share of the stores.
KILLS = max(4, STORES // 250)

#: Pause of an engine before it sends again what was not answered, in seconds.
AGAIN_SECONDS = 0.1


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Generator[StackAddress]:
    with running_stack(tmp_path_factory.mktemp("serve") / "home") as address:
        yield address


class Engines:
    """Engines that send each store until it is answered, and remember all answers."""

    def __init__(self, serve: ServeProcess, token: str, agent: str) -> None:
        self.serve = serve
        self.agent = agent
        self.headers = {"Authorization": f"Bearer {token}"}
        self.answers: dict[int, list[tuple[str, str]]] = {}
        self.lost = 0
        self._next = iter(range(STORES))
        self._progress = asyncio.Condition()

    async def run(self) -> None:
        """Store all, and kill the process meanwhile."""
        engines = [asyncio.create_task(self._engine()) for _ in range(ENGINES)]
        for kill in range(1, KILLS + 1):
            await self._answered(kill * STORES // (KILLS + 1))
            self.serve.kill()
            await asyncio.to_thread(self.serve.start)
        await asyncio.gather(*engines)

    async def _answered(self, count: int) -> None:
        async with self._progress:
            await self._progress.wait_for(lambda: len(self.answers) >= count)

    async def _engine(self) -> None:
        async with httpx.AsyncClient(base_url=self.serve.url, headers=self.headers, timeout=600) as client:
            for number in self._next:
                await self._store(client, number)
                if number % 5 == 0:
                    # An engine that is not sure sends again what was answered.
                    await self._store(client, number)

    async def _store(self, client: httpx.AsyncClient, number: int) -> None:
        while True:
            try:
                answer = await client.post(
                    f"/v1/agents/{self.agent}/memories",
                    json={"content": f"Order {number} was paid."},
                    headers={"Idempotency-Key": f"order {number}"},
                )
            except httpx.TransportError:
                self.lost += 1
                await asyncio.sleep(AGAIN_SECONDS)
                continue
            assert answer.status_code == 202, answer.text
            (memory_id,) = answer.json()["memory_ids"]
            self.answers.setdefault(number, []).append((memory_id, answer.json()["operation_id"]))
            async with self._progress:
                self._progress.notify_all()
            return


def test_given_a_serve_that_is_killed_when_engines_send_again_then_each_memory_is_kept_once(
    stack: StackAddress,
) -> None:
    agent = new_agent("orders")
    with ledger_of(stack.settings) as ledger:
        verbs = (Verb.READ, Verb.WRITE)
        token = ledger.api_keys.create(stack.settings.company, name="engine", verbs=verbs, agents=[agent]).token
    with serve_process(stack.home, "--rate=1000000", "--burst=1000000") as serve:
        engines = Engines(serve, token, agent)
        asyncio.run(engines.run())

        assert engines.lost > 0, "no request was under way when the process died"
        assert engines.answers.keys() == set(range(STORES))
        # Whatever died between: each key has one answer.
        assert {len(set(said)) for said in engines.answers.values()} == {1}
        assert len({said[0][0] for said in engines.answers.values()}) == STORES

        with httpx.Client(base_url=serve.url, headers=engines.headers, timeout=600) as client:

            def contents() -> Counter[str]:
                seen = Counter[str]()
                for part in range(0, STORES, 500):
                    wanted = [engines.answers[number][0][0] for number in range(part, min(part + 500, STORES))]
                    for memory_id in wanted:
                        answer = client.get(f"/v1/agents/{agent}/memories/{memory_id}")
                        if answer.status_code == 200:
                            seen[answer.json()["content"]] += 1
                return seen

            wait_until(lambda: len(contents()) == STORES, what="all memories")
            assert contents() == Counter({f"Order {number} was paid.": 1 for number in range(STORES)})
            # And nothing beside them.
            found = client.post(f"/v1/agents/{agent}/search", json={"limit": 1_000}).json()["memories"]
            assert len(found) == min(STORES, 1_000)
        assert serve.stop() == 0
