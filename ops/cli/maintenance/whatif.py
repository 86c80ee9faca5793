"""``memtend whatif``: what another policy would do to the memories that are there."""

import random
from pathlib import Path
from typing import Annotated

import typer

from memcore.config.loader import load_policy
from memcore.errors import MemoryNotFoundError
from memcore.ledger.ledger import Ledger
from memcore.models.memory_test import listed_names
from ops.cli.console import cell, say, show_json
from ops.cli.progress import progress_bar
from ops.cli.session import Commands, JsonCommand

app = Commands()

#: Agents that are looked at where none is named.
SAMPLE = 20


@app.command("whatif")
def whatif(
    command: JsonCommand,
    policy: Annotated[Path, typer.Option(help="The policy file to try.")],
    agents: Annotated[list[str] | None, typer.Option("--agent", help="Whose memories; several times for more.")] = None,
    sample: Annotated[int, typer.Option(min=1, help="Without --agent: so many agents, drawn once for all.")] = SAMPLE,
) -> None:
    """Show what an agent's next run would do under another policy, beside the one in force; nothing is written.

    Store and embedder stay as they are. Recorded questions and registered
    memory tests are asked of what each run would leave.
    """
    # It brings the models of maintenance and retrieval along, and few commands need them.
    from memcore.evaluation.whatif import WhatIf, WhatIfs  # noqa: PLC0415  # see above

    other = command.policy_from(load_policy(policy))
    with command.ledger() as ledger, command.backend() as (backend, runner):
        compared = WhatIfs(settings=command.settings, backend=backend, ledger=ledger, now=command.policy, then=other)
        chosen, found = _agents(ledger, command.company, agents, sample), list[WhatIf]()
        with progress_bar("agents", total=len(chosen), is_silent=command.as_json) as bar:
            for agent_id in chosen:
                found.append(runner.run(compared.of(agent_id)))
                bar.advance()
    if command.as_json:
        show_json(found)
        return
    if not found:
        say("no agent is registered")
        return
    rows = [
        {
            "agent": each.agent_id,
            "live": each.live,
            **{
                name: _both(getattr(each.now, name), getattr(each.then, name))
                for name in ("expired", "merged", "summaries", "over_limit", "after", "refused", "asking")
            },
            "questions": each.questions,
            "more": each.more,
            "fewer": each.fewer,
            "broken": len(each.broken),
        }
        for each in found
    ]
    command.show_rows(rows, *rows[0])
    for each in found:
        for named, run in (("now", each.now), ("then", each.then)):
            if run.stops is not None:
                say(f"{cell(each.agent_id)}, {named}: stops after retention: {run.stops}")
    more_left = sum(each.then.after - each.now.after for each in found)
    questions, more, fewer = (sum(getattr(each, name) for each in found) for name in ("questions", "more", "fewer"))
    left = f"{abs(more_left)} memories {'more' if more_left > 0 else 'fewer'}" if more_left else "as many memories"
    say(f"{len(found)} agents: after the next run {left} would be there under it")
    for each in found:
        if each.broken:
            say(f"{cell(each.agent_id)}: memory tests that would fail then: {listed_names(each.broken)}")
    if questions:
        say(f"{questions} recorded questions: {more} would find more of what they were shown, {fewer} less")
    else:
        say("no question is recorded: see memory.retrieval.record_queries")


def _both(now: int, then: int) -> str:
    return str(now) if now == then else f"{now} > {then}"


def _agents(ledger: Ledger, company: str, named: list[str] | None, sample: int) -> list[str]:
    if named:
        known = {each.agent_id for each in ledger.agents.list(company, among=named)}
        for each in named:
            if each not in known:
                raise MemoryNotFoundError(f"agent: {each!r} is not known; `memtend agents list` says who is")
        return list(dict.fromkeys(named))
    every, last = list[str](), None
    while page := ledger.agents.list(company, after=last):
        every += [each.agent_id for each in page]
        last = every[-1]
    # The same ones each time, so that two policies are tried on one sample.
    return sorted(random.Random(0).sample(every, min(sample, len(every))))  # noqa: S311  # no secret
