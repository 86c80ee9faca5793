"""One agent's export, from both tiers to files that are all there, or to none that anybody sees."""

import asyncio
import logging
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from itertools import islice

from memcore.wiki.agent_folder import AgentFolder
from memcore.wiki.agent_index import AgentIndex
from memcore.wiki.events import WikiEvent
from memcore.wiki.pages import compressed_page, raw_page
from memcore.wiki.place_name import place_name
from memcore.wiki.tiers import Tiers
from memcore.wiki.wiki_export import WikiExport

#: Files that may fail before the rest is not tried any more: nothing of it will be published, and a full disk fails
#: for each.
MAX_FAILURES = 10

#: Files written at a time: a disk that is told to sync eight files does it in a fourth of the time of one by one.
WRITERS = 8

_log = logging.getLogger(__name__)


class AgentExport:
    """Write an agent's files into its folder, and publish it when every one of them is there.

    Args:
        agent_id: whose.
        tiers: what there is to write.
        folder: where to; entered.
        at: the time that the index tells.
    """

    def __init__(self, agent_id: str, tiers: Tiers, folder: AgentFolder, *, at: datetime) -> None:
        self._agent_id = agent_id
        self._tiers = tiers
        self._folder = folder
        self._at = at
        self._index = AgentIndex()
        self._failed = 0

    async def run(self) -> WikiExport:
        """Write and publish.

        Raises:
            MemoryRetrievalError, MemoryConnectionError: the store or the ledger cannot be read.
            OSError: the index could not be written, or the folder not be put in place.
        """
        raw_ids: set[str] = set()
        async for experiences in self._tiers.raw(self._agent_id):
            written = await self._write(("raw", each.id, raw_page(each)) for each in experiences)
            raw_ids |= written
            self._index.add_raw(each for each in experiences if each.id in written)
        compressed = 0
        async for entries in self._tiers.compressed(self._agent_id):
            pages = (("wiki", entry.id, compressed_page(entry, raw_ids=raw_ids)) for entry in entries)
            written = await self._write(pages)
            compressed += len(written)
            self._index.add_compressed(entry for entry in entries if entry.id in written)
        export = WikiExport(
            agent_id=self._agent_id, raw_count=len(raw_ids), compressed_count=compressed, failed_count=self._failed
        )
        if self._failed:
            reason = f"{self._failed} files could not be written; the export before stays"
            return export.model_copy(update={"reason": reason})
        await asyncio.to_thread(self._publish, self._index.page(export, at=self._at))
        return export.model_copy(update={"is_published": True})

    def _publish(self, index: bytes) -> None:
        self._folder.add("index.md", index)
        self._folder.publish()

    async def _write(self, files: Iterable[tuple[str, str, bytes]]) -> set[str]:
        # In threads: a disk that is slow to answer must not hold up the other jobs of this process.
        return await asyncio.to_thread(self._write_now, files)

    def _write_now(self, files: Iterable[tuple[str, str, bytes]]) -> set[str]:
        written: set[str] = set()
        with ThreadPoolExecutor(WRITERS) as writers:
            for batch in _batches(files):
                if self._failed >= MAX_FAILURES:
                    break
                done = [key for key in writers.map(self._write_one, batch) if key is not None]
                self._failed += len(batch) - len(done)
                written.update(done)
        return written

    def _write_one(self, file: tuple[str, str, bytes]) -> str | None:
        folder, key, content = file
        try:
            self._folder.add(f"{folder}/{place_name(key)}.md", content)
        except OSError as error:
            about = {"agent_id": self._agent_id, "id": key, "error": type(error).__name__}
            _log.warning(WikiEvent.FILE_FAILED, extra=about)
            return None
        return key


def _batches(files: Iterable[tuple[str, str, bytes]]) -> Iterator[list[tuple[str, str, bytes]]]:
    left = iter(files)
    while batch := list(islice(left, WRITERS)):
        yield batch
