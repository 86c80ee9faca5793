"""A master, its replica and the sentinel that watches both: real servers from the wheel, failing over in a second."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis

from support.running_stack import wait_until
from support.valkey_servers import BrokerAddress, free_port, valkey_binary, valkey_server

#: What the sentinel calls the group.
MASTER = "queue"


@dataclass(frozen=True, kw_only=True)
class Sentinels:
    """Where the sentinel listens, and the two servers."""

    port: int
    master: BrokerAddress
    replica: BrokerAddress

    @property
    def url(self) -> str:
        return f"sentinel://:{self.master.password}@127.0.0.1:{self.port}/0?master_name={MASTER}"

    def master_port(self) -> int:
        """Ask the sentinel who is master now."""
        with redis.Redis(port=self.port, decode_responses=True) as client:
            answer: Any = client.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER)
            return int(answer[1])

    def fail_over(self) -> None:
        """Kill the master once the replica has everything, and return when the replica is master."""
        with self.master.client() as client:
            assert client.wait(1, 10_000) == 1
        self.master.kill()
        wait_until(lambda: self.master_port() == self.replica.port, what="the sentinel to name a new master")


@contextmanager
def sentinels(path: Path) -> Iterator[Sentinels]:
    """Run the three servers for as long as the context is open."""
    with valkey_server(path / "master") as master, _replica_of(master, path / "replica") as replica:
        port = free_port()
        config = path / "sentinel.conf"
        config.write_text(
            "\n".join(
                (
                    f"port {port}",
                    "bind 127.0.0.1",
                    f'dir "{path}"',
                    f"sentinel monitor {MASTER} 127.0.0.1 {master.port} 1",
                    f"sentinel auth-pass {MASTER} {master.password}",
                    f"sentinel down-after-milliseconds {MASTER} 500",
                    f"sentinel failover-timeout {MASTER} 5000",
                    "",
                )
            )
        )
        with (path / "sentinel.log").open("wb") as log:
            process = subprocess.Popen([valkey_binary(), config, "--sentinel"], stdout=log, stderr=log)
        try:
            wait_until(lambda: _knows_the_replica(port), what="the sentinel to know the replica")
            yield Sentinels(port=port, master=master, replica=replica)
        finally:
            process.kill()
            process.wait()


@contextmanager
def _replica_of(master: BrokerAddress, path: Path) -> Iterator[BrokerAddress]:
    path.mkdir()
    # The same password: whichever of the two is master is spoken to alike.
    options = {"masterauth": master.password}
    replica = BrokerAddress(path=path, port=free_port(), password=master.password, options=options)
    replica.start()
    try:
        with replica.client() as client:
            client.execute_command("REPLICAOF", "127.0.0.1", str(master.port))
        yield replica
    finally:
        replica.kill()


def _knows_the_replica(port: int) -> bool:
    try:
        with redis.Redis(port=port) as client:
            found = client.sentinel_slaves(MASTER)
    except redis.ConnectionError:
        return False
    return [one["master-link-status"] for one in found] == ["ok"]
