"""Measure a Celery worker's cost per job over kombu's own Redis transport and over memtend's, in one run.

``python tests/benchmarks/transport.py [jobs] [pool ...]`` prints, per transport and pool, jobs per second, CPU ms per
job of the worker's process tree and of the broker, and the broker's commands per job (those inside scripts count too).
No-op jobs, late acknowledgement, a filled queue.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from time import monotonic, sleep

import psutil
from celery import Celery

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from brokers import BrokerAddress, valkey_server  # noqa: E402  # a script must find the tree first

from workers.transport import register, reliable_url  # noqa: E402  # see above

#: Worker options per pool, as memtend's workers would be started.
POOLS = {
    "solo": ("--pool", "solo", "--prefetch-multiplier", "64"),
    "threads": ("--pool", "threads", "--concurrency", "8", "--prefetch-multiplier", "4"),
    "prefork": ("--pool", "prefork", "--concurrency", "2", "--prefetch-multiplier", "4"),
}


def noop() -> None:
    """Do nothing: what remains is the price of the queue."""


def make_app(url: str) -> Celery:
    register()
    app = Celery("bench", broker=url)
    app.conf.update(
        task_acks_late=True,
        task_ignore_result=True,
        worker_send_task_events=False,
        broker_connection_retry_on_startup=True,
        broker_transport_options={"visibility_timeout": 60},
    )
    app.task(noop, name="noop")
    return app


def cpu_seconds(process: psutil.Process) -> float:
    family = [process, *process.children(recursive=True)]
    return sum(one.cpu_times().user + one.cpu_times().system for one in family)


def wait_for_at_most(broker: BrokerAddress, below: int, worker: subprocess.Popen[bytes]) -> int:
    """Wait until no more than that many jobs are unfinished; return how many there are."""
    while worker.poll() is None:
        with broker.client() as client:
            left = int(client.eval("return redis.call('LLEN', 'celery') + redis.call('HLEN', 'unacked')", 0))
        if left <= below:
            return left
        sleep(0.02)
    raise ChildProcessError(f"the worker ended with {worker.returncode}")


def commands(broker: BrokerAddress) -> int:
    with broker.client() as client:
        return int(client.info("stats")["total_commands_processed"])


def measure(name: str, url: str, pool: str, jobs: int, broker: BrokerAddress) -> None:
    app = make_app(url)
    worker = [sys.executable, __file__, "worker", url, *POOLS[pool]]
    warm_up = 50
    with app.connection_for_write() as connection, connection.Producer() as producer:
        for _ in range(jobs + warm_up):
            app.send_task("noop", producer=producer)
    assert broker.process is not None
    process = subprocess.Popen(worker, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        watched, server = psutil.Process(process.pid), psutil.Process(broker.process.pid)
        jobs = wait_for_at_most(broker, jobs, process)
        before = (monotonic(), cpu_seconds(watched), cpu_seconds(server), commands(broker))
        wait_for_at_most(broker, 0, process)
        after = (monotonic(), cpu_seconds(watched), cpu_seconds(server), commands(broker))
        wall, cpu, server_cpu, sent = (late - early for late, early in zip(after, before, strict=True))
    finally:
        process.terminate()
        process.wait()
    line = f"{pool:8} {name:6} {jobs / wall:7.0f} jobs/s {cpu / jobs * 1e3:6.3f} CPU ms/job"
    print(f"{line} {server_cpu / jobs * 1e3:6.3f} broker CPU ms/job {sent / jobs:5.1f} commands/job", flush=True)  # noqa: T201  # its purpose


def main() -> None:
    if sys.argv[1:2] == ["worker"]:
        make_app(sys.argv[2]).worker_main(
            ["worker", "--without-gossip", "--without-mingle", "--loglevel=ERROR", *sys.argv[3:]]
        )
        return
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else 4000
    with tempfile.TemporaryDirectory() as folder, valkey_server(Path(folder)) as broker:
        for pool in sys.argv[2:] or ("solo", "threads", "prefork"):
            for name, url in (("stock", broker.url), ("ours", reliable_url(broker.url))):
                measure(name, url, pool, jobs, broker)


if __name__ == "__main__":
    main()
