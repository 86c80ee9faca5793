"""Every metric that ``/metrics`` shows; alert rules and dashboards name no other (a test compares them).

Counts of days and of what is open are gauges: their rows expire, so that no counter could be made of them. ``company``
is the only label whose values people choose; a key sees its own company, the operator's key sees all.
"""

from ops.metrics.exposition import Family

_OF_COMPANY = ("company",)


def _gauge(name: str, meaning: str, *labels: str) -> Family:
    return Family(name=f"memtend_{name}", kind="gauge", meaning=meaning, labels=labels)


PART_UP = _gauge("part_up", "Whether a part answered this scrape: ledger, broker.", "part")

QUEUE_JOBS = _gauge("queue_jobs", "Jobs that wait on a queue of the broker.", "queue")
QUEUE_OLDEST = _gauge("queue_oldest_seconds", "Age of the oldest job of a queue that may run now.", "queue")
UNREADABLE = _gauge("unreadable_messages", "Messages on the broker that no worker could read.")
WORKERS = _gauge("workers", "Workers of a group that answer; asked for every 30 seconds.", "group")
HEARTBEAT = _gauge("heartbeat_age_seconds", "Age of the last heartbeat of a part on this data folder.", "part")
TICK = _gauge("tick_age_seconds", "Seconds since the scheduler's last tick ended.")

AGENTS = _gauge("agents", "Registered agents.", *_OF_COMPANY)
LATE = _gauge("agents_late", "Agents whose maintenance is overdue by five minutes.", *_OF_COMPANY)
DEAD = _gauge("dead_letters", "Jobs that were given up and wait for a person.", *_OF_COMPANY)
HELD = _gauge("runs_held", "Runs that wait for a person to decide.", *_OF_COMPANY)
RUNS = _gauge("runs_24h", "Runs created in the last 24 hours (the newest 10,000).", "company", "kind", "outcome")
STORED = Family(
    name="memtend_memories_stored_total",
    kind="counter",
    meaning="Memories that store jobs wrote; a redelivered one counts again.",
    labels=_OF_COMPANY,
)
SUSPECT = Family(
    name="memtend_suspect_memories_total",
    kind="counter",
    meaning="Memories of others' words that read like an order, a password or an account to pay to.",
    labels=_OF_COMPANY,
)
REMOVED = _gauge("memories_removed_24h", "Memories removed by the runs of the last 24 hours.", "company", "reason")
SUMMARIES = _gauge("summaries_24h", "Summaries made by the runs of the last 24 hours.", *_OF_COMPANY)

RUNNING = _gauge("jobs_running", "Items of a kind of work that workers hold.", "company", "job")
RUNNING_FOR = _gauge("job_running_seconds", "Time since the longest-held item of a kind began.", "company", "job")
LAPSED = _gauge(
    "lease_lapsed_seconds", "How long ago a worker should have renewed its lease; 0 while all do.", "company", "job"
)

CANARY_AGE = _gauge("canary_age_seconds", "Age of the newest memory that is known to be found.", *_OF_COMPANY)
FINDABLE = _gauge(
    "store_to_findable_seconds", "Seconds from store to search, by the last canary or one still awaited.", *_OF_COMPANY
)

TOKENS = _gauge("model_tokens_today", "Tokens of language models this day (UTC).", "company", "purpose", "direction")
COST = _gauge("model_cost_today", "Cost of language models this day (UTC).", "company", "purpose")
CALLS = _gauge("model_calls_today", "Questions to language models this day (UTC).", "company", "purpose", "outcome")
FAILING = _gauge(
    "model_failing_seconds",
    "Time since a language model failed that has answered nothing since; status and type of its last failure.",
    *("company", "status", "reason"),
)
BUDGET = _gauge("budget_spent_agents", "Agents whose budget refused a question this day (UTC).", *_OF_COMPANY)
TESTS_FAILED = _gauge("memory_tests_failed", "Registered memory tests that failed after a run.", *_OF_COMPANY)

REINDEX = _gauge("reindex_progress_ratio", "How much of the open reindex is done.", *_OF_COMPANY)
FINETUNE = _gauge("finetune_progress_ratio", "How much of the open fine-tune run is done.", "company", "stage")

EMBED = Family(
    name="memtend_embed_seconds", kind="histogram", meaning="Time to embed a question, in this process of serve."
)
SEARCH = Family(
    name="memtend_search_seconds", kind="histogram", meaning="Time of a search or a context, in this process of serve."
)
REQUESTS = Family(
    name="memtend_http_requests_total",
    kind="counter",
    meaning="Requests that this process of serve answered.",
    labels=("route", "status"),
)

#: In the order of the text.
FAMILIES = (
    *(PART_UP, QUEUE_JOBS, QUEUE_OLDEST, UNREADABLE, WORKERS, HEARTBEAT, TICK),
    *(AGENTS, LATE, DEAD, HELD, RUNS, STORED, SUSPECT, REMOVED, SUMMARIES, RUNNING, RUNNING_FOR, LAPSED),
    *(
        CANARY_AGE,
        FINDABLE,
        TOKENS,
        COST,
        CALLS,
        FAILING,
        BUDGET,
        TESTS_FAILED,
        REINDEX,
        FINETUNE,
        EMBED,
        SEARCH,
        REQUESTS,
    ),
)
