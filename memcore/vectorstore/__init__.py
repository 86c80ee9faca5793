"""The embedded store server: one process that owns a folder of vectors and answers Qdrant's own REST calls on loopback.

Start it with ``python -m memcore.vectorstore.server`` and talk to it with an ordinary ``qdrant_client.QdrantClient``.
Importing this package loads neither the engine nor the web server.
"""
