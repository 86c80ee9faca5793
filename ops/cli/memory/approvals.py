"""``memtend approvals``: list, show and decide the proposals that wait for a person."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memcore import ids
from memcore.approvals.effects import diff_of, shared_proposal, superseded_by_id, visible
from memcore.errors import MemoryNotFoundError
from memcore.models.approval import Approval, ApprovalRisk, ApprovalState, Decision
from memcore.models.memory import MemoryCategory, MemoryMetadata, MemoryStoreRequest
from memcore.skills.approval_setup import create_approvals
from ops.cli.console import AsJson, draw, plain, show_facts, show_json, show_rows
from ops.cli.memory.memories import standard_input
from ops.cli.session import HomeOption, backend_of, ledger_of, one_sentence, policy_of, settings_of

if TYPE_CHECKING:
    from memcore.approvals.service import ApprovalService

app = typer.Typer(help="Approvals: propose, list, show, approve, reject, undo.", no_args_is_help=True)

ApprovalArgument = Annotated[str, typer.Argument(help="The approval's id.")]
By = Annotated[str, typer.Option("--by", help="Your name; it is kept, and stands in what is published.")]
Reason = Annotated[str | None, typer.Option("--reason", help="Why; it is kept.")]

#: How lines of a diff look, by how they begin; the longer beginnings first.
_STYLES = {"---": "bold", "+++": "bold", "@@": "cyan", "-": "red", "+": "green"}


@app.command("propose")
def propose(
    text: Annotated[str, typer.Option("--text", help="The text; - reads it from standard input.")],
    by: Annotated[str, typer.Option("--by", help="Who proposes it.")],
    title: Annotated[str | None, typer.Option(help="One line for lists and the webhook, with no word of it.")] = None,
    supersedes: Annotated[
        list[str] | None,
        typer.Option(help="The id of shared knowledge whose place it takes; may be given several times."),
    ] = None,
    risk: Annotated[ApprovalRisk, typer.Option(help=f"One of {', '.join(ApprovalRisk)}.")] = ApprovalRisk.MEDIUM,
    category: Annotated[str, typer.Option(help=f"One of {', '.join(MemoryCategory)}.")] = "semantic",
    namespace: Annotated[str, typer.Option(help="Routing key.")] = "default",
    tag: Annotated[list[str] | None, typer.Option(help="A label; may be given several times.")] = None,
    home: HomeOption = None,
    as_json: AsJson = False,
) -> None:
    """Propose a text as shared knowledge of all agents; it is published once a person approves it."""
    with one_sentence():
        request = MemoryStoreRequest.model_validate(
            {
                "category": category,
                "namespace": namespace,
                "content": standard_input() if text == "-" else text,
                "metadata": MemoryMetadata(tags=tuple(tag or ())),
            }
        )
    settings = settings_of(home)
    with ledger_of(settings) as ledger:
        old = [superseded_by_id(ledger.shared_log, settings.company, each) for each in dict.fromkeys(supersedes or ())]
        proposal = shared_proposal(
            request, title=title or "A text for all agents", proposed_by=by, risk=risk, supersedes=old
        )
        service = create_approvals(settings, policy_of(settings), ledger)
        approval = asyncio.run(service.propose(ids.new_id(), proposal))
    show_facts(facts_of(approval), as_json=as_json)


@app.command("list")
def list_approvals(
    state: Annotated[ApprovalState | None, typer.Option(help="Only those of this state.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=100, help="Most rows, newest first.")] = 20,
    home: HomeOption = None,
    as_json: AsJson = False,
) -> None:
    """Show the proposals that wait for a person, and those that were decided, newest first."""
    settings = settings_of(home)
    with ledger_of(settings) as ledger:
        found = ledger.approvals.page(settings.company, state=state, limit=limit)
    show_rows(
        (facts_of(each) for each in found),
        columns=("id", "state", "risk", "action", "title", "created_at", "expires_at", "decided_by"),
        as_json=as_json,
    )


@app.command("show")
def show(approval_id: ApprovalArgument, home: HomeOption = None, as_json: AsJson = False) -> None:
    """Show one approval: who proposed and decided, its figures, and what it changes, sentence by sentence."""
    settings = settings_of(home)
    with ledger_of(settings) as ledger:
        approval = ledger.approvals.get(settings.company, approval_id)
    if approval is None:
        raise MemoryNotFoundError(f"approval_id: {approval_id!r} names no approval; see `memtend approvals list`")
    diff = diff_of(approval)
    if as_json:
        proposal = approval.proposal
        superseded = [each.model_dump(mode="json") for each in proposal.supersedes]
        show_json({**facts_of(approval), "content": proposal.content, "supersedes": superseded, "diff": diff})
        return
    show_facts(facts_of(approval), as_json=False)
    styled = (plain(line, next((_STYLES[each] for each in _STYLES if line.startswith(each)), "")) for line in diff)
    draw(plain(""), *styled, soft_wrap=True)


@app.command("approve")
def approve(
    approval_id: ApprovalArgument, by: By, reason: Reason = None, home: HomeOption = None, as_json: AsJson = False
) -> None:
    """Approve a proposal and carry it out; if somebody decided before, name them and exit 1."""
    word = Decision(by=by, reason=reason)
    _executed(home, lambda service: service.approve(approval_id, word), as_json=as_json)


@app.command("reject")
def reject(
    approval_id: ApprovalArgument, by: By, reason: Reason = None, home: HomeOption = None, as_json: AsJson = False
) -> None:
    """Reject a proposal; nothing is published."""
    word, settings = Decision(by=by, reason=reason), settings_of(home)
    with ledger_of(settings) as ledger:
        service = create_approvals(settings, policy_of(settings), ledger)
        approval = asyncio.run(service.reject(approval_id, word))
    show_facts(facts_of(approval), as_json=as_json)


@app.command("undo")
def undo(
    approval_id: ApprovalArgument, by: By, reason: Reason = None, home: HomeOption = None, as_json: AsJson = False
) -> None:
    """Undo an approval: remove what it published, and restore what it superseded."""
    word = Decision(by=by, reason=reason)
    _executed(home, lambda service: service.undo(approval_id, word), as_json=as_json)


def add_to(root: typer.Typer) -> None:
    """Put the group on the command line."""
    root.add_typer(app, name="approvals")


def facts_of(approval: Approval) -> dict[str, Any]:
    """Return what may be printed of an approval without being asked for: everything but its texts."""
    proposal = approval.proposal
    return {
        "id": approval.approval_id,
        "state": str(approval.state),
        "needs": approval.needs and str(approval.needs),
        "risk": str(proposal.risk),
        "action": proposal.action,
        "title": visible(proposal.title),
        "proposed_by": visible(proposal.proposed_by),
        "supersedes": [each.id for each in proposal.supersedes],
        "figures": proposal.figures,
        **approval.model_dump(exclude={"approval_id", "proposal", "state", "needs"}),
    }


def _executed(
    home: Path | None, deed: Callable[["ApprovalService"], Coroutine[Any, Any, Approval]], *, as_json: bool
) -> None:
    settings = settings_of(home)
    with ledger_of(settings) as ledger, backend_of(settings) as (backend, runner):
        service = create_approvals(settings, policy_of(settings), ledger, backend=backend)
        approval = runner.run(deed(service))
    show_facts(facts_of(approval), as_json=as_json)
