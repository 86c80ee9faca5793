"""Deploys a checkpoint, rolls it back, deletes it: a person decides, and the reindexing worker carries it out.

The one row ``pointer`` names the active collection. A deploy begins a reindex whose target names the checkpoint; its
switch changes collection, embedder and fusion weight together. The caller dispatches the reindex, or else the sweep.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from memcore import errors
from memcore.backends.factory import followed_row
from memcore.backends.fusion import default_dense_weight
from memcore.backends.mem0.reindex_target import ReindexTarget
from memcore.config.policy import Policy
from memcore.config.settings import Settings
from memcore.embedding.bm25 import Bm25Encoder, TermWeighting
from memcore.embedding.protocol import Embedder
from memcore.embedding.selection import EmbedderChoice
from memcore.finetune.checkpoint import choice_of, delete_files, fusion_weight_of, require_whole
from memcore.ledger.collections import Checkpoint, CollectionPointer, CollectionUse, ServedCollection, Verdict
from memcore.ledger.ledger import Ledger
from memcore.ledger.organization.audit import Confirmation
from memcore.models.base import Frozen
from memcore.reindex import ReindexPlanning
from memcore.telemetry.events import Event


class ActiveEmbedderSnapshot(Frozen):
    """The embedder that serves at one moment, and the collection that it filled.

    Attributes:
        model: its folder, or a server's name for it; without either, its own name.
        checkpoint_id: of the checkpoint that was deployed; None for any other embedder.
        dense_weight: share of the vectors in a weighted fusion; None leaves it to the policy.
    """

    provider: str
    model: str
    checkpoint_id: str | None
    dims: int
    collection: str
    dense_weight: float | None


def active_embedder(ledger: Ledger, company: str) -> ActiveEmbedderSnapshot:
    """Return the embedder that serves a company. Raises MemoryNotFoundError before anybody has connected."""
    pointer = ledger.collection_pointers.get(company)
    if pointer is None:
        raise errors.MemoryNotFoundError("no embedder serves yet: nobody has connected to the store")
    served = pointer.current
    return ActiveEmbedderSnapshot(
        provider=served.choice.provider,
        model=served.choice.model or served.identity.name,
        checkpoint_id=served.checkpoint_id,
        dims=served.identity.dims,
        collection=served.name,
        dense_weight=served.dense_weight,
    )


_log = logging.getLogger(__name__)

#: Why a checkpoint in such use is not deployed.
_IN_USE = {
    CollectionUse.SERVES: "it serves already",
    CollectionUse.FILLING: "it is being deployed: see `memtend reindex --status`",
    CollectionUse.KEPT: "its collection is kept: `memtend finetune rollback` lets it serve again",
}


class CheckpointDeployment:
    """Deploys, rolls back and deletes a company's checkpoints.

    ``dense_weight`` is the policy's share of the vectors; None leaves it to the kind of the embedder.
    """

    def __init__(
        self,
        reindex_target: ReindexTarget,
        ledger: Ledger,
        *,
        company: str,
        load: Callable[[EmbedderChoice], Embedder],
        dense_weight: float | None = None,
    ) -> None:
        self._planning = ReindexPlanning(reindex_target, ledger, company=company)
        self._ledger = ledger
        self._company = company
        self._load = load
        self._dense_weight = dense_weight

    async def deploy(
        self, checkpoint_id: str, confirmation: Confirmation, *, is_forced: bool = False
    ) -> CollectionPointer:
        """Begin to fill a collection with the checkpoint, if forced against the gate's verdict.

        Raises CheckpointNotFoundError; CheckpointConflictError when the gate did not promote it, it is in use, a
        reindex is under way, or an old collection is kept; CheckpointCorruptError when its folder is gone, or not what
        was registered; MemoryConfigError when this machine lacks what its embedder needs.
        """
        with self._logged(Event.MEMORY_CHECKPOINT_DEPLOY_BEGUN, Event.MEMORY_CHECKPOINT_DEPLOY_FAILED, checkpoint_id):
            checkpoint = self._found(checkpoint_id)
            is_promoted = checkpoint.verdict is Verdict.PROMOTED
            if not is_promoted and not is_forced:
                said = "rejected" if checkpoint.verdict is Verdict.REJECTED else "could not judge"
                found = f"the gate {said} {checkpoint_id}: {checkpoint.reason}"
                raise errors.CheckpointConflictError(f"{found}; --force deploys it")
            pointer = self._ledger.collection_pointers.get(self._company)
            if pointer is not None and (use := pointer.use_of(checkpoint)) is not None:
                raise errors.CheckpointConflictError(f"{checkpoint_id} cannot be deployed: {_IN_USE[use]}")
            with _conflict(errors.CheckpointConflictError):
                current = self._planning.ready().current
            choice = choice_of(checkpoint)
            await asyncio.to_thread(require_whole, checkpoint)
            embedder = await asyncio.to_thread(self._load, choice)
            action = "finetune.deploy" if is_promoted else "finetune.deploy_forced"
            usual = default_dense_weight(embedder.kind) if self._dense_weight is None else self._dense_weight
            with _conflict(errors.CheckpointConflictError):
                return await self._planning.begin(
                    embedder,
                    choice=choice,
                    encoder=Bm25Encoder(weighting=TermWeighting(current.term_weighting)),
                    text_template=current.text_template,
                    dense_weight=fusion_weight_of(checkpoint, at_least=usual),
                    checkpoint_id=checkpoint_id,
                    note=confirmation.note(action, checkpoint_id),
                )

    async def rollback(self, checkpoint_id: str | None, confirmation: Confirmation) -> CollectionPointer:
        """Begin to bring the previous collection, of this checkpoint if one is named, up to date to serve again.

        Raises CheckpointNotFoundError; CheckpointRollbackUnavailableError when nothing is kept, or not this checkpoint,
        or a reindex is under way; CheckpointRollbackCorruptError when the embedder of what is kept is not what it was.
        """
        with self._logged(
            Event.MEMORY_CHECKPOINT_ROLLBACK_BEGUN, Event.MEMORY_CHECKPOINT_ROLLBACK_FAILED, checkpoint_id
        ):
            wanted = None if checkpoint_id is None else self._found(checkpoint_id)
            pointer = self._ledger.collection_pointers.get(self._company)
            if pointer is not None and pointer.phase is not None:
                raise errors.CheckpointRollbackUnavailableError(
                    "a reindex is under way: `memtend reindex --cancel` ends one that has not switched"
                )
            kept = None if pointer is None else pointer.previous
            if kept is None:
                raise errors.CheckpointRollbackUnavailableError("no old collection is kept to go back to")
            if wanted is not None and not kept.is_of(wanted):
                raise errors.CheckpointRollbackUnavailableError(
                    f"{kept.checkpoint_id or kept.identity.name} is kept, and not {checkpoint_id}: "
                    f"`memtend finetune deploy {checkpoint_id}` fills a new collection"
                )
            await asyncio.to_thread(self._require_as_it_was, kept)
            with _conflict(errors.CheckpointRollbackUnavailableError):
                note = confirmation.note("finetune.rollback", kept.checkpoint_id or kept.name)
                return await self._planning.go_back(pointer, note=note)

    async def delete(self, checkpoint_id: str, confirmation: Confirmation) -> Checkpoint:
        """Delete a checkpoint's row, then its folder, and return what it was.

        Raises CheckpointNotFoundError, and CheckpointConflictError when its collection serves, is filled, or is kept.
        """
        note = confirmation.note("finetune.delete", checkpoint_id)
        with self._logged(Event.MEMORY_CHECKPOINT_DELETED, Event.MEMORY_CHECKPOINT_DELETE_FAILED, checkpoint_id):
            gone = self._ledger.checkpoints.remove(self._company, checkpoint_id, note=note)
        if not await asyncio.to_thread(delete_files, gone):
            _log.warning(
                Event.MEMORY_CHECKPOINT_FILES_LEFT, extra={"company": self._company, "checkpoint_id": checkpoint_id}
            )
        return gone

    def _found(self, checkpoint_id: str) -> Checkpoint:
        found = self._ledger.checkpoints.get(self._company, checkpoint_id)
        if found is None:
            raise errors.CheckpointNotFoundError
        return found

    def _require_as_it_was(self, kept: ServedCollection) -> None:
        """Check that a kept collection's embedder still works: after the switch it would be too late."""
        try:
            if kept.checkpoint_id is not None:
                require_whole(self._found(kept.checkpoint_id))
            embedder = self._load(kept.choice)
        except (errors.CheckpointNotFoundError, errors.CheckpointCorruptError, errors.MemoryConfigError) as error:
            raise errors.CheckpointRollbackCorruptError(f"{kept.name} cannot serve again: {error}") from error
        known = kept.identity
        if (embedder.name, embedder.kind, embedder.dims) != (known.name, known.kind, known.dims):
            raise errors.CheckpointRollbackCorruptError(
                f"{kept.name} cannot serve again: it holds vectors of {known.label}, and {kept.choice.provider!r} is "
                f"{embedder.name} ({embedder.kind}, {embedder.dims} dimensions) here"
            )

    @contextmanager
    def _logged(self, done: Event, failed: Event, checkpoint_id: str | None) -> Iterator[None]:
        about = {"company": self._company, "checkpoint_id": checkpoint_id}
        try:
            yield
        except errors.MemoryError as error:
            _log.warning(failed, extra={**about, "error": type(error).__name__})
            raise
        _log.info(done, extra=about)


@contextmanager
def _conflict(kind: type[errors.CheckpointConflictError | errors.CheckpointRollbackUnavailableError]) -> Iterator[None]:
    # A refused reindex is a conflict of states, and no invalid value of the caller.
    try:
        yield
    except errors.MemoryInputError as error:
        raise kind(error.problem) from error


def create_deployment(
    settings: Settings, policy: Policy, ledger: Ledger, reindex_target: ReindexTarget
) -> CheckpointDeployment:
    """Return the deployment of the company's checkpoints; the caller closes the reindex target."""
    return CheckpointDeployment(
        reindex_target,
        ledger,
        company=settings.company,
        load=followed_row(settings, policy).load,
        dense_weight=policy.memory.retrieval.dense_weight,
    )
