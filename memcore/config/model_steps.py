"""Which steps ask a language model, as the policy stands, and which model each of them names."""

from collections.abc import Mapping

from memcore.config.company import CompanyMemoryConfig
from memcore.config.consolidation import ConsolidationStrategyType


def model_steps(memory: CompanyMemoryConfig) -> Mapping[str, str | None]:
    """Return the model of each step that asks one, by the dotted key that turns the step on; None where none is named.

    Steps of strategies that other packages register are not among them: nobody here knows what they ask.
    """
    consolidation, steps = memory.consolidation, dict[str, str | None]()
    if consolidation.strategy == ConsolidationStrategyType.LLM:
        steps["memory.consolidation.strategy"] = memory.llm.model
    dual_mode = consolidation.archival.dual_mode
    if consolidation.strategy == ConsolidationStrategyType.DUAL_MODE and dual_mode.enabled:
        steps["memory.consolidation.archival.dual_mode"] = dual_mode.summarization_model
    if consolidation.experience_compressor.enabled:
        steps["memory.consolidation.experience_compressor"] = (
            consolidation.experience_compressor.model or memory.llm.model
        )
    return steps
