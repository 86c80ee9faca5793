"""What is trained on and measured by: questions with the passage that answers, and with passages that do not."""

from memcore.frozen import Frozen, NotBlankText


class Pair(Frozen):
    """A question and its passage; a line of ``training.jsonl`` or ``validation.jsonl``."""

    query: NotBlankText
    positive_passage: NotBlankText


class Triple(Frozen):
    """A question, its passage, and passages that look like it and are not; a line of ``training_triples.jsonl``."""

    query: NotBlankText
    positive: NotBlankText
    negatives: tuple[NotBlankText, ...]
