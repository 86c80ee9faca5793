"""Webhooks: signs events and delivers them, again and again until they are accepted, to addresses that may be used."""
