"""``make bench-retrieval``: quality and latency of search; see docs/benchmarks/."""

import argparse
import os
import platform
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import numpy as np
import psutil

ROOT = Path(__file__).parents[3]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from benchmarks.figure import Figure, Target  # noqa: E402  # a script must find the tree first
from benchmarks.report import show  # noqa: E402
from benchmarks.retrieval.by_hand import ByHand, Words  # noqa: E402
from benchmarks.retrieval.conversations import FOLDER, Conversation, conversations  # noqa: E402
from benchmarks.retrieval.latency import latency  # noqa: E402
from benchmarks.retrieval.product import (  # noqa: E402
    Answers,
    ask_all,
    kept_candidates,
    load,
    load_directly,
    recall,
    with_memory,
)
from benchmarks.retrieval.prompts import prompts  # noqa: E402
from benchmarks.stack import BenchStack, open_home, policy_of  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from memcore.backends.fusion import default_dense_weight  # noqa: E402
from memcore.embedding.factory import create_embedder  # noqa: E402
from memcore.embedding.protocol import Embedder, EmbedderKind  # noqa: E402
from memcore.evaluation.asking import compare, ndcg  # noqa: E402
from memcore.evaluation.published import KINDS  # noqa: E402

#: What the default fusion must reach with the static embedder, and with any other.
_LEAST_STATIC, _LEAST_TRANSFORMER = 0.59, 0.60

#: How far the product's figures may be from the same done by hand: three digits.
_SAME = 0.0005

#: What is indexed of a memory, from the text alone to day and speaker.
_TEMPLATES = {
    "text alone": "{content}",
    "day": "[{date}] {content}",
    "day and speaker": "[{date}] {speaker}: {content}",
}

_Rankings = dict[str, list[list[str]]]

#: A measure of one ranking.
Judge = Callable[[Sequence[str], Collection[str]], float]


def main(argv: Sequence[str]) -> int:
    """Measure and print; 1 when a target of quality is missed: those of time depend on what else the machine does."""
    parser = argparse.ArgumentParser(description="Retrieval: quality on LoCoMo, latency on the demo fleet's texts.")
    parser.add_argument("--embedder", default="static", help="static, minilm, ...")
    parser.add_argument(
        "--rounds", type=int, default=10, help="rounds of questions in the latency part; 0 leaves it out"
    )
    parser.add_argument("--quick", action="store_true", help="leave out the other texts that could be indexed")
    parser.add_argument("--memories", type=int, default=50_000, help="in the latency part")
    parser.add_argument("--agents", type=int, default=50, help="among whom they are dealt out")
    options = parser.parse_args(argv)
    console = Console(highlight=False, width=150)
    embedder, corpus = create_embedder(options.embedder), conversations()
    quality: list[Target] = []
    with open_home(policy=f"memory:\n  level: persistent\n  embedder:\n    provider: {options.embedder}\n") as stack:
        if corpus:
            quality = [*_quality(stack, corpus, embedder, console), *prompts(stack, corpus, console)]
            if not options.quick:
                _variants(stack, corpus, embedder, console)
        else:
            console.print(f"quality: skipped: no data (set {FOLDER} to a folder of conversation_*.json)")
        figures, times = list[Figure](), list[Target]()
        if options.rounds:
            size = {"memories": options.memories, "agents": options.agents}
            figures, times = latency(stack, embedder, rounds=options.rounds, **size)
    machine = {
        "cores": psutil.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "load": f"{os.getloadavg()[0]:.1f}",
    }
    show(figures, quality + times, machine)
    return 0 if all(target.is_met for target in quality) else 1


def _quality(stack: BenchStack, corpus: Sequence[Conversation], embedder: Embedder, console: Console) -> list[Target]:
    seconds = load(stack, corpus)
    count, asked = sum(len(each.turns) for each in corpus), sum(len(each.questions) for each in corpus)
    console.print(
        f"{embedder.name}: {count:,} turns of {len(corpus)} agents by client, queue and worker in {seconds:.1f} s"
    )
    answers = ask_all(stack, policy_of(stack.settings), stack.settings.company, corpus, embedder)
    product = {name: answer.rankings for name, answer in answers.items()}
    kept = kept_candidates(stack, policy_of(stack.settings), stack.settings.company, corpus, embedder)
    own, shared = _by_hand(corpus, embedder, kept)
    console.print(_by_category(f"NDCG@10, {asked:,} questions", corpus, product, ndcg))
    console.print(_by_category("Recall@10", corpus, product, recall))
    console.print(_by_category("by hand, NDCG@10", corpus, own, ndcg))
    console.print(_by_category("by hand, NDCG@10, word rarity over all agents", corpus, shared, ndcg))
    console.print(_costs(answers))
    scores = {name: _scores(corpus, rankings, ndcg) for name, rankings in product.items()}
    means = {name: float(np.mean(each)) for name, each in scores.items()}
    better = max(("bm25", "dense"), key=means.__getitem__)
    ahead = compare(scores["weighted"], scores[better])
    console.print(
        f"weighted leads {better} by {ahead.mean:+.4f}, 95 % of 10,000 paired resamples within "
        f"{ahead.low:+.4f} to {ahead.high:+.4f}\n"
    )
    apart = [abs(means[name] - float(np.mean(_scores(corpus, own[name], ndcg)))) for name in means]
    least = _LEAST_STATIC if embedder.kind is EmbedderKind.STATIC else _LEAST_TRANSFORMER
    return [
        Target(name="weighted, NDCG@10", values=[means["weighted"]], wanted=least),
        Target(name="weighted minus its better leg, lower bound", values=[ahead.low], wanted=0.0),
        Target(name="product apart from the same by hand, at most", values=[max(apart)], wanted=_SAME, at_most=True),
    ]


def _variants(stack: BenchStack, corpus: Sequence[Conversation], embedder: Embedder, console: Console) -> None:
    table = Table("what is indexed, and how", "bm25", "dense", "rrf", "weighted", title="NDCG@10")
    variants: dict[str, dict[str, dict[str, object]]] = {
        name: {"storage": {"text_template": template}} for name, template in _TEMPLATES.items()
    }
    variants["day and speaker, sparse_term_weight raw"] = {
        **variants["day and speaker"],
        "retrieval": {"sparse_term_weight": "raw"},
    }
    for number, (name, sections) in enumerate(variants.items()):
        policy, company = with_memory(policy_of(stack.settings), **sections), f"variant-{number}"
        load_directly(stack, policy, company, corpus, embedder)
        answers = ask_all(stack, policy, company, corpus, embedder)
        means = {method: np.mean(_scores(corpus, answer.rankings, ndcg)) for method, answer in answers.items()}
        table.add_row(name, *(f"{means[method]:.4f}" for method in ("bm25", "dense", "rrf", "weighted")))
    console.print(table)


def _by_hand(
    corpus: Sequence[Conversation], embedder: Embedder, kept: Sequence[Collection[str]]
) -> tuple[_Rankings, _Rankings]:
    """Return the rankings with a word's rarity counted over its agent's texts, and over all agents' texts."""
    both: tuple[_Rankings, _Rankings] = {}, {}
    all_words = Words.of([turn.stored_text for each in corpus for turn in each.turns])
    weight, has_all_words = default_dense_weight(embedder.kind), embedder.kind is not EmbedderKind.STATIC
    of_questions = iter(kept)
    for each in corpus:
        ranker = ByHand(each.turns, embedder)
        for question in each.questions:
            stays = next(of_questions)
            vector = embedder.embed_query(ranker.subject(question.text))
            for rankings, everybody in zip(both, (None, all_words), strict=True):
                places = ranker.rankings(
                    question.text,
                    vector,
                    dense_weight=weight,
                    has_all_words=has_all_words,
                    kept=stays,
                    everybody=everybody,
                )
                for name, ranked in places.items():
                    rankings.setdefault(name, []).append([each.turns[at].name for at in ranked])
    return both


def _scores(corpus: Sequence[Conversation], rankings: Sequence[Sequence[str]], judge: Judge) -> list[float]:
    asked = [question for each in corpus for question in each.questions]
    return [judge(ranked, question.evidence) for ranked, question in zip(rankings, asked, strict=True)]


def _by_category(title: str, corpus: Sequence[Conversation], product: _Rankings, judge: Judge) -> Table:
    categories = [question.category for each in corpus for question in each.questions]
    table = Table("", "all", *(f"{name} ({categories.count(name)})" for name in KINDS.values()), title=title)
    for method, rankings in product.items():
        scores = _scores(corpus, rankings, judge)
        parts = [
            np.mean([score for score, of in zip(scores, categories, strict=True) if of == name])
            for name in KINDS.values()
        ]
        table.add_row(method, f"{np.mean(scores):.4f}", *(f"{part:.3f}" for part in parts))
    return table


def _costs(answers: dict[str, Answers]) -> Table:
    table = Table("a query", "CPU ms, with the store's", "p50 ms", "p95 ms")
    for method, answer in answers.items():
        p50, p95 = np.percentile(answer.milliseconds, (50, 95))
        table.add_row(method, f"{answer.cpu_ms / len(answer.rankings):.2f}", f"{p50:.2f}", f"{p95:.2f}")
    return table


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
