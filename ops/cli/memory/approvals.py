"""``memtend approvals``: list, show and decide the proposals that wait for a person."""

from typing import Annotated

import typer
from pydantic import TypeAdapter

from memcore.approvals import diff_of
from memcore.models.approval import ApprovalRisk, ApprovalState, Decision, RaisedTo
from memcore.models.base import naming_fields
from memcore.models.origin import Authority
from memcore.service.approvals import approval_facts
from ops.cli.console import draw, plain, show_json
from ops.cli.memory.memories import CategoryOption, Tags, standard_input, store_request
from ops.cli.session import Commands, JsonCommand

app = Commands("approvals", "Approvals: propose, raise, list, show, approve, reject, undo.")

ApprovalArgument = Annotated[str, typer.Argument(help="The approval's id.")]
By = Annotated[str, typer.Option("--by", help="Your name; it is kept, and stands in what is published.")]
Reason = Annotated[str | None, typer.Option("--reason", help="Why; it is kept.")]

_RAISED_TO: TypeAdapter[RaisedTo] = TypeAdapter(RaisedTo)

#: How lines of a diff look, by how they begin; the longer beginnings first.
_STYLES = {"---": "bold", "+++": "bold", "@@": "cyan", "-": "red", "+": "green"}


@app.command("propose")
def propose(
    command: JsonCommand,
    text: Annotated[str, typer.Option("--text", help="The text; - reads it from standard input.")],
    by: Annotated[str, typer.Option("--by", help="Who proposes it.")],
    title: Annotated[str | None, typer.Option(help="One line for lists and the webhook, with no word of it.")] = None,
    supersedes: Annotated[
        list[str] | None,
        typer.Option(help="The id of shared knowledge whose place it takes; may be given several times."),
    ] = None,
    risk: Annotated[ApprovalRisk, typer.Option(help=f"One of {', '.join(ApprovalRisk)}.")] = ApprovalRisk.MEDIUM,
    category: CategoryOption = "semantic",
    namespace: Annotated[str, typer.Option(help="Routing key.")] = "default",
    tag: Tags = None,
) -> None:
    """Propose a text as shared knowledge of all agents; it is published once a person approves it."""
    content = standard_input() if text == "-" else text
    request = store_request(content, category=category, namespace=namespace, tags=tag)
    approval = command.run(
        lambda service: service.approvals.propose(request, by=by, title=title, risk=risk, supersedes=supersedes or ())
    )
    command.show_facts(approval_facts(approval))


@app.command("raise")
def propose_raise(
    command: JsonCommand,
    memory_id: Annotated[str, typer.Argument(help="The memory's id.")],
    agent: Annotated[str, typer.Option(help="Whose memory.")],
    by: Annotated[str, typer.Option("--by", help="Who proposes it.")],
    to: Annotated[str, typer.Option(help="inform, or instruct.")] = Authority.INFORM.value,
) -> None:
    """Propose to raise a memory above what its channels give it; it is raised once a person approves it."""
    with naming_fields(name="to"):
        raised: RaisedTo = _RAISED_TO.validate_python(to)
    approval = command.run(lambda service: service.approvals.propose_raise(agent, memory_id, to=raised, by=by))
    command.show_facts(approval_facts(approval))


@app.command("list")
def list_approvals(
    command: JsonCommand,
    state: Annotated[ApprovalState | None, typer.Option(help="Only those of this state.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=100, help="Most rows, newest first.")] = 20,
) -> None:
    """Show the proposals that wait for a person, and those that were decided, newest first."""
    found = command.run(lambda service: service.approvals.list(state=state, limit=limit))
    columns = ("id", "state", "risk", "action", "title", "created_at", "expires_at", "decided_by", "distrusted")
    command.show_rows(map(approval_facts, found), *columns)


@app.command("show")
def show(command: JsonCommand, approval_id: ApprovalArgument) -> None:
    """Show one approval: who proposed and decided, its figures, and what it changes, sentence by sentence."""
    approval = command.run(lambda service: service.approvals.get(approval_id))
    diff = diff_of(approval)
    if command.as_json:
        proposal = approval.proposal
        superseded = [each.model_dump(mode="json") for each in proposal.supersedes]
        show_json({**approval_facts(approval), "content": proposal.content, "supersedes": superseded, "diff": diff})
        return
    command.show_facts(approval_facts(approval))
    styled = (plain(line, next((_STYLES[each] for each in _STYLES if line.startswith(each)), "")) for line in diff)
    draw(plain(""), *styled, soft_wrap=True)


@app.command("approve")
def approve(command: JsonCommand, approval_id: ApprovalArgument, by: By, reason: Reason = None) -> None:
    """Approve a proposal and carry it out; if somebody decided before, name them and exit 1."""
    word = Decision(by=by, reason=reason)
    command.show_facts(approval_facts(command.run(lambda service: service.approvals.approve(approval_id, word))))


@app.command("reject")
def reject(command: JsonCommand, approval_id: ApprovalArgument, by: By, reason: Reason = None) -> None:
    """Reject a proposal; nothing is published."""
    word = Decision(by=by, reason=reason)
    command.show_facts(approval_facts(command.run(lambda service: service.approvals.reject(approval_id, word))))


@app.command("undo")
def undo(command: JsonCommand, approval_id: ApprovalArgument, by: By, reason: Reason = None) -> None:
    """Undo an approval: remove what it published, and restore what it superseded."""
    word = Decision(by=by, reason=reason)
    command.show_facts(approval_facts(command.run(lambda service: service.approvals.undo(approval_id, word))))
