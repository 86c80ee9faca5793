"""MCP sessions with the SDK's own client, and what servers answer, read as a host's program reads it."""

import json
from dataclasses import dataclass
from typing import Any

import httpx2
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.server.lowlevel.server import Server
from mcp.types import CallToolResult, Tool


@dataclass(frozen=True)
class Sessions:
    """Opens a session for each request: one that stays open cannot be closed by a fixture, which is another task.

    ``server`` is a server in this process, a command, or a URL, for which ``key`` is the bearer key.
    """

    server: Server[Any] | StdioServerParameters | str
    key: str | None = None
    mode: str = "auto"

    async def list_tools(self) -> list[Tool]:
        async with self.http() as http, self._client(http) as client:
            return (await client.list_tools()).tools

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> CallToolResult:
        async with self.http() as http, self._client(http) as client:
            try:
                return await client.call_tool(name, arguments)
            except MCPError as error:
                # Raised in here, it would come out in a group of the client's tasks.
                refused = error
        raise refused

    async def instructions(self) -> str | None:
        async with self.http() as http, self._client(http) as client:
            return client.instructions

    def http(self) -> httpx2.AsyncClient:
        headers = {} if self.key is None else {"Authorization": f"Bearer {self.key}"}
        return httpx2.AsyncClient(headers=headers, timeout=600.0)

    def _client(self, http: httpx2.AsyncClient) -> Client:
        if isinstance(self.server, str):
            return Client(streamable_http_client(self.server, http_client=http), mode=self.mode)
        return Client(self.server, mode=self.mode)


def text_of(result: CallToolResult) -> str:
    """Return the one text of a result."""
    (content,) = result.content
    assert content.type == "text"
    return content.text


def facts_of(result: CallToolResult) -> dict[str, Any]:
    """Return the facts in the fence of a result that is no error."""
    text = text_of(result)
    assert not result.is_error, text
    first, _, rest = text.partition("\n")
    assert first == "<tool-result>"
    facts: dict[str, Any] = json.loads(rest.removesuffix("\n</tool-result>").replace("&lt;", "<"))
    return facts


def envelope_of(result: CallToolResult) -> dict[str, Any]:
    """Return the envelope of an error."""
    assert result.is_error
    found: dict[str, Any] = result.structured_content
    return found
