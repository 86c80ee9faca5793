"""Operator tools of fine-tuning through the SDK's own client: what they do, and what the guardrail refuses."""

from pathlib import Path
from typing import Any

import pytest
from mcp import MCPError
from support.job_contexts import RecordingDispatcher
from support.ledger_records import COMPANY, StoppedClock
from support.mcp_sessions import Sessions, envelope_of, facts_of
from support.memory_services import memory_service, noted

from memcore.ledger.ledger import Ledger
from memcore.models.finetune import FineTunePlan
from memcore.telemetry.events import Event
from ops.mcp.finetune_tools import TOOLS
from ops.mcp.operator_tools import INSTRUCTIONS, OperatorToolset
from ops.mcp.tool_server import create_server

WORD = {"confirm": True, "reason": "it finds the wrong hall"}

DESTRUCTIVE = {
    "cancel_fine_tune": {},
    "rollback_checkpoint": {"checkpoint_id": "c1"},
    "delete_checkpoint": {"checkpoint_id": "c1"},
}


@pytest.fixture
def client(ledger: Ledger, clock: StoppedClock, tmp_path: Path) -> Sessions:
    service = memory_service(ledger, RecordingDispatcher(), clock, tmp_path)
    toolset = OperatorToolset(service=service, actor="grace", available=TOOLS)

    async def toolset_of(_context: object) -> OperatorToolset:
        return toolset

    return Sessions(create_server("memtend", toolset_of, instructions=INSTRUCTIONS))


async def test_the_nine_tools_are_listed_with_their_hints(client: Sessions) -> None:
    tools = {tool.name: tool for tool in await client.list_tools()}
    assert set(tools) == {
        "start_fine_tune",
        "resume_fine_tune",
        "get_fine_tune_status",
        "cancel_fine_tune",
        "run_preflight",
        "list_runs",
        "get_active_embedder",
        "rollback_checkpoint",
        "delete_checkpoint",
    }
    for name, tool in tools.items():
        assert tool.annotations is not None
        assert tool.annotations.destructive_hint is (name in DESTRUCTIVE)
        assert {"confirm", "reason"} <= set(tool.input_schema["required"]) or name not in DESTRUCTIVE
        assert "actor" not in tool.input_schema["properties"]
        assert tool.input_schema["additionalProperties"] is False
    assert [name for name, tool in tools.items() if tool.annotations and tool.annotations.read_only_hint] == [
        "get_fine_tune_status",
        "run_preflight",
        "list_runs",
        "get_active_embedder",
    ]
    assert set(tools["start_fine_tune"].input_schema["properties"]) == set(FineTunePlan.model_fields)


async def test_a_run_is_started_seen_and_cancelled_in_the_sessions_name(
    client: Sessions, ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    run = facts_of(await client.call_tool("start_fine_tune", {"epochs": 2, "kind": "static"}))
    status = facts_of(await client.call_tool("get_fine_tune_status", {}))
    assert (status["run_id"], status["stage"]) == (run["run_id"], "generating_data")
    assert {"token", "host", "holder"}.isdisjoint(run)
    listed = facts_of(await client.call_tool("list_runs", {"limit": 1}))
    assert (listed["items"], listed["total"]) == ([run], 1)
    assert noted(ledger) == []
    cancelled = facts_of(await client.call_tool("cancel_fine_tune", WORD))
    assert cancelled == {"cancelled_run_id": run["run_id"]}
    assert noted(ledger) == [("person:grace", "finetune.cancel", run["run_id"], WORD["reason"])]
    (event,) = [line for line in caplog.records if line.getMessage() == Event.MCP_ADMIN_OP_EXECUTED]
    fields = {name: vars(event)[name] for name in ("tool", "company", "actor", "reason", "target_id")}
    assert fields == {
        "tool": "cancel_fine_tune",
        "company": COMPANY,
        "actor": "grace",
        "reason": WORD["reason"],
        "target_id": run["run_id"],
    }
    resumed = facts_of(await client.call_tool("resume_fine_tune", {"run_id": run["run_id"]}))
    assert resumed["run_id"] == run["run_id"]


async def test_nothing_to_cancel_is_no_operation(
    client: Sessions, ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    assert facts_of(await client.call_tool("cancel_fine_tune", WORD)) == {"cancelled_run_id": None}
    assert noted(ledger) == []
    assert Event.MCP_ADMIN_OP_EXECUTED not in [line.getMessage() for line in caplog.records]


@pytest.mark.parametrize("name", DESTRUCTIVE)
@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"confirm": None}, "confirm"),
        ({"confirm": 1}, "confirm"),
        ({"confirm": "true"}, "confirm"),
        ({"confirm": False}, "confirm"),
        ({"reason": " "}, "reason"),
        ({"reason": None}, "reason"),
        ({"reason": "r" * 2_001}, "reason"),
        ({"actor": "somebody else"}, "actor"),
    ],
)
async def test_without_the_triple_nothing_is_done(
    client: Sessions, ledger: Ledger, name: str, changed: dict[str, Any], field: str
) -> None:
    run = facts_of(await client.call_tool("start_fine_tune", {}))
    given = {key: value for key, value in {**DESTRUCTIVE[name], **WORD, **changed}.items() if value is not None}
    error = envelope_of(await client.call_tool(name, given))
    assert (error["domain_code"], error["field"]) == ("invalid", field)
    assert noted(ledger) == []
    assert facts_of(await client.call_tool("get_fine_tune_status", {}))["stage"] == "generating_data"
    assert run["run_id"]


async def test_an_error_names_field_and_limit(client: Sessions) -> None:
    error = envelope_of(await client.call_tool("list_runs", {"limit": 201}))
    assert error == {
        "domain_code": "invalid",
        "message": "limit: must be less than or equal to 200",
        "is_retryable": False,
        "field": "limit",
    }
    error = envelope_of(await client.call_tool("start_fine_tune", {"source_dir": "../etc"}))
    assert error["field"] == "source_dir"
    assert envelope_of(await client.call_tool("resume_fine_tune", {"run_id": "none"}))["domain_code"] == "not_found"


async def test_what_the_backend_cannot_do_is_an_envelope(client: Sessions, caplog: pytest.LogCaptureFixture) -> None:
    error = envelope_of(await client.call_tool("rollback_checkpoint", {"checkpoint_id": "c1", **WORD}))
    assert error["domain_code"] == "not_supported"
    assert Event.MCP_HANDLER_NOT_IMPLEMENTED in [line.getMessage() for line in caplog.records]


async def test_an_unknown_tool_is_an_error_of_the_protocol(client: Sessions) -> None:
    with pytest.raises(MCPError, match="Unknown tool"):
        await client.call_tool("drop_everything", {})
