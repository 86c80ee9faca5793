"""``python tests/chaos/run.py``: kill every part under load, again and again, and account for every job.

Exit code 0: nothing lost, nothing doubled, nothing left over. 1: something is; the data folder stays for examination.
"""

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from chaos.chaos_run import POLICY, ChaosRun, ChaosSettings  # noqa: E402
from chaos.finding import finding  # noqa: E402  # a script must find the tree first
from chaos.hook import hooked_environ  # noqa: E402
from chaos.rabbitmq import rabbitmq_broker  # noqa: E402
from chaos.reconciliation import Reconciliation  # noqa: E402
from chaos.report import lines  # noqa: E402
from support.ledger_records import postgres_database  # noqa: E402
from support.postgres_server import POSTGRES, postgres_server  # noqa: E402
from support.running_stack import running_stack  # noqa: E402

#: Seconds for each kill by default: with less, parts would be killed before they are ready.
_SECONDS_PER_KILL = 4.0

#: Kills from which a run lasts long enough for a paused worker to lose its lease and resume.
_LONG_KILLS = 20


def main(argv: Sequence[str]) -> int:
    """Run once, print the report, and return 1 if anything is wrong."""
    options = _options(argv)
    chaos_settings = ChaosSettings(
        seed=options.seed,
        jobs=options.jobs,
        kills=options.kills,
        seconds=options.seconds or options.kills * _SECONDS_PER_KILL,
        is_long=options.kills >= _LONG_KILLS,
        sends_garbage=options.transport == "ours" and options.broker == "valkey",
        killers=options.killers,
        may_crash=POSTGRES not in os.environ,
    )
    folder = options.folder or Path(tempfile.mkdtemp(prefix="memtend-chaos-"))
    home = folder / "home"
    home.mkdir(mode=0o700, parents=True)
    policy = POLICY.replace("    strategy:", "    apply: propose\n    strategy:") if options.propose else POLICY
    (home / "policy.yaml").write_text(policy, encoding="utf-8")
    with _database(options.database) as database_url, _broker(options.broker) as broker_url:
        environ = hooked_environ(
            folder / "hook",
            ROOT,
            is_stock=options.transport == "stock",
            database_url=database_url,
            broker_url=broker_url,
        )
        with running_stack(home, **environ) as stack:
            after = ChaosRun(stack=stack, chaos_settings=chaos_settings, folder=folder).run()
    account = Reconciliation(
        promises=after.promises,
        planned=after.maintenance_runs.planned,
        poison=after.poison.job_ids | after.poison.killer_ids,
        unreadable=after.poison.unreadable,
        evidence=after.evidence,
    )
    outages_open = [outage.target for outage in after.outages if outage.up_at is None]
    findings = [
        *account.findings(),
        *finding("unsettled", "parts that hung and were ended by hand", after.hung),
        *finding("unsettled", "parts that never came back", outages_open),
        *finding("lost", "memories that serve has taken and nobody found", [*after.http.lost, *after.tool.lost]),
        *finding("unsettled", "answers over HTTP that no client should get", after.http.refused + after.tool.refused),
        *finding("unsettled", "memories that were shown while distrusted", after.tool.shown),
    ]
    for line in lines(chaos_settings, options.transport, after, account, findings):
        sys.stdout.write(f"{line}\n")
    if findings or after.quiet.left:
        sys.stdout.write(f"the data folder stays: {folder}\n")
        return 1
    if not options.folder:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


@contextmanager
def _database(kind: str) -> Iterator[str | None]:
    if kind == "sqlite":
        yield None
    else:
        with postgres_server() as server, postgres_database(server) as url:
            yield url


@contextmanager
def _broker(kind: str) -> Iterator[str | None]:
    if kind == "valkey":
        yield None
    else:
        with rabbitmq_broker() as url:
            yield url


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python tests/chaos/run.py", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="says what falls when (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=10_000, help="calls that engines make (default: %(default)s)")
    parser.add_argument("--kills", type=int, default=50, help="kill -9 (default: %(default)s)")
    parser.add_argument("--killers", type=int, default=1, help="jobs that kill their worker (default: %(default)s)")
    parser.add_argument("--seconds", type=float, help="length of the chaos run (default: 4 a kill)")
    parser.add_argument("--transport", choices=("ours", "stock"), default="ours", help="or kombu's own, to compare")
    parser.add_argument("--database", choices=("sqlite", "postgres"), default="sqlite", help="what the ledger is in")
    parser.add_argument(
        "--broker",
        choices=("valkey", "rabbitmq"),
        default="valkey",
        help="whose queues; connections to RabbitMQ are cut",
    )
    parser.add_argument("--propose", action="store_true", help="runs propose what they would merge, and it is adopted")
    parser.add_argument("--folder", type=Path, help="work here, and keep it; else in a temporary folder")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
