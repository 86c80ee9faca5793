"""The doctor's checks: models, embedder, reindex and fine-tuning, broker, workers, stores, databases."""

import asyncio
import http.client
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

from sqlalchemy import text

from memcore.backends.factory import create_configured_embedder, embedder_choice, followed_row, require_shared_backends
from memcore.canary import canary_state, is_well
from memcore.client.publisher import REFUSES
from memcore.config.maintenance import ASKING_STRATEGIES
from memcore.config.policy import Policy, llm_consumers
from memcore.config.settings import Settings
from memcore.errors import (
    MemoryConnectionError,
    MemoryError,  # noqa: A004  # the reference fixes the name
)
from memcore.finetune.execution.docker_engine import docker_engine
from memcore.finetune.execution.factory import execution_of, require_executor
from memcore.jobs import FineTunePayload, ReindexPayload
from memcore.ledger.database import Database, parse_url
from memcore.ledger.webhooks.endpoints import EndpointState
from memcore.ledger.work_items import WorkItem
from memcore.llm.check import ModelCheck, check_model
from memcore.maintenance.consolidation.llm import MERGE_PURPOSE, SHORTEN_PURPOSE
from ops.cli.console import ANSWER_SECONDS, CheckResult, require_answer, require_listener
from ops.cli.session import ledger_of, policy_of
from workers.broker import UNREAD, answering, broker_app, person_options, read_loss, read_queue_lengths, read_unread
from workers.groups import GROUPS
from workers.stack.home import read_state, sleeping_parts

#: Agents that are named; more are counted.
_NAMED = 5

#: How long a run may wait for a language model before somebody should know; a busy model takes minutes.
MODEL_SILENCE = timedelta(minutes=15)

#: How long a model may take to answer the doctor; the check as a whole has ten seconds.
MODEL_ANSWERS = timedelta(seconds=7)

#: How long an erasure may take: that of an agent with a million memories takes minutes.
ERASURE_LASTS = timedelta(hours=1)


def language_model(settings: Settings) -> Iterator[CheckResult]:
    """Check that every step that asks a model names one, and that each answers a real question."""
    policy = policy_of(settings)
    default = settings.llm(policy.memory.llm).model
    steps = {step: model or default for step, model in llm_consumers(policy.memory).items()}
    with ledger_of(settings) as ledger:
        turns = ledger.turns.unanswered(settings.company)
    if turns is not None:
        steps["memory.conversation"] = policy.memory.conversation.model or default
    if settings.llm_url is None:
        waiting = "" if turns is None else f"; {turns[0]} turns wait since {turns[1]:%Y-%m-%d %H:%M} UTC"
        yield CheckResult(
            check="language model",
            ok=not steps,
            seen=f"no address, and {', '.join(steps)} needs one{waiting}" if steps else "none needed",
            mend=f"set MEMTEND_LLM_URL{_and_a_model(steps)}, or turn the step off; until then it waits",
        )
        return
    for step, model in steps.items():
        yield CheckResult(
            check=f"model of {step.removeprefix('memory.')}",
            ok=model is not None,
            seen=model or "none is named",
            mend="name one: memory.llm.model",
        )
    try:
        require_answer(settings.llm_url)
    except MemoryConnectionError as error:
        yield CheckResult(check="language model", ok=False, seen=str(error), mend="until it answers, its steps wait")
        return
    named = sorted({model for model in (*steps.values(), default) if model is not None})
    yield from asyncio.run(_answers_of(settings, policy, named[:_NAMED] or [None]))


async def _answers_of(settings: Settings, policy: Policy, models: Sequence[str | None]) -> list[CheckResult]:
    """Ask each model a real question: a server that lists its models may refuse every one."""
    with ledger_of(settings) as ledger:
        checks = (check_model(settings, policy, ledger, model=each, within=MODEL_ANSWERS) for each in models)
        is_local = settings.llm_local is not None
        return [_answer_of(found, is_local=is_local) for found in await asyncio.gather(*checks) if found is not None]


def _answer_of(found: ModelCheck, *, is_local: bool) -> CheckResult:
    learnt = "".join(f"; {sentence}" for sentence in found.learnt)
    if found.has_form:
        seen = f"{found.model} answers a question in {found.seconds:.1f} s{learnt}"
        return CheckResult(check="language model", ok=True, seen=seen)
    if is_local and found.kind == "timeout":
        seen = f"{found.model} is slow on this machine: {found.problem}; `memtend models check` waits for it"
        return CheckResult(check="language model", ok=True, seen=seen)
    offered = f" (it offers {', '.join(found.offered)})" if found.offered else ""
    about = f" ({found.kind})" if found.kind is not None and found.kind not in (found.problem or "") else ""
    if found.kind == "timeout":  # the limit is the doctor's own
        mend = "`memtend models check` waits longer: a model that is just being loaded needs a moment"
    else:
        mend = f"{found.next_step}{offered}; `memtend models check` asks again, without the doctor's time limit"
    return CheckResult(
        check="language model",
        ok=False,
        seen=f"{found.model}: {found.problem}{about}" if found.model else str(found.problem),
        mend=mend,
    )


def _and_a_model(steps: Mapping[str, str | None]) -> str:
    return " and memory.llm.model" if None in steps.values() else ""


def what_a_model_adds(settings: Settings) -> Iterator[CheckResult]:
    """Say what a model would add to consolidation where its strategy asks none: connecting one changes no strategy."""
    strategy = policy_of(settings).memory.consolidation.strategy
    if strategy not in ASKING_STRATEGIES:
        seen = f"{strategy} asks no model; llm would merge old talk in writing"
        yield CheckResult(check="summaries", ok=True, seen=seen)


def model_answers(settings: Settings) -> Iterator[CheckResult]:
    """Check whether runs wait for a model that is away, and which summaries wait for its answer, and since when."""
    with ledger_of(settings) as ledger:
        away = ledger.syntheses.away(settings.company)
        unanswered = ledger.answers.unanswered(settings.company, MERGE_PURPOSE, SHORTEN_PURPOSE)
        turns = ledger.turns.unanswered(settings.company)
    if turns is not None and settings.llm_url is not None:
        yield CheckResult(
            check="waiting turns",
            ok=datetime.now(UTC) - turns[1] <= MODEL_SILENCE,
            seen=f"{turns[0]} turns of conversations wait for a model since {turns[1]:%Y-%m-%d %H:%M} UTC",
            mend="`memtend models check` says whether it answers; is a worker of group llm running?",
        )
    if unanswered is not None:
        questions, agents, since = unanswered
        yield CheckResult(
            check="unanswered questions",
            ok=True,
            seen=f"{questions} about memories of {agents} agents since {since:%Y-%m-%d %H:%M} UTC; runs ask again",
        )
    if away is None:
        yield CheckResult(check="model answers", ok=True, seen="no run waits for a model that is away")
        return
    runs, since = away
    yield CheckResult(
        check="model answers",
        ok=datetime.now(UTC) - since <= MODEL_SILENCE,
        seen=f"{runs} runs wait for a model that is away since {since:%Y-%m-%d %H:%M} UTC",
        mend="start its server, or see its log; they ask again, and do without it after memory.llm.patience_hours",
    )


def model_budget(settings: Settings) -> Iterator[CheckResult]:
    """Check whose budget is spent today."""
    policy = policy_of(settings)
    if not llm_consumers(policy.memory):
        return
    with ledger_of(settings) as ledger:
        waiting = ledger.spending.waiting(settings.company, datetime.now(UTC).date())
    cap = policy.memory.budgets.tokens_per_agent_per_day
    more = f" and {len(waiting) - _NAMED} more" if len(waiting) > _NAMED else ""
    if cap == 0:
        seen = "0 tokens: every step that asks a model waits"
    elif waiting:
        seen = f"spent today, waiting for tomorrow: {', '.join(waiting[:_NAMED])}{more}"
    else:
        seen = "nobody waits"
    yield CheckResult(
        check="model budget",
        ok=cap != 0 and not waiting,
        seen=seen,
        mend="raise memory.budgets, or let them wait; `memtend usage` says what it went for",
    )


def finetune(settings: Settings) -> Iterator[CheckResult]:
    """Report the active run's progress, and whether a worker holds it."""
    with ledger_of(settings) as ledger:
        run = ledger.finetune_runs.active(settings.company)
        items = ledger.work.open(settings.company, FineTunePayload.task)
    if run is not None and items:
        is_unclaimed = items[0].is_unclaimed(datetime.now(UTC))
        yield CheckResult(
            check="fine-tune",
            ok=not is_unclaimed,
            seen=f"{run.stage}, {run.fraction:.0%} done" + (_nobody_has(items[0]) if is_unclaimed else ""),
            mend="start a worker: `memtend worker --group finetune`; or `memtend finetune cancel --by YOU`",
        )


def _nobody_has(item: WorkItem) -> str:
    sent = item.dispatched_at
    return ", and nobody has it in hand" + ("" if sent is None else f"; last dispatched {sent:%Y-%m-%d %H:%M} UTC")


def stage_containers(settings: Settings) -> Iterator[CheckResult]:
    """Check that a container engine answers, if the policy runs stages in containers."""
    execution = execution_of(settings, policy_of(settings))
    if execution.backend == "docker":
        try:
            require_executor(execution)
            with docker_engine():
                seen = f"an engine answers; stages run in {execution.image}"
        except MemoryError as error:
            if _is_embedded(settings):
                raise
            seen = f"not seen from here, where {error}; the worker of group finetune needs an engine"
        yield CheckResult(check="stage containers", ok=True, seen=seen)


def _is_embedded(settings: Settings) -> bool:
    """Return whether all parts run on this machine: of a distributed installation not all can be seen from one."""
    return read_state(settings.home) is not None


def embedder(settings: Settings) -> Iterator[CheckResult]:
    """Check that the configured embedder is the one that serves; a deployed checkpoint may always serve."""
    policy = policy_of(settings)
    with ledger_of(settings) as ledger:
        pointer = ledger.collection_pointers.get(settings.company)
    now = None if pointer is None else pointer.current
    if now is not None and now.checkpoint_id is not None:
        if not (_is_embedded(settings) or Path(now.choice.model or "").exists()):
            seen = f"checkpoint {now.checkpoint_id} serves; its files are not on this machine"
            yield CheckResult(check="embedder", ok=True, seen=seen)
            return
        here = followed_row(settings, policy).load(now.choice)
        here.embed_query("is anybody there")
        same = (here.name, here.dims) == (now.identity.name, now.identity.dims)
        seen = f"checkpoint {now.checkpoint_id} serves, {now.identity.label}" + (
            "" if same else f"; here is {here.name}"
        )
        repair = f"put {now.choice.model} back as it was, or `memtend finetune rollback`"
        yield CheckResult(check="embedder", ok=same, seen=seen, mend=repair)
        return
    if (server := embedder_choice(settings, policy).url) is not None:
        require_answer(server)
    configured = create_configured_embedder(settings, policy)
    if configured is None:
        return  # the backend embeds nothing
    configured.embed_query("is anybody there")
    seen = f"{configured.name}, {configured.dims} dimensions ({configured.kind})"
    wanted = (configured.name, configured.dims, policy.memory.storage.text_template)
    same = now is None or (now.identity.name, now.identity.dims, now.text_template) == wanted
    yield CheckResult(
        check="embedder",
        ok=same,
        seen=seen
        if same or now is None
        else f"{seen}, text {wanted[2]!r}, is configured, and {now.identity.label} serves",
        mend="`memtend reindex` changes over to what is configured; or configure what serves",
    )


def reindex(settings: Settings) -> Iterator[CheckResult]:
    """Report a reindex's progress and whether it advances, and a collection whose terms must be made anew."""
    with ledger_of(settings) as ledger:
        found, pointer = ledger.reindexes.last(settings.company), ledger.collection_pointers.get(settings.company)
        items = ledger.work.open(settings.company, ReindexPayload.task)
    if found is not None and items:
        is_unclaimed = items[0].is_unclaimed(datetime.now(UTC))
        yield CheckResult(
            check="reindex",
            ok=not is_unclaimed and found.reason is None,
            seen=f"{found.stage}, {found.fraction:.0%}"
            + (f", {found.reason}" if found.reason else "")
            + (_nobody_has(items[0]) if is_unclaimed else ""),
            mend="does a worker take memory.reindex, is maintenance paused? `memtend reindex --cancel` ends it",
        )
        return
    if pointer is not None and pointer.previous is not None:
        yield CheckResult(
            check="reindex",
            ok=True,
            seen=f"{pointer.previous.name} is kept for `memtend reindex --rollback`; `--drop-old` frees its space",
        )
    # A checkpoint's collection is made anew by the next deploy.
    if pointer is not None and pointer.current.has_old_terms and pointer.current.checkpoint_id is None:
        yield CheckResult(
            check="reindex",
            ok=False,
            seen=f"an earlier release filled {pointer.current.name}: its memories are not found by sign, unit or case",
            mend="`memtend reindex` fills a new collection while agents go on",
        )


#: How long a webhook may fail before that is a finding: a receiver that restarts is none.
WEBHOOK_FAILING = timedelta(hours=1)

#: PostgreSQL's port where a URL names none.
_POSTGRES_PORT = 5432

#: How it says that a user or a password is wrong, or missing.
_POSTGRES_REFUSES = ("password authentication failed", "no password supplied")

#: How the store says that it answers, and that it wants another key; longer answers, in bytes, are none of ours.
_OK, _REFUSED = 200, (401, 403)
_LARGEST_ANSWER = 1_048_576


def broker(settings: Settings) -> Iterator[CheckResult]:
    """Check that the broker answers; count waiting and unreadable messages."""
    try:
        waiting, unreadable = read_queue_lengths(settings)
    except MemoryConnectionError as error:
        seen, repair = str(error), "start it, or see its log; workers come back alone"
        mend = _address_of("BROKER") if seen == REFUSES else repair
        yield CheckResult(check="broker", ok=False, seen=seen, mend=mend)
        return
    yield CheckResult(check="broker", ok=True, seen="answers")
    if kept := read_loss(settings):
        is_kept, seen = kept
        is_allowed = settings.broker_may_lose and not is_kept
        yield CheckResult(
            check="broker keeps jobs",
            ok=is_kept or is_allowed,
            seen=f"{seen}; MEMTEND_BROKER_MAY_LOSE allows it" if is_allowed else seen,
            mend="change that setting of the broker; clients refuse it until then",
        )
    yield CheckResult(
        check="unreadable messages",
        ok=not unreadable,
        seen=f"{unreadable} wait to become dead letters" if unreadable else "none",
        mend="a worker writes the letters within seconds: does one run, and does the ledger answer?",
    )
    if _is_embedded(settings):
        # Another broker may serve other Celery projects, too.
        unread = read_unread(settings)
        yield CheckResult(
            check=f"queue {UNREAD}",
            ok=not unread,
            seen=f"{unread} jobs wait, and no worker reads it" if unread else "empty",
            mend='name a queue when you send: `send_task(..., queue="memory.store")`, and send these again',
            group="queues",
        )
    for queue, count in waiting.items():
        yield CheckResult(check=f"queue {queue}", ok=True, seen=f"{count} waiting", group="queues")


def workers(settings: Settings) -> Iterator[CheckResult]:
    """Ask the workers of each group whether they take jobs; one that needs a model is missed where it has work."""
    waiting, _ = read_queue_lengths(settings)
    asleep = sleeping_parts(settings.home)
    wanted = {
        name
        for name, group in GROUPS.items()
        if not (group.on_demand or f"worker-{name}" in asleep)
        and (settings.llm_url or not group.needs_model or any(waiting[str(queue)] for queue in group.queues))
    }
    with closing(broker_app(settings)) as app:
        app.conf.broker_transport_options = person_options(settings)
        # So many answers usually are all; with several workers of a group they may not be.
        present = set(answering(app, limit=len(wanted)))
        if not wanted <= present:
            present |= set(answering(app))
    for name in GROUPS:
        if name not in wanted | present:
            continue  # nothing waits for it: `memtend finetune status` says when a run does
        yield CheckResult(
            check=f"worker {name}",
            ok=name in present,
            seen="answers" if name in present else "does not answer",
            mend=f"start it: `memtend worker --group {name}`, or see its log",
        )


def store(settings: Settings) -> Iterator[CheckResult]:
    """Check that the vector store answers and accepts our key, and that workers can share the policy's store."""
    policy = policy_of(settings)
    require_shared_backends(policy)
    if "mem0" not in policy.memory.backends.values():
        return
    try:
        status, _ = _asked_of_store(settings, "/collections")
    except MemoryConnectionError as error:
        status, seen = 0, str(error)
    else:
        seen = "answers" if status == _OK else f"answers {status}"
    repair = "set MEMTEND_QDRANT_API_KEY" if status in _REFUSED else "start it, or see its log"
    yield CheckResult(check="store", ok=status == _OK, seen=seen, mend=repair)


def canary(settings: Settings) -> Iterator[CheckResult]:
    """Check that the memory that is stored once a minute can be found soon, as an engine's would be."""
    with ledger_of(settings) as ledger:
        state = canary_state(ledger.measures.of([settings.company]), settings.company)
    if state is None:
        # A new installation; the scheduler's own check says when it stands still.
        yield CheckResult(check="canary", ok=True, seen="none sent yet")
        return
    now = datetime.now(UTC)
    age, delay = state.age_seconds(now), state.delay_seconds(now)
    yield CheckResult(
        check="canary",
        ok=is_well(age_seconds=age, delay_seconds=delay),
        seen=f"not found for {delay:.0f} s; the newest memory that is found is {age:.0f} s old"
        if state.is_open
        else f"found {delay:.2f} s after it was sent, {age:.0f} s ago",
        mend="does a worker take memory.store.*, and does the store answer? see docs/how-to/monitor.md",
    )


def webhooks(settings: Settings) -> Iterator[CheckResult]:
    """Check that every webhook accepts what it is sent; nothing is said where there is none."""
    with ledger_of(settings) as ledger:
        trouble, has_any = ledger.webhooks.in_trouble(), ledger.webhooks.count_all()
    now = datetime.now(UTC)
    for endpoint in trouble:
        since = f" since {endpoint.failing_since:%Y-%m-%d %H:%M} UTC" if endpoint.failing_since else ""
        of = "" if endpoint.company == settings.company else f" of {endpoint.company}"
        is_disabled = endpoint.state is EndpointState.DISABLED
        yield CheckResult(
            check=f"webhook {endpoint.name}{of}",
            ok=not is_disabled
            and endpoint.failing_since is not None
            and now - endpoint.failing_since < WEBHOOK_FAILING,
            seen=f"disabled: {endpoint.reason}" if is_disabled else f"no delivery has succeeded{since}",
            mend="`memtend webhooks deliveries --failed` says why; then `memtend webhooks enable`, `test` and `replay`"
            if is_disabled
            else "`memtend webhooks deliveries` says why; it is disabled once that has lasted five days",
        )
    if has_any and not trouble:
        yield CheckResult(check="webhooks", ok=True, seen=f"{has_any} in all, none fails")


def erasures(settings: Settings) -> Iterator[CheckResult]:
    """Check that every erasure has ended within an hour; nothing is said of those that have not taken as long."""
    with ledger_of(settings) as ledger:
        overdue = ledger.erasures.overdue(before=datetime.now(UTC) - ERASURE_LASTS)
    first = overdue[0] if overdue else None
    of = "" if first is None or first.company == settings.company else f" of {first.company}"
    yield CheckResult(
        check="erasures",
        ok=first is None,
        seen="none waits"
        if first is None
        else f"{len(overdue)} have not ended, first {first.erasure_id} of agent {first.agent_id}{of}: {first.state},"
        f" {first.reason or 'a worker has it'}",
        mend="`memtend erase list` says why each waits; one that failed is asked for again",
    )


def collections(settings: Settings) -> Iterator[CheckResult]:
    """Yield a finding for each collection that the embedded store refuses because it is damaged."""
    try:
        status, body = _asked_of_store(settings, "/issues")
        issues = json.loads(body)["result"]["issues"] if status == _OK else []
    except (MemoryConnectionError, ValueError, KeyError, TypeError):
        return  # the check before reports that nobody answers; and other stores have no such page
    for issue in issues:
        yield CheckResult(
            check=f"collection {issue.get('related_collection')}",
            ok=False,
            seen=str(issue.get("description")),
            mend="see docs/how-to/operate.md#a-collection-is-refused",
        )


def databases(settings: Settings) -> Iterator[CheckResult]:
    """Check that ledger, journal and history can be opened, read and written."""
    urls = {"ledger": settings.database_url, "journal": settings.journal_url, "history": settings.history_url}
    for name, url in urls.items():
        yield _database(name, url)


def _asked_of_store(settings: Settings, path: str) -> tuple[int, bytes]:
    url, key = urlsplit(settings.qdrant_url), settings.qdrant_api_key
    kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
    with closing(kind(url.hostname or "", url.port, timeout=ANSWER_SECONDS)) as line:
        try:
            line.request("GET", f"{url.path}{path}", headers={"api-key": key.get_secret_value()} if key else {})
            answer = line.getresponse()
            return answer.status, answer.read(_LARGEST_ANSWER)
        except (OSError, http.client.HTTPException) as error:
            raise MemoryConnectionError(f"does not answer ({error or type(error).__name__})") from None


def _database(name: str, url: str) -> CheckResult:
    parsed = parse_url(url, name=name)
    if parsed.get_backend_name() == "sqlite":
        repair = "put it back from a backup (docs/how-to/operate.md#restore), or give it to the user who runs memtend"
        if seen := _file_error(Path(parsed.database or "")):
            return CheckResult(check=name, ok=False, seen=seen, mend=repair)
    else:
        repair = "start it, or see its log; `memtend migrate` makes its tables"
    try:
        if parsed.host:
            require_listener(parsed.host, parsed.port or _POSTGRES_PORT)
        with closing(Database(url, name=name)) as database, database.read() as connection:
            connection.execute(text(f"SELECT version_num FROM alembic_version_{name}"))  # noqa: S608  # our own names
    except MemoryError as error:
        if any(each in str(error) for each in _POSTGRES_REFUSES):
            repair = _address_of("DATABASE" if name == "ledger" else name.upper())
        return CheckResult(check=name, ok=False, seen=str(error), mend=repair)
    return CheckResult(check=name, ok=True, seen="answers")


def _address_of(part: str) -> str:
    return f"correct the user and the password in MEMTEND_{part}_URL"


def _file_error(file: Path) -> str:
    # Opening a SQLite file that is missing would make an empty one.
    if not file.is_file():
        return f"{file} is not there" if not file.exists() else f"{file} is not a regular file"
    if not (os.access(file, os.W_OK) and os.access(file.parent, os.W_OK)):
        return f"{file} cannot be written"
    return ""
