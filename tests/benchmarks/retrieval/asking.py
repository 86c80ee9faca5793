"""Search-and-Ask and hierarchical retrieval beside a plain search, on LoCoMo; with a stub, or with a real model.

``python tests/benchmarks/retrieval/asking.py`` asks a stub that answers alike every time; with ``MEMTEND_LLM_URL`` (and
``MEMTEND_LLM_API_KEY``) and ``--model NAME`` it asks that server's model. ``MEMTEND_LOCOMO_DIR`` names the folder of
the conversations.
"""

import argparse
import asyncio
import json
import os
import re
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from pathlib import Path

ROOT = Path(__file__).parents[3]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from benchmarks.retrieval.conversations import FOLDER, Conversation, Question, conversations  # noqa: E402  # a script must find the tree first
from benchmarks.retrieval.product import load_directly, recall, with_memory  # noqa: E402
from benchmarks.stack import BenchStack, open_home, policy_of  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from memcore.backends.factory import create_worker_backend  # noqa: E402
from memcore.embedding.factory import create_embedder  # noqa: E402
from memcore.evaluation.asking import compare, ndcg  # noqa: E402
from memcore.finetune.evaluate import DEPTH  # noqa: E402
from memcore.ledger.ledger import Ledger  # noqa: E402
from memcore.llm.accounting import create_model  # noqa: E402
from memcore.llm.protocol import Attribution, Completion, CompletionRequest, Model  # noqa: E402
from memcore.models.answers import Shown  # noqa: E402
from memcore.retrieval.pipeline import MemoryPipeline, parts_of  # noqa: E402
from memcore.retrieval.protocol import ScoredMemory  # noqa: E402
from memcore.retrieval.strategies.asking import LLMQueryReformulator, LLMSufficiencyChecker, SearchAndAsk  # noqa: E402
from memcore.retrieval.strategies.hierarchical import LLMHierarchicalRetriever  # noqa: E402

_COMPANY = "asking"

_WORD = re.compile(r"[A-Za-z']+")

#: Words that say nothing about what is asked for.
_COMMON = frozenset(
    re.findall(
        r"\w+",
        "a an and are at did do does for from has have her his how in is it of on or she the their they this to was "
        "were what when where which who whose why will with would",
    )
)

#: Returns the memories of an agent for a question, best first.
Ask = Callable[[str, str], Awaitable[tuple[ScoredMemory, ...]]]


class StubModel:
    """Answers by words alone, and alike every time; it knows nothing of any answer.

    Found is sufficient when the memories shown have every telling word of the question; the next query is the telling
    words that they have not, or all; every question goes to the semantic and the episodic worker.
    """

    def __init__(self) -> None:
        self.calls = 0

    async def ask(self, request: CompletionRequest, *, by: Attribution, key: str) -> Completion:
        """Return the answer to a question of retrieval."""
        del key
        self.calls += 1
        question, _, memories = request.messages[1].content.partition("</question>")
        wanted, shown = _telling(question.removeprefix("<question>")), set(_telling(memories))
        missing = [word for word in wanted if word not in shown]
        match by.purpose.rpartition(":")[2]:
            case "sufficient":
                text = "INSUFFICIENT" if missing else "SUFFICIENT"
            case "reformulate":
                text = " ".join(missing or wanted) or "NONE"
            case "route":
                text = json.dumps({"workers": ["semantic", "episodic"]})
            case _:
                text = json.dumps({"query": " ".join(wanted)} if wanted else {"action": "skip"})
        return Completion(text=text, is_cut=False, model="stub", prompt_tokens=0, completion_tokens=0)


def _telling(text: str) -> list[str]:
    return list(dict.fromkeys(word for word in _WORD.findall(text.lower()) if word not in _COMMON))


def main(argv: Sequence[str]) -> int:
    """Measure and print; 1 when a way with a model finds less than the plain search does."""
    parser = argparse.ArgumentParser(description="Search-and-Ask and hierarchical retrieval on LoCoMo.")
    parser.add_argument("--embedder", default="static", help="static, minilm, ...")
    parser.add_argument("--conversations", type=int, default=10, help="how many, the first ones")
    parser.add_argument("--questions", type=int, default=0, help="of each conversation, the first ones; 0 for all")
    parser.add_argument("--thresholds", action="store_true", help="show only what the default thresholds let through")
    parser.add_argument("--model", help="name of the model at MEMTEND_LLM_URL; without it a stub answers")
    options = parser.parse_args(argv)
    console, corpus = Console(highlight=False, width=120), conversations()[: options.conversations]
    if not corpus:
        console.print(f"skipped: no data (set {FOLDER} to a folder of conversation_*.json)")
        return 0
    if options.model is not None and not os.environ.get("MEMTEND_LLM_URL"):
        parser.error("--model needs MEMTEND_LLM_URL")
    asked = [(each, question) for each in corpus for question in each.questions[: options.questions or None]]
    with open_home(policy=f"memory:\n  level: persistent\n  embedder:\n    provider: {options.embedder}\n") as stack:
        thresholds: dict[str, object] = {} if options.thresholds else {"standing": Shown.ANY, "min_relevance": 0.0}
        rankings, calls = _rankings(
            stack, corpus, asked, embedder=options.embedder, thresholds=thresholds, model_name=options.model
        )
    return _report(console, asked, rankings, calls, who=options.model or "stub")


def _rankings(
    stack: BenchStack,
    corpus: Sequence[Conversation],
    asked: Sequence[tuple[Conversation, Question]],
    *,
    embedder: str,
    thresholds: dict[str, object],
    model_name: str | None,
) -> tuple[dict[str, list[list[str]]], int]:
    loaded = create_embedder(embedder)
    policy = with_memory(
        policy_of(stack.settings),
        retrieval={"max_memories": DEPTH, **thresholds},
        llm={"model": model_name},
        budgets={"tokens_per_agent_per_day": None},
    )
    load_directly(stack, policy, _COMPANY, corpus, loaded)
    settings = stack.settings.model_copy(update={"company": _COMPANY})
    backend = create_worker_backend(settings, policy, embedder=loaded)
    stub = StubModel()
    with closing(Ledger.open(settings.ledger_urls)) as ledger, asyncio.Runner() as runner:
        real = None if model_name is None else create_model(settings, policy, ledger)
        model: Model = stub if real is None else real
        config = policy.memory.retrieval
        pipeline = MemoryPipeline(backend=backend, config=config, **parts_of(policy, backend=backend))
        asking = SearchAndAsk(
            LLMQueryReformulator(model, company=_COMPANY),
            LLMSufficiencyChecker(model, company=_COMPANY),
            rounds=config.max_reformulation_rounds,
        )
        routed = LLMHierarchicalRetriever(flat=pipeline, backend=backend, model=model, config=config, company=_COMPANY)

        async def plain(agent_id: str, text: str) -> tuple[ScoredMemory, ...]:
            return await pipeline.chosen(agent_id, text, limit=DEPTH)

        async def asks(agent_id: str, text: str) -> tuple[ScoredMemory, ...]:
            return await asking.search(agent_id, text, lambda query: plain(agent_id, query), limit=DEPTH)

        async def routes(agent_id: str, text: str) -> tuple[ScoredMemory, ...]:
            return await routed.retrieve(agent_id, text, limit=DEPTH)

        ways: dict[str, Ask] = {"plain search": plain, "Search-and-Ask": asks, "hierarchical": routes}
        runner.run(backend.connect())
        try:
            found = {
                name: [
                    [str(each.entry.metadata.source) for each in runner.run(_done(ask, one.agent_id, question.text))]
                    for one, question in asked
                ]
                for name, ask in ways.items()
            }
        finally:
            runner.run(backend.disconnect())
            if real is not None:
                runner.run(real.close())
    return found, stub.calls


async def _done(ask: Ask, agent_id: str, text: str) -> tuple[ScoredMemory, ...]:
    return await ask(agent_id, text)


def _report(
    console: Console,
    asked: Sequence[tuple[Conversation, Question]],
    rankings: dict[str, list[list[str]]],
    calls: int,
    *,
    who: str,
) -> int:
    table = Table(title=f"{len(asked)} questions of LoCoMo, model: {who}" + (f", {calls} calls" if calls else ""))
    for column in ("way", "recall@10", "NDCG@10", "recall against plain, 95 %", "questions below plain"):
        table.add_column(column)
    evidence = [question.evidence for _, question in asked]
    plain = [recall(found, each) for found, each in zip(rankings["plain search"], evidence, strict=True)]
    is_below = False
    for name, found in rankings.items():
        recalls = [recall(ranked, each) for ranked, each in zip(found, evidence, strict=True)]
        gains = [ndcg(ranked, each) for ranked, each in zip(found, evidence, strict=True)]
        better = compare(recalls, plain)
        fewer = sum(mine < usual for mine, usual in zip(recalls, plain, strict=True))
        is_below |= better.mean < 0.0
        table.add_row(
            name,
            f"{sum(recalls) / len(recalls):.4f}",
            f"{sum(gains) / len(gains):.4f}",
            f"{better.mean:+.4f} [{better.low:+.4f}, {better.high:+.4f}]",
            str(fewer),
        )
    console.print(table)
    if is_below:
        console.print("a way with a model finds less than the plain search")
    return int(is_below)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
