"""Corroboration: what independent principals have said word for word is raised by the policy, once, by one step.

No claim of a writer makes two of one: a principal is the keys that the policy names for it, and only what such a key
stored itself, of a tool or a document, counts. No summary, lesson, import, publication or edit of another's does. A
text that reads like an order is never raised so, and nothing is raised to ``instruct``: that a person decides.
"""

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import datetime, timedelta

from memcore import ids
from memcore.approvals import ApprovalService, EffectRegistry, MemoryRaising
from memcore.backends.protocol import BatchBackend, pages
from memcore.config.memory import CorroborationConfig
from memcore.ledger.erasure.hidden import Hidden
from memcore.ledger.ledger import Ledger
from memcore.models.approval import Witness, raise_proposal
from memcore.models.attributes import canonical_json
from memcore.models.origin import Authority, Channel, Origin, authority
from memcore.records import MemoryRecord, Where

#: The key of the policy that decides, as approvals and the audit name it.
KEY = "memory.origins.corroboration"

#: The channels that count: what an agent says may be what it read, and imports and publications are copies.
_COUNTED = frozenset({Channel.TOOL, Channel.DOCUMENT})

#: How long a proposal waits that is decided in the same call: until the next run, where a process has died between.
_LASTS = timedelta(days=30)


@dataclass(frozen=True, eq=False)
class Corroboration:
    """Raises what the principals of a company's policy have said independently of one another."""

    backend: BatchBackend
    ledger: Ledger
    config: CorroborationConfig
    _: KW_ONLY
    company: str
    authorities: Mapping[Channel, Authority]

    async def look(self, agent_id: str, *, now: datetime) -> None:
        """Raise the first of an agent's memories of each text that enough principals have said.

        A text is raised once: one whose approval was undone is not raised again. Raises MemoryStoreError,
        MemoryConnectionError.
        """
        if not self.config.least:
            return
        hidden, said = self.ledger.hidden.of(self.company), dict[str, list[MemoryRecord]]()
        async for page in pages(self.backend, Where(agent_id=agent_id)):
            for each in page:
                if self._counts(each, hidden, now):
                    said.setdefault(_said(each), []).append(each)
        for text, records in said.items():
            if chosen := independent(records, self.config):
                await self._raise(text, chosen)

    def _counts(self, record: MemoryRecord, hidden: Hidden, now: datetime) -> bool:
        """Return whether one principal has said it itself, and it stands, trusted as far as its channel."""
        entry, origin = record.entry, record.entry.origin
        if origin is None or len(origin.principals) != 1 or len(origin.channels) != 1:
            return False
        return (
            origin.channels[0] in _COUNTED
            and origin.principals[0] in self.config.holders
            and authority(origin, self.authorities) is Authority.REFERENCE
            and not (record.lineage.summary_of or record.supersedes)
            and entry.superseded_at is None
            and (entry.expires_at is None or entry.expires_at > now)
            and not hidden.hides_memory(entry)
            and not hidden.may_distrust(entry.agent_id, entry.id, origin)
        )

    async def _raise(self, text: str, chosen: tuple[MemoryRecord, ...]) -> None:
        first = chosen[0].entry
        names = sorted(self.config.holders[_origin(each).principals[0]] for each in chosen)
        filed = raise_proposal(first, Authority.INFORM, by=KEY, policy=self.authorities, made_of={})
        witnesses = [Witness(memory_id=each.entry.id, origin=_origin(each)).model_dump(mode="json") for each in chosen]
        filed = filed.model_copy(update={"details": filed.details | {"witnesses": witnesses}})
        raising = EffectRegistry([MemoryRaising(self.ledger.raised, company=self.company)])
        service = ApprovalService(self.ledger.approvals, raising, company=self.company, lasts=_LASTS)
        approval_id = ids.corroboration_id(company=self.company, agent_id=first.agent_id, said=text)
        await service.approve_by_policy(approval_id, filed, KEY, reason=f"said by {', '.join(names)}")


def independent(records: Iterable[MemoryRecord], config: CorroborationConfig) -> tuple[MemoryRecord, ...]:
    """Return the first memory of each principal, oldest first, of sources and sessions that no other of them names.

    Returns none where these are too few, or all of one channel.
    """
    seen, chosen = set[tuple[str, str]](), list[MemoryRecord]()
    for each in sorted(records, key=lambda each: (each.entry.created_at, each.entry.id)):
        session = each.lineage.session_id or each.entry.session_id
        named = {"principal": config.holders[_origin(each).principals[0]], "source": each.entry.metadata.source}
        by = {(what, name) for what, name in {**named, "session": session}.items() if name}
        if seen.isdisjoint(by):
            seen |= by
            chosen.append(each)
    is_enough = len(chosen) >= config.least and len({_origin(each).channels for each in chosen}) > 1
    return tuple(chosen) if is_enough else ()


def _origin(record: MemoryRecord) -> Origin:
    return Origin() if record.entry.origin is None else record.entry.origin


def _said(record: MemoryRecord) -> str:
    """Return what memories of one text share: white space and how accents are coded tell none apart."""
    entry = record.entry
    text = unicodedata.normalize("NFC", " ".join(entry.content.split()))
    about = (entry.category, entry.namespace, record.lineage.project_id, canonical_json(entry.attributes))
    return canonical_json([text, *about])
