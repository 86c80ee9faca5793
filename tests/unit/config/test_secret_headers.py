"""Headers for a language model's server may hold secrets: a policy keeps them and shows none."""

import pickle

import pytest

from memcore.clock import utc_now
from memcore.config.explain import explain
from memcore.config.llm import without_header_values
from memcore.config.loader import build_policy, load_policy
from memcore.errors import MemoryConfigError
from memcore.ledger.companies import Company, CompanyState

SECRET = "the-secret-word"
POLICY = load_policy(f"memory: {{llm: {{extra_headers: {{X-Team: {SECRET}}}}}}}")


def value_of(policy: object) -> str:
    headers = policy.memory.llm.extra_headers  # type: ignore[attr-defined]  # a policy
    found: str = headers["x-team"].get_secret_value()
    return found


def test_a_policy_shows_stars() -> None:
    shown = {each.key: each.value for each in explain(POLICY)}["memory.llm.extra_headers"]
    assert shown == {"x-team": "**********"}
    assert SECRET not in repr(POLICY) + str(POLICY) + POLICY.model_dump_json() + repr(POLICY.model_dump())


def test_a_companys_policy_and_another_process_have_the_header() -> None:
    assert value_of(build_policy({"memory": {"llm": {"model": "small"}}}, base=POLICY)) == SECRET
    assert value_of(pickle.loads(pickle.dumps(POLICY))) == SECRET  # noqa: S301  # our own


def test_the_policy_of_a_companys_row_is_shown_without_them() -> None:
    document = {"memory": {"llm": {"model": "small", "extra_headers": {"X-Team": SECRET}}, "level": "none"}}
    row = Company(
        company="acme", state=CompanyState.ACTIVE, policy=document, created_at=utc_now(), changed_at=utc_now()
    )
    assert row.policy == document
    assert SECRET not in row.model_dump_json() + repr(row) + repr(row.shown_policy)
    assert row.shown_policy == {
        "memory": {"llm": {"model": "small", "extra_headers": {"X-Team": "**********"}}, "level": "none"}
    }
    assert without_header_values({"memory": {"level": "none"}}) == {"memory": {"level": "none"}}
    assert SECRET not in repr(without_header_values({"memory": {"llm": {"extra_headers": SECRET}}}))


@pytest.mark.parametrize("headers", [f'{{X-Team: "{SECRET}\\u00e9"}}', f"{{'{SECRET} x': y}}", f"{SECRET}"])
def test_a_wrong_header_is_named_without_its_value(headers: str) -> None:
    with pytest.raises(MemoryConfigError, match="extra_headers") as caught:
        load_policy(f"memory: {{llm: {{extra_headers: {headers}}}}}")
    assert SECRET not in str(caught.value)
