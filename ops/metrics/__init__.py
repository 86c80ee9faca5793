"""Metrics of the installation in Prometheus' text format: what is counted, where from, and how it is written.

``families`` names every metric; ``collector`` reads ledger, broker and heartbeats; ``latency`` measures this process.
"""
