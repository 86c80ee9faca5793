"""What the demo prints of conversations: what was held, promoted, dropped and replaced, and what a reply is given."""

from collections import Counter

from examples.demo.report import shortened
from examples.demo.talking import ABOUT_IDA, PERSON, SessionReport, Talk
from memcore.models.conversation import FactState
from ops.cli.console import say, show_rows


def show_talk(talk: Talk) -> None:
    """Let the person talk, and print what is kept of it, and what the agent is shown."""
    with talk.memory:
        reports = [*talk.sessions()]
        say(f"\nfive sessions of {PERSON} over three weeks: what became of what was said")
        show_rows((_row(report) for report in reports), columns=_COLUMNS, as_json=False)
        counts = talk.counts()
        say(
            f"kept of {PERSON}: {counts.semantic} facts, {counts.procedural} rules, {counts.episodic} sessions; "
            f"{counts.superseded} replaced"
        )
        for fact in talk.demo.ledger.conversation.facts(talk.demo.company, talk.owner, states=[FactState.SUPERSEDED]):
            say(f'  replaced: {fact.subject} {fact.predicate} {fact.object} — "{fact.evidence_quote}"')
        say(f'what the agent is shown before it answers "{ABOUT_IDA}"')
        for line in talk.load(ABOUT_IDA).text().splitlines():
            say(f"  {shortened(line)}")


_COLUMNS = ("session", "turns", "now", "held", "promoted", "dropped", "said again", "summary")


def _row(report: SessionReport) -> dict[str, object]:
    found = Counter[str]()
    for turn in report.turns:
        outcome = turn.outcome or {}
        found["now"] += len(outcome.get("written", ()))
        found["again"] += len(outcome.get("bumped", ()))
        for layer in ("semantic", "procedural"):
            found["dropped"] += sum(outcome.get(layer, {}).get("dropped", {}).values())
    outcome = report.session.outcome or {}
    return {
        "session": report.session.session_id,
        "turns": len(report.turns),
        "now": found["now"],
        "held": report.held,
        "promoted": report.became.get("promoted", 0) + report.became.get("known", 0),
        "dropped": found["dropped"] + report.became.get("dropped", 0),
        "said again": found["again"] + outcome.get("bumps", 0),
        "summary": "yes" if outcome.get("arcs") else "no",
    }
