"""``memtend embedder``: measure an embedder before anything is switched to it."""

from typing import Annotated, Any

import typer

from memcore.embedding.factory import choice_named
from memcore.finetune.markers import StageProgress
from memcore.finetune.trial import DEFAULT_TEXTS, Trial
from ops.cli.console import say, show_json
from ops.cli.progress import progress_bar
from ops.cli.session import Commands, JsonCommand

app = Commands("embedder", "Measure an embedder before `memtend reindex` switches to it.")


@app.callback()
def _group() -> None:
    """Keep the group's name on the line, although it has one command."""


@app.command("try")
def try_embedder(
    command: JsonCommand,
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="FOLDER", help="A model's folder, or static, static-mean or minilm; else the configured embedder."
        ),
    ] = None,
    texts: Annotated[
        int, typer.Option(min=50, max=50_000, help="Memories that are searched, drawn from all agents.")
    ] = DEFAULT_TEXTS,
) -> None:
    """Measure an embedder beside the one that serves, on what agents remember and ask; nothing is written."""
    choice = None if what is None else choice_named(what)
    with (
        command.service() as (service, runner),
        progress_bar("measuring", total=1.0, is_silent=command.as_json) as bar,
    ):
        watch = StageProgress(lambda fraction: bar.show(done=fraction))
        found = runner.run(service.finetune.try_embedder(choice, texts=texts, watch=watch))
    if command.as_json:
        show_json(found)
        return
    command.show_rows(_rows(found), *_COLUMNS)
    say(found.says)


#: What people see of both embedders.
_COLUMNS = ("use", "name", "dims", "noise", "text_ms", "vector_bytes", "ndcg_at_10", "shown_again")


def _rows(found: Trial) -> list[dict[str, Any]]:
    return [{"use": use, **dict(each)} for use, each in (("serves", found.serves), ("tried", found.tried))]
