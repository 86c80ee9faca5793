"""An engine that publishes facts and retracts every third, and prints each id once it has it.

Usage: python publisher.py AGENT HOW_MANY, with what the place says as JSON on the input.
"""

import asyncio
import os
import sys

from support.hashing_embedder import HashingEmbedder
from support.publications import COMPANY, reported

from memcore.backends.mem0.backend import Mem0Backend
from memcore.backends.mem0.config import Mem0Config
from memcore.embedding.bm25 import Bm25Encoder


def say(*words: str) -> None:
    """Write a whole line at once, past any buffer: this process may be killed."""
    os.write(1, (" ".join(words) + "\n").encode())


async def main(agent_id: str, number: int, place: Mem0Config) -> None:
    backend = Mem0Backend(place, company=COMPANY, embedder=HashingEmbedder(), encoder=Bm25Encoder())
    await backend.connect()
    for n in range(number):
        memory_id = await backend.publish(agent_id, reported(f"fact {n} of {agent_id}"))
        say("published", memory_id)
        if n % 3 == 2:
            say("retracting", memory_id)
            assert await backend.retract(agent_id, memory_id)
            say("retracted", memory_id)
    await backend.disconnect()


if __name__ == "__main__":
    given = Mem0Config.model_validate_json(sys.stdin.read())
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), given))
