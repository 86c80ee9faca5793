"""One agent engine: ``python tests/chaos/engine.py``, a process that repeats each call until it succeeds.

It sends at a steady pace, catches up after an outage, sends again what the broker did not take, and writes down each
receipt before it goes on.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from chaos.engine_call import EngineCall, engine_calls  # noqa: E402  # a script must find the tree first
from chaos.receipt import Receipt  # noqa: E402

from memcore import MemoryClient  # noqa: E402
from memcore.config.settings import Settings  # noqa: E402
from memcore.errors import MemoryConnectionError  # noqa: E402

#: Seconds before a call that failed is made again.
_AGAIN_SECONDS = 0.2


def main(argv: Sequence[str]) -> int:
    """Send everything, then end."""
    options = _options(argv)
    settings = Settings.load({}, options.home)
    work = engine_calls(options.seed, engine=options.engine, count=options.count, agents=options.agents.split(","))
    rate_limiter = options.seconds / options.count
    begun = time.monotonic()
    with MemoryClient.from_settings(settings) as client, options.receipts.open("a", encoding="utf-8") as file:
        for number, engine_call in enumerate(work):
            time.sleep(max(0.0, begun + number * rate_limiter - time.monotonic()))
            file.write(f"{_send(client, engine_call).line()}\n")
            file.flush()
    return 0


def _send(client: MemoryClient, engine_call: EngineCall) -> Receipt:
    sends = 1
    while True:
        try:
            acknowledged = engine_call.run(client)
        except MemoryConnectionError:
            sends += 1
            time.sleep(_AGAIN_SECONDS)
            continue
        owners = [agent_id for agent_id, _, _ in engine_call.memories]
        return Receipt(
            call=engine_call.call,
            jobs=len(acknowledged.job_ids),
            sends=sends,
            at=time.time(),
            memories=list(zip(owners, acknowledged.memory_ids, strict=True)),
        )


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python tests/chaos/engine.py", description=__doc__)
    parser.add_argument("--home", type=Path, required=True, help="data folder of the stack")
    parser.add_argument("--receipts", type=Path, required=True, help="file that receipts are written to")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--engine", type=int, required=True, help="which of the engines this is")
    parser.add_argument("--count", type=int, required=True, help="calls to make")
    parser.add_argument("--seconds", type=float, required=True, help="over how long they are spread")
    parser.add_argument("--agents", required=True, help="whose memories, separated by commas")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
