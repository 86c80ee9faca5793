"""The webhook against a server on loopback: the notice, and its failures."""

import logging
from datetime import timedelta

import pytest
from support.proposals import proposal
from support.webhook_server import PATH, Listener

from memcore.approvals import Webhook
from memcore.clock import utc_now
from memcore.models.approval import Approval, ApprovalNeed, ApprovalState, Superseded
from memcore.telemetry.events import Event


def approval() -> Approval:
    now = utc_now()
    given = proposal("hunter2", supersedes=(Superseded(id="x", content="hunter2"),), details={"a": "hunter2"})
    return Approval(
        approval_id="one",
        proposal=given,
        state=ApprovalState.PENDING,
        needs=ApprovalNeed.WORD,
        created_at=now,
        expires_at=now,
    )


async def test_it_is_told_id_action_title_and_risk_and_no_text(
    listener: Listener, caplog: pytest.LogCaptureFixture
) -> None:
    await Webhook(listener.url).notify(approval())
    assert listener.heard == [{"id": "one", "action": "test:note", "title": "A text for all", "risk": "medium"}]
    assert caplog.records == []


@pytest.mark.parametrize("status", [302, 404, 503])
async def test_a_bad_answer_is_logged_and_nobodys_error(
    listener: Listener, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    listener.status = status
    await Webhook(listener.url).notify(approval())
    (record,) = [each for each in caplog.records if each.name == "memcore.approvals"]
    assert (record.msg, vars(record)["problem"]) == (Event.APPROVAL_WEBHOOK_FAILED, f"status {status}")
    assert len(listener.heard) == 1


async def test_a_server_that_hangs_is_given_up(listener: Listener, caplog: pytest.LogCaptureFixture) -> None:
    listener.goes_on.clear()
    await Webhook(listener.url, timeout=timedelta(milliseconds=200)).notify(approval())
    (record,) = caplog.records
    assert vars(record)["problem"] == "no whole answer within 0.2 s"


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/hunter2", "http://[hunter2", "http://a:hunter2/"])
async def test_an_address_where_nobody_listens_is_logged_without_its_secret(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    await Webhook(url).notify(approval())
    (record,) = caplog.records
    assert record.msg == Event.APPROVAL_WEBHOOK_FAILED
    assert PATH not in str(vars(record))
