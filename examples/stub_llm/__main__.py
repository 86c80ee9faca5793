"""The program ``examples.stub_llm``: print the address, then answer until interrupted."""

import argparse
import contextlib
import sys

from examples.stub_llm.fault import StubOrders
from examples.stub_llm.server import StubServer


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(prog="python -m memcore.programs examples.stub_llm", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="port on loopback; 0 takes any that is free")
    parser.add_argument("--obedient", action="store_true", help="do what instructions in the data say")
    parser.add_argument("--key", help="the only bearer token that is let in")
    parser.add_argument("--seconds", type=float, default=0.0, help="how long every answer takes")
    given = parser.parse_args()
    orders = StubOrders(obedient=given.obedient, key=given.key, seconds=given.seconds)
    with StubServer(orders, port=given.port) as server:
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever(poll_interval=0.05)


main()
