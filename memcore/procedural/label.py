"""The tags that a lesson's writer may give it, and those that only code may."""

import re
from typing import Annotated

from pydantic import AfterValidator

from memcore.experience_models import COMPRESSED_TAG, DETAILED_TAG
from memcore.maintenance.condensing import CONDENSED_TAG
from memcore.maintenance.eligibility import PROTECTED_FROM_CONSOLIDATION
from memcore.maintenance.llm_synthesis import FALLBACK_TAG, SYNTHESIZED_TAG
from memcore.retrieval.memory_filter import NON_INFERABLE_TAG

#: The tag of a lesson that comes from a success.
SUCCESS_TAG = "success-derived"

#: Most labels of one lesson, and the longest, in characters.
MAX_LABELS = 20
MAX_LABEL_CHARS = 64

#: Tags by which code decides something; whoever could set one would decide it.
RESERVED = frozenset(
    {
        *(NON_INFERABLE_TAG, SUCCESS_TAG, COMPRESSED_TAG, DETAILED_TAG, CONDENSED_TAG, SYNTHESIZED_TAG, FALLBACK_TAG),
        *(*PROTECTED_FROM_CONSOLIDATION, "self_edited"),
    }
)

# No colon: "propagated:ada" and "speaker:ada" mean something to code.
_LABEL = re.compile(r"\w[\w .+#/-]*")


def is_label(tag: str) -> bool:
    """Tell whether a lesson's writer, a model most of all, may give this tag."""
    return (
        len(tag) <= MAX_LABEL_CHARS
        and _LABEL.fullmatch(tag) is not None
        and tag.casefold().strip() not in RESERVED
        and tag == tag.strip()
    )


def _checked(tag: str) -> str:
    if not is_label(tag):
        raise ValueError(f"must be no tag of memtend's own, without colons, of at most {MAX_LABEL_CHARS} characters")
    return tag


#: A tag that says what a lesson is about.
Label = Annotated[str, AfterValidator(_checked)]
