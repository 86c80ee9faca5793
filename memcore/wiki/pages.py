"""One experience as one file."""

from collections.abc import Container

from memcore.experience.compressed_record import experience_of
from memcore.experience_models import CompressedExperience, DetailedExperience
from memcore.models import MemoryCategory, MemoryEntry
from memcore.wiki.markdown import fenced, file_bytes, front_matter, plain
from memcore.wiki.place_name import place_name


def raw_page(experience: DetailedExperience) -> bytes:
    """Return the file of a raw experience: every text of it, as it was."""
    parts = [("Prompt", experience.prompt)]
    parts += [(f"Step {number}", step) for number, step in enumerate(experience.reasoning_trace, start=1)]
    parts.append(("Output", experience.output))
    if experience.verification_feedback is not None:
        parts.append(("Verification", experience.verification_feedback))
    head = {
        "id": experience.id,
        "agent_id": experience.agent_id,
        "category": str(MemoryCategory.EPISODIC),
        "created_at": experience.created_at.isoformat(),
    }
    if experience.source_task_id is not None:
        head["source_task_id"] = experience.source_task_id
    return file_bytes(
        front_matter(head), "# Raw experience", *(f"## {title}\n\n{fenced(text)}" for title, text in parts)
    )


def compressed_page(entry: MemoryEntry, *, raw_ids: Container[str]) -> bytes:
    """Return the file of a compressed experience.

    Args:
        entry: the memory.
        raw_ids: the raw experiences that are exported too, so that these sources become links.
    """
    head = {
        "id": entry.id,
        "agent_id": entry.agent_id,
        "category": str(entry.category),
        "created_at": entry.created_at.isoformat(),
    }
    found = experience_of(entry)
    if found is None:
        return file_bytes(front_matter(head), "# Compressed experience", fenced(entry.content))
    return file_bytes(front_matter(head), "# Compressed experience", *_lessons(found, raw_ids=raw_ids))


def headline(entry: MemoryEntry) -> str:
    """Return what an index says of a compressed experience: its first decision."""
    found = experience_of(entry)
    return found.strategic_decisions[0] if found else entry.content


def _lessons(found: CompressedExperience, *, raw_ids: Container[str]) -> list[str]:
    parts = ["## Decisions", _listed(found.strategic_decisions)]
    if found.applicable_contexts:
        parts += ["## Where it applies", _listed(found.applicable_contexts)]
    sources = (
        f"- [{plain(key)}](../raw/{place_name(key)}.md)" if key in raw_ids else f"- {plain(key)}"
        for key in found.source_artifact_ids
    )
    made = f"Compressed to {found.compression_ratio:.0%} of its sources by {plain(found.compressor_version)}."
    return [*parts, "## Sources", "\n".join(sources), made]


def _listed(texts: tuple[str, ...]) -> str:
    return "\n".join(f"- {plain(text)}" for text in texts)
