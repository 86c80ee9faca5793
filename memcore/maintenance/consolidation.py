"""The consolidation step: groups of old memories become summaries, one booking a summary."""

import logging
from collections.abc import AsyncIterator

from memcore.backends.where import Where
from memcore.ledger.syntheses import Syntheses
from memcore.ledger.synthesis import Synthesis, SynthesisState
from memcore.maintenance.attempt import Attempt, View
from memcore.maintenance.chunks import MAX_BOOKING
from memcore.maintenance.events import MaintenanceEvent
from memcore.maintenance.member import Member
from memcore.maintenance.pages import pages
from memcore.maintenance.part import Part
from memcore.maintenance.replacement import Chosen, Replacement, replace_by_summaries
from memcore.maintenance.strategy import ConsolidationStrategy
from memcore.maintenance.wait import Wait, wait_for

_log = logging.getLogger(__name__)


async def parts(view: View, strategy: ConsolidationStrategy) -> AsyncIterator[tuple[Where, Part]]:
    """Yield what stands behind each summary, with the filter that its members met; one category at a time."""
    eligibility = view.eligibility
    for category in eligibility.categories:
        where = eligibility.where(view.agent_id, category)
        if where is None:
            continue
        members: list[Member] = []
        async for page in pages(view.backend, where):
            members.extend(Member.of(record) for record in page if eligibility.allows(record))
        for part in strategy.parts(members):
            yield where, part


async def apply_consolidation(attempt: Attempt, strategy: ConsolidationStrategy, syntheses: Syntheses) -> Wait | None:
    """Replace each part by its summary; return what the night waits for, or None when nothing is left.

    A part whose summary needs a model that has not answered yet is written down, and the night comes back to it: no
    lease is held while a model thinks. A part that has shrunk to one memory since it was chosen stays as it is.

    Raises:
        ProviderError: the model's server refused; its parts stay as they are.
    """
    planned = syntheses.of_run(attempt.run.run_id)
    moved = (
        await _finish(attempt, strategy, syntheses, planned) if planned else await _begin(attempt, strategy, syntheses)
    )
    _log.info(
        MaintenanceEvent.STRATEGY_COMPLETED,
        extra={
            "agent_id": attempt.view.agent_id,
            "strategy": strategy.name,
            "removed": sum(each.booked.outgoing for each in moved),
            "summaries": sum(each.booked.incoming for each in moved),
        },
    )
    return wait_for(syntheses.of_run(attempt.run.run_id), now=attempt.view.now)


async def _begin(attempt: Attempt, strategy: ConsolidationStrategy, syntheses: Syntheses) -> list[Replacement]:
    """Replace what needs no model, and write down what does."""
    moved: list[Replacement] = []
    left: list[Synthesis] = []
    async for where, together in _together(parts(attempt.view, strategy)):
        chosen = [Chosen(ids=part.ids, kept_id=part.kept.id if part.kept else None) for part in together]
        found = await replace_by_summaries(attempt, strategy, where, chosen)
        moved.extend(found)
        for part, choice, became in zip(together, chosen, found, strict=True):
            if became.unanswered:
                left.append(
                    Synthesis(
                        run_id=attempt.run.run_id,
                        place=len(left),
                        company=attempt.view.company,
                        agent_id=attempt.view.agent_id,
                        category=part.members[0].category,
                        source_ids=became.unanswered,
                        kept_id=choice.kept_id,
                    )
                )
    syntheses.plan(left)
    return moved


async def _together(found: AsyncIterator[tuple[Where, Part]]) -> AsyncIterator[tuple[Where, list[Part]]]:
    """Yield the parts of one filter in rounds of at most a booking's size: each round is one way to the store."""
    where: Where | None = None
    together: list[Part] = []
    async for its, part in found:
        size = sum(len(each.members) for each in together)
        if where is not None and (its is not where or size + len(part.members) > MAX_BOOKING):
            yield where, together
            together = []
        where = its
        together.append(part)
    if where is not None:
        yield where, together


async def _finish(
    attempt: Attempt, strategy: ConsolidationStrategy, syntheses: Syntheses, planned: tuple[Synthesis, ...]
) -> list[Replacement]:
    """Replace the parts whose answers have come."""
    moved: list[Replacement] = []
    for part in planned:
        if part.state is not SynthesisState.READY:
            continue
        where = attempt.view.eligibility.where(attempt.view.agent_id, part.category)
        found = Replacement()
        if where is not None:
            chosen = Chosen(ids=frozenset(part.source_ids), kept_id=part.kept_id)
            (found,) = await replace_by_summaries(attempt, strategy, where, [chosen])
        moved.append(found)
        if found.unanswered:
            # Some were pinned, changed or removed since the model was asked: it is asked about what is left.
            syntheses.want(part.run_id, part.place, source_ids=found.unanswered)
        else:
            syntheses.turn(part.run_id, part.place, SynthesisState.DONE)
    return moved
