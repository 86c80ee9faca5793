"""MCP: agent tools and operator tools, over stdio (`memtend mcp`) and streamable HTTP (`/mcp`, inside `serve`).

``server`` builds and serves; ``agent_tools`` and ``operator_tools`` are what it serves; ``results`` what each may say.
Import ``ops.mcp.server``; the package ``mcp`` is the official SDK, and takes a second to import.
"""
