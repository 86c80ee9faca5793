"""The contract between an agent engine and the workers: queues, task names, payloads, limits and outcomes."""
