"""The HTTP API: ``app.py`` puts it together, ``routes/`` has the endpoints, ``serve.py`` runs it."""
