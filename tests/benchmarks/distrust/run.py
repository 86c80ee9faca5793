"""``make bench-distrust``: a tool is taken back out of a fleet's memory, after thirty days of merges.

Three writers use each agent's memory: its engine, a tool that is trusted, and a tool that is taken over. Both tools are
of one authority, so days merge what they say. A control of each agent has the same memories without the third writer.
Some of the agents also learn of their tasks; see learning.py. Then the third is distrusted over HTTP, in a running
stack, and every door is asked for what it said, and for what was learned of it.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

ROOT = Path(__file__).parents[3]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import httpx  # noqa: E402  # a script must find the tree first
from benchmarks.distrust.learning import LEARNERS, PEERS, School  # noqa: E402
from support.running_stack import StackAddress, running_stack, wait_until  # noqa: E402
from support.stub_llm_process import stub_llm  # noqa: E402

from memcore.client.client import MemoryClient  # noqa: E402
from memcore.client.envelopes import ImportRecord  # noqa: E402
from memcore.ledger.access.keys import Verb  # noqa: E402
from memcore.ledger.ledger import Ledger  # noqa: E402
from memcore.ledger.work_items import WorkState  # noqa: E402
from memcore.models.memory import MemoryCategory  # noqa: E402
from memcore.models.origin import Channel, Writer, writing_as  # noqa: E402

POLICY = """
memory:
  llm: {model: stub}
  procedural:
    model: stub
    propagation: {type: role, max_propagation_targets: 3}
  consolidation:
    interval: never
    strategy: simple
    categories: [episodic]
    min_age_days: 1  # what was learned today is left alone
    experience_compressor: {enabled: true}
    wiki_export: {enabled: true, export_root: wiki}
    group_threshold: 2
    max_removed_fraction: 1.0
    gate: {enabled: false}
    archival: {enabled: true}
"""

#: Of 100 memories of an agent: those of its engine, of the trusted tool, and of the one that is taken over.
SHARES = {"engine": 75, "reader": 22, "scraper": 3}

WRITERS = {
    "engine": Writer(principal="engine", limit=Channel.AGENT),
    "reader": Writer(principal="reader", limit=Channel.TOOL, usual=Channel.TOOL),
    "scraper": Writer(principal="scraper", limit=Channel.TOOL, usual=Channel.TOOL),
}

#: What each door shows.
Shown = dict[str, set[str]]

_WEATHER = ("dry and cold", "wet", "windy from the north", "warm for the season", "grey until noon")

#: What follows each report; a merge by `simple` leaves it out.
_REST = (
    "The station's keeper wrote nothing else of that day into the book, in which there is little room. Nobody has "
    "asked for a copy of it since the year in which the road to the valley was closed for good."
)

#: Seconds in which what the tool said must be shown by no door, and all the others said be back.
TARGET = 60.0


def said(agent: int, place: int) -> tuple[str, str]:
    """Return the writer of an agent's memory, and its code."""
    share, upto = place % 100, 0
    for writer, many in SHARES.items():
        upto += many
        if share < upto:
            return writer, f"{writer[0].upper()}{agent:03}X{place:05}Q"
    raise AssertionError(share)


def records(
    agent: int, places: Iterable[int], *, day: datetime, is_control: bool
) -> Iterator[tuple[str, ImportRecord]]:
    """Yield what is said on a day, with its writer."""
    for place in places:
        writer, code = said(agent, place)
        if is_control and writer == "scraper":
            continue
        text = (
            f"Station {code} reports that it was {_WEATHER[place % len(_WEATHER)]} for {place % 9 + 1} hours. {_REST}"
        )
        made = day + timedelta(seconds=place)
        yield (
            writer,
            ImportRecord(
                agent_id=named(agent, is_control=is_control),
                category=MemoryCategory.EPISODIC,
                content=text,
                created_at=made,
            ),
        )


def named(agent: int, *, is_control: bool) -> str:
    """Return the id of an agent, or of its control."""
    return f"{'control' if is_control else 'agent'}-{agent:03}"


def lived(client: MemoryClient, ledger: Ledger, company: str, *, agents: int, memories: int, days: int) -> None:
    """Let the fleet and its controls remember, and merge, for so many days."""
    begin = datetime.now(UTC) - timedelta(days=days + 1)
    for day in range(days):
        places = range(memories * day // days, memories * (day + 1) // days)
        by: dict[str, list[ImportRecord]] = {writer: [] for writer in SHARES}
        for agent in range(agents):
            for is_control in (False, True):
                for writer, record in records(agent, places, day=begin + timedelta(days=day), is_control=is_control):
                    by[writer].append(record)
        jobs: list[str] = []
        for writer, some in by.items():
            with writing_as(WRITERS[writer]):
                jobs += client.import_many(some).job_ids
        list(client.wait(jobs, timeout_seconds=600))
        every = [named(agent, is_control=is_control) for agent in range(agents) for is_control in (False, True)]
        runs = [client.maintain_now(each, allow_large=True).job_id for each in every]
        settled(ledger, company, runs)
        sys.stdout.write(f"\rday {day + 1} of {days}")
        sys.stdout.flush()
    sys.stdout.write("\n")


def settled(ledger: Ledger, company: str, runs: Sequence[str]) -> None:
    """Wait until runs have ended."""
    left = set(runs)

    def is_over() -> bool:
        for run_id in sorted(left):
            run = ledger.runs.get(company, run_id)
            if run is None or run.state not in {WorkState.DONE, WorkState.SKIPPED}:
                return False
            left.discard(run_id)
        return True

    wait_until(is_over, what="runs")


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


class Doors:
    """What the doors show: lists, searches, prompts, the archive, histories."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client

    async def texts(self, agent_id: str) -> list[str]:
        """Return every text that the list shows of an agent."""
        found: list[str] = []
        cursor: str | None = None
        while True:
            given = {"limit": "200", **({"cursor": cursor} if cursor else {})}
            page = (await self.get(f"/v1/agents/{agent_id}/memories", given)).json()
            found += [each["content"] for each in page["memories"]]
            if (cursor := page.get("cursor")) is None:
                return found

    async def asked(self, agent_id: str, code: str) -> str:
        """Return all that search, prompt and archive say of a code, in which the question itself is not counted."""
        place, about = f"/v1/agents/{agent_id}", f"What did station {code} report?"
        answers = [
            await self.client.post(f"{place}/search", json={"text": about, "limit": 10}),
            await self.client.post(f"{place}/context", json={"text": about, "token_budget": 1_000}),
            await self.get(f"{place}/archive", {"text": code}),
        ]
        for each in answers:
            each.raise_for_status()
        return " ".join(json.dumps(each.json()) for each in answers).replace(about, "")

    async def get(self, path: str, given: dict[str, str]) -> httpx.Response:
        answer = await self.client.get(path, params=given)
        answer.raise_for_status()
        return answer


def codes_in(texts: Iterable[str]) -> set[str]:
    """Return the codes of the stations that texts name."""
    words = (word.strip(".,;:()[]\"'") for text in texts for word in text.split())
    return {word for word in words if len(word) == 11 and word[0] in "ERS" and word[4] == "X" and word[-1] == "Q"}


def killed(stack: StackAddress, kills: int) -> None:
    """Kill the worker that brings memories back, once a second."""
    for _ in range(kills):
        if (pid := stack.pid("worker-night")) is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(1.0)


def learned(client: MemoryClient, ledger: Ledger, stack: StackAddress, *, agents: int) -> School:
    """Let some agents learn, and one more run of each compress what they did and copy their lessons to peers."""
    numbers = range(min(agents, LEARNERS + PEERS))
    school = School(stack, ledger, [named(each, is_control=False) for each in numbers])
    school.teach(client)
    every = [named(each, is_control=is_control) for each in numbers for is_control in (False, True)]
    settled(ledger, stack.settings.company, [client.maintain_now(each, allow_large=True).job_id for each in every])
    wait_until(school.is_compressed, what="the compression")
    return school


def kept_apart(school: School, before: Shown, after: Shown, again: Shown) -> bool:
    """Print what the doors show of what was learned, and return whether every line holds."""
    tools = school.tools
    counts = ", ".join(f"{door} {len(before[door] & tools)} and {len(before[door] - tools)}" for door in sorted(before))
    say(f"learned of the tool, and of others, shown before: {counts}")
    leaks = {text for texts in after.values() for text in texts & tools}
    lost = sum(len(texts - tools - after.get(door, set())) for door, texts in before.items())
    say(f"learned of the tool shown by any door: {len(leaks)} of {len(tools)}; target 0")
    say(f"learned of others missing at a door: {lost}; target 0")
    instead = after.get("skills", set())
    say(f"skills shown then: {' '.join(sorted(instead))}; target {' '.join(sorted(school.instead))}")
    say(f"after the lift every door shows what was learned as before: {'yes' if again == before else 'NO'}")
    is_seen = all(before[door] & tools for door in before)
    return is_seen and not leaks and not lost and instead == school.instead and again == before


async def measured(
    stack: StackAddress, ledger: Ledger, school: School, *, agents: int, memories: int, kills: int
) -> bool:
    """Distrust, look, lift, look; print what was found, and return whether every line holds."""
    company = stack.settings.company
    token = ledger.api_keys.create(company, name="bench", verbs=list(Verb)).token
    port = json.loads((stack.home / "run" / "doors.json").read_text("utf-8"))["serve_port"]
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=600) as client:
        doors = Doors(client)
        names = [named(agent, is_control=False) for agent in range(agents)]
        before = {each: await doors.texts(each) for each in names}
        every = {said(agent, place) for agent in range(agents) for place in range(memories)}
        scraped = sorted(code for writer, code in every if writer == "scraper")
        say(f"{len(every)} memories of {agents} agents, {len(scraped)} of the tool")
        say_merged(before)
        await school.promote(client, POLICY)
        known = await school.shown(client, joined(before))

        body = {"principal": "scraper", "reason": "taken over", "confirm": True}
        planned = (await client.post("/v1/distrusts:plan", json={"principal": "scraper"})).json()["agents"]
        expected = sum(each["brought_back"] > 0 for each in planned)
        say(f"to bring back: {sum(each['brought_back'] for each in planned)} memories of {expected} agents")
        began = time.monotonic()
        killing = threading.Thread(target=killed, args=(stack, kills), daemon=True)
        killing.start()
        answer = await client.post("/v1/distrusts", json=body)
        answer.raise_for_status()
        hidden_after = time.monotonic() - began
        distrust_id = answer.json()["distrust_id"]
        place = f"/v1/distrusts/{distrust_id}"
        wait_until(lambda: ledger.distrusts.get(company, distrust_id).completed_at is not None, what="the search")
        detail = (await client.get(place)).json()
        wait_until(lambda: len(ledger.runs.restores_of(company, distrust_id)) >= expected, what="runs")
        settled(ledger, company, [each.run_id for each in ledger.runs.restores_of(company, distrust_id)])
        whole_after = time.monotonic() - began
        killing.join()

        after = {each: await doors.texts(each) for each in names}
        controls = {each: await doors.texts(each.replace("agent", "control")) for each in names}
        shown = codes_in(text for texts in after.values() for text in texts) & {*scraped}
        shown |= {code for code in scraped if code in await doors.asked(f"agent-{int(code[1:4]):03}", code)}
        lost = {code for each in names for code in codes_in(controls[each]) - codes_in(after[each])}
        meanwhile = await school.shown(client, joined(after))
        clean = sum(len(codes_in(texts)) for texts in controls.values())
        say(f"hidden after {hidden_after:.1f} s, all brought back after {whole_after:.1f} s; target {TARGET:.0f}")
        say(f"of the tool shown by any door: {len(shown)} of {len(scraped)}; target 0")
        say(f"of the others' missing beside the controls: {len(lost)} of {clean}; target 0")
        say(f"ids in the report: {sum(map(len, detail['memories'].values()))}")

        (await client.post(f"{place}/lift", json={"reason": "cleaned", "confirm": True})).raise_for_status()
        wait_until(lambda: undone(ledger, company, expected), what="the undo")
        again = {each: await doors.texts(each) for each in names}
        is_exact = all(sorted(again[each]) == sorted(before[each]) for each in names)
        say(f"after the lift every agent's list is as before: {'yes' if is_exact else 'NO'}")
        is_apart = kept_apart(school, known, meanwhile, await school.shown(client, joined(again)))
    return not shown and not lost and is_exact and is_apart and whole_after <= TARGET


def say_merged(texts: dict[str, list[str]]) -> None:
    """Say what became of what was said in the days before."""
    merged = [codes for each in texts.values() for text in each if (codes := codes_in([text]))]
    writers = [{code[0] for code in codes} for codes in merged]
    shown = sum(code[0] == "S" for codes in merged for code in codes)
    mixed = sum(each >= {"R", "S"} for each in writers)
    say(f"merged into {len(merged)} texts, {mixed} of them of both tools; {shown} of the tool are shown")


def joined(texts: dict[str, list[str]]) -> dict[str, str]:
    """Return all texts of each agent as one."""
    return {agent_id: " ".join(each) for agent_id, each in texts.items()}


def undone(ledger: Ledger, company: str, expected: int) -> bool:
    """Return whether the runs were undone that brought memories back."""
    undos = [each for each in ledger.runs.list(company, limit=None) if each.kind == "undo"]
    return len(undos) >= expected and all(each.state in {WorkState.DONE, WorkState.SKIPPED} for each in undos)


def main(argv: Sequence[str]) -> int:
    """Run the drill; exit code 1 where a line does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, default=50)
    parser.add_argument("--memories", type=int, default=400, help="of each agent")
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--kills", type=int, default=0, help="times that the worker is killed meanwhile")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="memtend-distrust-") as folder:
        home = Path(folder) / "home"
        home.mkdir(mode=0o700)
        (home / "policy.yaml").write_text(POLICY, encoding="utf-8")
        with (
            stub_llm() as model,
            running_stack(home, MEMTEND_LLM_URL=model.url) as stack,
            closing(Ledger.open(stack.settings.ledger_urls)) as ledger,
            closing(MemoryClient.from_settings(stack.settings)) as client,
        ):
            size = {"agents": options.agents, "memories": options.memories}
            lived(client, ledger, stack.settings.company, **size, days=options.days)
            school = learned(client, ledger, stack, agents=options.agents)
            holds = asyncio.run(measured(stack, ledger, school, **size, kills=options.kills))
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
