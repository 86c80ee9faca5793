"""Every event that memtend logs, by name. ``extra`` holds ids, counts and names of errors, never memory text."""

from enum import StrEnum
from logging import DEBUG, ERROR, INFO, WARNING
from typing import Self

#: Fields that several events share.
_APPROVAL = "approval_id action risk state"
_RUN = "run_id agent_id kind attempt"
_MODEL = "agent_id run_id purpose"
_CHECKPOINT = "company checkpoint_id"
_AUTHOR = "agent_id seniority is_human author_name"
_QUESTIONS = "run_id chosen *"
_CYCLE = "company cycle_id"
_JOB = "job job_id"
_DELIVERY = "company endpoint webhook_event"
_SOURCE = "memory_id reason"
_CONFIDENCE = "agent_id confidence"


class Event(StrEnum):
    """A log event. Log it with the method of its level: ``log.info(Event.ERASURE_DONE, extra={...})``.

    Attributes:
        level: of the log record, as ``logging`` numbers it.
        fields: names that ``extra`` may have. ``*`` stands for counts by kind.
    """

    level: int
    fields: tuple[str, ...]

    def __new__(cls, name: str, level: int, fields: str) -> Self:
        """Return the member of this name."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.level, member.fields = level, tuple(fields.split())
        return member

    # Approvals.
    #: A proposal waits for a person.
    APPROVAL_FILED = "approval.filed", INFO, _APPROVAL
    #: A proposal was approved.
    APPROVAL_APPROVED = "approval.approved", INFO, _APPROVAL
    #: A proposal was rejected.
    APPROVAL_REJECTED = "approval.rejected", INFO, _APPROVAL
    #: An approved proposal was undone.
    APPROVAL_UNDONE = "approval.undone", INFO, _APPROVAL
    #: Nobody decided on proposals in time.
    APPROVAL_EXPIRED = "approval.expired", INFO, "company count"
    #: What was decided is carried out, or taken back.
    APPROVAL_SETTLED = "approval.settled", INFO, _APPROVAL
    #: An effect failed; the sweep, or the next approve, tries again.
    APPROVAL_UNSETTLED = "approval.unsettled", WARNING, f"{_APPROVAL} error"
    #: The webhook was not reached; nothing else depends on it.
    APPROVAL_WEBHOOK_FAILED = "approval.webhook.failed", WARNING, "approval_id problem"

    # Maintenance.
    #: An attempt at a run begins.
    CONSOLIDATION_MAINTENANCE_START = "consolidation.maintenance.start", INFO, _RUN
    #: A run is done; the counts are those of its kind.
    CONSOLIDATION_MAINTENANCE_COMPLETE = "consolidation.maintenance.complete", INFO, f"{_RUN} *"
    #: A run has failed for good.
    CONSOLIDATION_MAINTENANCE_FAILED = "consolidation.maintenance.failed", ERROR, f"{_RUN} reason"
    #: A run would remove more than the removal guard allows; it waits for a person.
    CONSOLIDATION_MAINTENANCE_HELD = "consolidation.maintenance.held", WARNING, f"{_RUN} planned live"
    #: There is nothing to do, or a model is missing; the run is retried later.
    CONSOLIDATION_RUN_SKIPPED = "consolidation.run.skipped", INFO, f"{_RUN} reason"
    #: Memories that are too old were removed.
    CONSOLIDATION_RETENTION_COMPLETE = "consolidation.retention.complete", INFO, "agent_id reason removed"
    #: Memories of these categories could not be removed; the other categories go on.
    CONSOLIDATION_RETENTION_FAILED = "consolidation.retention.failed", WARNING, "agent_id categories error_type"
    #: Lessons were forgotten, as the policy of lessons says.
    PROCEDURAL_PRUNING_COMPLETE = "procedural_pruning.complete", INFO, "agent_id removed"
    #: Groups of memories were replaced by summaries.
    CONSOLIDATION_STRATEGY_COMPLETE = "consolidation.strategy.complete", INFO, "agent_id strategy removed summaries"
    #: Summaries would have cost the agent answers; their memories stay as they are.
    CONSOLIDATION_GATE_REFUSED = "consolidation.gate.refused", INFO, "agent_id strategy refused"
    #: An agent had more memories than it may; those worth least were removed.
    CONSOLIDATION_MAX_MEMORIES_ENFORCED = "consolidation.max_memories.enforced", INFO, "agent_id removed"
    #: A journal entry that an earlier attempt had decided was carried out.
    CONSOLIDATION_BOOKING_RESUMED = "consolidation.booking.resumed", INFO, "booking_id run_id agent_id"
    #: Memories were archived, in the transaction that decided to remove them.
    CONSOLIDATION_ARCHIVAL_STORED = "consolidation.archival.stored", INFO, "agent_id run_id archived"
    #: A memory was brought back from the archive.
    CONSOLIDATION_ARCHIVAL_RESTORED = "consolidation.archival.restored", INFO, "agent_id run_id memory_id archival_id"
    #: A run was undone.
    CONSOLIDATION_UNDO_COMPLETE = "consolidation.undo.complete", INFO, "agent_id run_id undo_of restored removed"
    #: A model gave no answer that can be used; the summary is made without it.
    CONSOLIDATION_LLM_FALLBACK = "consolidation.llm.fallback", WARNING, "agent_id purpose reason"
    #: A model is away; the run waits, and asks it again.
    CONSOLIDATION_LLM_AWAY = "consolidation.llm.away", WARNING, "agent_id purpose reason"
    #: A model's server refuses; nothing is stored, nothing is removed.
    CONSOLIDATION_LLM_ERROR = "consolidation.llm.error", ERROR, "agent_id purpose reason"
    #: A model wrote a summary.
    CONSOLIDATION_LLM_SYNTHESIZED = "consolidation.llm.synthesized", INFO, "agent_id run_id place sources"
    #: Recent trajectories could not be read; the model is asked without them.
    CONSOLIDATION_LLM_CONTEXT_MISSING = "consolidation.llm.context_missing", WARNING, "agent_id error_type"
    #: Memories were too long for the prompt; the model saw their beginnings.
    CONSOLIDATION_LLM_PROMPT_CUT = "consolidation.llm.prompt_cut", WARNING, "memory_ids max_chars"
    #: Texts were classified as prose or as data.
    CONSOLIDATION_DENSITY_CLASSIFIED = "consolidation.density.classified", INFO, "sparse dense"
    #: A group was classified by the vote of its memories.
    CONSOLIDATION_DUAL_MODE_GROUP_CLASSIFIED = "consolidation.dual_mode.group_classified", INFO, "dense voters"
    #: A memory could not be summarised by a model; a part of it is kept word for word.
    CONSOLIDATION_DUAL_MODE_ABSTRACTIVE_FALLBACK = "consolidation.dual_mode.abstractive_fallback", WARNING, _SOURCE

    # Work items.
    #: The ledger could not be reached to renew a lease; the next renewal tries again.
    WORK_LEASE_UNCERTAIN = "work.lease.uncertain", WARNING, "key error_type"
    #: A lease has expired; another worker may attempt the item.
    WORK_LEASE_LOST = "work.lease.lost", WARNING, "key"
    #: An attempt failed; the item is attempted again after a delay.
    WORK_ATTEMPT_TROUBLE = "work.attempt.trouble", WARNING, "company key attempt error"
    #: An item has failed; nobody attempts it again unless a person replays it.
    WORK_ATTEMPT_FAILED = "work.attempt.failed", ERROR, "company key error"
    #: A company's policy cannot be read; its agents are not scheduled.
    SCHEDULER_COMPANY_LEFT_OUT = "scheduler.company_left_out", ERROR, "company reason"

    # Erasure.
    #: Jobs of an erased agent are still in the queues; the erasure waits for them.
    ERASURE_DRAINING = "erasure.draining", INFO, "company agent_id"
    #: Everything of an agent or a subject is erased; the receipt is signed.
    ERASURE_DONE = "erasure.done", INFO, "company agent_id found"

    # Webhooks.
    #: A delivery has failed for good; a person may send it again.
    WEBHOOK_DELIVERY_FAILED = "webhook.delivery.failed", WARNING, f"{_DELIVERY} status problem"
    #: An endpoint failed too long, or is gone; nothing is sent to it until a person enables it.
    WEBHOOK_ENDPOINT_DISABLED = "webhook.endpoint.disabled", WARNING, f"{_DELIVERY} reason"

    # Conversations.
    #: A turn has its outcome.
    CONVERSATION_TURN_EXTRACTED = "conversation.turn.extracted", INFO, "agent_id turn_id held *"
    #: A session has ended, with all that comes of it.
    CONVERSATION_SESSION_ENDED = "conversation.session.ended", INFO, "agent_id session_key *"
    #: The language model does not answer; the turn or the end waits.
    CONVERSATION_MODEL_AWAY = "conversation.model_away", INFO, "company key tries error"
    #: No vector could be made; what is kept is found by its words alone.
    CONVERSATION_EMBEDDING_FAILED = "conversation.embedding_failed", WARNING, "agent_id entries error"
    #: Other steps write the same person's memory all the time; this one waits.
    CONVERSATION_OWNER_BUSY = "conversation.owner_busy", WARNING, "company key"
    #: Earlier sessions could not be read; a session's end goes on without them.
    CONVERSATION_SUPPORT_LOAD_FAILED = "conversation.support_load_failed", WARNING, "agent_id session_key error"
    #: A step of a conversation could not be dispatched; the sweep dispatches it.
    CONVERSATION_WORK_WAITS = "conversation.work_waits", WARNING, "kind error"

    # Experience, lessons and skills.
    #: An experience was compressed.
    EXPERIENCE_COMPRESS_COMPLETE = "experience.compress.complete", INFO, "agent_id experience_id"
    #: The answer was not so much shorter than the experience as the policy asks for.
    EXPERIENCE_COMPRESS_WEAK = "experience.compress.weak", INFO, "agent_id experience_id"
    #: The model answered twice in no form that can be read, or says what its sources do not.
    EXPERIENCE_COMPRESS_MALFORMED = "experience.compress.malformed", INFO, "agent_id experience_id"
    #: The model did not answer; the experience stays raw.
    EXPERIENCE_COMPRESS_FAILED = "experience.compress.failed", WARNING, "agent_id experience_id error"
    #: The experiences of an agent are compressed; counts by outcome.
    EXPERIENCE_NIGHT_COMPLETE = "experience.night.complete", INFO, "agent_id *"
    #: The compression of experience could not be dispatched; the next run dispatches it.
    NIGHT_EXPERIENCE_WAITS = "night.experience_waits", WARNING, "agent_id error"
    #: Memories of an agent have search notes now; counts by outcome.
    SEARCH_NOTES_COMPLETE = "search_notes.complete", INFO, "agent_id *"
    #: The model did not answer; the memory gets its search notes after a later run.
    SEARCH_NOTES_FAILED = "search_notes.failed", WARNING, "agent_id memory_id error"
    #: The writing of search notes could not be dispatched; the next run dispatches it.
    SEARCH_NOTES_WAIT = "search_notes.wait", WARNING, "agent_id error"
    #: Memories of an agent are compared with older ones now; counts by outcome.
    CHANGES_COMPLETE = "changes.complete", INFO, "agent_id *"
    #: The model did not answer; the memory is compared with older ones after a later run.
    CHANGES_FAILED = "changes.failed", WARNING, "agent_id memory_id error"
    #: The comparison of memories could not be dispatched; the next run dispatches it.
    CHANGES_WAIT = "changes.wait", WARNING, "agent_id error"
    #: The propagation of lessons could not be dispatched; the next run dispatches it.
    NIGHT_LESSONS_WAIT = "night.lessons_wait", WARNING, "agent_id error"
    #: A lesson could not be dispatched; the sweep dispatches it.
    DISTILL_LESSON_WAITS = "distill.lesson_waits", WARNING, "agent_id error"
    #: A model proposed a lesson.
    PROCEDURAL_MEMORY_PROPOSAL_COMPLETE = "procedural_memory.proposal.complete", INFO, "agent_id refused"
    #: The model did not answer, or not in a form that can be read.
    PROCEDURAL_MEMORY_PROPOSAL_SKIPPED = "procedural_memory.proposal.skipped", WARNING, "agent_id reason"
    #: The model's server refuses, and will again.
    PROCEDURAL_MEMORY_PROPOSER_ERROR = "procedural_memory.proposer.error", WARNING, "agent_id error"
    #: The answer tried to say what a model may not; those fields were dropped.
    PROCEDURAL_MEMORY_PROPOSAL_FIELDS_REFUSED = "procedural_memory.proposal.fields_refused", WARNING, "agent_id fields"
    #: The model is not sure enough of a lesson; it is not stored.
    PROCEDURAL_MEMORY_PROPOSAL_LOW_CONFIDENCE = "procedural_memory.proposal.low_confidence", INFO, _CONFIDENCE
    #: A lesson is not good enough; it is not stored.
    PROCEDURAL_CAPTURE_QUALITY_BELOW_THRESHOLD = "procedural_capture.quality_below_threshold", INFO, _CONFIDENCE
    #: A lesson was stored.
    PROCEDURAL_MEMORY_ENTRY_STORED = "procedural_memory.entry.stored", INFO, "agent_id memory_id"
    #: A lesson says what an earlier one says, which counts it.
    PROCEDURAL_MEMORY_ENTRY_REPEATED = "procedural_memory.entry.repeated", INFO, "agent_id memory_id"
    #: A lesson could not be stored.
    PROCEDURAL_MEMORY_ENTRY_STORE_FAILED = "procedural_memory.entry.store_failed", WARNING, "agent_id memory_id error"
    #: A run has removed the lesson since the execution was reported; it stays removed.
    PROCEDURAL_MEMORY_ENTRY_BURIED = "procedural_memory.entry.buried", INFO, "agent_id memory_id"
    #: What became of a task's lesson is written down.
    PROCEDURAL_MEMORY_LESSON_DRAWN = "procedural_memory.lesson.drawn", INFO, "agent_id lesson_id outcome skill_failures"
    #: The model is away; the lesson waits.
    PROCEDURAL_MEMORY_LESSON_PUT_OFF = "procedural_memory.lesson.put_off", INFO, "agent_id lesson_id tries"
    #: An agent's lessons were passed on to its like.
    PROCEDURAL_PROPAGATION_COMPLETE = "procedural_propagation.complete", INFO, "agent_id lessons targets written"
    #: One agent could not be given the lessons; the others were.
    PROCEDURAL_PROPAGATION_TARGET_FAILED = "procedural_propagation.target_failed", WARNING, "agent_id target error"
    #: A skill was written as a SKILL.md file.
    PROCEDURAL_MEMORY_SKILL_MD_WRITTEN = "procedural_memory.skill_md.written", INFO, "agent_id memory_id skill"
    #: A SKILL.md file could not be written.
    PROCEDURAL_MEMORY_SKILL_MD_FAILED = "procedural_memory.skill_md.failed", WARNING, "agent_id memory_id error"
    #: A cycle of the skill evolver begins.
    SKILL_EVOLVER_CYCLE_START = "skill_evolver.cycle.start", INFO, _CYCLE
    #: A cycle is done; the counts are those of its report.
    SKILL_EVOLVER_CYCLE_COMPLETE = "skill_evolver.cycle.complete", INFO, f"{_CYCLE} *"
    #: A cycle failed; what was filed before stays filed.
    SKILL_EVOLVER_CYCLE_FAILED = "skill_evolver.cycle.failed", WARNING, f"{_CYCLE} error"
    #: A proposed skill waits for a person.
    SKILL_EVOLVER_PROPOSAL_EMITTED = "skill_evolver.proposal.emitted", INFO, f"{_CYCLE} approval_id pattern_id"
    #: A pattern contradicts what stands or waits; a person must look.
    SKILL_EVOLVER_CONFLICT_DETECTED = "skill_evolver.conflict.detected", WARNING, f"{_CYCLE} pattern_id standing_id"
    #: The policy has the skill evolver switched off.
    SKILL_EVOLVER_DISABLED = "skill_evolver.disabled", INFO, _CYCLE
    #: A proposal takes the place of a skill, once it is approved.
    ORG_SKILL_SUPERSEDED = "org_skill.superseded", INFO, f"{_CYCLE} approval_id skill_id"
    #: An agent's experience was written as Markdown files.
    WIKI_EXPORT_COMPLETE = "wiki.export.complete", INFO, "agent_id raw_count compressed_count failed_count"
    #: A file could not be written; the export before stays.
    WIKI_EXPORT_FILE_FAILED = "wiki.export.file_failed", WARNING, "agent_id id error"
    #: An export failed; the export before stays.
    WIKI_EXPORT_FAILED = "wiki.export.failed", WARNING, "agent_id file error raw_count compressed_count failed_count"
    #: What a crashed export had left behind was removed.
    WIKI_EXPORT_CLEANED = "wiki.export.cleaned", INFO, "agent_id"

    # Fine-tuning and reindex.
    #: A collection is being filled with a checkpoint; ``memory.reindex.switched`` tells when it serves.
    MEMORY_CHECKPOINT_DEPLOY_BEGUN = "memory.checkpoint.deploy_begun", INFO, _CHECKPOINT
    #: A deployment was refused.
    MEMORY_CHECKPOINT_DEPLOY_FAILED = "memory.checkpoint.deploy_failed", WARNING, f"{_CHECKPOINT} error"
    #: What served before is brought up to date, to serve again.
    MEMORY_CHECKPOINT_ROLLBACK_BEGUN = "memory.checkpoint.rollback_begun", INFO, _CHECKPOINT
    #: A rollback was refused.
    MEMORY_CHECKPOINT_ROLLBACK_FAILED = "memory.checkpoint.rollback_failed", WARNING, f"{_CHECKPOINT} error"
    #: A checkpoint was deleted.
    MEMORY_CHECKPOINT_DELETED = "memory.checkpoint.deleted", INFO, _CHECKPOINT
    #: A checkpoint was not deleted.
    MEMORY_CHECKPOINT_DELETE_FAILED = "memory.checkpoint.delete_failed", WARNING, f"{_CHECKPOINT} error"
    #: A checkpoint's row is gone, and some of its files are not; the next run removes them.
    MEMORY_CHECKPOINT_FILES_LEFT = "memory.checkpoint.files_left", WARNING, _CHECKPOINT
    #: A fine-tune run begins a stage.
    MEMORY_FINE_TUNE_STAGE_ENTERED = "memory.fine_tune.stage_entered", INFO, "run_id stage"
    #: A fine-tune run is done.
    MEMORY_FINE_TUNE_COMPLETED = "memory.fine_tune.completed", INFO, "run_id checkpoint_id"
    #: A fine-tune run has failed; its row says why.
    MEMORY_FINE_TUNE_FAILED = "memory.fine_tune.failed", WARNING, "run_id"
    #: A person cancelled a fine-tune run.
    MEMORY_FINE_TUNE_CANCELLED = "memory.fine_tune.cancelled", INFO, "run_id"
    #: Texts are longer than the model reads; they were cut.
    MEMORY_FINE_TUNE_ENCODE_TRUNCATION_LIKELY = "memory.fine_tune.encode_truncation_likely", WARNING, "texts of tokens"
    #: A model was asked for questions; counts by outcome.
    MEMORY_FINE_TUNE_QUERIES_WRITTEN = "memory.fine_tune.queries_written", INFO, _QUESTIONS
    #: Questions were written by rule, since the model was silent.
    MEMORY_FINE_TUNE_QUERY_LLM_FALLBACK = "memory.fine_tune.query_llm_fallback", WARNING, _QUESTIONS
    #: A checkpoint is better than the embedder in use.
    MEMORY_FINE_TUNE_CHECKPOINT_SAVED = "memory.fine_tune.checkpoint_saved", INFO, "run_id checkpoint_id"
    #: The checkpoint's lead may be chance.
    MEMORY_FINE_TUNE_CHECKPOINT_UNDECIDED = "memory.fine_tune.checkpoint_undecided", INFO, "run_id checkpoint_id"
    #: The checkpoint is not better than the embedder in use.
    MEMORY_FINE_TUNE_CHECKPOINT_REJECTED = "memory.fine_tune.checkpoint_rejected", INFO, "run_id checkpoint_id"
    #: The health endpoint's port is taken; the stage goes on without it.
    FINE_TUNE_HEALTH_SERVER_BIND_FAILED = "fine_tune.health_server.bind_failed", WARNING, "port error"
    #: A container has ended and could not be removed; the next attempt at its stage tries again.
    FINE_TUNE_CONTAINER_LEFT = "fine_tune.container.left", WARNING, "id error"
    #: The Docker engine did not answer; it is asked again.
    FINE_TUNE_DOCKER_CONNECT_RETRIED = "fine_tune.docker.connect_retried", WARNING, "attempt error"
    #: The broker took no message for a row; the sweep dispatches it.
    MEMORY_SERVICE_BELL_UNHEARD = "memory.service.bell_unheard", WARNING, "company"
    #: A reindex cannot go on for now; it is attempted again.
    MEMORY_REINDEX_TROUBLE = "memory.reindex.trouble", WARNING, "company error"
    #: Writes were stopped, and catching up took too long; they go on, and the switch is tried again.
    MEMORY_REINDEX_THAWED = "memory.reindex.thawed", WARNING, "company"
    #: The new collection serves.
    MEMORY_REINDEX_SWITCHED = "memory.reindex.switched", INFO, "company generation checkpoint_id"

    # Language models.
    #: A model answered.
    LLM_CALL_ANSWERED = "llm.call.answered", INFO, f"{_MODEL} tokens attempts"
    #: A call failed for now; the same question is asked again after a pause.
    LLM_CALL_RETRIED = "llm.call.retried", INFO, "attempt pause_seconds"
    #: A model gave no answer.
    LLM_CALL_FAILED = "llm.call.failed", WARNING, f"{_MODEL} error attempts status kind"
    #: A server refused a request and answered it in another form, which is kept.
    LLM_SERVER_LEARNT = "llm.server.learnt", INFO, "model learnt"
    #: The ledger could not store what was learnt of a server; it is learnt again.
    LLM_SERVER_UNKEPT = "llm.server.unkept", INFO, "model error"
    #: The budget is spent; nothing was asked.
    LLM_BUDGET_EXCEEDED = "llm.budget.exceeded", INFO, f"{_MODEL} tokens"
    #: The ledger could not store what a call used; its reservation stays spent.
    LLM_ACCOUNT_UNSETTLED = "llm.account.unsettled", WARNING, f"{_MODEL} error call_id"
    #: The answer is malformed; the model is asked once to correct it.
    LLM_ANSWER_REPAIRED = "llm.answer.repaired", INFO, f"{_MODEL} problems"
    #: Both answers to a question are malformed: what asked does without one, or waits.
    LLM_ANSWER_UNREAD = "llm.answer.unread", WARNING, f"{_MODEL} problems cut"
    #: A text of the model's says what its sources do not; it is not kept.
    LLM_ANSWER_UNGROUNDED = "llm.answer.ungrounded", WARNING, f"{_MODEL} reason"

    # The organisation's facts.
    #: A fact was written or retracted.
    ORG_MEMORY_WRITE_COMPLETE = "org_memory.write.complete", INFO, f"fact_id operation version category {_AUTHOR}"
    #: The author may not write facts of this category; nothing was written.
    ORG_MEMORY_WRITE_DENIED = "org_memory.write.denied", WARNING, f"category {_AUTHOR}"
    #: The database refused a write, or did not answer.
    ORG_MEMORY_WRITE_FAILED = "org_memory.write.failed", WARNING, "error"
    #: The database refused a query, or did not answer.
    ORG_MEMORY_QUERY_FAILED = "org_memory.query.failed", WARNING, "error"
    #: The vector store did not answer; the hits by words were returned.
    ORG_MEMORY_QUERY_DEGRADED = "org_memory.query.degraded", WARNING, "error"
    #: The vector store does not show a fact yet; the sweep tries again.
    ORG_MEMORY_SHOW_DEFERRED = "org_memory.show.deferred", WARNING, "fact_id error"
    #: The vector store refuses a version of a fact; it is found by words, not by meaning.
    ORG_MEMORY_SHOW_FAILED = "org_memory.show.failed", WARNING, "fact_id version error"
    #: A refusal could not be written to the audit; it holds all the same.
    ORG_MEMORY_AUDIT_FAILED = "org_memory.audit.failed", WARNING, f"error {_AUTHOR}"
    #: The database of facts did not answer when it was opened.
    ORG_MEMORY_STORE_CONNECT_FAILED = "org_memory.store.connect_failed", WARNING, "error"

    # Backends.
    #: A backend is open.
    MEMORY_BACKEND_CONNECTED = "memory.backend.connected", INFO, "backend company collection"
    #: A backend is closed.
    MEMORY_BACKEND_DISCONNECTED = "memory.backend.disconnected", INFO, "backend company collection"
    #: The vector store did not answer a health check.
    MEMORY_BACKEND_HEALTH_CHECK = "memory.backend.health_check", WARNING, "error company collection"
    #: A point that cannot be read as a memory was skipped.
    MEMORY_MODEL_INVALID = "memory.model.invalid", WARNING, "memory_id error"
    #: A composite backend answered a query without some of its children.
    MEMORY_COMPOSITE_FANOUT_PARTIAL = "memory.composite.fanout_partial", WARNING, "agent_id failed"
    #: An open line of the log of shared knowledge could not be executed.
    MEMORY_SHARED_OVERDUE = "memory.shared.overdue", WARNING, "company version error"

    # Retrieval.
    #: A prompt has its memories.
    MEMORY_RETRIEVAL_COMPLETE = "memory.retrieval.complete", DEBUG, "agent_id found injected"
    #: A source failed; the prompt does without it.
    MEMORY_RETRIEVAL_DEGRADED = "memory.retrieval.degraded", WARNING, "source agent_id error"
    #: Nothing was asked for: the token budget was zero or less.
    MEMORY_RETRIEVAL_SKIPPED = "memory.retrieval.skipped", DEBUG, "agent_id token_budget"
    #: Memories without the tag were left out.
    MEMORY_FILTER_APPLIED = "memory.filter.applied", DEBUG, "given kept"
    #: Only non-inferable memories are injected, and one was stored without the tag; no prompt will show it.
    MEMORY_FILTER_STORE_MISSING_TAG = "memory.filter.store_missing_tag", WARNING, "agent_id tag"
    #: Core policies are longer than the tokens that are left; the prompt does without them.
    MEMORY_TOKEN_BUDGET_EXCEEDED = "memory.token_budget.exceeded", WARNING, "left_out token_budget"
    #: A batch of uses could not be sent; it is kept and tried again.
    MEMORY_USE_DEFERRED = "memory.use.deferred", WARNING, "memories error"
    #: More uses waited than the recorder holds; these were not counted.
    MEMORY_USE_DROPPED = "memory.use.dropped", WARNING, "memories"
    #: Questions could not be sent; they are kept and tried again.
    MEMORY_QUERY_DEFERRED = "memory.query.deferred", WARNING, "questions error"
    #: A search of several rounds has ended.
    MEMORY_REFORMULATION_COMPLETE = "memory.reformulation.complete", DEBUG, "agent_id rounds sufficient found"
    #: A judge, a reformulator or a search failed; what was found so far is the answer.
    MEMORY_REFORMULATION_DEGRADED = "memory.reformulation.degraded", WARNING, "agent_id error"
    #: The model of a question to memory failed, or took too long; the passages are the answer.
    MEMORY_ASK_DEGRADED = "memory.ask.degraded", WARNING, "agent_id error"
    #: An agent called a memory tool.
    MEMORY_TOOL_CALLED = "memory.tool.called", DEBUG, "tool agent_id"
    #: An agent's tool call failed.
    MEMORY_TOOL_FAILED = "memory.tool.failed", WARNING, "tool agent_id error"

    # The engine's side.
    #: A finished task was not sent; the engine goes on.
    MEMORY_DISTILL_LOST = "memory.distill.lost", WARNING, "agent_id trace_id error"
    #: A turn of a conversation was not sent; the engine goes on.
    MEMORY_CONVERSATION_TURN_LOST = "memory.conversation.turn.lost", WARNING, "agent_id turn_id error"
    #: What is remembered was away for the router, or a turn was not kept; the model was asked all the same.
    MEMORY_ROUTER_AWAY = "memory.router.away", WARNING, "agent_id error"
    #: The end of a session was not sent; the engine goes on.
    MEMORY_CONVERSATION_END_LOST = "memory.conversation.end.lost", WARNING, "agent_id error"
    #: An application of a skill was not sent; the engine goes on.
    MEMORY_SKILLS_APPLIED_LOST = "memory.skills.applied.lost", WARNING, "agent_id skill_id error"
    #: Something was not sent over HTTP; the engine goes on.
    MEMORY_REMOTE_LOST = "memory.remote.lost", WARNING, "what agent_id error"
    #: No setting has the name of this environment variable.
    MEMORY_SETTINGS_UNKNOWN_VARIABLE = "memory.settings.unknown_variable", WARNING, "variable"
    #: A key of the policy has no effect as things are.
    MEMORY_CONFIG_NO_EFFECT = "memory.config.no_effect", WARNING, "key"

    # HTTP and MCP.
    #: A request failed by a defect; the log names its place.
    MEMORY_HTTP_DEFECT = "memory.http.defect", ERROR, "error place method route"
    #: A part that a request needs did not answer.
    MEMORY_HTTP_UNAVAILABLE = "memory.http.unavailable", ERROR, "error place method route"
    #: A destructive operator tool has done its work.
    MCP_ADMIN_OP_EXECUTED = "mcp.admin_op.executed", WARNING, "tool company actor reason target_id"
    #: The policy's backend has nothing for this tool.
    MCP_HANDLER_NOT_IMPLEMENTED = "mcp.handler.not_implemented", WARNING, "tool reason"
    #: This backend does not support what the tool calls.
    MCP_HANDLER_CAPABILITY_GAP = "mcp.handler.capability_gap", WARNING, "tool reason"
    #: A tool failed by a defect.
    MCP_HANDLER_FAILED = "mcp.handler.failed", ERROR, "tool error"

    #: The clock went far ahead, or back, between two ticks: runs that retention would make remove are held.
    SCHEDULER_CLOCK_JUMPED = "scheduler.clock.jumped", WARNING, "since now"

    # Jobs.
    #: A job failed with an unexpected error.
    JOB_FAILED = "job.failed", ERROR, "job error at"
    #: A job's payload has fields that this release does not know; it is done without them.
    JOB_FIELDS_UNKNOWN = "job.fields_unknown", WARNING, "job"
    #: A job failed for now; it is tried again after a delay.
    JOB_RETRY = "job.retry", WARNING, f"{_JOB} reason attempt"
    #: A job waits, and costs no attempt.
    JOB_SNOOZED = "job.snoozed", INFO, f"{_JOB} reason"
    #: A job waits for what only a person can change.
    JOB_PARKED = "job.parked", INFO, f"{_JOB} reason"
    #: A job was given up; it is a dead letter.
    JOB_DEAD = "job.dead", ERROR, f"{_JOB} reason"
    #: The disk is full; the job waits for space.
    JOB_DISK_FULL = "job.disk_full", WARNING, "job"
    #: An attempt could not be counted in the ledger; the job waits.
    JOB_UNCOUNTED = "job.uncounted", WARNING, "job_id error"
    #: The count of a finished job's attempts could not be removed; it expires.
    JOB_COUNT_STAYS = "job.count_stays", WARNING, "job_id error"
    #: This release knows no such job; the message waits for a newer one.
    JOB_UNKNOWN = "job.unknown", WARNING, f"{_JOB} error"
    #: The job could not begin, or its outcome could not be kept; its message goes back, and no attempt is counted.
    CREW_ABSENT = "crew.absent", WARNING, "job_id error at"
    #: Progress could not be published; the job goes on.
    PROGRESS_UNTOLD = "progress.untold", WARNING, "job_id error"
    #: The result of a refused message could not be written; its dead letter is.
    RESULT_UNWRITTEN = "result.unwritten", WARNING, "job_id error"
    #: Beat waits for its broker, and tries again.
    BEAT_BROKER_AWAY = "beat.broker.away", WARNING, "error"
    #: A child of a worker shows no life; it is killed, and its job goes to another.
    WORKER_CHILD_FROZEN = "worker.child.frozen", WARNING, "pid"
    #: The heartbeat's file could not be written.
    HEARTBEAT_LOST = "heartbeat.lost", WARNING, "path error"
    #: A message cannot be read as a job; it is a dead letter.
    MESSAGE_UNREADABLE = "message.unreadable", ERROR, "job_id queue reason"
    #: An unreadable message could not be kept; it waits on the broker.
    MESSAGE_UNREADABLE_WAITS = "message.unreadable.waits", WARNING, "error"
    #: An unreadable message is kept and could not be acknowledged; it is kept once.
    MESSAGE_UNREADABLE_UNACKNOWLEDGED = "message.unreadable.unacknowledged", INFO, "error"
    #: A control message to workers cannot be read; it is ignored.
    BROADCAST_UNREADABLE = "broadcast.unreadable", WARNING, "error"
    #: A connection that waits for messages gave no answer in time; it is opened anew.
    TRANSPORT_BELL_SILENT = "transport.bell.silent", WARNING, "queue"
    #: The broker refused to wait for messages; the queue is polled.
    TRANSPORT_BELL_REFUSED = "transport.bell.refused", WARNING, "queue reason"
    #: The messages of a worker that died on this machine were given to others.
    TRANSPORT_MESSAGES_TAKEN_OVER = "transport.messages.taken_over", WARNING, "count holder"
    #: A message that no consumer can take was set aside.
    TRANSPORT_MESSAGE_UNDELIVERABLE = "transport.message.undeliverable", INFO, "reason"
    #: Messages cannot be read; they were set aside.
    TRANSPORT_MESSAGE_UNREADABLE = "transport.message.unreadable", ERROR, "count list"
    #: A control message cannot be read; it is ignored.
    TRANSPORT_BROADCAST_UNREADABLE = "transport.broadcast.unreadable", WARNING, "reason"
    #: A step of closing a connection failed; the others are taken.
    TRANSPORT_CLOSE_STEP_FAILED = "transport.close.step_failed", INFO, "reason"
    #: Unacknowledged messages could not be given back; the visibility timeout does it.
    TRANSPORT_RESTORE_POSTPONED = "transport.restore.postponed", WARNING, "unacked reason"
    #: A message that was to be given back cannot be read; it was set aside.
    TRANSPORT_RESTORE_UNREADABLE = "transport.restore.unreadable", ERROR, "reason"
    #: A message that was to be given back names no queue; it stays where it is.
    TRANSPORT_RESTORE_UNROUTABLE = "transport.restore.unroutable", ERROR, "tag"

    # The embedded stack and its store server.
    #: A part of the stack was started.
    STACK_PART_STARTED = "stack.part.started", INFO, "part pid"
    #: A part could not be started; it is tried again.
    STACK_PART_NOT_STARTED = "stack.part.not_started", WARNING, "part error"
    #: The process that forks the parts is ready.
    STACK_LAUNCHER_READY = "stack.launcher.ready", INFO, "pid"
    #: The process that forks the parts has ended; they go on, and another takes its place.
    STACK_LAUNCHER_DIED = "stack.launcher.died", WARNING, "exit_code"
    #: The process that forks the parts does not answer; another takes its place.
    STACK_LAUNCHER_SILENT = "stack.launcher.silent", WARNING, ""
    #: Nothing can be forked here; each part imports for itself.
    STACK_LAUNCHER_UNUSABLE = "stack.launcher.unusable", WARNING, "error"
    #: A part has ended by itself; it is started again after a pause.
    STACK_PART_DIED = "stack.part.died", WARNING, "part exit_code wait_seconds"
    #: A part runs and shows no life; it is killed, and then died.
    STACK_PART_FROZEN = "stack.part.frozen", WARNING, "part"
    #: A part did not end in time and was killed.
    STACK_PART_KILLED = "stack.part.killed", WARNING, "part"
    #: A part of an earlier stack still ran and was killed.
    STACK_PART_LEFT_BEHIND = "stack.part.left_behind", WARNING, "part pid"
    #: The state of the stack could not be written.
    STACK_STATE_UNWRITTEN = "stack.state.unwritten", WARNING, "error"
    #: The store's engine failed a call.
    STORE_CALL_FAILED = "store.call.failed", ERROR, "method path error"
    #: A call to the store failed by a defect.
    STORE_CALL_CRASHED = "store.call.crashed", ERROR, "method path error"
    #: A collection cannot be opened; it is rebuilt from its files.
    STORE_COLLECTION_DAMAGED = "store.collection.damaged", ERROR, "collection reason"
    #: A damaged collection was rebuilt.
    STORE_COLLECTION_REBUILT = "store.collection.rebuilt", WARNING, "collection points"
    #: A damaged collection cannot be rebuilt; calls to it are refused.
    STORE_COLLECTION_REFUSED = "store.collection.refused", ERROR, "reason"
    #: A collection's checkpoint file cannot be read; its log is read from the start.
    STORE_CHECKPOINT_UNREADABLE = "store.checkpoint.unreadable", WARNING, "path"
    #: A collection's count file cannot be read; its points are counted.
    STORE_COUNT_UNREADABLE = "store.count.unreadable", WARNING, "path"
    #: A collection could not be written when it was closed; its log holds it.
    STORE_CLOSE_UNWRITTEN = "store.close.unwritten", ERROR, "collection error"
    #: A collection could not be compacted; the next round tries again.
    STORE_UPKEEP_FAILED = "store.upkeep.failed", ERROR, "collection"
    #: A collection was compacted.
    STORE_VACUUM_COMPLETE = "store.vacuum.complete", INFO, "collection"
