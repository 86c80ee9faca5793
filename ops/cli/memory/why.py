"""``memtend why``: what a memory is now, what it was made of, what was made of it, and who asked for that."""

from typing import Annotated

import typer
from rich.text import Text
from rich.tree import Tree

from memcore.ledger.journal_entries import BookingReason
from memcore.maintenance.provenance import Chapter, MemoryState, Story, StoryMemory, StoryModel, TextPlace, tell_story
from ops.cli.console import AsJson, draw, plain, show_json
from ops.cli.session import HomeOption, backend_of, ledger_of, policy_of, settings_of

_BECAUSE: dict[BookingReason, str] = {
    "retention": "its retention rule keeps it no longer",
    "expired": "its own expiry had come",
    "consolidated": "it was merged with others",
    "enforced": "the agent had more memories than its limit",
    "pruned": "its agent had older lessons, or more of them, than it keeps",
    "ended": "its session, project or task had ended",
    "restored": "it was brought back from the archive",
    "deleted": "somebody deleted it",
    "undone": "a run was taken back",
}


def why(
    memory_id: Annotated[str, typer.Argument(help="Any memory: live, merged, removed, or a summary.")],
    agent: Annotated[str | None, typer.Option(help="Whose memory; needed for one that no run has moved.")] = None,
    text: Annotated[bool, typer.Option("--text", help="Print full texts too, as far as they are kept.")] = False,
    home: HomeOption = None,
    as_json: AsJson = False,
) -> None:
    """Tell why a memory is there or gone: what runs did to it, its originals or its summaries, through any depth."""
    settings = settings_of(home)
    with ledger_of(settings) as ledger, backend_of(settings) as (backend, runner):
        story = runner.run(
            tell_story(
                memory_id,
                backend=backend,
                ledger=ledger,
                company=settings.company,
                journal_days=policy_of(settings).memory.consolidation.journal_days,
                agent_id=agent,
                with_text=text,
            )
        )
    if as_json:
        told = {"originals": story.originals(), "summaries": story.summaries()}
        show_json({**story.model_dump(mode="json"), **told})
        return
    draw(drawn(story))


def drawn(story: Story) -> Tree:
    """Return the story as a tree: what runs did, then downwards to the originals and upwards to the summaries."""
    tree = Tree(_label(story.memory))
    tree.add(plain(f"of agent {story.agent_id}"))
    if story.memory.chapters:
        deeds = tree.add(plain("what runs did"))
        for chapter in story.memory.chapters:
            deeds.add(plain(f"{chapter.at:%Y-%m-%d %H:%M:%S}  {chapter.kind} by {_run(chapter)}: {_reason(chapter)}"))
    for title, edge in (("made of", "made_of"), ("made into", "made_into")):
        if getattr(story.memory, edge):
            _grow(tree.add(plain(title)), story, edge)
    if story.models:
        models = tree.add(plain("models asked in the run that made it"))
        for use in story.models:
            models.add(plain(_model(use)))
    return tree


def _grow(root: Tree, story: Story, edge: str) -> None:
    # Without recursion, since lineage may be of any depth; what stands there already is not told twice.
    told = {story.memory_id}
    waiting = [(root, memory_id) for memory_id in reversed(getattr(story.memory, edge))]
    while waiting:
        branch, memory_id = waiting.pop()
        memory = story.find(memory_id)
        if memory is None or memory_id in told:
            branch.add(plain(f"{memory_id}  see above"))
            continue
        told.add(memory_id)
        leaf = branch.add(_label(memory))
        waiting.extend((leaf, each) for each in reversed(getattr(memory, edge)))


def _label(memory: StoryMemory) -> Text:
    lines = [f"{memory.memory_id}  {_now(memory)}", _place(memory)]
    return plain("\n".join(lines if memory.text is None else [*lines, memory.text]))


def _now(memory: StoryMemory) -> str:
    last = memory.chapters[-1] if memory.chapters else None
    if memory.state is MemoryState.MISSING:
        return "missing: it is not in the store, and no run removed it"
    if memory.state is MemoryState.LIVE:
        return f"live: {_origin(last)}"
    if last is None:
        return str(memory.state)
    if memory.state is MemoryState.REPLACED:
        return f"replaced by summary {', '.join(memory.replaced_by)}, {_by(last)}"
    return f"removed {_by(last)}: {_reason(last)}"


def _origin(last: Chapter | None) -> str:
    if last is None:
        return "an agent stored it, and no run has moved it"
    if last.kind == "removed":
        return f"{'about to be removed' if last.is_open else 'stored again after it was removed'} {_by(last)}"
    return f"{'made' if last.kind == 'created' else 'brought back'} {_by(last)}"


def _by(chapter: Chapter) -> str:
    return f"by run {chapter.run_id} at {chapter.at:%Y-%m-%d %H:%M}"


def _run(chapter: Chapter) -> str:
    about = [str(each) for each in (chapter.run_kind, chapter.origin) if each]
    if chapter.undo_of:
        about.append(f"of run {chapter.undo_of}")
    return f"run {chapter.run_id}" + (f" ({', '.join(about)})" if about else "")


def _reason(chapter: Chapter) -> str:
    because = "it stands for others" if chapter.kind == "created" else _BECAUSE[chapter.reason]
    return because + (", and this is not carried out yet" if chapter.is_open else "")


def _place(memory: StoryMemory) -> str:
    if memory.text_in is TextPlace.GONE:
        return "its full text is kept no longer"
    until = f" until {memory.text_until:%Y-%m-%d %H:%M}" if memory.text_until else ""
    return f"full text in the {memory.text_in}{until}"


def _model(use: StoryModel) -> str:
    return f"{use.model}  {use.purpose}: {use.calls} calls, {use.tokens} tokens, cost {use.cost:.4f} (run {use.run_id})"


def add_to(app: typer.Typer) -> None:
    """Put the command on the command line."""
    app.command("why")(why)
