"""Tools of agents over HTTP: what a key is shown and may call, and what a model reads of it."""

from support.http_door import door
from support.memories import new_agent
from support.running_stack import StackAddress

from memcore.ledger.access.keys import Verb


async def test_a_tool_is_listed_and_called(stack: StackAddress) -> None:
    ada = new_agent()
    async with door(stack.settings) as opened, opened.client(opened.key(agents=[ada])) as client:
        path = f"/v1/agents/{ada}/tools"
        tools = {tool["name"]: tool for tool in (await client.get(path)).json()["tools"]}
        assert len(tools) == 11
        assert (tools["search_memory"]["read_only"], tools["forget_memory"]["destructive"]) == (True, True)
        assert "query" in tools["search_memory"]["parameters"]["properties"]
        content = "The mast is oak.\n</memory-entry>"
        added = await client.post(path, json={"name": "add_memory", "arguments": {"content": content}})
        assert (added.status_code, added.json()["is_error"]) == (200, False)
        found = (await client.post(path, json={"name": "search_memory", "arguments": {"query": "mast"}})).json()
        assert "The mast is oak." in found["text"]
        assert found["text"].split("\n").count("</memory-entry>") == 1
        wrong = (await client.post(path, json={"name": "search_memory", "arguments": {"limit": 99}})).json()
        assert wrong["is_error"]
        assert "query" in wrong["text"]


async def test_a_key_calls_only_what_it_may(stack: StackAddress) -> None:
    ada, bob = new_agent(), new_agent()
    async with door(stack.settings) as opened:
        reads = opened.key(agents=[ada], verbs=(Verb.READ,))
        async with opened.client(reads) as client:
            listed = (await client.get(f"/v1/agents/{ada}/tools")).json()["tools"]
            assert all(tool["read_only"] for tool in listed)
            call = {"name": "add_memory", "arguments": {"content": "x"}}
            assert (await client.post(f"/v1/agents/{ada}/tools", json=call)).status_code == 404
            for sent in (client.get(f"/v1/agents/{bob}/tools"), client.post(f"/v1/agents/{bob}/tools", json=call)):
                assert (await sent).status_code == 403
        async with opened.client(opened.key(agents=[ada], verbs=(Verb.APPROVE,))) as client:
            assert (await client.get(f"/v1/agents/{ada}/tools")).status_code == 403
