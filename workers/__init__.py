"""How jobs run: the Celery app, the transport, the process's crew, the write desk, and the embedded stack."""
