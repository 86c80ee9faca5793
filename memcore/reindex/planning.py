"""A person's commands for a reindex: begin, go back, cancel, drop the old collection."""

from memcore.backends.factory import followed_row, mem0_config_of
from memcore.backends.mem0.collection import served
from memcore.backends.mem0.reindex_target import ReindexTarget
from memcore.backends.mem0.writer import IndexedText, Indexing
from memcore.config.policy import Policy
from memcore.config.settings import Settings
from memcore.embedding.bm25 import Bm25Encoder
from memcore.embedding.protocol import Embedder
from memcore.embedding.selection import EmbedderChoice
from memcore.errors import MemoryBackendUnsupportedError, MemoryInputError
from memcore.ledger.embedders.collections import CollectionPointer, ReindexKind
from memcore.ledger.ledger import Ledger
from memcore.ledger.organization.audit import AuditNote


class ReindexPlanning:
    """Changes the pointer's row on a person's command; the worker does the rest."""

    def __init__(self, reindex_target: ReindexTarget, ledger: Ledger, *, company: str) -> None:
        self._reindex_target = reindex_target
        self._ledger = ledger
        self._company = company

    def ready(self) -> CollectionPointer:
        """Return the row if a new collection may be filled now.

        Raises MemoryInputError when a reindex is under way, when the old collection of the last one is still kept, or
        when nothing is stored yet.
        """
        pointer = self._pointer()
        if pointer.previous is not None:
            raise MemoryInputError(
                "reindex", f"{pointer.previous.name} is still kept for going back: `memtend reindex --drop-old` first"
            )
        self._require_none(pointer)
        return pointer

    async def begin(
        self,
        embedder: Embedder,
        *,
        choice: EmbedderChoice,
        encoder: Bm25Encoder,
        text_template: str,
        dense_weight: float | None = None,
        checkpoint_id: str | None = None,
        note: AuditNote | None = None,
    ) -> CollectionPointer:
        """Begin to fill a new collection with an embedder.

        Raises:
            MemoryInputError: as ``ready``; or this embedder serves already, or somebody was quicker.
            CheckpointNotFoundError: the checkpoint was deleted.
        """
        pointer = self.ready()
        generation = pointer.current.generation + 1
        target = served(
            # No company's name has a dot, so that no other company's collection has this name; and no two
            # collections ever have one name, so that dropping one never drops another.
            f"{pointer.current.name.partition('.')[0]}.{pointer.version + 1}",
            Indexing(embedder=embedder, encoder=encoder, text=IndexedText(text_template)),
            choice=choice,
            generation=generation,
            dense_weight=dense_weight,
            checkpoint_id=checkpoint_id,
        )
        if target.identity == pointer.current.identity:
            raise MemoryInputError("reindex", f"{target.identity.label} serves already: configure another embedder")
        total = await self._reindex_target.count(pointer.current.name)
        return self._ledger.collection_pointers.begin(
            self._company,
            version=pointer.version,
            target=target,
            kind=ReindexKind.FORWARD,
            total=total,
            note=note,
        )

    async def go_back(
        self, seen: CollectionPointer | None = None, *, note: AuditNote | None = None
    ) -> CollectionPointer:
        """Begin to bring the old collection up to date, to serve again.

        Raises MemoryInputError when none is kept, when a reindex is under way, or when somebody was quicker.
        """
        pointer = seen or self._pointer()
        if pointer.previous is None:
            raise MemoryInputError("reindex", "no old collection is kept to go back to")
        self._require_none(pointer)
        total = await self._reindex_target.count(pointer.current.name)
        return self._ledger.collection_pointers.begin(
            self._company,
            version=pointer.version,
            target=pointer.previous,
            kind=ReindexKind.BACK,
            total=total,
            note=note,
        )

    async def cancel(self) -> CollectionPointer:
        """End a reindex that has not switched, and drop the collection that it filled. Raises MemoryInputError."""
        pointer = self._pointer()
        target = pointer.target
        changed = (
            None if target is None else self._ledger.collection_pointers.cancel(self._company, version=pointer.version)
        )
        if target is None or changed is None:
            raise MemoryInputError("reindex", "none is under way that could be cancelled: see `--status`, try again")
        if changed.previous is None or changed.previous.name != target.name:
            await self._reindex_target.drop(target.name)
        return changed

    async def drop_old(self) -> CollectionPointer:
        """Drop the collection that is kept for going back, for good. Raises MemoryInputError."""
        pointer = self._pointer()
        self._require_none(pointer)
        if pointer.previous is None:
            raise MemoryInputError("reindex", "no old collection is kept")
        # The pointer first: nobody goes back to it any more.
        changed = self._ledger.collection_pointers.forget_previous(self._company, version=pointer.version)
        if changed is None:
            raise MemoryInputError("reindex", "somebody else changed it meanwhile: see `--status`, try again")
        await self._reindex_target.drop(pointer.previous.name)
        return changed

    def _pointer(self) -> CollectionPointer:
        pointer = self._ledger.collection_pointers.get(self._company)
        if pointer is None:
            raise MemoryInputError("reindex", "nothing is stored yet")
        return pointer

    def _require_none(self, pointer: CollectionPointer) -> None:
        if pointer.phase is not None:
            raise MemoryInputError("reindex", "one is under way: see `memtend reindex --status`")


def create_reindex_target(settings: Settings, policy: Policy) -> ReindexTarget:
    """Return the reindex target of the company's collections; MemoryBackendUnsupportedError where none has vectors."""
    if "mem0" not in policy.memory.backends.values():
        raise MemoryBackendUnsupportedError("reindex: no backend of this policy embeds anything")
    return ReindexTarget(mem0_config_of(settings), followed=followed_row(settings, policy))
