"""A process that publishes ten facts and retracts every other one; it prints version, kind and id of each line.

Usage: python shared_writer.py LEDGER_URL AGENT
"""

import sys

from support.ledger_records import COMPANY, StoppedClock, make_fact

from memcore.ledger.database import Database
from memcore.ledger.organization.shared_log import SharedLog


def main(url: str, agent_id: str) -> None:
    log = SharedLog(Database(url, name="ledger"), clock=StoppedClock())
    for number in range(10):
        line = log.publish(COMPANY, make_fact(f"fact {number}", agent_id=agent_id))
        sys.stdout.write(f"{line.version} {line.kind} {line.memory_id}\n")
        if number % 2:
            gone = log.retract(COMPANY, agent_id, line.memory_id)
            assert gone is not None
            sys.stdout.write(f"{gone.version} {gone.kind} {gone.memory_id}\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
