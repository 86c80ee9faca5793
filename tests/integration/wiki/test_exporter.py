"""The wiki's files, and their readers."""

import json
import os
import re
from datetime import timedelta
from pathlib import Path

import pytest
from support.execution_traces import of_key
from support.experiences import experience
from support.memories import DAWN, NOW, record
from support.wiki_fixture import COMPANY, WikiFixture, compressed, head_of, lesson_id

from memcore.errors import MemoryConfigError, MemoryRetrievalError
from memcore.ledger.organization.audit import Confirmation
from memcore.models.distrust import DistrustRule
from memcore.models.memory import COMPRESSED_TAG
from memcore.wiki import WikiExport
from memcore.wiki.folders import slug


async def test_each_experience_is_a_file_and_the_index_counts_them(library: WikiFixture) -> None:
    await library.fill(raw=3, lessons=2)
    (done,) = await library.exporter().export(["ada"])

    assert done == WikiExport(agent_id="ada", raw_count=3, compressed_count=2, is_published=True)
    files = library.files()
    lessons = [f"wiki/{lesson_id(i)}.md" for i in range(2)]
    assert set(files) == {"index.md", "raw/ada-e0.md", "raw/ada-e1.md", "raw/ada-e2.md", *lessons}
    assert head_of(files["raw/ada-e0.md"]) == {
        "id": "ada-e0",
        "agent_id": "ada",
        "category": "episodic",
        "created_at": DAWN.isoformat(),
    }
    assert "\nThe disk was full; I moved the old exports away and ran it once more.\n" in files["raw/ada-e0.md"]
    assert head_of(files[lessons[0]])["created_at"] == (DAWN + timedelta(days=1)).isoformat()
    assert "- Look at the disk first (0)." in files[lessons[0]]
    assert "- An import fails at night." in files[lessons[0]]
    assert head_of(files["index.md"]) == {
        "agent_id": "ada",
        "generated_at": NOW.isoformat(),
        "compressed": 2,
        "raw": 3,
    }
    for place in set(files) - {"index.md"}:
        assert f"]({place})" in files["index.md"]


async def test_what_a_distrusted_key_reported_has_no_file(library: WikiFixture) -> None:
    await library.fill(raw=1, lessons=0)
    made = experience("ada-e9").model_copy(update={"origin": of_key("k1")})
    library.ledger.experiences.append(COMPANY, made)
    word = Confirmation(actor="grace", confirm=True, reason="its host was taken over")
    distrust = library.ledger.distrusts.add(COMPANY, DistrustRule(principal="k1"), word)
    await library.exporter().export(["ada"])
    assert "raw/ada-e9.md" not in library.files()
    assert "raw/ada-e0.md" in library.files()
    library.ledger.distrusts.lift(COMPANY, distrust.distrust_id, word)
    library.ledger.distrusts.add(COMPANY, DistrustRule(principal="k1", until=made.created_at), word)
    await library.exporter().export(["ada"])
    assert {"raw/ada-e0.md", "raw/ada-e9.md"} <= library.files().keys()


async def test_every_text_of_a_raw_experience_stands_in_its_file_exactly(library: WikiFixture) -> None:
    texts = ["```\n# not a heading\n```", "  step\tone", "````", "naïve 日本\u2028\x07", "---\nid: other\n---"]
    made = experience(
        "e", prompt=texts[0], reasoning_trace=(texts[1], texts[2]), output=texts[3],
        verification_feedback=texts[4], source_task_id="t: 1\n- x",
    )  # fmt: skip
    library.ledger.experiences.append(COMPANY, made)
    await library.exporter().export(["ada"])
    page = library.files()["raw/e.md"]
    assert all(text in page for text in texts)
    assert (head_of(page)["id"], head_of(page)["source_task_id"]) == ("e", "t: 1\n- x")


async def test_what_a_model_wrote_becomes_no_markup(library: WikiFixture) -> None:
    hostile = "![x](http://host/?q) <script>alert()</script> [[other]]"
    await library.keep([compressed(0, says=hostile)])
    await library.exporter().export(["ada"])
    files = library.files()
    for page in (files["index.md"], files[f"wiki/{lesson_id(0)}.md"]):
        assert not re.search(r"(?<!\\)[!\[<](script|\[|x|other)", page)
        assert "script" in page


async def test_a_memory_that_only_carries_the_tag_is_shown_as_it_is(library: WikiFixture) -> None:
    contents = ["no JSON at all", json.dumps({"strategic_decisions": []}), "[" * 50_000]
    await library.keep(
        record("ada", text, memory_id=lesson_id(i), tags=(COMPRESSED_TAG,)) for i, text in enumerate(contents)
    )
    await library.exporter().export(["ada"])
    for i, text in enumerate(contents):
        assert text in library.files()[f"wiki/{lesson_id(i)}.md"]


async def test_other_memories_stay_out_of_it(library: WikiFixture) -> None:
    await library.keep([record("ada", "a private note"), compressed(0, agent_id="bob")])
    (done,) = await library.exporter().export(["ada"])
    assert (done.compressed_count, set(library.files())) == (0, {"index.md"})


async def test_more_than_a_thousand_are_all_exported(library: WikiFixture) -> None:
    await library.fill(raw=70, lessons=1_030)
    (done,) = await library.exporter().export(["ada"])
    assert (done.raw_count, done.compressed_count, len(library.files())) == (70, 1_030, 1_101)


async def test_a_limit_keeps_the_newest_of_each(library: WikiFixture) -> None:
    await library.fill(raw=5, lessons=0)
    await library.keep(compressed(i) for i in range(5))
    (done,) = await library.exporter(max_entries_per_view=2).export(["ada"])
    assert (done.raw_count, done.compressed_count) == (2, 2)
    lessons = [f"wiki/{lesson_id(i)}.md" for i in (3, 4)]
    assert set(library.files()) == {"index.md", "raw/ada-e4.md", "raw/ada-e3.md", *lessons}


async def test_sources_are_links_where_their_files_are(library: WikiFixture) -> None:
    await library.fill(raw=1, lessons=0)
    await library.keep([compressed(0, source="ada-e0"), compressed(1, source="elsewhere")])
    await library.exporter().export(["ada"])
    assert "- [ada-e0](../raw/ada-e0.md)" in library.files()[f"wiki/{lesson_id(0)}.md"]
    assert "- elsewhere\n" in library.files()[f"wiki/{lesson_id(1)}.md"]


@pytest.mark.parametrize(("tier", "place"), [("include_raw_tier", "raw"), ("include_compressed_tier", "wiki")])
async def test_a_tier_that_is_switched_off_is_not_there(library: WikiFixture, tier: str, place: str) -> None:
    await library.fill()
    await library.exporter().export(["ada"])
    await library.exporter(company=COMPANY, **{tier: False}).export(["ada"])
    assert not (library.root / "ada" / place).exists()


async def test_switched_off_nothing_is_written(library: WikiFixture) -> None:
    await library.fill()
    exporter = library.exporter(enabled=False)
    reason = "memory.consolidation.wiki_export.enabled is false"
    assert await exporter.export(["ada"]) == (WikiExport(agent_id="ada", reason=reason),)
    assert await exporter.plan("ada") == WikiExport(agent_id="ada", reason=reason)
    assert not library.root.exists()


async def test_a_dry_run_counts_and_writes_nothing(library: WikiFixture) -> None:
    await library.fill(raw=3, lessons=2)
    plan = await library.exporter().plan("ada")
    assert (plan.raw_count, plan.compressed_count, plan.is_published) == (3, 2, False)
    plan = await library.exporter(max_entries_per_view=1, include_raw_tier=False).plan("ada")
    assert (plan.raw_count, plan.compressed_count) == (0, 1)
    assert not library.root.exists()


async def test_the_front_page_holds_every_agent_whoever_was_exported_last(library: WikiFixture) -> None:
    await library.fill("ada", raw=2, lessons=1)
    await library.fill("Ada", raw=1, lessons=0)
    await library.fill("b|[b]\n(x)", raw=3, lessons=2)
    exporter = library.exporter()
    for agent_id in ("ada", "Ada", "b|[b]\n(x)"):
        await exporter.export([agent_id])
    page = (library.root / "index.md").read_text()
    assert head_of(page) == {
        "company": COMPANY, "generated_at": NOW.isoformat(), "agents": 3, "compressed": 3, "raw": 6,
    }  # fmt: skip
    assert f"| [ada](ada/index.md) | 1 | 2 | {NOW.isoformat()} |" in page
    assert len([line for line in page.split("\n") if "/index.md) |" in line]) == 3

    await library.fill("ada", raw=4, lessons=1)
    await exporter.export(exporter.agents())
    again = (library.root / "index.md").read_text()
    assert f"| [ada](ada/index.md) | 1 | 4 | {NOW.isoformat()} |" in again
    assert head_of(again)["raw"] == 8


async def test_an_agent_whose_folder_is_gone_leaves_the_front_page(library: WikiFixture) -> None:
    exporter = library.exporter()
    for agent_id in ("ada", "bob"):
        await library.fill(agent_id)
    await exporter.export(["ada", "bob"])
    exporter.remove("ada")
    page = (library.root / "index.md").read_text()
    assert ("[ada]" in page, "[bob]" in page) == (False, True)
    assert not [path for path in library.root.iterdir() if "ada" in path.name]
    exporter.remove("ada")


@pytest.mark.parametrize("agent_id", ["../outside", "/etc", "..", ".", "a/b", "index.md", ".index.md.lock", "CON\x01"])
async def test_no_agent_id_leads_out_of_the_root_or_into_anothers_folder(library: WikiFixture, agent_id: str) -> None:
    await library.fill("ada")
    await library.fill(agent_id, raw=1)
    before = set(library.home.rglob("*"))
    (ada, done) = await library.exporter().export(["ada", agent_id])
    assert (ada.is_published, done.is_published) == (True, True)
    files = library.files(slug(agent_id))
    assert head_of(files["index.md"])["agent_id"] == agent_id
    made = {
        path.relative_to(library.root).parts[0]
        for path in set(library.home.rglob("*")) - before
        if path != library.root
    }
    assert {each for each in made if each[0] != "."} == {"ada", slug(agent_id), "index.md"}
    assert [path.name for path in library.home.parent.iterdir() if path.name == "outside"] == []


async def test_links_in_the_root_are_replaced_and_never_followed(library: WikiFixture, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("precious")
    library.root.mkdir(parents=True)
    for name in ("ada", ".ada.new", ".ada.aside"):
        (library.root / name).symlink_to(outside)
    (library.root / "index.md").symlink_to(outside / "precious")
    (library.root / ".index.md.new").symlink_to(outside / "new")
    await library.fill()
    (done,) = await library.exporter().export(["ada"])
    assert done.is_published
    assert [path.name for path in outside.iterdir()] == ["precious"]
    assert (outside / "precious").read_text() == "precious"
    assert not (library.root / "ada").is_symlink()
    assert not (library.root / "index.md").is_symlink()
    assert library.leftovers() == set()


async def test_a_lock_that_is_a_link_is_not_opened(library: WikiFixture, tmp_path: Path) -> None:
    library.root.mkdir(parents=True)
    (library.root / ".ada.lock").symlink_to(tmp_path / "made")
    (done,) = await library.exporter().export(["ada"])
    assert not done.is_published
    assert not (tmp_path / "made").exists()


async def test_a_root_of_another_company_is_refused(library: WikiFixture) -> None:
    await library.fill()
    await library.exporter().export(["ada"])
    before = library.files()
    with pytest.raises(MemoryConfigError, match="another company"):
        await library.exporter(company="globex").export(["ada"])
    assert library.files() == before


async def test_after_a_run_its_agent_is_exported(library: WikiFixture) -> None:
    await library.fill()
    assert (await library.exporter().export_after_run("ada")).is_published


async def test_a_store_that_is_away_fails_no_run(library: WikiFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    await library.fill()
    await library.exporter().export(["ada"])
    before = library.files()

    async def away(*_args: object, **_kwargs: object) -> int:
        raise MemoryRetrievalError("gone")

    monkeypatch.setattr(library.backend, "count_where", away)
    done = await library.exporter().export_after_run("ada")
    assert not done.is_published
    assert library.files() == before
    assert library.leftovers() == set()


async def test_a_root_that_cannot_be_made_is_told_in_the_result(library: WikiFixture) -> None:
    library.home.mkdir(exist_ok=True)
    (library.home / "wiki").write_text("a file in its place")
    (done,) = await library.exporter().export(["ada"])
    assert not done.is_published
    assert done.reason is not None
    assert os.strerror(17) in done.reason
