"""Which parts a stack has, in the order in which they start."""

from collections.abc import Collection
from datetime import timedelta

from memcore.config.stack_file import write_private
from memcore.programs import program_argv
from workers.groups import GROUPS, STORE
from workers.heartbeat import Heartbeat
from workers.shutdown import STOP_SECONDS
from workers.stack.broker import broker_binary, write_broker_config
from workers.stack.home import Doors, Home
from workers.stack.part import Part
from workers.stack.ready import broker_answers, file_appears, http_answers


def infrastructure(home: Home, doors: Doors, *, with_store: bool = True) -> tuple[Part, ...]:
    """Return the broker and, if the stack has its own, the store server: what must answer before all else starts."""
    broker = Part(
        name="broker",
        argv=(str(broker_binary()), str(write_broker_config(home, doors))),
        is_ready=broker_answers(doors.broker_port, doors.broker_password),
    )
    if not with_store:
        return (broker,)
    key_file = home.run / "store.key"
    write_private(key_file, doors.store_key)
    store = Part(
        name="store-server",
        argv=(
            *program_argv("memcore.vectorstore.server"),
            f"--data={home.data / 'vectors'}",
            f"--port={doors.store_port}",
            f"--api-key-file={key_file}",
        ),
        is_ready=http_answers(doors.store_port, "/readyz"),
    )
    return broker, store


def crews(home: Home, *, also: Collection[str] = ()) -> tuple[Part, ...]:
    """Return one worker for each group, and beat; a group that is started on demand only where it is named."""
    workers = tuple(
        Part(
            name=f"worker-{name}",
            argv=(*program_argv("workers.run"), f"--group={name}"),
            is_ready=file_appears(Heartbeat.of(home.path, f"worker-{name}").path),
            is_well=Heartbeat.of(home.path, f"worker-{name}").is_fresh,
            is_beside=name != STORE.name,
            # For children SIGTERM then means: finish what runs, give back the rest. Threads cannot be ended: Celery
            # slept its whole soft shutdown and then fell over the first of them, so they finish what they hold.
            env={"REMAP_SIGTERM": "SIGQUIT"} if group.pool == "prefork" else {},
            # A worker ends by itself before.
            stop_limit=timedelta(seconds=STOP_SECONDS + 5),
        )
        for name, group in GROUPS.items()
        if not group.on_demand or name in also
    )
    beat = Part(
        name="beat",
        argv=program_argv("workers.beat"),
        is_ready=file_appears(Heartbeat.of(home.path, "beat").path),
        is_well=Heartbeat.of(home.path, "beat").is_fresh,
        is_beside=True,
    )
    return (*workers, beat)


def flower(doors: Doors) -> Part:
    """Return Flower, which shows jobs and workers to people."""
    return Part(
        name="flower",
        argv=program_argv("ops.flower"),
        is_ready=http_answers(doors.flower_port, "/healthcheck"),
        is_beside=True,
    )
