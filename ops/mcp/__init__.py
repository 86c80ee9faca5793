"""MCP: agent tools and operator tools, over stdio (`memtend mcp`) and streamable HTTP (`/mcp`, inside `serve`).

``mounting`` and ``server`` are HTTP, ``stdio`` is the other transport; ``agent_tools`` and ``operator_tools`` are what
they serve; ``results`` is what each may say. The package ``mcp`` is the official SDK, and takes a second to import.
"""
