"""The parts of nights that wait for a model; every method is one short transaction."""

from collections.abc import Collection, Sequence
from datetime import datetime

from sqlalchemy import delete, exists, select, update

from memcore.clock import Clock
from memcore.ledger.engine import Database
from memcore.ledger.insert import insert_for
from memcore.ledger.ledger_tables import ACTIVE, answers, runs, syntheses
from memcore.ledger.synthesis import Synthesis, SynthesisState
from memcore.ledger.tombstones import parts

_WANTED = syntheses.c.state == SynthesisState.WANTED.value


class Syntheses:
    """The syntheses table.

    Args:
        database: the ledger.
        clock: what time it is.
    """

    def __init__(self, database: Database, *, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def plan(self, parts: Sequence[Synthesis]) -> None:
        """Write a run's parts down, all or none; a run that has some keeps those: a plan is made once."""
        if not parts:
            return
        rows = [part.model_dump(mode="python") | {"source_ids": list(part.source_ids)} for part in parts]
        with self._database.write() as connection:
            insert = insert_for(connection, syntheses).on_conflict_do_nothing()
            first = insert.values(**rows[0]).returning(syntheses.c.place)
            if connection.execute(first).scalar_one_or_none() is not None and rows[1:]:
                connection.execute(insert, rows[1:])

    def of_run(self, run_id: str) -> tuple[Synthesis, ...]:
        """Return the run's parts in order."""
        query = select(syntheses).where(syntheses.c.run_id == run_id).order_by(syntheses.c.place)
        with self._database.read() as connection:
            return tuple(Synthesis.model_validate(dict(row)) for row in connection.execute(query).mappings())

    def get(self, run_id: str, place: int) -> Synthesis | None:
        """Return one part, or None."""
        query = select(syntheses).where(syntheses.c.run_id == run_id, syntheses.c.place == place)
        with self._database.read() as connection:
            row = connection.execute(query).mappings().one_or_none()
        return Synthesis.model_validate(dict(row)) if row else None

    def turn(self, run_id: str, place: int, state: SynthesisState) -> None:
        """Put a part into a state."""
        self._set(run_id, place, state=state.value, reason=None, ring_at=None)

    def want(self, run_id: str, place: int, *, source_ids: Collection[str]) -> None:
        """Ask again, about these memories; the job is rung for at once."""
        state = SynthesisState.WANTED.value
        self._set(run_id, place, state=state, reason=None, ring_at=None, source_ids=list(source_ids))

    def refuse(self, run_id: str, *, reason: str) -> bool:
        """Give up all wanted parts of a run, since the server that refused one will refuse them all; False for none."""
        query = update(syntheses).where(syntheses.c.run_id == run_id, _WANTED)
        with self._database.write() as connection:
            refused = query.values(state=SynthesisState.REFUSED.value, reason=reason, ring_at=None)
            return connection.execute(refused).rowcount > 0

    def is_waiting(self, run_id: str) -> bool:
        """Return whether any part of the run is still wanted."""
        return self._has(run_id, SynthesisState.WANTED)

    def has_ready(self, run_id: str) -> bool:
        """Return whether any part of the run has its answers and is not replaced yet."""
        return self._has(run_id, SynthesisState.READY)

    def to_ring(self, run_id: str) -> tuple[Synthesis, ...]:
        """Return the run's wanted parts whose time to be rung for has come."""
        now = self._clock()
        return tuple(
            part
            for part in self.of_run(run_id)
            if part.state is SynthesisState.WANTED and (part.ring_at is None or part.ring_at <= now)
        )

    def rung(self, run_id: str, places: Collection[int], *, again_at: datetime) -> None:
        """Note that the jobs of these parts were sent, and when to send them again if nothing came of it."""
        mine = (syntheses.c.run_id == run_id) & syntheses.c.place.in_(sorted(places))
        query = update(syntheses).where(mine, _WANTED)
        with self._database.write() as connection:
            connection.execute(query.values(ring_at=again_at, reason=None))

    def sleep(self, run_id: str, *, until: datetime, reason: str) -> bool:
        """Let all wanted parts of a run wait until a time; False when they do so already."""
        awake = syntheses.c.reason.is_(None) | syntheses.c.ring_at.is_(None) | (syntheses.c.ring_at < until)
        query = (
            update(syntheses).where(syntheses.c.run_id == run_id, _WANTED, awake).values(ring_at=until, reason=reason)
        )
        with self._database.write() as connection:
            return connection.execute(query).rowcount > 0

    def revive(self, company: str) -> tuple[str, ...]:
        """Forget the questions whose asker died, let their parts be rung for, and return their runs; sorted.

        Doing it again returns nothing new, so that no message is sent twice for one death.
        """
        dead = (answers.c.company == company) & (answers.c.state == "asking") & (answers.c.lease_until <= self._clock())
        with self._database.write() as connection:
            run_ids = set(connection.execute(delete(answers).where(dead).returning(answers.c.run_id)).scalars())
            found = sorted(run_id for run_id in run_ids if run_id is not None)
            for part in parts(found):
                theirs = syntheses.c.run_id.in_(part) & _WANTED & syntheses.c.reason.is_(None)
                connection.execute(update(syntheses).where(theirs).values(ring_at=None))
        return tuple(found)

    def forget(self, company: str) -> int:
        """Delete a company's parts whose runs have ended, and return how many; they name ids, and nothing else."""
        active = exists().where(runs.c.run_id == syntheses.c.run_id, ACTIVE)
        query = delete(syntheses).where(syntheses.c.company == company, ~active)
        with self._database.write() as connection:
            return connection.execute(query).rowcount

    def _has(self, run_id: str, state: SynthesisState) -> bool:
        query = select(syntheses.c.place).where(syntheses.c.run_id == run_id, syntheses.c.state == state.value)
        with self._database.read() as connection:
            return connection.execute(query.limit(1)).first() is not None

    def _set(self, run_id: str, place: int, **values: object) -> None:
        query = update(syntheses).where(syntheses.c.run_id == run_id, syntheses.c.place == place)
        with self._database.write() as connection:
            connection.execute(query.values(**values))
