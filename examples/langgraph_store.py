"""A LangGraph graph that remembers across conversations: run it beside `memtend up`, with langgraph installed."""

from typing import TypedDict

from langgraph.graph import START, StateGraph
from langgraph.store.base import BaseStore

from memcore import Memory
from memcore.adapters.langgraph import MemtendStore

FRIENDS = ("users", "friends")


class State(TypedDict):
    """What the nodes of the graph pass on."""

    name: str
    text: str
    answer: str


def remember(state: State, *, store: BaseStore) -> dict[str, str]:
    """Keep what a person said, under the person's name."""
    store.put(FRIENDS, state["name"], {"text": state["text"], "words": len(state["text"].split())})
    return {}


def answer(state: State, *, store: BaseStore) -> dict[str, str]:
    """Answer with what somebody else said that is nearest."""
    found = store.search(FRIENDS, query=state["text"], filter={"words": {"$gt": 2}}, limit=5)
    others = [each for each in found if each.key != state["name"]]
    return {"answer": f"{others[0].key} said: {others[0].value['text']}" if others else "You are the first."}


def main() -> None:
    with Memory.from_environment() as memory:
        store = MemtendStore(memory, agent_id="host", fields=["text"])
        builder = StateGraph(State)
        builder.add_node("remember", remember)
        builder.add_node("answer", answer)
        builder.add_edge(START, "remember")
        builder.add_edge("remember", "answer")
        graph = builder.compile(store=store)
        for name, text in (("Ada", "I like tea with lemon."), ("Bob", "Is there tea with milk?")):
            print(graph.invoke({"name": name, "text": text, "answer": ""})["answer"])
        store.delete(FRIENDS, "Ada")
        print([item.key for item in store.search(FRIENDS)], store.list_namespaces())


if __name__ == "__main__":
    main()
