"""What is heard of a stage: its markers and lines as they come, whether it is complete, and why it is not."""

from collections.abc import Callable, Iterable

from memcore.finetune.execution.errors_said import ErrorsSaid
from memcore.finetune.markers import MarkerParser, Said, StageComplete
from memcore.finetune.stage import FineTuneStage


class Hearing:
    """Listen to a runner.

    Args:
        stage: what it was told to do; a word on another stage is no word on this one.
        told: takes each marker and line.
    """

    def __init__(self, stage: FineTuneStage, told: Callable[[Said], None]) -> None:
        self._complete = StageComplete(stage)
        self._told = told
        self._output = MarkerParser()
        self._errors = ErrorsSaid()
        self.is_complete = False

    def take(self, chunks: Iterable[tuple[str, bytes]]) -> None:
        """Take pieces of its outputs, each with the output's name: ``output`` or ``errors``."""
        for name, chunk in chunks:
            if name == "errors":
                self._errors.feed(chunk)
            else:
                self._hear(self._output.feed(chunk))

    def end(self) -> None:
        """Take what is left when nothing more comes."""
        self._hear(self._output.end())

    @property
    def reason(self) -> str | None:
        """Why the stage is not complete, in its own words; None when it gave none."""
        return self._errors.reason

    def _hear(self, every: Iterable[Said]) -> None:
        for said in every:
            self.is_complete = self.is_complete or said == self._complete
            self._told(said)
