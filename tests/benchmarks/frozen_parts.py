"""Freeze store, ledger and broker in turn, and print how long each call that reads takes, and what it answers.

``python -m benchmarks.frozen_parts`` in ``tests``, with MEMTEND_TEST_POSTGRES_URL naming a PostgreSQL server. Each call
is made alone, with every circuit breaker closed; ``second`` is the same call made again at once.
"""

import asyncio
import sys
import tempfile
from pathlib import Path

from support.frozen_parts import Answered, FrozenParts, ask, frozen_parts, reading_api, reading_calls, until_answered
from support.ledger_records import postgres_database
from support.postgres_server import postgres_server
from support.store_servers import store_server

from memcore.client.async_client import AsyncMemoryClient
from memcore.errors import MemoryConnectionError

#: Seconds; a call that was faster has opened no circuit breaker.
_QUICK = 0.5


async def _walk(parts: FrozenParts) -> None:
    sys.stdout.write("| part | call | first, s | second, s | answer | says |\n|---|---|---|---|---|---|\n")
    async with reading_api(parts) as (api, client, memory_id):
        for part, proxy in parts.proxies.items():
            for name, call in reading_calls(api, memory_id).items():
                with proxy.frozen():
                    first, second = await ask(client, name, *call), await ask(client, name, *call)
                _print(part, first, second)
                if max(first.seconds, second.seconds) > _QUICK:
                    await until_answered(client)
            with proxy.frozen():
                await _enqueue(part, parts)
            await until_answered(client)


def _print(part: str, first: Answered, second: Answered) -> None:
    named = ", ".join(each for each in ("store", "ledger", "broker") if f'"{each}"' in first.body)
    line = f"| {part} | {first.call} | {first.seconds:.2f} | {second.seconds:.2f} | {first.status} | {named} |\n"
    sys.stdout.write(line)
    sys.stdout.flush()


async def _enqueue(part: str, parts: FrozenParts) -> None:
    client = AsyncMemoryClient.from_settings(parts.settings)
    loop = asyncio.get_running_loop()
    began, said = loop.time(), "accepted"
    try:
        await client.store("ada", {"content": "It rains.", "category": "semantic"})
    except MemoryConnectionError as error:
        said = f"{type(error).__name__}, part {error.part}"
    sys.stdout.write(f"| {part} | client.store | {loop.time() - began:.2f} | | {said} | |\n")
    await client.close()


def main() -> None:
    """Walk over an installation in a folder of its own."""
    with (
        tempfile.TemporaryDirectory() as folder,
        store_server(Path(folder) / "store") as store,
        postgres_server() as server,
        postgres_database(server) as url,
        frozen_parts(Path(folder), store=store, ledger_url=url) as parts,
    ):
        asyncio.run(_walk(parts))


if __name__ == "__main__":
    main()
