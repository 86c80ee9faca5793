"""Two tiers of experience: raw traces in the ledger, and the lessons compressed from them, which are memories."""
