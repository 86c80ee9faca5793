"""MCP: agent tools and operator tools, over stdio (`memtend mcp`) and streamable HTTP (`/mcp`, inside `serve`).

``server`` is HTTP, ``stdio`` the other transport; ``agent_tools`` and ``operator_tools`` are what they serve;
``results`` is what each may say. The package ``mcp`` is the official SDK, and takes a second to import.
"""
