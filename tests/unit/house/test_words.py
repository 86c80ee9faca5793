"""No private words: names, comments, docstrings, messages and pages use the field's terms (docs/glossary.md).

``python tests/unit/house/test_words.py`` lowers the counts of ``words_left.txt``; ``--reset`` writes them anew.
"""

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

#: Findings that remain, by folder. A folder that is not listed has none; a count may only shrink.
LEFT = Path(__file__).with_name("words_left.txt")

#: Folders of Python files. The migrations are history and name columns; the demo's texts, and what people say in ten
#: languages, are data.
CODE = ("memcore", "ops", "scheduler", "tasks", "workers", "tests", "examples")
SKIPPED = re.compile(
    r"/migrations/|/fixtures/|test_words\.py|conversation/cues\.py|embedding/time_words\.py|llm/grounding/words\.py"
    r"|/demo/.*\.(?:ya?ml|md)|CHANGELOG"
)

#: Files whose strings are sample memories, not messages.
STORIES = ("tests/", "ops/demo/", "examples/", "docs/")

#: Parts of names that are private words, and the field's word for each. ``skill_room`` has the parts skill and room.
IN_NAMES = {
    "arrow": "import rule",
    "bell": "dispatcher",
    "bells": "dispatchers",
    "booked": "entry_counts",
    "booking": "journal_entry",
    "bookings": "journal_entries",
    "bookkeeper": "journaled_store",
    "brake": "removal_guard",
    "buried": "tombstoned",
    "bury": "add_tombstones",
    "chapter": "history_event",
    "chapters": "history_events",
    "crew": "job_context",
    "crews": "job_contexts",
    "desk": "batch_writer",
    "desks": "batch_writers",
    "errand": "engine_call",
    "errands": "engine_calls",
    "floor": "layer",
    "floors": "layers",
    "grave": "tombstone",
    "graves": "tombstones",
    "guest": "model",
    "hearing": "output_reader",
    "house": "repository",
    "lane": "queue_class",
    "lanes": "fair_queues",
    "legs": "rankings",
    "likes": "peers",
    "mirror": "reindex_target",
    "night": "maintenance_run",
    "nights": "maintenance_runs",
    "oracle": "fake_summarizer",
    "ordeal": "stress_test",
    "outlet": "publisher",
    "pace": "rate_limiter",
    "parcel": "payload_chunk",
    "parcels": "payload_chunks",
    "posting": "outgoing_job",
    "postings": "outgoing_jobs",
    "pulse": "heartbeat, lease",
    "ring": "dispatch",
    "rings": "dispatches",
    "rung": "dispatched",
    "room": "capacity, package",
    "rooms": "capacities, packages",
    "shelf": "active_collection",
    "shelves": "collection_cache",
    "slip": "pending_write",
    "slips": "pending_writes",
    "story": "memory_history",
    "stranger": "outsider",
    "strangers": "outsiders",
    "tell": "on_progress, notify",
    "told": "reported",
    "trespass": "access_violation",
    "tutor": "fake_teacher",
    "twin": "key_alias",
    "twins": "key_aliases",
    "untold": "no_progress",
    "victim": "eviction_candidate",
    "victims": "eviction_candidates",
    "vigil": "pending_jobs",
}

#: Names that stay: columns, fields of stored reports, JSON keys, and `ApprovalEffects.room`, which others implement.
FROZEN = {"booking_id", "booking_records", "bookings", "chapters", "max_removed_floor", "ring_at", "room", "rung_at"}

#: Members of ``Event``: each is called what log readers rely on.
FROZEN |= {
    "CONSOLIDATION_BOOKING_RESUMED",
    "CREW_ABSENT",
    "EXPERIENCE_NIGHT_COMPLETE",
    "MEMORY_SERVICE_BELL_UNHEARD",
    "NIGHT_EXPERIENCE_WAITS",
    "NIGHT_LESSONS_WAIT",
    "PROCEDURAL_MEMORY_ENTRY_BURIED",
    "PROGRESS_UNTOLD",
    "TRANSPORT_BELL_REFUSED",
    "TRANSPORT_BELL_SILENT",
}

#: Private uses in prose, as patterns, and what to write. Words that are plain English elsewhere stand in a phrase.
IN_PROSE = {
    r"nights?": "maintenance run",
    r"crews?": "job context, worker context",
    r"desks?": "batch writer",
    r"bells?": "dispatcher, queue waiter",
    r"rung|rings? (?:for|again|the)|ringing": "dispatch",
    r"slips?": "pending write",
    r"pulses?": "heartbeat, lease",
    r"vigils?": "pending jobs",
    r"parcels?": "payload chunk",
    r"outlets?": "publisher",
    r"shel(?:f|ves)": "active collection",
    r"bookkeepers?": "journaled store",
    r"bookings?": "journal entry",
    r"graves?": "tombstone",
    r"bur(?:y|ies|ied)": "tombstone",
    r"raise[sd]? up|risen": "remove the tombstone",
    r"chapters?": "history event",
    r"lanes?": "queue",
    r"twins?": "alias",
    r"strangers?": "another agent, outsider",
    r"guests?": "(drop it)",
    r"the brake": "removal guard",
    r"victims?": "eviction candidate",
    r"(?:this|that|each|every|another|its|own|the) room|rooms": "package, capacity",
    r"house rules?|the house": "repository",
    r"floors|(?:lower|higher|upper) floor": "layer",
    r"arrows?": "import rule",
    r"gives? way|giving way": "preempt",
    r"trespass(?:es)?": "access violation",
    r"ordeals?": "stress test",
    r"errands?": "engine call",
    r"oracles?": "fake summarizer",
    r"tutors?": "fake teacher",
    r"legs?": "ranking, ranked list",
    r"mirrors?": "reindex target",
    r"(?:let|gives?|given|giving) (?:it |them )?(?:go|back) (?:the|its|a) lease": "release",
}
PROSE = re.compile(rf"\b(?:{'|'.join(f'(?P<w{n}>{each})' for n, each in enumerate(IN_PROSE))})\b", re.IGNORECASE)
#: Whether there is any, six times faster: in lower case, and it does not say which.
ANY_PROSE = re.compile(rf"\b(?:{'|'.join(IN_PROSE)})\b")

#: Exact texts that hold such a word and may: tables, columns and keys that are frozen, and the field's own terms.
ALLOWED = re.compile(
    r"`[^`\n]*`"  # code
    r"|\b[\w-]+(?:[./][\w-]+)+"  # paths and dotted names
    r"|\b\w*_\w+\b"  # names
    r"|\| night \||store, night, llm"  # the worker group of that name, a frozen word of the command line
    r"|^ +chapters:"  # a frozen JSON key, documented
    r"|bench-nights"  # the target's name, by which people ask for it
    r"|\blast night\b"  # the console's first page, in words of people
    r"|failed at night",  # a probe's text, from which checkpoints are compared
    re.IGNORECASE | re.MULTILINE,
)

Finding = tuple[str, int, str, str]


def words_of(name: str) -> list[str]:
    return [part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)]


def names_in(nodes: Sequence[ast.AST]) -> Iterator[tuple[int, str]]:
    """Every name that a file defines, with its line."""
    for node in nodes:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr
        elif isinstance(node, ast.alias) and node.asname:
            yield node.lineno, node.asname


def texts_in(source: str, nodes: Sequence[ast.AST], *, with_messages: bool) -> Iterator[tuple[int, str]]:
    """Comments and docstrings; in the product also the messages: every string with a space in it."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    bare = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
            continue
        if id(node) in bare or (with_messages and " " in node.value):
            yield node.lineno, node.value


def in_prose(path: str, line: int, text: str) -> Iterator[Finding]:
    if ANY_PROSE.search(text.lower()) is None:
        return
    text = ALLOWED.sub(lambda found: " " * len(found[0]), text)
    for found in PROSE.finditer(text):
        group = next(name for name, value in found.groupdict().items() if value)
        yield path, line + text[: found.start()].count("\n"), found[0], list(IN_PROSE.values())[int(group[1:])]


def in_code(path: str, source: str) -> Iterator[Finding]:
    has_prose = ANY_PROSE.search(source.lower()) is not None
    if not has_prose and IN_NAMES.keys().isdisjoint(words_of(source)):
        return
    nodes = list(ast.walk(ast.parse(source)))
    for line, name in names_in(nodes):
        if name not in FROZEN:
            plain = {"tell", "told"} if name.startswith("test_") else set()  # a sentence may use the verb
            private = [word for word in words_of(name) if word in IN_NAMES and word not in plain]
            yield from ((path, line, name, IN_NAMES[word]) for word in private)
    if has_prose:
        for line, text in texts_in(source, nodes, with_messages=not path.startswith(STORIES)):
            yield from in_prose(path, line, text)


def findings() -> Iterator[Finding]:
    """Everything that is left."""
    for folder in (*CODE, "docs"):
        for file in sorted((ROOT / folder).rglob("*.*")):
            path = file.relative_to(ROOT).as_posix()
            if SKIPPED.search(path):
                continue
            if file.suffix == ".py":
                yield from in_code(path, file.read_text())
            elif file.suffix == ".md":
                yield from in_page(path, file.read_text())
    for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md"):
        if (ROOT / name).exists():
            yield from in_page(name, (ROOT / name).read_text())


def in_page(path: str, text: str) -> Iterator[Finding]:
    """A page's prose; of the glossary only what stands outside of brackets, where the words of old are named."""
    if path.endswith("glossary.md"):
        text = re.sub(r"\([^)\n]*\)", "", text)
    fenced = re.sub(r"^```.*?^```", lambda found: re.sub(r"[^\n]", " ", found[0]), text, flags=re.MULTILINE | re.DOTALL)
    yield from in_prose(path, 1, fenced)


def folder_of(path: str) -> str:
    return "/".join(Path(path).parts[:-1][:2]) or path


def allowed() -> dict[str, int]:
    lines = LEFT.read_text().splitlines() if LEFT.exists() else []
    return {folder: int(count) for folder, count in (line.split() for line in lines)}


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("def ring_all(crew): ...\n", ["ring_all", "crew"]),
        ('"""Rings for a night."""\n', ["Rings for", "night"]),
        ("WriteDesk = 1  # a bell\n", ["WriteDesk", "bell"]),
        ("during = storing = midnight = keyword = retold_at = 1  # a string, at midnight\n", []),
        ("rung_at = 1  # the column `rung_at`, and booking_id\n", []),
    ],
)
def test_a_private_word_is_found_and_a_plain_one_is_not(source: str, words: list[str]) -> None:
    assert [word for _, _, word, _ in in_code("memcore/x.py", source)] == words


def test_no_folder_has_more_private_words_than_are_left_to_rewrite() -> None:
    left, found = allowed(), list(findings())
    counts = Counter(folder_of(path) for path, *_ in found)
    over = {folder for folder, count in counts.items() if count > left.get(folder, 0)}
    lines = [f"{path}:{line}: {word} -> {use}" for path, line, word, use in found if folder_of(path) in over]
    assert not over, f"{len(lines)} findings in folders with more than words_left.txt allows:\n" + "\n".join(
        lines[:200]
    )


if __name__ == "__main__":
    now = Counter(folder_of(path) for path, *_ in findings())
    before = dict(now) if "--reset" in sys.argv else allowed()
    kept = {folder: min(count, before.get(folder, 0)) for folder, count in now.items()}
    LEFT.write_text("".join(f"{folder} {count}\n" for folder, count in sorted(kept.items()) if count))
    if "--list" in sys.argv:
        sys.stdout.writelines(f"{path}:{line}: {word} -> {use}\n" for path, line, word, use in findings())
