"""Where a webhook may lead: nowhere but to the public internet over TLS, and to hosts that the operator names."""

import asyncio
import ipaddress
from collections.abc import Sequence

import pytest

from memcore.errors import MemoryInputError
from memcore.webhooks.destination import Destination, RefusedAddressError, is_allowed, resolved

#: Addresses, whether anybody may use them, and whether a host that the operator names may have them.
ADDRESSES = """
8.8.8.8                 yes yes
2606:4700:4700::1111    yes yes
::ffff:8.8.8.8          yes yes
127.0.0.1               no  yes
127.1.2.3               no  yes
::1                     no  yes
10.1.2.3                no  yes
172.16.0.1              no  yes
192.168.1.1             no  yes
100.64.0.1              no  yes
fc00::1                 no  yes
::ffff:127.0.0.1        no  yes
::ffff:7f00:1           no  yes
::7f00:1                no  yes
64:ff9b::7f00:1         no  yes
64:ff9b::a00:1          no  yes
2002:7f00:1::           no  yes
169.254.169.254         no  no
::ffff:169.254.169.254  no  no
64:ff9b::a9fe:a9fe      no  no
2002:a9fe:a9fe::        no  no
fd00:ec2::254           no  no
100.100.100.200         no  no
168.63.129.16           no  no
fe80::1                 no  no
0.0.0.0                 no  no
::                      no  no
224.0.0.1               no  no
ff02::1                 no  no
255.255.255.255         no  no
"""


async def _resolved(found: Sequence[str]) -> Sequence[str]:
    return found


def _destination(url: str, *private_hosts: str) -> Destination:
    return Destination.of(url, private_hosts=private_hosts)


@pytest.mark.parametrize("line", ADDRESSES.strip().splitlines())
def test_an_address_is_refused_unless_it_is_public_or_its_host_is_named(line: str) -> None:
    address, anybody, named = line.split()
    parsed = ipaddress.ip_address(address)
    assert is_allowed(parsed, is_named=False) is (anybody == "yes")
    assert is_allowed(parsed, is_named=True) is (named == "yes")
    for is_named in (False, True):
        hosts = ["hooks.example"] if is_named else []
        destination = _destination("https://hooks.example/in", *hosts)
        # Beside a good one too: nobody knows which of them is connected to.
        found = destination.addresses(lambda *_: _resolved(["8.8.8.8", address]))
        if is_allowed(parsed, is_named=is_named):
            assert asyncio.run(found)[0] == "8.8.8.8"
        else:
            with pytest.raises(RefusedAddressError):
                asyncio.run(found)


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1/",
        "https://[::1]/",
        "https://[::ffff:127.0.0.1]/",
        "https://[::ffff:a9fe:a9fe]/",
        "https://169.254.169.254/latest/meta-data",
        "https://10.0.0.1/",
        "http://example.com/",
        "http://127.0.0.1/",
        "ftp://example.com/",
        "https:///hook",
        "example.com/hook",
        "https://user@example.com/",
        "https://user:hunter2@example.com/",
        "https://example.com/#hunter2",
        "https://exa mple.com/",
        "https://example.com/" + "a" * 2_000,
    ],
)
def test_a_url_that_breaks_a_rule_is_refused_and_not_quoted(url: str) -> None:
    with pytest.raises(MemoryInputError) as refused:
        _destination(url)
    assert refused.value.field == "url"
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("host", ["2130706433", "0x7f000001", "0177.0.0.1", "127.1", "localhost", "LOCALHOST."])
def test_other_ways_to_write_an_address_are_seen_when_they_are_looked_up(host: str) -> None:
    with pytest.raises((MemoryInputError, RefusedAddressError, OSError)):
        asyncio.run(_destination(f"https://{host}/").addresses(resolved))


def test_this_machine_may_be_reached_without_tls_where_the_operator_names_it() -> None:
    assert _destination("http://127.0.0.1:9/", "127.0.0.1").is_named
    assert _destination("http://localhost/", "LocalHost").port == 80
    with pytest.raises(MemoryInputError, match="https"):
        _destination("http://hooks.internal/", "hooks.internal")


def test_the_url_is_sent_to_the_address_that_was_checked() -> None:
    destination = _destination("https://hooks.example:8443/in?key=1")
    assert (destination.host, destination.port, destination.authority) == ("hooks.example", 8443, "hooks.example:8443")
    assert destination.at("2606:4700::1") == "https://[2606:4700::1]:8443/in?key=1"
    found = asyncio.run(destination.addresses(lambda *_: _resolved(["8.8.8.8", "8.8.4.4", "2606:4700::1"])))
    assert found == ("8.8.8.8", "2606:4700::1")


def test_a_host_without_an_address_is_refused() -> None:
    with pytest.raises(RefusedAddressError):
        asyncio.run(_destination("https://hooks.example/").addresses(lambda *_: _resolved([])))
