"""Import memories with creation times of their own, and export an agent's memories: run it beside `memtend up`.

`memtend import FILE` and `memtend export FILE` do the same on the command line.
"""

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path

from memcore import BatchBackend, MemoryClient, Settings, create_engine_backend, effective_policy
from memcore.records import Where

LINES = """\
{"agent_id": "archivist", "category": "semantic", "content": "The vault is open.", "created_at": "2025-03-01T09:00:00Z"}
{"agent_id": "archivist", "category": "social", "content": "Ada likes short answers.", "metadata": {"tags": ["people"]}}
"""


def import_file(settings: Settings, file: Path) -> int:
    """Send every line of a file through the queue and wait until the memories are stored; return how many lines."""
    with MemoryClient.from_settings(settings) as client:
        records = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        receipt = client.import_many(records)  # all are validated before the first is sent
        for status in client.wait(receipt.job_ids, timeout_seconds=60):
            if status.state != "done":
                raise SystemExit(f"{status.state}: {status.reason}")
    return len(records)


async def exported(settings: Settings, agent_id: str) -> list[str]:
    """Return an agent's memories as lines that can be imported again, oldest first."""
    backend = create_engine_backend(settings, effective_policy(settings.policy_path))
    assert isinstance(backend, BatchBackend)  # noqa: S101  # mem0 and composite are
    await backend.connect()
    lines: list[str] = []
    cursor: str | None = None
    while True:
        page = await backend.scan(Where(agent_id=agent_id), cursor=cursor)
        for record in page.records:
            fields = {"agent_id", "category", "namespace", "content", "metadata", "expires_at", "created_at"}
            lines.append(record.entry.model_dump_json(include=fields))
        cursor = page.cursor
        if cursor is None:
            break
    await backend.disconnect()
    return lines


def main() -> None:
    settings = Settings.load(os.environ)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "memories.jsonl")
        file.write_text(LINES, encoding="utf-8")
        print(f"imported {import_file(settings, file)} lines", file=sys.stderr)
    for line in asyncio.run(exported(settings, "archivist")):
        print(line)


if __name__ == "__main__":
    main()
