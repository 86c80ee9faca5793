"""Tables of what the fleet learns: how tasks went, the lessons drawn from them, and the skills of the organisation."""

from sqlalchemy import Column, Float, Index, Integer, LargeBinary, String, Table

from memcore.ledger.columns import Moment, document
from memcore.ledger.ledger_tables import metadata

#: How tasks went, in short, one row each: what skills are learned from. The whole trace is a raw experience.
trajectories = Table(
    "trajectories",
    metadata,
    Column("company", String, primary_key=True),
    Column("trajectory_id", String, primary_key=True),
    Column("agent_id", String, nullable=False),
    Column("task_id", String, nullable=False),
    Column("task_type", String),
    Column("outcome", String, nullable=False),
    Column("error_category", String),
    # A hash of the tools in the order of their calls; None where fewer than two were called.
    Column("tools_key", String),
    Column("quality", Float),
    Column("ended_at", Moment, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Index("trajectories_newest", "company", "ended_at"),
    Index("trajectories_of_agent", "company", "agent_id", "ended_at"),
    Index("trajectories_of_failure", "company", "error_category", "ended_at"),
    Index("trajectories_of_chain", "company", "tools_key", "ended_at"),
)

#: The lesson of each task from which one may be drawn: asked for once, and what became of it.
lessons = Table(
    "lessons",
    metadata,
    Column("company", String, primary_key=True),
    # The trajectory's own id.
    Column("lesson_id", String, primary_key=True),
    Column("agent_id", String, nullable=False),
    # None while nobody has drawn it; then one word, such as stored or low_confidence.
    Column("outcome", String),
    Column("memory_id", String),
    Column("confidence", Float),
    Column("created_at", Moment, nullable=False),
    # When its message was sent last; in the future while it sleeps.
    Column("rung_at", Moment, nullable=False),
    # How often a model was asked in vain.
    Column("tries", Integer, nullable=False),
    Column("drawn_at", Moment),
    Column("propagated_at", Moment),
    Column("body", LargeBinary),
    Index("lessons_of_agent", "company", "agent_id", "created_at"),
    Index("lessons_oldest", "company", "created_at"),
)

#: A task that nobody has drawn the lesson of.
WAITING = lessons.c.outcome.is_(None)

Index("lessons_waiting", lessons.c.company, lessons.c.rung_at, sqlite_where=WAITING, postgresql_where=WAITING)

#: A lesson that was stored and not passed on.
UNPROPAGATED = lessons.c.memory_id.is_not(None) & lessons.c.propagated_at.is_(None)

Index(
    "lessons_unpropagated",
    lessons.c.company,
    lessons.c.agent_id,
    sqlite_where=UNPROPAGATED,
    postgresql_where=UNPROPAGATED,
)

#: Skills that a person approved: what each says, and whether it stands.
skills = Table(
    "skills",
    metadata,
    Column("company", String, primary_key=True),
    # The id under which it was published first; it keeps it when it comes back under another.
    Column("skill_id", String, primary_key=True),
    Column("approval_id", String, nullable=False),
    Column("pattern_id", String, nullable=False),
    Column("state", String, nullable=False),
    Column("superseded_by", String),
    Column("confidence", Float, nullable=False),
    Column("published_at", Moment, nullable=False),
    Column("changed_at", Moment, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Index("skills_newest", "company", "state", "published_at"),
)

#: How often a lesson or a skill was applied, and how often it helped.
skill_counts = Table(
    "skill_counts",
    metadata,
    Column("company", String, primary_key=True),
    Column("skill_id", String, primary_key=True),
    Column("applications", Integer, nullable=False),
    Column("successes", Integer, nullable=False),
    Column("last_applied_at", Moment, nullable=False),
)

#: Each application, for as long as its message may come again; counted in the same transaction.
skill_applications = Table(
    "skill_applications",
    metadata,
    Column("company", String, primary_key=True),
    Column("application_id", String, primary_key=True),
    Column("skill_id", String, nullable=False),
    Column("agent_id", String, nullable=False),
    Column("outcome", String, nullable=False),
    Column("applied_at", Moment, nullable=False),
    Index("skill_applications_oldest", "company", "applied_at"),
)

#: The evolver's cycles: what each was to look at, and its report.
skill_cycles = Table(
    "skill_cycles",
    metadata,
    Column("company", String, primary_key=True),
    Column("cycle_id", String, primary_key=True),
    Column("origin", String, nullable=False),
    Column("planned_at", Moment, nullable=False),
    Column("window_start", Moment, nullable=False),
    Column("window_end", Moment, nullable=False),
    Column("rung_at", Moment, nullable=False),
    Column("finished_at", Moment),
    Column("report", document()),
    Index("skill_cycles_newest", "company", "planned_at"),
)

#: A cycle that nobody has finished.
UNFINISHED = skill_cycles.c.finished_at.is_(None)

Index(
    "skill_cycles_open",
    skill_cycles.c.company,
    skill_cycles.c.rung_at,
    sqlite_where=UNFINISHED,
    postgresql_where=UNFINISHED,
)
