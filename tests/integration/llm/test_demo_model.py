"""The demo's language model."""

import httpx
import pytest
from support.stub_llm_process import StubLLM

from examples.demo.model import demo_model
from examples.stub_llm.server import MODEL
from memcore.errors import ProviderError


def test_without_an_address_a_stub_runs_as_long_as_the_demo() -> None:
    with demo_model({"MEMTEND_LLM_URL": ""}) as model:
        assert model.name == MODEL
        assert httpx.get(f"{model.address}/models", timeout=600).is_success
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{model.address}/models", timeout=600)


def test_with_an_address_the_first_model_of_its_list_is_asked(stub: StubLLM) -> None:
    with demo_model({"MEMTEND_LLM_URL": stub.url}) as model:
        assert (model.address, model.name) == (stub.url, MODEL)


def test_a_model_that_a_person_names_is_asked_whatever_the_list_says() -> None:
    with demo_model({"MEMTEND_LLM_URL": "http://127.0.0.1:9/v1"}, name="mine") as model:
        assert model.name == "mine"


def test_a_server_that_wants_another_key_is_told_of_before_anything_starts(stub: StubLLM) -> None:
    stub.order(key="right")
    with pytest.raises(ProviderError), demo_model({"MEMTEND_LLM_URL": stub.url, "MEMTEND_LLM_API_KEY": "wrong"}):
        pytest.fail("the demo began")
    with demo_model({"MEMTEND_LLM_URL": stub.url, "MEMTEND_LLM_API_KEY": "right"}) as model:
        assert model.name == MODEL
