"""Holds what a model writes into memory against the texts that it was shown: what stands in none of them is not kept.

No model is asked, and the cost grows with the length of the texts alone. A text may use some words of its own; its
numbers, dates, names and identifiers, and whether a statement is denied, must be those of its sources, in any form.
A text that stands in place of its sources is held the other way round, too: it has to say all that they say.
"""

from memcore.llm.grounding.coverage import Coverage
from memcore.llm.grounding.figures import Fault
from memcore.llm.grounding.grounds import Grounds, Kind, is_open_question, ungrounded

__all__ = ("Coverage", "Fault", "Grounds", "Kind", "is_open_question", "ungrounded")
