"""Questions that agents asked of their memories, kept where the policy says so; the gate asks them again."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import delete, select, true

from memcore import ids
from memcore.jobs import RecordedQuery
from memcore.ledger.database import Records, Row, equals, insert_for
from memcore.ledger.tables import recorded_queries

#: Most questions that are kept of an agent, the newest: far more than the gate asks of one run's groups.
MOST_QUERIES = 200


class RecordedQueries(Records[RecordedQuery]):
    """The table of questions: of each the newest time that it was asked, and what was shown then."""

    _table = recorded_queries
    _model = RecordedQuery

    def record(self, company: str, queries: Sequence[RecordedQuery]) -> None:
        """Keep these questions, and of each agent the newest 200; the same ones again change nothing."""
        rows, now = dict[tuple[str, str], Row](), self._clock()
        for query in sorted(queries, key=lambda each: each.asked_at):
            query_id = ids.query_id(question=query.question)
            # An engine's clock may be ahead: a time to come would keep the question for longer.
            values = {**query.model_dump(mode="python"), "asked_at": min(query.asked_at, now)}
            rows[query.agent_id, query_id] = {"company": company, "query_id": query_id, **values}
        if not rows:
            return
        table = recorded_queries.c
        with self._database.write() as connection:
            insert = insert_for(connection, recorded_queries)
            newer = insert.on_conflict_do_update(
                index_elements=list(recorded_queries.primary_key),
                set_={"memory_ids": insert.excluded.memory_ids, "asked_at": insert.excluded.asked_at},
                where=insert.excluded.asked_at > table.asked_at,
            )
            # In one order everywhere: two writers that lock rows in different orders deadlock on PostgreSQL.
            connection.execute(newer, [row for _, row in sorted(rows.items())])
            for agent_id in sorted({agent_id for agent_id, _ in rows}):
                mine = equals(recorded_queries, company=company, agent_id=agent_id)
                newest = select(table.query_id).where(mine).order_by(table.asked_at.desc(), table.query_id)
                older = table.query_id.in_(newest.offset(MOST_QUERIES))
                connection.execute(delete(recorded_queries).where(mine, older))

    def of(self, company: str, agent_id: str, *, since: datetime | None = None) -> tuple[RecordedQuery, ...]:
        """Return the agent's questions that were asked since then, or all, the newest first."""
        table, mine = recorded_queries.c, equals(recorded_queries, company=company, agent_id=agent_id)
        query = select(recorded_queries).where(mine, true() if since is None else table.asked_at >= since)
        return self._all(query.order_by(table.asked_at.desc(), table.query_id))

    def forget(self, company: str, agent_id: str) -> int:
        """Delete an agent's questions, and return how many there were."""
        return self._delete(equals(recorded_queries, company=company, agent_id=agent_id))

    def expire(self, company: str, *, before: datetime) -> int:
        """Delete the questions that were last asked before then, and return how many."""
        return self._delete(recorded_queries.c.company == company, recorded_queries.c.asked_at < before)
