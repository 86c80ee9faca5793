"""The signature of the specification's example, and the examples with which a receiver verifies ours."""

import json
import shutil
import subprocess
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from support.repository import ROOT

from examples.webhooks.verify import verify as verify_in_python
from memcore.webhooks.sender import signature, signed_headers

# What the specification's own libraries are tested with.
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
MESSAGE, SENT_AT, BODY = "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'
SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
OTHER = "whsec_" + "b3RoZXIgb3RoZXIgb3RoZXIgb3RoZXI="

Verify = Callable[[Mapping[str, str], bytes, str, float], bool]

_NODE = """
import { verify } from "./examples/webhooks/verify.mjs";
import { readFileSync } from "node:fs";
const given = JSON.parse(readFileSync(0, "utf8"));
console.log(verify(given.headers, Buffer.from(given.body), given.secret, given.now));
"""


def in_node(headers: Mapping[str, str], body: bytes, secret: str, now: float) -> bool:
    given: Any = {"headers": dict(headers), "body": body.decode(), "secret": secret, "now": now}
    command = ["node", "--input-type=module", "-e", _NODE]
    done = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, cwd=ROOT, check=True)
    return done.stdout.strip() == "true"


def in_python(headers: Mapping[str, str], body: bytes, secret: str, now: float) -> bool:
    return verify_in_python(headers, body, secret, now=now)


@pytest.fixture(params=["python", "node"])
def verify(request: pytest.FixtureRequest) -> Verify:
    if request.param == "python":
        return in_python
    if shutil.which("node") is None:
        pytest.skip("no node on this machine")
    return in_node


def headers(*secrets: str) -> dict[str, str]:
    return dict(signed_headers(secrets or (SECRET,), message_id=MESSAGE, timestamp=SENT_AT, body=BODY))


def test_the_example_of_the_specification() -> None:
    assert signature(SECRET, message_id=MESSAGE, timestamp=SENT_AT, body=BODY) == SIGNATURE
    assert headers() == {
        "webhook-id": MESSAGE,
        "webhook-timestamp": str(SENT_AT),
        "webhook-signature": SIGNATURE,
    }


def test_a_receiver_accepts_either_secret_after_a_rotation(verify: Verify) -> None:
    both = headers(OTHER, SECRET)
    assert both["webhook-signature"].count("v1,") == 2
    assert [verify(both, BODY, secret, SENT_AT + 1.0) for secret in (SECRET, OTHER)] == [True, True]


@pytest.mark.parametrize(
    "changed",
    [
        {"body": BODY + b" "},
        {"secret": OTHER},
        {"webhook-id": "msg_other"},
        {"webhook-timestamp": str(SENT_AT + 1)},
        {"webhook-timestamp": "soon"},
        {"webhook-signature": SIGNATURE.replace("v1,", "v2,")},
        {"webhook-signature": ""},
        {"now": SENT_AT + 301.0},
        {"now": SENT_AT - 301.0},
    ],
    ids=str,
)
def test_a_receiver_refuses_what_was_changed_or_is_old(verify: Verify, changed: dict[str, Any]) -> None:
    given: dict[str, Any] = {"body": BODY, "secret": SECRET, "now": SENT_AT + 299.0} | changed
    sent = headers() | {name: value for name, value in changed.items() if name.startswith("webhook-")}
    assert verify(headers(), BODY, SECRET, SENT_AT + 299.0)
    assert not verify(sent, given["body"], given["secret"], given["now"])


@pytest.mark.parametrize("name", sorted(headers()))
def test_a_receiver_refuses_what_lacks_a_header(verify: Verify, name: str) -> None:
    sent = {key: value for key, value in headers().items() if key != name}
    assert not verify(sent, BODY, SECRET, float(SENT_AT))
