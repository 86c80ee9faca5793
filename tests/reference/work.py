"""docs/explanation/work-items.md: the states of a work item, and what leads from one to another."""

from collections import defaultdict

from memcore.ledger.work_items import TRANSITIONS, WorkState
from reference.docstrings import member_sentences
from reference.page import DOCS, Page, table


def reference() -> str:
    """Return the drawing of the state machine, then its states and events."""
    sentences = member_sentences(WorkState)
    states = [(f"`{state}`", sentences[state.name]) for state in WorkState]
    events = [
        (f"`{event}`", ", ".join(f"`{source}`" for source in transition.sources), f"`{transition.target}`")
        for event, transition in TRANSITIONS.items()
    ]
    tables = [table(("state", "meaning"), states), table(("event", "from", "to"), events)]
    return "\n\n".join(["## The states", _drawing(), *tables])


def _drawing() -> str:
    events = defaultdict[tuple[WorkState, WorkState], list[str]](list)
    for event, transition in TRANSITIONS.items():
        for source in transition.sources:
            events[source, transition.target].append(event)
    lines = [f"    {source} --> {target}: {', '.join(named)}" for (source, target), named in events.items()]
    return "\n".join(["```mermaid", "stateDiagram-v2", f"    [*] --> {WorkState.AVAILABLE}", *lines, "```"])


PAGE = Page(folder=DOCS / "explanation", name="work-items.md", generate=reference)
