"""The demo: ``examples.demo`` starts a stack in a fresh folder, imports the fleet, and shows its first run."""

import argparse
import json
import logging
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from examples.demo.clients import show_clients
from examples.demo.console_pages import ConsolePages, show_console
from examples.demo.evaluation import show_evaluation
from examples.demo.fleet import agents, experience, fleet, searches, tests
from examples.demo.fleet_night import TICK_SECONDS, UNTIL_LATER, FleetDemo, fleet_demo
from examples.demo.learning import Learning
from examples.demo.learning_report import show_learning
from examples.demo.model import DemoModel, demo_model
from examples.demo.proposal import show_proposal
from examples.demo.report import (
    show_balances,
    show_lesson,
    show_refused,
    show_run,
    show_searches,
    show_tests,
    show_undo,
    show_why,
)
from examples.demo.talking import talk_of
from examples.demo.talking_report import show_talk
from memcore.errors import MemoryError  # noqa: A004  # the reference fixes the name
from ops.cli.console import say
from workers.stack.running import running_stack
from workers.stack.stack import Stack

#: The agent whose run the demo takes back.
_UNDONE = "support"

#: The agent whose example search the picture of the search lab shows.
_ASKED = "release"


def main(argv: Sequence[str]) -> int:
    """Run the demo; return 0 when every account balances."""
    parser = argparse.ArgumentParser(prog="python -m memcore.programs examples.demo", description=__doc__)
    parser.add_argument("--home", type=Path, help="keep the data here; else a temporary folder that is removed")
    parser.add_argument("--model", help="which model of MEMTEND_LLM_URL is asked; else the first that it lists")
    parser.add_argument("--pictures", type=Path, help="save pictures of the console here; else in the data folder")
    parser.add_argument("--report", type=Path, help="write the evaluation's page here; else beside the pictures")
    given = parser.parse_args(argv)
    home: Path | None = given.home
    # What happens is shown in sentences; without a handler Python would print the names of warnings between them.
    logging.getLogger().addHandler(logging.NullHandler())
    folder = home or Path(tempfile.mkdtemp(prefix="memtend-demo-"))
    try:
        with demo_model(os.environ, name=given.model) as model:
            pictures: Path = (given.pictures or folder).absolute()
            report: Path = (given.report or pictures / "evaluation.html").absolute()
            return _demo(folder.absolute(), model, pictures=pictures, report=report)
    except (MemoryError, TimeoutError) as error:
        sys.stderr.write(f"memtend demo: {error}\n")
        return 1
    finally:
        if home is None:
            shutil.rmtree(folder, ignore_errors=True)


def _demo(folder: Path, model: DemoModel, *, pictures: Path, report: Path) -> int:
    begun = time.monotonic()
    for each in (folder, pictures):
        each.mkdir(parents=True, exist_ok=True)
    policy = Path(__file__).with_name("policy.yaml").read_text(encoding="utf-8")
    router = f"  router: {{upstreams: {{model: {json.dumps(model.address)}}}}}\n"
    (folder / "policy.yaml").write_text(policy.replace("model: stub", f"model: {json.dumps(model.name)}") + router)
    say(f"starting broker, store, workers, beat and Flower in {folder} ...")
    with (
        running_stack(folder, {**os.environ, "MEMTEND_LLM_URL": model.address}, tick_seconds=TICK_SECONDS) as stack,
        fleet_demo(stack.settings) as demo,
    ):
        is_balanced, shown = _show_history(demo, model, folder)
        show_talk(talk_of(demo, stack.settings, datetime.now(UTC)))
        show_clients(demo, stack.serve_url, model.name)
        show_console(folder, stack.serve_url, shown, pictures=pictures)
    show_evaluation(folder / "policy.yaml", datetime.now(UTC), report=report)
    _epilogue(stack, time.monotonic() - begun)
    return 0 if is_balanced else 1


def _show_history(demo: FleetDemo, model: DemoModel, home: Path) -> tuple[bool, ConsolePages]:
    now = datetime.now(UTC)
    team = agents()
    demo.register(team, not_before=now + UNTIL_LATER)
    memories = list(fleet(now))
    since = time.monotonic()
    stored = demo.bring_in(memories)
    took = time.monotonic() - since
    say(f"\n{len(memories)} memories of {len(stored)} agents came in through the queue in {took:.1f} s")
    scenario = experience()
    demo.store_experience(scenario)
    registered = demo.register_tests(tests(now))
    runs = demo.run_maintenance(stored, due=now)
    say("\nThe first maintenance run, started by beat: what each agent had, what was removed and what was created")
    show_run(runs, {agent_id: demo.balance(agent_id, ids) for agent_id, ids in stored.items()})
    show_refused(demo, runs)
    show_tests(demo, runs, registered=registered)
    asked = searches(now)
    show_searches(demo, asked)
    summary_id = show_why(demo, runs[scenario.agent])
    stored[scenario.agent] += show_lesson(demo, scenario.agent, model=model.about)
    show_undo(demo, runs[_UNDONE], stored[_UNDONE])
    show_proposal(demo, scenario.agent)
    for agent_id, ids in show_learning(Learning(demo=demo, home=home), now).items():
        stored[agent_id] += ids
    say("\nThe accounts: every id that client, journal and store hold")
    is_balanced = show_balances({agent_id: demo.balance(agent_id, ids) for agent_id, ids in stored.items()})
    return is_balanced, ConsolePages(
        agent=scenario.agent,
        run_id=runs[scenario.agent].run_id,
        summary_id=summary_id,
        undone=_UNDONE,
        asked=next(each for each in asked if each.agent_id == _ASKED),
    )


def _epilogue(stack: Stack, seconds: float) -> None:
    peak = stack.supervisor.peak_resident_bytes / 2**20
    say(f"\npeak resident memory of the whole stack: {peak:.0f} MiB (shared pages count once)")
    say(f"the demo took {seconds:.1f} s")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
