"""Random histories of writers, runs and undos: nothing ever has more authority than the least of what it is made of.

But for what a person raises: that has what was decided, as long as it is, and nothing made of it has.
"""

import asyncio
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.fake_summarizer import FakeSummarizer
from support.ledger_records import copied_urls
from support.maintenance_fixture import AGENT, COMPANY, FILLER, SHARED_MEMORY, MaintenanceFixture
from support.proposals import ADA
from support.thorough import examples

from memcore.approvals import ApprovalService, EffectRegistry, MemoryRaising
from memcore.client.envelopes import ImportRecord, build_payload
from memcore.config.maintenance import ArchivalConfig, ConsolidationConfig, DualModeConfig
from memcore.config.policy import Policy
from memcore.errors import MemoryChannelError, MemoryInputError
from memcore.ids import new_id
from memcore.ingest import Ingestor
from memcore.memories import Memories
from memcore.models.approval import raise_proposal
from memcore.models.memory import MemoryCategory, MemoryQuery, MemoryStoreRequest
from memcore.models.origin import AUTHORITIES, Authority, Channel, Origin, Writer, authority, may_replace, writing_as
from memcore.records import MemoryRecord

TEXTS = (
    *("The queue pages at 500 messages.", "Note: the queue pages at 500 messages."),
    *("Mara wants fewer meetings.", f"The import fails at night. {FILLER}", f"The disk was full. {FILLER}"),
)


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step: a writer puts, imports, edits or supersedes, a run is due or undone, a person raises or lowers."""

    act: str
    channel: Channel = Channel.AGENT
    text: str = TEXTS[0]
    pick: int = 0


STEPS = st.builds(
    Step,
    act=st.sampled_from(
        [*("put", "put", "import", "supersede", "edit", "supersede", "forget"), "run", "run", "undo", "raise", "lower"]
    ),
    channel=st.sampled_from([Channel.PERSON, Channel.AGENT, Channel.TOOL, Channel.DOCUMENT]),
    text=st.sampled_from(TEXTS),
    pick=st.integers(0, 99),
)

POLICIES = st.builds(
    ConsolidationConfig,
    strategy=st.sampled_from(["dedupe", "simple", "condense", "llm"]),
    categories=st.just((MemoryCategory.EPISODIC,)),
    group_threshold=st.just(2),
    min_age_days=st.just(0),
    max_removed_fraction=st.just(1.0),
    archival=st.just(ArchivalConfig(enabled=True, age_threshold_days=1, dual_mode=DualModeConfig())),
)


@dataclass(kw_only=True)
class Model:
    """What each memory is made of, by its id; kept beside the product, of what the steps did."""

    world: MaintenanceFixture
    memories: Memories
    made_of: dict[str, frozenset[Channel]] = field(default_factory=dict)
    runs: list[str] = field(default_factory=list)
    raised: dict[str, tuple[str, Authority]] = field(default_factory=dict)

    async def play(self, step: Step) -> None:
        live = sorted((await self.world.live()).items())
        chosen = live[step.pick % len(live)][0] if live else None
        writer = Writer(principal=f"key of {step.channel}", limit=step.channel, usual=step.channel)
        with writing_as(writer):
            match step.act:
                case "put":
                    await self.put(step)
                case "import":
                    await self.load(step, writer)
                case "supersede" if chosen is not None:
                    await self.put(step, supersedes=(chosen,))
                case "edit" if chosen is not None:
                    before = self.made_of[chosen]
                    after = await self.memories.update(AGENT, chosen, content=f"{step.text} As of now.")
                    if after.id != chosen:
                        self.made_of[after.id] = before | {step.channel}
                case "forget" if chosen is not None:
                    forgotten = await self.memories.forget(AGENT, chosen)
                    self.runs += [forgotten.run_id] if forgotten.run_id else []
                case "undo" if self.runs:
                    await self.world.undo(self.runs[step.pick % len(self.runs)])
                case "run":
                    self.world.clock.turn(timedelta(days=2))
                    self.runs.append((await self.world.maintenance_run()).run_id)
                    # Nothing merges it away.
                    there = {memory_id for memory_id, _ in live}
                    raised = {memory_id for memory_id, _ in self.raised.values()}
                    assert (there & raised) <= (await self.world.live()).keys()
                case "raise" | "lower":
                    await self.decide(step, None if chosen is None else dict(live)[chosen])
        await self.check()

    async def decide(self, step: Step, chosen: MemoryRecord | None) -> None:
        """Raise a memory, or lower one."""
        if step.act == "raise" and chosen is not None:
            await self.propose(chosen, step)
        elif step.act == "lower" and self.raised:
            approval = sorted(self.raised)[step.pick % len(self.raised)]
            await self.approvals.undo(approval, ADA)
            del self.raised[approval]

    @property
    def approvals(self) -> ApprovalService:
        ledger = self.world.ledger
        effects = EffectRegistry([MemoryRaising(ledger.raised, company=COMPANY)])
        return ApprovalService(ledger.approvals, effects, company=COMPANY, lasts=timedelta(days=14))

    async def propose(self, record: MemoryRecord, step: Step) -> None:
        """Let a person raise a memory; a writer that is none cannot."""
        to = Authority.INSTRUCT if step.pick % 2 else Authority.INFORM
        entry = self.world.ledger.hidden.of(COMPANY).with_raised(record.entry)
        filed = raise_proposal(
            entry,
            Authority.INSTRUCT if to is Authority.INSTRUCT else Authority.INFORM,
            by="a test",
            policy=AUTHORITIES,
            made_of={},
        )
        approval = await self.approvals.propose(new_id(), filed)
        if step.channel is not Channel.PERSON:
            with pytest.raises(MemoryChannelError):
                await self.approvals.approve(approval.approval_id, ADA)
            return
        await self.approvals.approve(approval.approval_id, ADA)
        self.raised[approval.approval_id] = (record.entry.id, to)

    async def put(self, step: Step, *, supersedes: tuple[str, ...] = ()) -> None:
        request = MemoryStoreRequest(category=MemoryCategory.EPISODIC, content=step.text, supersedes=supersedes)
        before = {memory_id: each.entry.superseded_by for memory_id, each in (await self.world.live()).items()}
        entry = await self.memories.put(AGENT, request)
        for memory_id, _ in self.raised.values():
            if memory_id in supersedes and AUTHORITIES[step.channel] is Authority.REFERENCE:
                assert (await self.world.live())[memory_id].entry.superseded_by == before[memory_id]
        # Repeated by a copy that a run kept, it is that copy.
        self.made_of.setdefault(entry.id, frozenset({step.channel}))

    async def load(self, step: Step, writer: Writer) -> None:
        """Import a line that claims what it may and what it may not."""
        claimed = Origin(channels=(tuple(Channel)[step.pick % len(Channel)],), principals=("of a file",))
        record = ImportRecord(
            agent_id=AGENT, category=MemoryCategory.EPISODIC, content=f"{step.text} On file.", origin=claimed
        )
        try:
            origin = record.stamped(writer)
        except MemoryChannelError:
            assert not writer.may_claim(*claimed.channels)
            return
        item = build_payload(AGENT, record.request(), company=COMPANY, sent_at=self.world.clock(), origin=origin)
        backend, ledger = self.world.backend, self.world.ledger
        await Ingestor.by_policy(backend, ledger, company=COMPANY, policy=Policy()).write([item])
        self.made_of.setdefault(item.id, frozenset(claimed.channels))

    async def check(self) -> None:
        live = await self.world.live()
        archived = self.world.ledger.archive.search(COMPANY, AGENT, MemoryQuery(limit=1000))
        every = [*live.values(), *(each.record for each in archived), *self.world.all_journaled().values()]
        self.learn(every)
        hidden = self.world.ledger.hidden.of(COMPANY)
        for record in every:
            decided = [to.rank for memory_id, to in self.raised.values() if memory_id == record.entry.id]
            least = min(AUTHORITIES[channel].rank for channel in self.made_of[record.entry.id])
            entry = hidden.with_raised(record.entry)
            assert authority(entry.origin, AUTHORITIES, entry.raised).rank == max([least, *decided])
            origin = record.entry.origin
            assert origin is not None
            assert frozenset(origin.channels) == self.made_of[record.entry.id]
            for source in record.lineage.summary_of:
                least = min(AUTHORITIES[channel].rank for channel in self.made_of[source])
                assert authority(origin, AUTHORITIES).rank <= least
        for record in live.values():
            successor = live.get(record.entry.superseded_by or "")
            if successor is not None:
                # As if neither was raised.
                assert may_replace(successor.entry.origin, record.entry.origin, AUTHORITIES)

    def learn(self, records: Iterable[MemoryRecord]) -> None:
        waiting = [each for each in records if each.entry.id not in self.made_of]
        for record in sorted(waiting, key=lambda each: each.lineage.depth):
            sources = [self.made_of[each] for each in record.lineage.summary_of]
            assert sources, "a memory that no step made, and that is made of none"
            self.made_of[record.entry.id] = frozenset[Channel]().union(*sources)
            assert len({min(AUTHORITIES[each].rank for each in source) for source in sources}) == 1


@given(policy=POLICIES, history=st.lists(STEPS, min_size=4, max_size=14))
@settings(
    max_examples=examples(15),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_no_history_gives_a_memory_more_authority_than_what_it_is_made_of(
    ledger_template: Path, tmp_path: Path, policy: ConsolidationConfig, history: list[Step]
) -> None:
    parent = SHARED_MEMORY if SHARED_MEMORY.is_dir() else tmp_path
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        world = MaintenanceFixture(copied_urls(ledger_template, Path(folder) / "ledger"), policy)
        world.model = FakeSummarizer()
        try:
            asyncio.run(_played(world, history))
        finally:
            world.ledger.close()


async def _played(world: MaintenanceFixture, history: list[Step]) -> None:
    await world.backend.connect()
    memories = Memories(world.backend, world.ledger, company=COMPANY, policy=Policy(), clock=world.clock)
    model = Model(world=world, memories=memories)
    for step in history:
        try:
            await model.play(step)
        except MemoryInputError:
            await model.check()


async def test_an_agents_merges_and_rewordings_of_a_tools_text_stay_the_tools(world: MaintenanceFixture) -> None:
    """Laundering as it is tried: true notes beside it, repetition, rewording, shortening, and all of it again."""
    world.policy = world.policy.model_copy(update={"min_age_days": 0, "group_threshold": 2})
    memories = Memories(world.backend, world.ledger, company=COMPANY, policy=Policy(), clock=world.clock)
    await world.backend.connect()
    model = Model(world=world, memories=memories)
    for number, text in enumerate(TEXTS):
        for channel in (Channel.TOOL, Channel.AGENT, Channel.PERSON):
            await model.play(Step(act="put", channel=channel, text=f"{text} {number} {channel}. {FILLER}"))
    for _ in range(3):
        await model.play(Step(act="run"))
        for memory_id, record in sorted((await world.live()).items()):
            assert record.entry.origin is not None
            if Channel.TOOL in record.entry.origin.channels:
                with writing_as(Writer(limit=Channel.PERSON)):
                    text = f"Reworded. {record.entry.content}"[:4_000]
                    after = await memories.update(AGENT, memory_id, content=text)
                model.made_of[after.id] = model.made_of[memory_id] | {Channel.AGENT}
        await model.check()
    summaries = await world.summaries()
    by_authority = {authority(each.entry.origin, AUTHORITIES) for each in summaries}
    assert len(by_authority) > 1, "nothing was merged, and so nothing was tried"
    tainted = {each.entry.id for each in (await world.live()).values() if str(Channel.TOOL) in each.entry.content}
    assert tainted
    for memory_id in tainted:
        assert Channel.TOOL in model.made_of[memory_id]


@pytest.mark.parametrize("strategy", ["dedupe", "simple"])
async def test_what_a_person_has_raised_is_merged_with_nothing_until_it_is_lowered(
    world: MaintenanceFixture, strategy: str
) -> None:
    world.policy = world.policy.model_copy(update={"min_age_days": 0, "group_threshold": 2, "strategy": strategy})
    memories = Memories(world.backend, world.ledger, company=COMPANY, policy=Policy(), clock=world.clock)
    await world.backend.connect()
    model = Model(world=world, memories=memories)
    for text in (TEXTS[0], TEXTS[1], f"{TEXTS[0]} {FILLER}", f"{TEXTS[1]} {FILLER}"):
        await model.play(Step(act="put", channel=Channel.TOOL, text=text))
    for memory_id in sorted(await world.live()):
        record = (await world.live())[memory_id]
        with writing_as(Writer(principal="p", limit=Channel.PERSON)):
            await model.propose(record, Step(act="raise", channel=Channel.PERSON))
    await model.play(Step(act="run"))
    assert len(await world.live()) == len(model.raised) == 4
    for _ in range(4):
        await model.play(Step(act="lower"))
    await model.play(Step(act="run"))
    assert len(await world.live()) < 4
