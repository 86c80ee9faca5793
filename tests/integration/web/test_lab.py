"""The search lab: why each memory is shown or not, and what another policy would show; nothing is written."""

import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from html import unescape
from pathlib import Path

import pytest
from support.console import signed_in
from support.http_api import HttpApi
from support.memories import NOW, record
from support.served_console import Serve

from memcore.backends.factory import WorkerBackend
from memcore.config.urls import LedgerUrls
from memcore.ledger.access.keys import Verb
from memcore.ledger.agents import AgentSpec
from memcore.ledger.organization.audit import Confirmation
from memcore.models.origin import Channel, Origin
from memcore.records import ORIGIN_KEY, Where
from memcore.retrieval.usage import BufferedUseRecorder
from ops.web.routes.lab import NOT_FOUND

LIFT, DOOR, HOSTILE = (
    "The lift stops between floors.",
    "The door of the lift is green.",
    "<script>document.title=1</script><img src=x> lift {{ 7*7 }}",
)
# Each of the last summer, in its half of the earth.
NORTH, SOUTH = "Bo visited the archive up there.", "Cy visited the archive down there."


@dataclass(frozen=True, kw_only=True)
class Served:
    """A served installation with a store of its own."""

    opened: HttpApi
    backend: WorkerBackend
    ids: Mapping[str, str]


async def _filled(backend: WorkerBackend) -> Mapping[str, str]:
    suspect = {ORIGIN_KEY: Origin(channels=(Channel.TOOL, Channel.SUSPECT)).stored()}
    made = [
        record("ada", LIFT),
        record("ada", DOOR, extra={ORIGIN_KEY: Origin(channels=(Channel.TOOL,)).stored()}),
        record("ada", HOSTILE, extra=suspect),
        record("ada", "Nobody knows the code of the gate."),
        record("ada", SOUTH, created_at=NOW.replace(month=1)),
        record("ada", NORTH, created_at=NOW.replace(month=7)),
        record("bob", "The lift of bob stops between floors."),
    ]
    await backend.store_many(made)
    return {each.entry.content: each.entry.id[:8] for each in made}


def rows(page: str, name: str) -> list[list[str]]:
    """Return the rows of a table of the page, without marks."""
    found = re.search(rf'aria-label="{name}">(.*?)</table>', page, re.DOTALL)
    assert found is not None, name
    body = found[1].partition("<tbody>")[2]
    cells = (re.findall(r"<t[hd].*?</t[hd]>", row, re.DOTALL) for row in re.findall(r"<tr.*?</tr>", body, re.DOTALL))
    return [[" ".join(unescape(re.sub("<[^>]+>", " ", cell)).split()) for cell in row] for row in cells]


QUESTION = "memories/lab?agent=ada&q=Where+does+the+lift+stop+between+floors%3F"

Lab = Callable[..., AbstractAsyncContextManager[Served]]


@pytest.fixture
def lab(serve: Serve) -> Lab:
    @asynccontextmanager
    async def filled(policy: str = "") -> AsyncIterator[Served]:
        async with serve(policy) as (opened, backend):
            yield Served(opened=opened, backend=backend, ids=await _filled(backend))

    return filled


async def test_each_result_says_why_it_is_shown_and_the_others_why_they_are_not(lab: Lab) -> None:
    async with lab() as at, signed_in(at.opened.app, at.opened.key()) as one:
        assert 'href="/console/memories/lab?agent=ada"' in await one.get("memories?agent=ada")
        assert "<caption" not in await one.get("memories/lab?agent=ada")
        page = await one.get(QUESTION)
        (lift,), others = rows(page, "Shown"), rows(page, "Not shown")
        assert lift[:2] == ["1", f"{LIFT} {at.ids[LIFT]}"]
        assert re.fullmatch(r"strong Shown: it scores 1\.00 of the best, and 0\.\d\d is needed\.", lift[2])
        assert lift[3] == "1.00 lift, stop, floors"
        assert lift[-1] == "unknown authority: inform"
        (door,) = (row for row in others if row[0].startswith(DOOR))
        assert re.fullmatch(
            r"absent Not shown: it scores 0\.\d\d of the best, and a strong one needs 0\.\d\d\.", door[1]
        )
        assert door[2] == "0.29 lift"
        assert door[-1] == "tool authority: reference"
        assert "of bob" not in page
        assert "<script>document" not in page
        assert "<img" not in page
        every = rows(await one.get(f"{QUESTION}&standing=any&limit=2"), "Shown")
        assert [row[2].partition(":")[0] for row in every] == ["strong Shown", "absent Shown, since all were asked for"]


async def test_a_search_that_nothing_answers_and_one_of_the_past_say_so(lab: Lab) -> None:
    async with lab() as at, signed_in(at.opened.app, at.opened.key()) as one:
        page = await one.get("memories/lab?agent=ada&q=quantum+lattice")
        assert rows(page, "Shown") == [["None."]]
        reasons = {row[1] for row in rows(page, "Not shown")}
        nothing = "nothing answers the question, the best evidence is 0.00 of 0.45"
        assert reasons == {f"absent Not shown: {nothing}, and it is none of the nearest."}
        assert DOOR in await one.get(f"{QUESTION}&as_of=2026-03-01T09:00&min_authority=reference")
        assert DOOR not in await one.get(f"{QUESTION}&min_authority=inform")
        # A time without a zone is one of UTC.
        assert LIFT in await one.get(f"{QUESTION}&as_of=2026-03-01T08:31")
        assert LIFT not in await one.get(f"{QUESTION}&as_of=2026-03-01T08:30")
        for wrong in ("limit=0", "limit=51", "limit=x", "as_of=x", "standing=x", "min_authority=x"):
            name = wrong.partition("=")[0]
            page = await one.get(f"{QUESTION}&{wrong}", 422)
            assert f'aria-describedby="wrong-{name}"' in page
            assert page.partition(f'id="wrong-{name}" role="alert">')[2].startswith(f"{name}: ")
            assert 'value="Where does the lift stop between floors?"' in page
            assert "<caption" not in page


async def test_another_policy_is_searched_beside_and_what_moves_says_so(lab: Lab) -> None:
    asked = {"agent": "ada", "q": "Who visited the archive last summer?"}
    async with lab() as at, signed_in(at.opened.app, at.opened.key()) as one:
        begun = await one.get("memories/lab?agent=ada")
        policy = unescape(begun.partition("<textarea")[2].partition(">\n")[2].partition("</textarea>")[0])
        same = await one.send("memories/lab", **asked, policy=policy)
        assert "Nothing in it changes a search." in same.text
        assert rows(same.text, "Compared") == [[f"{NORTH} {at.ids[NORTH]}", "1", "1", "= same"]]
        assert rows(same.text, "Shown")[0][5] == "as asked 2026-07-17"
        south = policy.replace("north", "south")
        other = await one.send("memories/lab", **asked, policy=south)
        assert "Differs in <code>memory.retrieval.hemisphere</code>." in other.text
        new, gone = rows(other.text, "Compared")
        assert new[:3] == [f"{SOUTH} {at.ids[SOUTH]}", "\u2013", "1"]
        assert re.match(r"\+ new In force: Not shown: it scores 0\.\d\d of the best", new[3])
        assert gone[:3] == [f"{NORTH} {at.ids[NORTH]}", "1", "\u2013"]
        assert re.match(r"\u2212 gone Then: Not shown: it scores 0\.\d\d of the best", gone[3])
        # The fields of the first form go along.
        every = await one.send("memories/lab", **asked, standing="any", limit="3", policy=south)
        changes = {row[0].partition(".")[0]: row[3] for row in rows(every.text, "Compared")}
        assert changes[SOUTH[:-1]] == "\u2191 up 1"
        assert changes[NORTH[:-1]] == "\u2193 down 1"
        asked["q"] = "Where does the lift stop on Sundays?"
        strict = "memory: {retrieval: {min_evidence: 1.0, standing: strong}}"
        lift, *_ = rows((await one.send("memories/lab", **asked, policy=strict)).text, "Compared")
        assert re.match(
            r"\u2212 gone Then: Not shown, since only strong ones are: nothing answers the question, "
            r"the best evidence is 0\.\d\d of 1\.00\.",
            lift[3],
        )


async def test_what_a_policy_leaves_out_stays_as_in_force(lab: Lab) -> None:
    asked = {"agent": "ada", "q": "Who visited the archive last summer?"}
    async with lab("memory: {retrieval: {hemisphere: south}}") as at, signed_in(at.opened.app, at.opened.key()) as one:
        await one.get(QUESTION)
        answer = await one.send("memories/lab", **asked, policy="memory: {retrieval: {min_evidence: 0.5}}")
        assert "Differs in <code>memory.retrieval.min_evidence</code>." in answer.text
        assert rows(answer.text, "Compared") == [[f"{SOUTH} {at.ids[SOUTH]}", "1", "1", "= same"]]


#: Policies that are wrong, and what is said of each.
WRONG = {
    "memory: {retrieval: {min_evidence: 7}}": "memory.retrieval.min_evidence",
    "memory: {retrieval: {standing: all}}": "memory.retrieval.standing",
    "memory: {retrieval: {foo: 1}}": "memory.retrieval.foo",
    "memory:\n  retrieval: [": "policy, line 2",
    "just words": "policy: should be a mapping",
    "a: &x 1\nb: *x": "anchors",
    "[" * 99: "nests deeper",
    "memory: {retrieval: {min_evidence: .nan}}": "memory.retrieval.min_evidence",
    "memory: {retrieval: {rrf_k: 1" + "0" * 5_000 + "}}": "policy",
    "memory: !!set {a}": "policy",
    "memory: \0": "policy",
    "a: <script>document.title=1</script>": "a: ",
    "# " + "x" * 300_000: "policy: has more than 65536 characters",
}


async def test_a_policy_that_is_wrong_is_named_and_stays_in_the_form(lab: Lab) -> None:
    async with lab() as at, signed_in(at.opened.app, at.opened.key()) as one:
        await one.get(QUESTION)
        for policy, said in WRONG.items():
            answer = await one.send("memories/lab", agent="ada", q="lift stops floors", policy=policy)
            assert answer.status_code == 422, policy
            assert said in unescape(answer.text.partition('role="alert">')[2].partition("<")[0])
            assert "<script>document" not in answer.text
            assert policy[:200] in unescape(answer.text)
            # What is in force is searched all the same.
            assert rows(answer.text, "Shown")[0][1].startswith(LIFT)


async def test_a_question_and_a_policy_are_needed_to_compare(lab: Lab) -> None:
    async with lab() as at, signed_in(at.opened.app, at.opened.key()) as one:
        await one.get(QUESTION)
        for left_out in ("agent", "q", "policy"):
            given = {"agent": "ada", "q": "lift", "policy": "{}"} | {left_out: " "}
            answer = await one.send("memories/lab", **given)
            assert (answer.status_code, f"{left_out}: must be given" in answer.text) == (422, True)
        assert (await one.send("memories/lab", agent="ada", q="lift", policy="{}", limit="999")).status_code == 422


async def test_an_experiment_writes_nothing_and_is_no_use(
    lab: Lab, sqlite_ledger: LedgerUrls, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[object] = []
    for name in ("record", "record_query"):
        monkeypatch.setattr(BufferedUseRecorder, name, lambda *given, **_more: noted.append(given))

    def written() -> list[int]:
        files = [Path(url.removeprefix("sqlite:///")) for url in (sqlite_ledger.ledger, sqlite_ledger.journal)]
        return [each.stat().st_mtime_ns for file in files for each in sorted(file.parent.glob(f"{file.name}*"))]

    keeping = "memory: {retrieval: {record_queries: true}}"
    async with lab(keeping) as at, signed_in(at.opened.app, at.opened.key()) as one:
        policy = "memory: {retrieval: {record_queries: true, hemisphere: south}}"
        await one.get(QUESTION)
        before = written(), await at.backend.scan(Where(agent_id="ada"))
        await one.get(QUESTION)
        assert (await one.send("memories/lab", agent="ada", q="lift", policy=policy)).status_code == 200
        assert (written(), await at.backend.scan(Where(agent_id="ada"))) == before
        assert noted == []
        # What was tried stays behind with nobody.
        service = await at.opened.context.service("acme")
        assert service.policy.memory.retrieval.hemisphere == "north"
        assert rows(await one.get("memories/lab?agent=ada&q=Who+visited+last+summer%3F"), "Shown")[0][1].startswith(
            NORTH
        )


async def test_a_key_sees_its_agents_and_what_it_may_be_shown_under_any_policy(lab: Lab) -> None:
    async with lab("memory: {origins: {authority: {suspect: quarantined}}}") as at:
        trusting = "memory: {origins: {authority: {tool: instruct, suspect: instruct}}}"
        tried = {"agent": "ada", "q": "lift", "standing": "any", "policy": trusting}
        async with signed_in(
            at.opened.app, at.opened.key(agents=["ada"], verbs=(Verb.READ,), channel="person")
        ) as person:
            assert "title=1" not in (await person.get(QUESTION)).partition("</table>")[0]
            assert "title=1" in await person.get(f"{QUESTION}&min_authority=quarantined")
            # Who may ask for what is in quarantine may see what another policy would let out of it.
            answer = await person.send("memories/lab", **tried)
            assert "title=1" in answer.text
            await person.get("memories/lab?agent=bob&q=lift", 403)
            assert (await person.send("memories/lab", **tried | {"agent": "bob"})).status_code == 403
        async with signed_in(at.opened.app, at.opened.key(channel="agent")) as machine:
            for path in (QUESTION, f"{QUESTION}&min_authority=quarantined"):
                assert "title=1" not in await machine.get(path)
            answer = await machine.send("memories/lab", **tried)
            assert DOOR in answer.text
            assert "title=1" not in answer.text
        async with signed_in(at.opened.app, at.opened.key(min_authority="inform")) as narrow:
            assert DOOR not in await narrow.get(f"{QUESTION}&min_authority=reference")
            answer = await narrow.send("memories/lab", **tried)
            assert LIFT in answer.text
            assert DOOR not in answer.text
        async with signed_in(at.opened.app, at.opened.key(verbs=(Verb.WRITE,))) as writer:
            await writer.get(QUESTION, 403)
        at.opened.context.ledger.companies.add("globex")
        async with signed_in(at.opened.app, at.opened.key(company="globex")) as other:
            assert rows(await other.get(QUESTION), "Shown") == [["None."]]
            answer = await other.send("memories/lab", **tried)
            assert rows(answer.text, "Compared") == [["Neither shows anything."]]


async def test_what_another_policy_puts_in_quarantine_is_gone(lab: Lab) -> None:
    async with lab() as at, signed_in(at.opened.app, at.opened.key(channel="person")) as one:
        await one.get(QUESTION)
        policy = "memory: {origins: {authority: {suspect: quarantined}}}"
        answer = await one.send("memories/lab", agent="ada", q="lift", standing="any", policy=policy)
        assert "Differs in <code>memory.origins.authority</code>." in answer.text
        (gone,) = (row for row in rows(answer.text, "Compared") if row[2] == "\u2013")
        assert gone[0].startswith("<script>document")
        assert gone[3] == f"\u2212 gone Then: {NOT_FOUND}"


async def test_an_agent_that_is_being_erased_shows_nothing(lab: Lab) -> None:
    async with lab() as at, signed_in(at.opened.app, at.opened.key()) as one:
        await one.get(QUESTION)
        service = await at.opened.context.service("acme")
        word = Confirmation(actor="grace", confirm=True, reason="they asked for it")
        at.opened.context.ledger.agents.put(AgentSpec(company="acme", agent_id="ada"))
        await service.erasures.request("ada", word)
        answer = await one.send("memories/lab", agent="ada", q="lift", standing="any", policy="{}")
        for page in (await one.get(QUESTION), answer.text):
            assert LIFT not in page
