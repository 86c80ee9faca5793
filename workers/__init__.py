"""Run jobs: the Celery app, the broker transport, the worker context, the batch writer and the embedded stack."""
