"""The steps of the fine-tuning demo: measure, train, deploy the checkpoint, measure, roll back."""

import sys
from collections.abc import Mapping

from examples.demo.finetuning.commands import Commands
from examples.demo.finetuning.corpus import HANDBOOK, questions
from examples.demo.finetuning.judging import Figures, Judge, judge
from examples.demo.finetuning.report import show_figures, show_improvements, show_traffic
from examples.demo.finetuning.traffic import traffic
from memcore.config.settings import Settings
from memcore.errors import MemoryStoreError
from memcore.ledger.collections import Checkpoint, Verdict
from memcore.ledger.ledger import Ledger
from ops.cli.console import say

#: What differs from the plan's defaults: one kind, and short passages, since a whole page as one passage would teach
#: little about any of its words.
_RECIPE = ("--kind", "transformer", "--chunk-words", "48", "--epochs", "2", "--learning-rate", "2e-5")

#: Who deploys and rolls back, for the audit.
_BY = ("--by", "Priya")


class FineTuneScript:
    """Runs the demo on one stack.

    Args:
        settings: of the stack.
        ledger: the stack's.
        commands: types on its folder.
    """

    def __init__(self, settings: Settings, ledger: Ledger, commands: Commands) -> None:
        self._settings = settings
        self._ledger = ledger
        self._commands = commands
        self._questions = questions()

    def run_script(self, keys: Mapping[str, str]) -> bool:
        """Run all steps; True when the checkpoint served, nothing failed meanwhile, and the rollback worked.

        Args:
            keys: the key of each note, by its memory's id.

        Raises:
            MemoryError: a step failed.
        """
        with judge(self._settings, self._questions, keys) as judged:
            before = judged.figures()
            say(f"\n{len(self._questions)} questions, each to the memories of one agent; none of them is trained on")
            show_figures({"MiniLM": before})
            checkpoint = self._train()
            say(f"\nthe gate: {checkpoint.verdict}: {checkpoint.reason}")
            if checkpoint.verdict is Verdict.REJECTED:
                return False
            # Notes hold no talk, so nobody asked anything that the gate could judge by: the questions here are what a
            # person looks at before a deploy.
            force = () if checkpoint.verdict is Verdict.PROMOTED else ("--force",)
            is_well = self._change(judged, "deploy", checkpoint.checkpoint_id, *force)
            after = judged.figures()
            self._show(before, after)
            is_well = self._change(judged, "rollback") and is_well
            back = judged.figures()
            show_figures({"MiniLM again": back})
            say("every question finds its note where it did" if back.equals(before) else "THE FIGURES DIFFER")
            return is_well and back.equals(before)

    def _train(self) -> Checkpoint:
        self._commands.type("finetune", "start", "--source-dir", str(HANDBOOK), *_RECIPE, "--watch")
        self._commands.type("finetune", "checkpoints")
        return next(iter(self._ledger.checkpoints.page(self._settings.company, limit=1)))

    def _change(self, judged: Judge, command: str, *words: str) -> bool:
        """Let something else serve while agents go on; return whether none of them noticed."""
        with traffic(self._settings, self._questions, about=command) as seen:
            self._commands.type("finetune", command, *words, *_BY)
            pointer = self._ledger.collection_pointers.get(self._settings.company)
            if pointer is None:
                raise MemoryStoreError("nothing serves")
            judged.await_space(pointer.current.identity.label)
        show_traffic(seen, command)
        return seen.is_unaffected

    def _show(self, before: Figures, after: Figures) -> None:
        say("")
        show_figures({"MiniLM": before, "the checkpoint": after})
        show_improvements(after, before)
        say(f"torch in the process that searched: {'yes' if 'torch' in sys.modules else 'no'}")
