"""A value rule of your own: which memories an agent over its limit keeps. Needs no stack.

A package offers it to every worker by an entry point; one rule may be installed::

    [project.entry-points."memtend.memory_value"]
    ours = "our_package.memories:value"
"""

from datetime import UTC, datetime, timedelta

from memcore import Candidate, MemoryCategory, MemoryEntry, usual_value

#: What a contract is worth beside any other memory: more than the shipped rule ever gives.
CONTRACT = 100.0


def value(candidate: Candidate, now: datetime) -> float:
    """Return the worth of one memory; the least valuable ones are removed first."""
    if candidate.entry.namespace == "contracts":
        return CONTRACT
    return usual_value(candidate, now)


def main() -> None:
    now = datetime(2026, 6, 1, tzinfo=UTC)

    def candidate(text: str, *, namespace: str = "default", age_days: int = 0, uses: int = 0) -> Candidate:
        made = now - timedelta(days=age_days)
        entry = MemoryEntry(
            id=text,
            agent_id="oncall",
            namespace=namespace,
            category=MemoryCategory.SEMANTIC,
            content=text,
            created_at=made,
        )
        return Candidate(entry=entry, uses=uses, last_used_at=now if uses else None)

    candidates = [
        candidate("an old contract", namespace="contracts", age_days=900),
        candidate("a note of today"),
        candidate("an old note that was used eight times", age_days=300, uses=8),
        candidate("an old note", age_days=300),
    ]
    for each in sorted(candidates, key=lambda one: value(one, now), reverse=True):
        print(f"{value(each, now):7.2f}  {each.entry.content}")


if __name__ == "__main__":
    main()
