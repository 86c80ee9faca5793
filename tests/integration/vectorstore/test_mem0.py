"""An unmodified mem0 works through the store server: its Memory, and each call and filter of its Qdrant store."""

import json
import os
import subprocess
import sys
from pathlib import Path

from support.store_servers import store_server

#: Runs in a process of its own: mem0 reads its environment at import, and its factories are global.
SCRIPT = '''
import os, hashlib, json, sys, warnings
warnings.simplefilter("ignore")
from mem0 import Memory
from mem0.configs.llms.base import BaseLlmConfig
from mem0.embeddings.base import EmbeddingBase
from mem0.llms.base import LLMBase
from mem0.utils.factory import EmbedderFactory, LlmFactory

class WordEmbedder(EmbeddingBase):
    """A vector of word counts: texts that share words are near."""
    def embed(self, text, memory_action=None):
        vector = [0.01] * 64
        for word in text.lower().split():
            vector[int(hashlib.md5(word.encode()).hexdigest(), 16) % 64] += 1
        return vector
    def embed_batch(self, texts, memory_action=None):
        return [self.embed(text) for text in texts]

class SilentLlm(LLMBase):
    def generate_response(self, *arguments, **options):
        raise AssertionError("infer=False asks no model")

sys.modules["injected"] = sys.modules["__main__"]
EmbedderFactory.provider_to_class["huggingface"] = "injected.WordEmbedder"
LlmFactory.provider_to_class["openai"] = ("injected.SilentLlm", BaseLlmConfig)
memory = Memory.from_config({
    "vector_store": {"provider": "qdrant", "config": {
        "collection_name": "mem", "url": os.environ["STORE_URL"], "api_key": os.environ["STORE_KEY"],
        "embedding_model_dims": 64}},
    "embedder": {"provider": "huggingface", "config": {"embedding_dims": 64}},
    "llm": {"provider": "openai", "config": {}},
    "history_db_path": os.environ["MEM0_DIR"] + "/history.db",
})
said = ["the cat sleeps on the red sofa", "the build failed on friday", "quarterly numbers look good"]
ids = [memory.add(text, agent_id=agent, infer=False, metadata={"category": "note"})["results"][0]["id"]
       for text, agent in zip(said, ["a", "a", "b"])]
memory.update(ids[1], "the build failed on monday")
found = memory.search("which build failed", filters={"agent_id": "a"}, top_k=1, threshold=0.0)["results"]
listed = memory.get_all(filters={"agent_id": "a"})["results"]
noted = memory.get_all(filters={"agent_id": "b", "category": {"in": ["note"]}})["results"]
memory.delete(ids[0])
left = memory.get_all(filters={"agent_id": "a"})["results"]
got, history = memory.get(ids[1])["memory"], memory.history(ids[1])
memory.delete_all(agent_id="b")

from qdrant_client.models import SparseVector
from mem0.vector_stores.qdrant import Qdrant
store = Qdrant("bare", 2, url=os.environ["STORE_URL"], api_key=os.environ["STORE_KEY"])
store._encode_bm25 = lambda text: SparseVector(indices=[5], values=[1.0])
store._get_bm25_encoder = lambda: None
rows = [{"data": "red", "n": 1, "at": "2026-01-01T00:00:00Z"},
        {"data": "green tea", "n": 2, "at": "2026-02-01T00:00:00Z"},
        {"data": "blue whale", "n": 3, "at": "2026-03-01T00:00:00Z"}]
store.insert([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]], rows, [1, 2, 3])
store.update(2, [0.9, 0.5], rows[1])
store.update(3, vector=[0.1, 1.0])
store.update(3, payload={"mood": "calm"})
def of(points): return [one.id for one in points]
def kept_by(given): return sorted(of(store.list(given)[0]))
kept = {
    "searched": of(store.search("", [1.0, 0.0], 2)),
    "batch": [of(each) for each in store.search_batch(["", ""], [[1.0, 0.0], [0.0, 1.0]], 1)],
    "words": of(store.keyword_search("words", 3, {"n": 2})), "got": store.get(3).payload["mood"],
    "filters": [kept_by(each) for each in (
        {"n": 1}, {"n": [1, 2]}, {"n": {"eq": 2}}, {"n": {"ne": 2}},
        {"n": {"gte": 2, "lt": 3}}, {"n": {"in": [3]}}, {"n": {"nin": [3]}},
        {"at": {"gt": "2026-01-15T00:00:00Z"}}, {"data": {"contains": "whale"}},
        {"data": {"icontains": "tea"}}, {"n": "*"},
        {"OR": [{"n": 1}, {"n": 3}]}, {"NOT": [{"n": 1}]}, {"AND": [{"n": 1}, {"NOT": [{"data": "red"}]}]})],
    "collection": [store.col_info().points_count, "bare" in {one.name for one in store.list_cols().collections}],
}
store.delete(1)
kept["left"] = kept_by(None)
store.reset()
kept["reset"] = kept_by(None)
store.delete_col()
print(json.dumps({
    "got": got, "found": [one["memory"] for one in found],
    "listed": sorted(one["memory"] for one in listed), "noted": [one["memory"] for one in noted],
    "left": [one["memory"] for one in left], "b": memory.get_all(filters={"agent_id": "b"})["results"],
    "history": [one["event"] for one in history], "store": kept,
}))
'''


def test_an_unmodified_mem0_lives_on_the_store_server(tmp_path: Path) -> None:
    with store_server(tmp_path / "store") as address:
        environment = {
            **os.environ,
            "MEM0_TELEMETRY": "False",
            "MEM0_DIR": str(tmp_path),
            "HF_HUB_OFFLINE": "1",
            "STORE_URL": address.url,
            "STORE_KEY": address.api_key,
        }
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=False, timeout=600
        )
        assert done.returncode == 0, done.stderr
        client = address.client()
        assert {one.name for one in client.get_collections().collections} >= {"mem"}
        assert set(client.get_collection("mem").payload_schema) >= {"user_id", "agent_id", "run_id"}
        assert client.count("mem").count == 1
        client.close()

    assert json.loads(done.stdout.splitlines()[-1]) == {
        "got": "the build failed on monday",
        "found": ["the build failed on monday"],
        "listed": ["the build failed on monday", "the cat sleeps on the red sofa"],
        "noted": ["quarterly numbers look good"],
        "left": ["the build failed on monday"],
        "b": [],
        "history": ["ADD", "UPDATE"],
        "store": {
            "searched": [1, 2],
            "batch": [[1], [3]],
            "words": [2],
            "got": "calm",
            "filters": [
                *([1], [1, 2], [2], [1, 3], [2], [3], [1, 2]),
                *([2, 3], [3], [2], [1, 2, 3]),
                *([1, 3], [2, 3], []),
            ],
            "collection": [3, True],
            "left": [2, 3],
            "reset": [],
        },
    }
