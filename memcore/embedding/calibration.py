"""Calibration of an embedder: how near texts come that have nothing to do with one another."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from memcore.embedding.protocol import Embedder

#: Standard deviations above the mean similarity of unrelated texts from which on a similarity says something. Of
#: thousands of memories the nearest unrelated one comes as near by chance.
_DEVIATIONS = 4.5

#: Texts on 32 subjects, questions among them.
_UNRELATED = (
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
    """Return the cosine, 0 to 1, up to which an embedder's similarity of two texts may be chance.

    It embeds 32 short texts in one batch. Raises MemoryEmbeddingError.
    """
    vectors = embedder.embed_documents(_UNRELATED)
    cosines = (vectors @ vectors.T)[~np.eye(len(_UNRELATED), dtype=np.bool_)]
    return float(np.clip(cosines.mean() + _DEVIATIONS * cosines.std(), 0.0, 1.0))
