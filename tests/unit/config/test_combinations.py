"""The rules that join several keys."""

import pytest
from support.present import present

from memcore.config.explain import Origin, explain
from memcore.config.loader import build_policy, load_policy
from memcore.config.maintenance import ConsolidationStrategyType
from memcore.config.retrieval import InjectionStrategy, MemoryRetrievalConfig
from memcore.errors import MemoryConfigError
from memcore.models.memory import ConsolidationInterval


def refused(text: str) -> str:
    with pytest.raises(MemoryConfigError) as caught:
        load_policy(text)
    return str(caught.value)


@pytest.mark.parametrize("fusion", ["linear", "weighted"])
def test_weights_that_do_not_make_one_are_refused(fusion: str) -> None:
    text = f"memory: {{retrieval: {{fusion_strategy: {fusion}, relevance_weight: 0.9, recency_weight: 0.3}}}}"

    assert refused(text) == (
        f"memory.retrieval: relevance_weight + recency_weight must be 1.0 with fusion_strategy {fusion}, "
        "and they make 1.2"
    )


def test_weights_are_free_under_rrf_which_reads_neither() -> None:
    load_policy("memory: {retrieval: {fusion_strategy: rrf, relevance_weight: 0.9, recency_weight: 0.3}}")


def test_weights_may_differ_from_one_by_what_floating_point_loses() -> None:
    load_policy("memory: {retrieval: {relevance_weight: 0.1, recency_weight: 0.9000000001}}")


@pytest.mark.parametrize(
    ("given", "value", "other", "left"),
    [
        ("recency_weight", 0.3, "relevance_weight", 0.7),
        ("relevance_weight", 0.9, "recency_weight", 0.1),
        ("relevance_weight", 1.0, "recency_weight", 0.0),
    ],
)
def test_a_weight_that_is_left_out_is_what_the_other_leaves(given: str, value: float, other: str, left: float) -> None:
    policy = load_policy(f"memory: {{retrieval: {{{given}: {value}}}}}")

    effective = {each.key.rpartition(".")[2]: each for each in explain(policy)}
    assert (effective[given].value, effective[given].origin) == (value, Origin.FILE)
    assert (effective[other].value, effective[other].origin) == (left, Origin.KEY_ALIAS)


def test_a_weight_that_was_left_out_is_no_part_of_what_was_written() -> None:
    below = load_policy("memory: {retrieval: {recency_weight: 0.3}}")

    retrieval = build_policy({"memory": {"retrieval": {"recency_weight": 0.1}}}, base=below).memory.retrieval

    assert (retrieval.relevance_weight, retrieval.recency_weight) == (0.9, 0.1)


def test_reformulation_needs_the_tool_based_strategy() -> None:
    assert refused("memory: {retrieval: {query_reformulation_enabled: true}}") == (
        "memory.retrieval: query_reformulation_enabled needs strategy tool_based, and it is context"
    )
    MemoryRetrievalConfig(query_reformulation_enabled=True, strategy=InjectionStrategy.TOOL_BASED)


def test_the_hierarchical_retriever_needs_the_context_strategy() -> None:
    assert refused("memory: {retrieval: {retriever: hierarchical, strategy: self_editing}}") == (
        "memory.retrieval: retriever hierarchical needs strategy context, and it is self_editing"
    )


def test_stages_in_containers_need_an_image() -> None:
    assert refused("memory: {fine_tune: {backend: docker}}") == (
        "memory.fine_tune: image must be set when backend is docker"
    )


def test_a_checkpoint_in_use_is_named_with_its_base() -> None:
    assert refused("memory: {embedder: {fine_tune: {enabled: true, base_model: b}}}") == (
        "memory.embedder.fine_tune: checkpoint_path and base_model must be set when enabled is true"
    )


def test_the_dual_mode_needs_a_model() -> None:
    assert refused("memory: {consolidation: {archival: {dual_mode: {enabled: true}}}}") == (
        "memory.consolidation.archival.dual_mode: summarization_model must be set when enabled is true"
    )


def test_the_dual_mode_that_is_enabled_is_the_strategy_where_none_is_named() -> None:
    enabled = "archival: {dual_mode: {enabled: true, summarization_model: m}}"
    policy = load_policy(f"memory: {{consolidation: {{{enabled}}}}}")
    named = load_policy(f"memory: {{consolidation: {{strategy: condense, {enabled}}}}}")

    assert policy.memory.consolidation.strategy == ConsolidationStrategyType.DUAL_MODE
    assert policy.warnings == ()
    (strategy,) = [each for each in explain(policy) if each.key == "memory.consolidation.strategy"]
    assert (strategy.value, strategy.origin) == ("dual_mode", Origin.KEY_ALIAS)
    assert named.memory.consolidation.strategy == ConsolidationStrategyType.CONDENSE
    assert len(named.warnings) == 1


def test_one_entry_may_not_exceed_the_total_of_a_synthesis() -> None:
    assert refused("memory: {consolidation: {llm: {max_total_user_content_chars: 1000}}}") == (
        "memory.consolidation.llm: max_entry_input_chars must not exceed max_total_user_content_chars"
    )


def test_a_category_has_one_retention_rule() -> None:
    rule = "{category: semantic, retention_days: 3}"

    assert refused(f"memory: {{consolidation: {{retention: {{rules: [{rule}, {rule}]}}}}}}") == (
        "memory.consolidation.retention.rules: category semantic has more than one rule"
    )


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        ("{category: semantic}", "0.retention_days: required"),
        ("{category: semantic, retention_days: 0}", "0.retention_days: should be greater than or equal to 1"),
    ],
)
def test_a_retention_rule_names_what_is_wrong_in_it(rule: str, sentence: str) -> None:
    text = f"memory: {{consolidation: {{retention: {{rules: [{rule}]}}}}}}"

    assert refused(text) == f"memory.consolidation.retention.rules.{sentence}"


@pytest.mark.parametrize(
    ("embedder", "sentence"),
    [("{model: m}", "dims must be set when model is set"), ("{dims: 3}", "model must be set when dims is set")],
)
def test_a_model_and_its_dims_go_together(embedder: str, sentence: str) -> None:
    assert refused(f"memory: {{embedder: {embedder}}}") == f"memory.embedder: {sentence}"


def test_the_static_embedder_needs_no_model() -> None:
    embedder = present(load_policy("memory: {embedder: {provider: static}}").memory.embedder)
    assert (embedder.provider, embedder.model, embedder.dims) == ("static", None, None)


def test_routes_are_given_exactly_to_the_composite_backend() -> None:
    assert refused("memory: {backend: composite}") == "memory: composite must be given when backend is composite"
    assert refused("memory: {composite: {}}") == "memory: composite must not be given when backend is mem0"

    composite = present(
        load_policy("memory: {backend: composite, composite: {routes: {scratch: mem0}}}").memory.composite
    )
    assert dict(composite.routes) == {"scratch": "mem0"}
    assert composite.default == "inmemory"


def test_a_namespace_cannot_be_routed_in_a_circle() -> None:
    text = "memory: {backend: composite, composite: {routes: {a: composite}}}"

    assert refused(text) == "memory.composite.routes.a: should be 'mem0' or 'inmemory'"


KEY_ALIASES = [
    ("interval", "consolidation_interval", "weekly", "never"),
    ("max_memories_per_agent", "max_memories_per_agent", 5, 6),
    ("retention.default_retention_days", "retention_days", 5, "null"),
]


def nested(path: str, value: object) -> str:
    head, _, rest = path.partition(".")
    return f"{{{head}: {nested(rest, value) if rest else value}}}"


@pytest.mark.parametrize(("winner", "other", "value", "another"), KEY_ALIASES)
def test_two_keys_of_one_meaning_may_not_differ(winner: str, other: str, value: object, another: object) -> None:
    text = f"memory: {{consolidation: {nested(winner, value)}, options: {nested(other, another)}}}"

    assert refused(text) == (
        f"memory.consolidation.{winner} and memory.options.{other} mean the same and differ; give one of them"
    )


@pytest.mark.parametrize(("winner", "other", "value", "another"), KEY_ALIASES)
@pytest.mark.parametrize("side", ["consolidation", "options"])
def test_one_of_two_keys_speaks_for_both(winner: str, other: str, value: object, another: object, side: str) -> None:
    del another
    written, follower = (winner, f"options.{other}") if side == "consolidation" else (other, f"consolidation.{winner}")

    effective = {
        setting.key: setting for setting in explain(load_policy(f"memory: {{{side}: {nested(written, value)}}}"))
    }

    assert (effective[f"memory.{side}.{written}"].value, effective[f"memory.{side}.{written}"].origin) == (
        value,
        Origin.FILE,
    )
    assert (effective[f"memory.{follower}"].value, effective[f"memory.{follower}"].origin) == (value, Origin.KEY_ALIAS)


def test_a_policy_that_was_reconciled_still_says_so_after_a_round_trip() -> None:
    policy = load_policy("memory: {options: {consolidation_interval: weekly}}")

    again = type(policy).model_validate_json(policy.model_dump_json())

    assert again == policy
    assert again.memory.consolidation.interval is ConsolidationInterval.WEEKLY


@pytest.mark.parametrize(
    "template", ["{content}", "[{date}] {speaker} of {agent} ({source}, {category}, {namespace}, {tags}): {content}"]
)
def test_a_text_template_may_use_the_fields_of_a_memory(template: str) -> None:
    policy = load_policy(f"memory: {{storage: {{text_template: '{template}'}}}}")

    assert policy.memory.storage.text_template == template


@pytest.mark.parametrize(
    "template",
    ["{date}", "no field", "{content} {owner}", "{content.__class__}", "{content[0]}", "{content:>999}", "{content!r}",
     "{content", "{} {content}", "{content}" + "x" * 200],
)  # fmt: skip
def test_a_text_template_that_hides_the_text_or_reaches_into_it_is_refused(template: str) -> None:
    assert refused(f"memory: {{storage: {{text_template: '{template}'}}}}").startswith("memory.storage.text_template: ")
