"""The mem0 backend: mem0's collection layout and history, reached straight through Qdrant; only sdk.py imports mem0."""
