"""``memtend pause`` and ``memtend resume``: stop and resume all maintenance."""

from datetime import timedelta

import typer

from memcore.ledger.runs import RunState
from ops.cli.console import say
from ops.cli.session import HomeOption, dispatch, ledger_of, settings_of

#: Waiting runs that are dispatched at once; the sweep finds the others within minutes.
RUNS_REDISPATCHED = 1_000

#: The same for the skill evolver's cycles.
CYCLES_REDISPATCHED = 3


def pause(home: HomeOption = None) -> None:
    """Stop all maintenance now: nothing more is removed until `memtend resume`. Storing and searching go on."""
    settings = settings_of(home)
    with ledger_of(settings) as ledger:
        ledger.switches.pause(settings.company)
    say("maintenance is paused for all agents; `memtend resume` lets it go on")


def resume(home: HomeOption = None) -> None:
    """Resume all maintenance."""
    settings = settings_of(home)
    with ledger_of(settings) as ledger:
        ledger.switches.resume(settings.company)
        waiting = ledger.runs.list(settings.company, state=RunState.QUEUED, limit=RUNS_REDISPATCHED)
        cycles = ledger.skill_cycles.waiting(
            settings.company, dispatched_before=timedelta(0), limit=CYCLES_REDISPATCHED
        )
    dispatch(settings, waiting, cycles=cycles)
    say("maintenance goes on")


def add_to(app: typer.Typer) -> None:
    """Put the commands on the command line."""
    app.command("pause")(pause)
    app.command("resume")(resume)
