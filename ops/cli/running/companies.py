"""``memtend companies``: register companies, change their policy, pause, resume and remove them."""

from pathlib import Path
from typing import Annotated

import typer

from memcore.clock import utc_now
from memcore.config.loader import build_policy, effective_policy, read_document
from memcore.config.settings import checked_company
from memcore.errors import MemoryConfigError, MemoryInputError
from memcore.ledger.agents import LATE
from memcore.ledger.companies import CompanyPolicies
from memcore.ledger.ledger import Ledger
from memcore.ledger.organization import audit
from memcore.ledger.work_items import WorkCounts
from ops.cli.console import say
from ops.cli.session import Command, Commands, JsonCommand

app = Commands("companies", "Companies that this installation serves: add, list, show, pause, resume, remove.")

Name = Annotated[str, typer.Argument(help="The company's name.")]
By = Annotated[str, typer.Option("--by", help="Your name; it is kept in the audit.")]


@app.command("add")
def add(
    command: JsonCommand,
    name: Name,
    by: By,
    policy: Annotated[Path | None, typer.Option(help="A policy file; what it leaves out is as in policy.yaml.")] = None,
) -> None:
    """Register a company, bring back a removed one, or change the policy of one."""
    document = None if policy is None else read_document(policy)
    if document is not None:
        build_policy(document, base=effective_policy(command.settings.policy_path))  # refused before it is kept
    with command.ledger() as ledger:
        company = ledger.companies.add(checked_company(name), policy=document)
        _note(ledger, name, by, "companies.add")
    command.show_facts({**dict(company), "policy": company.shown_policy})


@app.command("list")
def list_companies(command: JsonCommand) -> None:
    """Show every company, its state, and the work that waits for it or for you."""
    default = effective_policy(command.settings.policy_path).memory.consolidation.interval
    with command.ledger() as ledger:
        work, agents, dead = ledger.work.counts(), ledger.agents.counts(), ledger.dead_letters.counts()
        late = ledger.agents.late(default=default, before=utc_now() - LATE)
        rows = [
            {
                **company.model_dump(mode="json"),
                "agents": agents.get(company.company, 0),
                "late": late.get(company.company, 0),
                **work.get(company.company, WorkCounts()).model_dump(),
                "dead": dead.get(company.company, 0),
            }
            for company in ledger.companies.all()
        ]
    columns = ("state", "interval", "agents", "late", "open", "stuck", "held", "failed", "dead", "created_at")
    command.show_rows(rows, "company", *columns)


@app.command("show")
def show(command: JsonCommand, name: Name) -> None:
    """Show a company's state, what is at work for it, and whether its policy is valid."""
    policies = CompanyPolicies(command.settings, effective_policy(command.settings.policy_path))
    with command.ledger() as ledger:
        company = ledger.companies.known(name)
        facts = {**company.model_dump(mode="json"), **_facts(ledger, name)}
    try:
        policies.of(company)
    except MemoryConfigError as error:
        facts["policy_error"] = str(error)
    command.show_facts(facts)


@app.command("pause")
def pause(command: Command, name: Name) -> None:
    """Stop all maintenance of a company now, as `memtend pause` does for the installation's own."""
    with command.ledger() as ledger:
        ledger.companies.known(name)
        ledger.companies.pause(name)
    say(f"{name}: maintenance is paused")


@app.command("resume")
def resume(command: Command, name: Name) -> None:
    """Resume all maintenance of a company."""
    with command.ledger() as ledger:
        ledger.companies.known(name)
    with command.service(company=name) as (service, runner):
        runner.run(service.runs.resume_all())
    say(f"{name}: maintenance goes on")


@app.command("remove")
def remove(
    command: Command,
    name: Name,
    by: By,
    yes: Annotated[bool, typer.Option("--yes", help="Also while work of it is under way.")] = False,
) -> None:
    """Serve a company no more. Its memories and its rows stay; `memtend companies add` brings it back."""
    if name == command.settings.company:
        raise MemoryInputError("company", f"{name!r} is the installation's own, which cannot be removed")
    with command.ledger() as ledger:
        ledger.companies.known(name)
        facts = _facts(ledger, name)
        if facts["active"] and not yes:
            raise MemoryInputError("company", f"{name!r} has {facts['active']} jobs under way; --yes removes it anyway")
        ledger.companies.remove(name)
        _note(ledger, name, by, "companies.remove")
    say(f"{name}: removed; {facts['agents']} agents, their memories and {facts['dead']} dead letters stay")


def _facts(ledger: Ledger, name: str) -> dict[str, int]:
    return {
        "agents": ledger.agents.count(name),
        "active": ledger.work.leased(name),
        "dead": ledger.dead_letters.count(name),
    }


def _note(ledger: Ledger, name: str, by: str, action: str) -> None:
    ledger.audit.note(name, audit.done_by(by, action, name))
