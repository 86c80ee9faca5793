"""Learning jobs: experience, lessons, skills, and the embedder's own: a stage of its training, a slice of a reindex."""

from datetime import timedelta

from memcore import ids
from memcore.company import dispatch_open
from memcore.errors import FineTuneRunActiveError
from memcore.experience import CompressionService
from memcore.finetune.service import FineTuneService
from memcore.jobs import (
    AppliedPayload,
    ChangesPayload,
    CompressPayload,
    Dead,
    Done,
    EvolvePayload,
    ExperiencePayload,
    FineTunePayload,
    LessonPayload,
    Outcome,
    ReindexPayload,
    SearchNotesPayload,
    Skipped,
)
from memcore.maintenance.changes import ChangesService
from memcore.maintenance.search_notes import SearchNotesService
from memcore.models.finetune import FineTunePlan
from memcore.models.memory import MemoryLevel, experience_refusal
from memcore.models.origin import OWN
from memcore.procedural.service import LearningService
from memcore.reindex import ReindexService
from memcore.skills.applications import ApplicationService
from memcore.skills.evolver import CycleService
from tasks.context import JobContext
from tasks.job import COUNT_LIMITS, COUNT_RETRY_DELAY, LONG_LIMITS, WRITE_LIMITS, Limits, job
from tasks.maintain import export_wiki


@job(ExperiencePayload, WRITE_LIMITS)
def record(payload: ExperiencePayload, job_context: JobContext) -> Outcome:
    """Record the experience once, however often its message comes."""
    agent_id, memory = payload.experience.agent_id, job_context.policy.memory
    level = job_context.ledger.agents.levels(payload.company, [agent_id]).get(agent_id, memory.level)
    if level is MemoryLevel.NONE:
        return Skipped(reason="level none: nothing is kept for this agent")
    refused = experience_refusal(level)
    if refused is not None:
        # A dead letter keeps it, to be replayed once the level is corrected.
        return Dead(reason=refused)
    made = payload.experience.model_copy(update={"origin": payload.origin or OWN})
    is_new = job_context.ledger.experiences.append(payload.company, made)
    # Registered, so that runs are scheduled; experience is compressed after each.
    job_context.ledger.agents.register(payload.company, [agent_id], interval=memory.consolidation.interval)
    return Done(facts={"recorded": int(is_new), "known": int(not is_new)})


@job(CompressPayload, LONG_LIMITS, needs=CompressionService, is_repeated=True)
def compress(payload: CompressPayload, service: CompressionService, job_context: JobContext) -> Outcome:
    """Compress raw experience for one slice of time, and dispatch the next slice behind whatever else waits."""
    ledger, agent_id = job_context.ledger, payload.agent_id
    if ledger.experiences.has_raw(payload.company, agent_id):
        # An older worker sends the message without its row.
        ledger.compressions.request_for(payload.company, agent_id)
    step = job_context.run(service.run(agent_id))
    if step.goes_on:
        key = ids.compression_id(company=payload.company, agent_id=agent_id)
        job_context.dispatcher.dispatch([ledger.compressions.item(payload.company, key)])
    if isinstance(step.outcome, Done) and step.outcome.facts.get("compressed"):
        export_wiki(agent_id, job_context)
    return step.outcome


@job(SearchNotesPayload, LONG_LIMITS, needs=SearchNotesService, is_repeated=True)
def write_notes(payload: SearchNotesPayload, service: SearchNotesService, job_context: JobContext) -> Outcome:
    """Write search notes for one slice of time, and dispatch the next slice behind whatever else waits."""
    step = job_context.run(service.run(payload.agent_id))
    if step.goes_on:
        key = ids.search_notes_id(company=payload.company, agent_id=payload.agent_id)
        job_context.dispatcher.dispatch([job_context.ledger.note_writing.item(payload.company, key)])
    return step.outcome


@job(ChangesPayload, LONG_LIMITS, needs=ChangesService, is_repeated=True)
def find_changes(payload: ChangesPayload, service: ChangesService, job_context: JobContext) -> Outcome:
    """Compare memories with older ones for one slice of time, and dispatch the next slice behind what else waits."""
    step = job_context.run(service.run(payload.agent_id))
    if step.goes_on:
        key = ids.changes_id(company=payload.company, agent_id=payload.agent_id)
        job_context.dispatcher.dispatch([job_context.ledger.change_finding.item(payload.company, key)])
    return step.outcome


@job(LessonPayload, LONG_LIMITS, needs=LearningService, is_repeated=True)
def extract_lesson(payload: LessonPayload, service: LearningService, job_context: JobContext) -> Outcome:
    """Extract the lesson, unless its row in the ledger says that it is done."""
    return job_context.run(service.extract_lesson(payload.lesson_id))


@job(EvolvePayload, LONG_LIMITS, needs=CycleService, is_repeated=True)
def evolve(payload: EvolvePayload, service: CycleService, job_context: JobContext) -> Outcome:
    """Create the cycle's row if it is missing, then carry it out; the row decides, the message only triggers."""
    window = timedelta(days=job_context.policy.memory.procedural.evolver.window_days)
    job_context.ledger.skill_cycles.plan(
        payload.company, origin=payload.origin, planned_at=payload.planned_at, window=window
    )
    return job_context.run(service.run(payload.cycle_id, on_progress=job_context.on_progress))


@job(AppliedPayload, COUNT_LIMITS, needs=ApplicationService, retry_after=COUNT_RETRY_DELAY)
def count(payload: AppliedPayload, service: ApplicationService, job_context: JobContext) -> Outcome:
    """Count the application once, however often its message comes."""
    is_new = job_context.run(service.count(payload))
    return Done(facts={"counted": int(is_new), "passed_over": int(not is_new)})


#: A job fills for one slice of time, and dispatches the next.
_SLICE_LIMITS = Limits(soft=timedelta(minutes=10), hard=timedelta(minutes=11), attempts=5)

#: A stage has a shorter limit of its own.
_STAGE_LIMITS = Limits(soft=timedelta(hours=12), hard=timedelta(hours=12, minutes=5), attempts=5)


@job(ReindexPayload, _SLICE_LIMITS, needs=ReindexService, is_repeated=True)
def reindex(_payload: ReindexPayload, service: ReindexService, job_context: JobContext) -> Outcome:
    """Reindex for one slice of time, and dispatch the next slice behind whatever else waits."""
    done = job_context.run(service.run(on_progress=job_context.on_progress))
    if done.goes_on:
        dispatch_open(job_context.dispatcher, job_context.ledger, job_context.company, ReindexPayload)
    return done.outcome


@job(FineTunePayload, _STAGE_LIMITS, needs=FineTuneService, is_repeated=True)
def finetune(payload: FineTunePayload, service: FineTuneService, job_context: JobContext) -> Outcome:
    """Create the run's row if it is missing, carry out its next stage, and dispatch the following one."""
    if payload.plan is not None:
        plan = FineTunePlan.model_validate(payload.plan).model_dump(mode="json")
        try:
            job_context.ledger.finetune_runs.start(payload.company, plan, run_id=payload.run_id)
        except FineTuneRunActiveError as error:
            return Skipped(reason=str(error))
    step = service.run(payload.run_id, on_progress=job_context.on_progress)
    if step.goes_on:
        dispatch_open(job_context.dispatcher, job_context.ledger, job_context.company, FineTunePayload)
    return step.outcome
