"""An agent's memory, in ten lines: run it beside `memtend up`."""

import asyncio
import os

from memcore import MemoryCategory, MemoryClient, MemoryQuery, MemoryStoreRequest
from memcore.backends.factory import create_engine_backend
from memcore.config.loader import effective_policy
from memcore.config.settings import Settings


async def main() -> None:
    settings = Settings.load(os.environ)  # finds the stack that `memtend up` started
    with MemoryClient.from_settings(settings) as client:
        note = MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content="The payment queue pages at 500 messages.")
        receipt = client.store("oncall", note)  # returns once the broker has it on disk
        for stored in client.wait(receipt.job_ids, timeout_seconds=30):  # needed only to read it at once
            if stored.state != "done":
                raise SystemExit(f"{stored.state}: {stored.reason}")

    memory = create_engine_backend(settings, effective_policy(settings.policy_path))
    await memory.connect()
    for found in await memory.retrieve("oncall", MemoryQuery(text="when does payments page?", limit=3)):
        print(f"{found.relevance_score:.3f}  {found.content}")
    await memory.disconnect()


asyncio.run(main())
