"""Embedding: dense vectors by an Embedder, sparse ones by BM25; nothing loads until it is built."""

from memcore.extras import require_extra

require_extra("engine")
