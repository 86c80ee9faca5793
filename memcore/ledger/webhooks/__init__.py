"""Webhooks in the ledger: the outbox that writes events with what they tell of, the endpoints, their deliveries."""
