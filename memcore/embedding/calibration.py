"""Calibration of an embedder: how near a memory comes to a question that has nothing to do with it.

Texts of our own serve it, not the store's: of a store's memories each pair shares a form and a subject, and questions
against a store's memories tell foreign questions from its own no better.
"""

from typing import TYPE_CHECKING

import numpy as np

from memcore.embedding.batching import questions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memcore.embedding.protocol import Embedder

#: Standard deviations above the mean similarity of unrelated texts from which on a similarity says something. Of
#: thousands of memories the nearest unrelated one comes as near by chance.
_DEVIATIONS = 4.5

#: Texts on 32 subjects, questions among them.
UNRELATED = (
    "The invoice service keeps its tables in Postgres.",
    "Maria gets a rash from peanuts.",
    "The train to the coast leaves at seven in the morning.",
    "Grandfather built the garden shed in the summer of 1987.",
    "The deploy failed because a certificate had expired.",
    "Nobody in the choir could reach the last note.",
    "She moved to a small flat near the river.",
    "The recipe needs two eggs and a spoon of honey.",
    "Our new logo is green with a white leaf.",
    "The doctor told him to rest his knee for a month.",
    "Alerts of the payment queue go to the late shift.",
    "They adopted a grey cat from the shelter.",
    "The museum closes on the first Monday of the month.",
    "He learned to weld from his neighbour.",
    "The contract with the printer ends in October.",
    "A storm tore the roof off the barn.",
    "Which colour did they paint the kitchen?",
    "When does the swimming course begin?",
    "What is the password of the office network?",
    "Who won the chess match on Friday?",
    "How long does the battery of the drill last?",
    "Where did the cousins spend their honeymoon?",
    "Why was the meeting with the bank put off?",
    "What did the teacher say about the exam?",
    "Which airline lost the suitcase?",
    "How many chairs does the hall have?",
    "What does the backup job write at midnight?",
    "Who repairs the bicycle?",
    "When is the rent due?",
    "What does Peter think of the new film?",
    "Which vaccine does the dog still need?",
    "How often should the filter be changed?",
)


def noise_of(embedder: "Embedder") -> float:
    """Return the cosine, 0 to 1, up to which the similarity of a question and a memory may be chance.

    It embeds 32 short texts as questions and as memories: with prefixes, two memories come nearer than either comes to
    a question. Raises MemoryEmbeddingError.
    """
    return noise_among(questions(embedder, UNRELATED), embedder.embed_documents(UNRELATED))


def noise_among(asked: "NDArray[np.float32]", stored: "NDArray[np.float32]") -> float:
    """Return that cosine for the vectors of UNRELATED, as questions and as memories."""
    cosines = (asked @ stored.T)[~np.eye(len(UNRELATED), dtype=np.bool_)]
    return float(np.clip(cosines.mean() + _DEVIATIONS * cosines.std(), 0.0, 1.0))
