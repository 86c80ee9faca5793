"""Memories are changed, added and proposed for more authority in the console: of the version that a page showed."""

import re
from collections.abc import Mapping
from html import unescape
from typing import Any

import httpx
import pytest
from support.console import ConsoleClient, signed_in
from support.http_api import HttpApi
from support.memories import record
from support.served_console import Serve

from memcore.backends.factory import WorkerBackend
from memcore.ledger.access.keys import Verb
from memcore.ledger.organization.audit import Confirmation
from memcore.models.distrust import DistrustRule
from memcore.models.memory import MemoryEntry
from memcore.models.origin import Channel, Origin
from memcore.records import ORIGIN_KEY, Where
from ops.web.memory_form import changes, fields_of

AGENT = "ada"
TEXT = "The lift stops between floors.\nIt is green.\n"


async def stored(backend: WorkerBackend, text: str = TEXT, *, channel: Channel | None = None) -> str:
    extra = {} if channel is None else {ORIGIN_KEY: Origin(channels=(channel,)).stored()}
    made = record(AGENT, text, extra=extra)
    await backend.store_many([made])
    return made.entry.id


def one(memory_id: str) -> str:
    return f"memories/one?agent={AGENT}&id={memory_id}"


def form_of(page: str) -> dict[str, str]:
    """Return what a browser would send of the form, with the line breaks that it sends."""
    form = page.partition('action="/console/memories/edit">')[2].partition("</form>")[0]
    found = dict(re.findall(r'<input[^>]* name="(\w+)" value="([^"]*)"', form))
    # Behind the tag a browser drops one line break.
    found |= dict(re.findall(r'<textarea name="(\w+)"[^>]*>\n(.*?)</textarea>', form, re.DOTALL))
    sent = {name: unescape(value).replace("\n", "\r\n") for name, value in found.items() if name != "csrf"}
    return {**sent, "reason": "it has moved"}


async def send(client: ConsoleClient, path: str, fields: Mapping[str, str]) -> httpx.Response:
    return await client.send(f"memories/{path}", **fields)


def cell(page: str, tag: str) -> str:
    return " ".join(re.findall(f"<{tag}>(.*?)</{tag}>", page))


async def now_at(opened: HttpApi, memory_id: str) -> MemoryEntry:
    found = await (await opened.context.service("acme")).memories.get(AGENT, memory_id)
    assert found is not None
    return found


def audited(opened: HttpApi, action: str) -> list[tuple[str, str | None, str | None]]:
    lines = opened.context.ledger.audit.page("acme", action=action)
    return [(each.actor[:11], each.subject, each.reason) for each in lines]


async def test_a_memory_is_changed_by_what_was_typed_alone(serve: Serve) -> None:
    async with serve() as (opened, backend), signed_in(opened.app, opened.key()) as client:
        memory_id = await stored(backend)
        form = form_of(await client.get(one(memory_id)))
        unchanged = await send(client, "edit", form)
        assert "done=nothing" in unchanged.headers["location"]
        assert audited(opened, "memory.update") == []
        form |= {"tags": "roof\r\nlift, green\r\n", "valid_from": "2026-05-01T08:30", "valid_until": "2027-05-01T00:00"}
        answer = await send(client, "edit", form)
        assert answer.status_code == 303, answer.text
        new = await now_at(opened, memory_id)
        assert answer.headers["location"] == f"/console/memories/one?agent={AGENT}&id={new.id}&done=changed"
        assert (new.content, new.metadata.tags) == (TEXT, ("roof", "lift, green"))
        assert [str(each) for each in (new.valid_from, new.valid_until)] == [
            "2026-05-01 08:30:00+00:00",
            "2027-05-01 00:00:00+00:00",
        ]
        assert audited(opened, "memory.update") == [("person:test", new.id, "it has moved")]
        # A console's key writes as an operator.
        assert new.origin is not None
        assert Channel.OPERATOR in new.origin.channels
        shown = await client.get(one(new.id))
        again = form_of(shown) | {"content": "The lift is \u202ered.", "valid_from": ""}
        assert (await send(client, "edit", again)).status_code == 303
        last = await now_at(opened, memory_id)
        assert (last.content, last.metadata.tags) == ("The lift is \u202ered.", ("roof", "lift, green"))
        assert (last.valid_from, last.valid_until) == (None, new.valid_until)
        page = await client.get(one(last.id))
        assert "\u202e" not in page
        assert form_of(page)["content"] == last.content


async def test_what_was_changed_meanwhile_is_shown_beside_what_was_typed(serve: Serve) -> None:
    async with serve() as (opened, backend), signed_in(opened.app, opened.key()) as client:
        memory_id = await stored(backend)
        form = form_of(await client.get(one(memory_id))) | {"content": "The lift <b>stops</b> nowhere.", "tags": "mine"}
        service = await opened.context.service("acme")
        theirs = await service.memories.update(AGENT, memory_id, content="The lift stops on floor two.")
        refused = await send(client, "edit", form)
        assert refused.status_code == 409
        assert (await now_at(opened, memory_id)) == theirs
        assert audited(opened, "memory.update") == []
        assert ("on" in cell(refused.text, "del"), "nowhere" in cell(refused.text, "ins")) == (True, True)
        assert "<b>stops" not in refused.text
        kept = form_of(refused.text)
        assert (kept["content"], kept["tags"], kept["id"]) == (form["content"], "mine", theirs.id)
        assert 'value="it has moved"' in refused.text
        # Decided again, of what is there now.
        assert (await send(client, "edit", kept)).status_code == 303
        assert (await now_at(opened, memory_id)).content == form["content"]
        # Of a memory that is gone, what was typed is kept too.
        await service.memories.forget(AGENT, memory_id)
        gone = await send(client, "edit", kept | {"id": memory_id})
        assert gone.status_code == 404
        assert "names no memory" in gone.text
        assert form_of(gone.text)["content"] == form["content"]


async def test_one_that_changes_between_two_looks_is_not_overwritten(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve() as (opened, backend), signed_in(opened.app, opened.key()) as client:
        memory_id = await stored(backend)
        form = form_of(await client.get(one(memory_id))) | {"content": "mine"}
        service = await opened.context.service("acme")
        update = service.memories.update

        async def late(*given: Any, **more: Any) -> MemoryEntry:
            await update(AGENT, memory_id, content="theirs")
            return await update(*given, **more)

        monkeypatch.setattr(service.memories, "update", late)
        refused = await send(client, "edit", form)
        assert refused.status_code == 409
        assert cell(refused.text, "del") == "theirs"
        assert (await now_at(opened, memory_id)).content == "theirs"


#: What is typed in which field, and what is said beside it.
WRONG = {
    ("content", " \r\n"): "must not be blank",
    ("content", "x" * 70_000): "the limit is 65536",
    ("tags", "t" * 2_000): "",
    ("valid_from", "soon"): "must be a time",
    ("valid_until", "2020-01-01T00:00"): "must lie after valid_from",
    ("reason", " "): "must not be blank",
}


async def test_what_is_wrong_stands_beside_its_field_and_nothing_typed_is_lost(serve: Serve) -> None:
    async with serve() as (opened, backend), signed_in(opened.app, opened.key()) as client:
        memory_id = await stored(backend)
        form = form_of(await client.get(one(memory_id)))
        form |= {"content": "typed </textarea><script>x</script>", "tags": "kept", "valid_from": "2026-01-01T00:00"}
        for (name, value), said in WRONG.items():
            refused = await send(client, "edit", form | {name: value})
            assert refused.status_code == 422, (name, refused.text)
            found = re.search(f'id="wrong-{name}" role="alert">(.*?)</p>', refused.text)
            assert found is not None, name
            assert said in found[1]
            assert f'aria-describedby="wrong-{name}"' in refused.text
            assert "<script>x" not in refused.text
            kept = form_of(refused.text)
            assert {each: kept[each] for each in ("content", "tags", "valid_from") if each != name} == {
                each: form[each] for each in ("content", "tags", "valid_from") if each != name
            }
        assert (await now_at(opened, memory_id)).id == memory_id


async def test_a_key_changes_what_it_may_and_as_its_channel(serve: Serve) -> None:
    async with serve() as (opened, backend):
        memory_id = await stored(backend, channel=Channel.PERSON)
        tool = await stored(backend, "The door is open.", channel=Channel.TOOL)
        sent = {"agent": AGENT, "id": memory_id, "content": "mine", "tags": "", "reason": "x", "confirm": "yes"}
        new = {"agent": AGENT, "content": "mine", "category": "semantic", "reason": "x", "confirm": "yes"}
        others = {"edit": sent, "raise": sent | {"to": "instruct"}, "new": new}
        async with signed_in(opened.app, opened.key(verbs=(Verb.READ, Verb.MAINTAIN))) as reader:
            page = await reader.get(one(memory_id))
            assert not {"/memories/edit", "/memories/raise"} & set(re.findall('action="/console([^"]*)"', page))
            assert "memories/new" not in await reader.get(f"memories?agent={AGENT}")
            await reader.get(f"memories/new?agent={AGENT}", 403)
            for path, form in others.items():
                answer = await send(reader, path, form)
                assert (answer.status_code, "the verb write" in answer.text) == (403, True), path
        async with signed_in(opened.app, opened.key(verbs=(Verb.WRITE,))) as blind:
            await blind.get(one(memory_id), 403)
            refused = await send(blind, "edit", sent | {"content": ""})
            assert (refused.status_code, "lift" in refused.text) == (403, False)
        async with signed_in(opened.app, opened.key(agents=["bob"])) as other:
            await other.get("memories?agent=bob")
            for path, form in others.items():
                assert (await send(other, path, form)).status_code == 403, path
        opened.context.ledger.companies.add("globex")
        async with signed_in(opened.app, opened.key(company="globex")) as foreign:
            await foreign.get(f"memories?agent={AGENT}")
            for path in ("edit", "raise"):
                refused = await send(foreign, path, others[path])
                assert (refused.status_code, "lift" in refused.text) == (404, False)
        async with signed_in(opened.app, opened.key(min_authority="inform")) as narrow:
            assert "memories/edit" not in await narrow.get(one(tool))
            hidden = await send(narrow, "edit", sent | {"id": tool})
            assert (hidden.status_code, "door" in hidden.text) == (404, False)
        assert (await now_at(opened, memory_id)).id == memory_id
        async with signed_in(opened.app, opened.key(channel="tool")) as scraper:
            # No page, no token.
            without = await scraper.raw("memories/edit", sent)
            assert without.status_code == 403
            await scraper.get(one(memory_id))
            assert (await send(scraper, "edit", sent)).status_code == 303
        changed = await now_at(opened, memory_id)
        assert changed.origin is not None
        assert set(changed.origin.channels) == {Channel.PERSON, Channel.TOOL}
        word = Confirmation(actor="grace", confirm=True, reason="it lies")
        opened.context.ledger.distrusts.add("acme", DistrustRule(channel=Channel.TOOL), word)
        async with signed_in(opened.app, opened.key()) as client:
            refused = await send(client, "edit", sent | {"id": changed.id, "content": "more"})
            assert refused.status_code in {403, 404}
            assert "memories/edit" not in await client.get(one(changed.id))


async def test_more_authority_is_asked_for_of_the_version_that_was_shown(serve: Serve) -> None:
    async with serve() as (opened, backend), signed_in(opened.app, opened.key()) as client:
        memory_id = await stored(backend, channel=Channel.TOOL)
        assert "<option>instruct</option>" in await client.get(one(memory_id))
        asked = {"agent": AGENT, "id": memory_id, "to": "instruct"}
        wrong = await send(client, "raise", asked | {"to": "everything"})
        assert (wrong.status_code, 'id="wrong-to"' in wrong.text) == (422, True)
        answer = await send(client, "raise", asked)
        (waits,) = opened.context.ledger.approvals.page("acme")
        assert answer.headers["location"] == f"/console/approvals/{waits.approval_id}?done=proposed"
        assert (waits.proposal.action, waits.proposal.figures["to"]) == ("memory:raise", "instruct")
        assert waits.proposal.proposed_by.startswith("test-")
        service = await opened.context.service("acme")
        await service.memories.update(AGENT, memory_id, content="another text")
        changed = await send(client, "raise", asked)
        assert (changed.status_code, "another text" in changed.text) == (409, True)
        assert len(opened.context.ledger.approvals.page("acme")) == 1


async def test_a_memory_is_added(serve: Serve) -> None:
    async with serve() as (opened, backend), signed_in(opened.app, opened.key()) as client:
        assert f'href="/console/memories/new?agent={AGENT}"' in await client.get(f"memories?agent={AGENT}")
        await client.get(f"memories/new?agent={AGENT}")
        typed = {"agent": AGENT, "content": "The roof\r\nleaks.", "category": "semantic", "tags": "roof\r\nrain"}
        typed |= {"reason": "seen", "confirm": "yes"}
        for name, value in (("content", " "), ("category", "rumour"), ("reason", ""), ("tags", "t" * 2_000)):
            refused = await send(client, "new", typed | {name: value})
            assert refused.status_code == 422, refused.text
            assert f'id="wrong-{name}" role="alert"' in refused.text
            assert name == "content" or "The roof\nleaks.</textarea>" in refused.text
        assert await backend.count_where(Where(agent_id=AGENT)) == 0
        answer = await send(client, "new", typed)
        memory_id = answer.headers["location"].partition("id=")[2].partition("&")[0]
        entry = await now_at(opened, memory_id)
        assert (entry.content, entry.metadata.tags) == ("The roof\nleaks.", ("roof", "rain"))
        assert (entry.category, entry.origin and entry.origin.channels) == ("semantic", (Channel.OPERATOR,))
        assert audited(opened, "memory.put") == [("person:test", memory_id, "seen")]


def test_the_form_of_a_memory_that_is_sent_back_changes_nothing() -> None:
    entry = record(AGENT, "one\r\ntwo\rthree").entry
    typed = fields_of(entry) | {"content": "one\ntwo\nthree"}
    assert changes(entry, typed) == {}
    assert changes(entry, typed | {"tags": " a \n\nb"}) == {"tags": ("a", "b")}
