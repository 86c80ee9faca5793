"""Execution traces for tests."""

from datetime import timedelta
from typing import Any

from hypothesis import strategies as st

from memcore.ledger.learning.trajectories import Trajectory
from memcore.models.base import escaped
from memcore.models.execution import ExecutionTrace, Recovery, TerminationReason, Turn
from memcore.models.origin import OWN, Origin
from support.memories import DAWN


def trace(task_id: str = "t-1", **more: Any) -> ExecutionTrace:
    """Return a trace; nothing must be said."""
    fields: dict[str, Any] = {
        "task_id": task_id,
        "task_title": "Mend the nightly import",
        "termination_reason": TerminationReason.COMPLETED,
        "ended_at": DAWN,
    }
    return ExecutionTrace(**{**fields, **more})


def trajectory(
    trajectory_id: str,
    *,
    agent_id: str = "ada",
    younger: timedelta = timedelta(0),
    origin: Origin = OWN,
    **more: Any,
) -> Trajectory:
    """Return a trajectory; only its id must be said."""
    made = trace(ended_at=DAWN + younger, **more)
    return Trajectory.of(made, trace_id=trajectory_id, agent_id=agent_id, origin=origin)


def of_key(*principals: str) -> Origin:
    """Return the origin of what agents report with these keys."""
    return Origin(principals=principals)


_WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40).filter(str.strip)
_KEYS = _WORDS.map(escaped).filter(lambda text: not text.startswith("__"))
_TOOLS = st.one_of(_KEYS, st.sampled_from(["search_memory", "recall_memory"]))
_TIMES = st.timedeltas(timedelta(0), timedelta(days=9)).map(lambda after: DAWN + after)

#: Any trace that an engine may send, small ones rather than large.
TRACES = st.builds(
    ExecutionTrace,
    task_id=_KEYS,
    task_title=_WORDS,
    task_description=st.none() | _WORDS,
    task_type=st.none() | _KEYS,
    turns=st.lists(
        st.builds(Turn, tokens=st.integers(0, 10**6), tools=st.lists(_TOOLS, max_size=5).map(tuple)), max_size=40
    ).map(tuple),
    termination_reason=st.sampled_from(TerminationReason),
    error_message=st.none() | _WORDS,
    error_category=st.none() | _KEYS,
    recovery=st.none() | st.builds(Recovery, strategy=_KEYS, is_recovered=st.booleans()),
    retries=st.integers(0, 9),
    quality=st.none() | st.floats(0, 10),
    prompt=st.none() | _WORDS,
    output=st.none() | _WORDS,
    feedback=st.none() | _WORDS,
    steps=st.lists(_WORDS, max_size=4).map(tuple),
    started_at=st.none() | st.just(DAWN),
    ended_at=_TIMES,
)
