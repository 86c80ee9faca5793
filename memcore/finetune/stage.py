"""The stages, by the name under which this room knows them."""

from memcore.finetune_models import STAGES, FineTuneStage

__all__ = ["STAGES", "FineTuneStage"]
