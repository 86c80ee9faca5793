"""Whom an HTTP client trusts: of a URL without TLS nobody, and it does not take the time to read whom it might."""

import ssl
from typing import Any

import pytest

from memcore import bounded_http
from memcore.backends.mem0.collection import open_client
from memcore.backends.mem0.config import Mem0Config
from memcore.bounded_http import trusted_for


@pytest.mark.parametrize("url", ["http://127.0.0.1:6333", "HTTP://store"])
def test_a_client_of_a_plain_url_trusts_nobody(url: str) -> None:
    context = trusted_for(url)
    assert isinstance(context, ssl.SSLContext)
    assert context.cert_store_stats()["x509_ca"] == 0
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname


@pytest.mark.parametrize("url", ["https://store", "HTTPS://store", "store:6333", ""])
def test_any_other_client_trusts_whom_the_machine_trusts(url: str) -> None:
    assert trusted_for(url) is True


async def test_no_client_of_a_plain_url_reads_the_authorities(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def reading(*_args: Any, **_options: Any) -> ssl.SSLContext:
        read.append("authorities")
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    monkeypatch.setattr(ssl, "create_default_context", reading)
    for url, times in (("http://127.0.0.1:6333", 0), ("https://127.0.0.1:6333", 2)):
        open_client(Mem0Config(url=url, history_url="sqlite:///h.db", collection="c")).close()
        await bounded_http.open_client(url).aclose()
        assert read == ["authorities"] * times
