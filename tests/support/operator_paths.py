"""The paths of operators, by what their keys must be for."""

#: For the whole company: a key for some agents is refused.
COMPANY_WIDE = (
    "/admin/memory/embedder",
    "/admin/memory/fine-tune",
    "/metrics",
    "/v1/approvals",
    "/v1/audit",
    "/v1/dead-letters",
    "/v1/distrusts",
    "/v1/maintenance",
    "/v1/memory-tests:remove",
    "/v1/models",
    "/v1/org",
    "/v1/runs:release",
    "/v1/skill-cycles",
    "/v1/skills",
    "/v1/webhook",
)

#: Narrowed to an agent by the query; without one they are for the whole company.
NARROWED = ("/v1/memory-tests", "/v1/runs", "/v1/usage", "/v1/usage/forecast")

#: What a key sees here are its own agents.
FILTERED = ("/v1/agents",)

#: Things with ids of their own: those of other agents are not found.
RUNS = "/v1/runs/{run_id}"


def is_company_wide(path: str) -> bool:
    """Return whether a path is for keys of all agents, or, without a query, like one."""
    return path in NARROWED or path.startswith(COMPANY_WIDE)


def is_of_operators(path: str) -> bool:
    """Return whether a path is one of those above."""
    return is_company_wide(path) or path in FILTERED or path.startswith(RUNS)
