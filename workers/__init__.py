"""How jobs run: the Celery app, the transport, the process's context, the batch writer, and the embedded stack."""
