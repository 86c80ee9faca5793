"""Stands in for llama.cpp's server in a process of its own: as slow to load as a test says, and the stub answers."""

import threading
import time
from pathlib import Path
from types import SimpleNamespace

from examples.stub_llm.fault import StubOrders
from examples.stub_llm.server import StubServer


class CommonParams(SimpleNamespace):
    """As much of the engine's parameters as the part sets."""

    def __init__(self) -> None:
        super().__init__(model=SimpleNamespace(), cpuparams=SimpleNamespace(), cpuparams_batch=SimpleNamespace())


class Server:
    """Answers once there is a file beside the weights that ends with ``.loaded``."""

    def __init__(self, params: CommonParams) -> None:
        weights = Path(params.model.path)
        if weights.read_bytes() == b"GGUF cut":
            raise RuntimeError("failed to load model")
        while not weights.with_suffix(".loaded").exists():
            time.sleep(0.01)
        (key,) = params.api_keys
        assert params.hostnames == ["127.0.0.1"]
        threading.Thread(target=StubServer(StubOrders(key=key), port=params.port).serve_forever, daemon=True).start()
