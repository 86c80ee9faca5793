"""The console in a real browser: what people do there, with keys and in the dark, and what axe says of each page."""

import itertools
import re
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect
from support.chromium import NPM_AXE, chromium, npm_packages
from support.console import PAGES
from support.console_world import HOSTILE, ConsoleWorld, dead_letter
from support.evaluation_pages import AFTER, BEFORE, evaluation_page
from support.page_pictures import HEIGHT, MOST, WIDTHS, apart, need_the_letters, stored, taken
from support.present import present
from support.serve_process import ServeProcess, serve_process

from memcore.models.approval import ApprovalState

pytestmark = pytest.mark.slow(because="it starts a stack, a server and a browser")


@pytest.fixture(scope="module")
def server(world: ConsoleWorld) -> Generator[ServeProcess]:
    with serve_process(world.stack.home) as started:
        yield started


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Generator[Browser]:
    with chromium(tmp_path_factory.mktemp("chromium")) as started:
        yield started


@pytest.fixture(scope="module")
def context(browser: Browser, server: ServeProcess, world: ConsoleWorld) -> Generator[BrowserContext]:
    """A window in which a person has signed in; it refuses to run anything that the pages' policy forbids."""
    made = browser.new_context(base_url=server.url, viewport={"width": 1280, "height": 800})
    made.set_default_timeout(30_000)
    page = made.new_page()
    page.goto("/console/fleet")
    expect(page).to_have_title("Sign in · memtend")
    page.get_by_label("API key").fill("mt_no_key")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("not valid")
    page.get_by_label("API key").fill(world.key())
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Fleet")
    page.close()
    yield made
    made.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """A tab in which nothing may go wrong silently."""
    made, wrong = context.new_page(), list[str]()
    made.on("pageerror", lambda error: wrong.append(str(error)))
    made.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    yield made
    made.close()
    assert wrong == []


def decide(page: Page, label: str, *, asks: bool = True) -> None:
    """Open an action, say why, and say yes to the question."""
    page.locator("details.action > summary", has_text=label).first.click()
    form = page.locator("details.action[open] form")
    expect(form.get_by_label("Reason")).to_be_focused()
    form.get_by_label("Reason").fill("looked at it")
    form.get_by_role("button").click()
    if asks:
        page.locator("#sure").get_by_role("button", name=label).click()
    expect(page.get_by_role("status")).to_be_visible()


def test_pages_look_as_their_pictures_do(page: Page, world: ConsoleWorld) -> None:
    """The first one: what the others do shows on these pages."""
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    page.goto("/console/activity")
    need_the_letters(page)
    paths = {
        "fleet": "fleet",
        "run": f"runs/{world.run_id}",
        "lab": f"memories/lab?agent={world.agent}&q=lift",
        "what-if": f"runs/whatif?agent={world.agent}",
        "new": f"memories/new?agent={world.agent}",
        "skill": f"approvals/{world.approval_id}",
    }
    differs = {}
    for (name, path), width in itertools.product(paths.items(), WIDTHS):
        page.set_viewport_size({"width": width, "height": HEIGHT})
        page.goto(f"/console/{path}")
        picture, seen = taken(page)
        differs[f"{name}-{width}"] = apart(seen, stored(page, f"{name}-{width}.png", picture))
        # A page that lost what leads through it is another picture.
        page.evaluate("document.querySelector('header').remove()")
        assert apart(seen, taken(page)[1]) > MOST, (name, width)
    assert {name: share for name, share in differs.items() if share > MOST} == {}


def test_a_skill_is_approved(page: Page, world: ConsoleWorld) -> None:
    page.goto("/console/approvals")
    page.get_by_role("link", name="A skill for all agents").first.click()
    expect(page.locator("pre.text")).to_contain_text("call the porter")
    page.locator("summary", has_text="Approve").click()
    form = page.locator("details.action[open] form")
    form.get_by_label("Reason").fill("no, wait")
    form.get_by_role("button").click()
    page.locator("#sure").get_by_role("button", name="Cancel").click()
    found = present(world.ledger.approvals.get(world.company, world.approval_id))
    assert found.state is ApprovalState.PENDING
    page.reload()
    decide(page, "Approve")
    expect(page.locator("h1 .state")).to_have_text("approved")
    found = present(world.ledger.approvals.get(world.company, world.approval_id))
    assert (found.state, found.reason) == (ApprovalState.APPROVED, "looked at it")
    assert str(found.decided_by).startswith("ada-")
    page.goto("/console/skills")
    page.get_by_role("link", name="call the porter").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("active")


def test_a_run_is_undone(page: Page, world: ConsoleWorld) -> None:
    page.goto(f"/console/runs/{world.run_id}")
    expect(page.locator(".pair").first).to_contain_text("The lift stood still")
    decide(page, "Undo")
    # The list stays fresh by itself.
    expect(page.locator("#runs-table tbody tr").first).to_contain_text("undo", timeout=60_000)
    expect(page.locator("#runs-table tbody tr").first.locator(".state")).to_have_text("done", timeout=60_000)
    assert world.run_of(world.agent, "undo") is not None


def test_a_memory_is_found_and_forgotten_and_its_text_stays_text(page: Page, world: ConsoleWorld) -> None:
    page.goto(f"/console/memories?agent={world.agent}")
    page.keyboard.press("/")
    page.keyboard.type("document title taken")
    page.keyboard.press("Enter")
    shown = page.locator("pre.text", has_text="document.title").first
    expect(shown).to_contain_text(HOSTILE.partition("\u202e")[0])
    expect(page).to_have_title("Memory · memtend")
    page.locator("tbody tr", has=shown).get_by_role("link").first.click()
    decide(page, "Forget")
    assert "/console/runs/" in page.url
    page.goto(f"/console/memories?agent={world.agent}&q=document+title+taken")
    expect(page.locator("main")).not_to_contain_text("document.title")


def test_a_dead_letter_is_sent_again(page: Page, world: ConsoleWorld) -> None:
    job_id = dead_letter(world.ledger, world.company, world.agent)
    page.goto("/console/queues")
    row = page.locator("tbody tr", has_text=job_id[:8])
    row.locator("summary", has_text="Send again").click()
    form = page.locator("details.action[open] form")
    form.get_by_label("Reason").fill("the disk has room again")
    form.get_by_role("button").click()
    expect(page.get_by_role("status")).to_contain_text("Sent again")
    assert world.ledger.dead_letters.get(job_id) is None
    lines = world.ledger.audit.page(world.company, action="dead_letters.replay")
    assert (lines[0].actor[:10], lines[0].subject) == ("person:ada", job_id)


def _await_script(page: Page) -> None:
    # It runs behind the page: a key that comes before is nobody's.
    expect(page.locator("html")).to_have_class("js")


def test_keys_lead_through_the_pages(page: Page) -> None:
    page.goto("/console/audit")
    _await_script(page)
    page.keyboard.press("g")
    page.keyboard.press("f")
    expect(page).to_have_title("Fleet · memtend")
    _await_script(page)
    page.keyboard.press("/")
    expect(page.get_by_label("Search", exact=False).first).to_be_focused()
    page.keyboard.type("fleet-19")
    page.keyboard.press("Enter")
    expect(page.locator("tbody tr")).to_have_count(10)
    _await_script(page)
    for key in "jjk":
        page.keyboard.press(key)
    expect(page.locator("tr.current")).to_contain_text("fleet-190")
    page.keyboard.press("j")
    expect(page.locator("tr.current")).to_contain_text("fleet-191")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Memory of fleet-191")
    _await_script(page)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("next and previous row")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_two_hundred_agents_are_no_long_page(page: Page) -> None:
    page.goto("/console/fleet?q=clerk")
    expect(page.locator("tbody tr")).to_have_count(50)
    page.locator("tbody tr").last.scroll_into_view_if_needed()
    # The names of the columns, and the menu, stay in sight.
    for part in (page.locator("thead th").first, page.locator(".top")):
        box = present(part.bounding_box())
        assert 0 <= box["y"] < 120
    page.get_by_role("link", name="Next →").click()
    expect(page.locator("tbody tr").first).to_contain_text("fleet-050")
    page.locator("thead").get_by_role("link", name="Agent").click()
    expect(page.locator("tbody tr").first).to_contain_text("fleet-199")


def test_charts_are_reached_by_the_keyboard_and_fit_a_phone(page: Page, world: ConsoleWorld) -> None:
    page.set_viewport_size({"width": 375, "height": 740})
    page.goto(f"/console/memories/timeline?agent={world.agent}&zoom=all")
    link = page.locator(f'svg a[href="/console/runs/{world.run_id}"]').first
    page.get_by_role("link", name="all", exact=True).focus()
    for _ in range(60):
        page.keyboard.press("Tab")
        if link.evaluate("each => each === document.activeElement"):
            break
    expect(link).to_be_focused()
    expect(link.locator("circle")).to_have_css("stroke-width", "2.5px")
    box = present(page.locator("svg.chart").bounding_box())
    assert 0 <= box["x"] < box["x"] + box["width"] <= 375
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text(world.agent)


def test_the_colours_of_charts_follow_the_look(page: Page, world: ConsoleWorld) -> None:
    found, looks = set[str](), list[Literal["light", "dark"]](["light", "dark"])
    for look in looks:
        page.emulate_media(color_scheme=look)
        page.goto(f"/console/memories/growth?agent={world.agent}")
        found.add(str(page.locator("svg .s0").first.evaluate("each => getComputedStyle(each).fill")))
    assert len(found) == 2


def _back(page: Page) -> str:
    return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))


def test_the_dark_look_follows_the_system_and_the_switch(page: Page) -> None:
    page.emulate_media(color_scheme="light")
    page.goto("/console/fleet")
    light = _back(page)
    page.emulate_media(color_scheme="dark")
    dark = _back(page)
    assert light != dark
    page.get_by_label("Look").select_option("light")
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    expect(page.locator("body")).to_have_css("background-color", light)
    page.emulate_media(color_scheme="light")
    page.get_by_label("Look").select_option("dark")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    expect(page.locator("body")).to_have_css("background-color", dark)
    page.get_by_label("Look").select_option("auto")
    expect(page.locator("html")).to_have_attribute("data-theme", "auto")


def test_without_script_a_person_decides_too(browser: Browser, server: ServeProcess, world: ConsoleWorld) -> None:
    plain = browser.new_context(base_url=server.url, java_script_enabled=False)
    page = plain.new_page()
    page.goto("/console/sign-in")
    page.get_by_label("API key").fill(world.key(name="eve"))
    page.get_by_role("button", name="Sign in").click()
    page.goto("/console/fleet?q=fleet-007")
    page.locator("summary", has_text="Pause fleet-007").click()
    form = page.locator("details.action[open] form")
    form.get_by_label("Reason").fill("a look")
    form.get_by_role("button").click()
    expect(page.get_by_role("status")).to_contain_text("Paused")
    agent = present(world.ledger.agents.get(world.company, "fleet-007"))
    assert agent.paused
    page.get_by_role("button", name="Sign out").click()
    page.goto("/console/fleet")
    expect(page).to_have_title("Sign in · memtend")
    plain.close()


def test_a_memory_is_edited_of_the_version_that_was_shown(page: Page, world: ConsoleWorld, axe: str) -> None:
    page.goto(f"/console/memories/new?agent={world.agent}")
    page.get_by_label("Text").fill("The cellar\nis dry.")
    page.get_by_label("Reason").fill("looked")
    page.get_by_role("button", name="Add").click()
    expect(page.get_by_role("status")).to_contain_text("Added")
    other = page.context.new_page()
    other.goto(page.url)
    for tab, text in ((page, "The cellar\nis wet."), (other, "The cellar\nis full.")):
        tab.locator("summary", has_text="Edit").click()
        form = tab.locator("form.try")
        form.get_by_label("Text").fill(text)
        form.get_by_label("Reason").fill("rain")
        form.get_by_role("button", name="Change").click()
    expect(page.get_by_role("status")).to_contain_text("Changed")
    expect(other.locator("table.diff")).to_contain_text("is wet.")
    expect(other.locator("table.diff ins")).to_have_text("full")
    assert _findings(other, axe) == []
    other.set_viewport_size({"width": 375, "height": 740})
    assert other.evaluate("document.documentElement.scrollWidth") <= 375
    form = other.locator("form.try")
    expect(form.get_by_label("Text")).to_have_value("The cellar\nis full.")
    form.get_by_role("button", name="Change").click()
    expect(other.get_by_role("status")).to_contain_text("Changed")
    expect(other.locator("pre.text").first).to_have_text("The cellar\nis full.")
    other.close()


def _compare(page: Page, world: ConsoleWorld) -> None:
    page.goto(f"/console/memories/lab?agent={world.agent}&q=lift&standing=any")
    policy = page.get_by_label("Policy, in YAML")
    expect(policy).to_have_value(re.compile(r"^memory:\n  retrieval:\n"))
    policy.fill("memory: {retrieval: {standing: strong, dense_weight: 1.0}}")
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("heading", level=3)).to_have_text("In force and then")


def _findings(page: Page, axe: str) -> list[dict[str, Any]]:
    # The protocol runs it beside the page, where the page's own policy does not reach.
    page.evaluate(axe)
    found: dict[str, Any] = page.evaluate("async () => await axe.run(document, {resultTypes: ['violations']})")
    return [
        {"id": each["id"], "impact": each["impact"], "where": [node["html"][:160] for node in each["nodes"][:3]]}
        for each in found["violations"]
        if each["impact"] in {"serious", "critical"}
    ]


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = npm_packages(tmp_path_factory.mktemp("axe"), NPM_AXE)
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


@pytest.mark.parametrize("look", ["light", "dark"])
def test_axe_finds_nothing_serious(page: Page, world: ConsoleWorld, axe: str, look: Any) -> None:
    page.emulate_media(color_scheme=look, reduced_motion="reduce")
    details = (
        f"runs/{world.run_id}",
        f"runs/{world.held_run_id}",
        f"memories?agent={world.agent}&q=lift",
        f"memories/lab?agent={world.agent}&q=lift",
        f"memories/archive?agent={world.agent}",
        f"memories/new?agent={world.agent}",
        f"runs/whatif?agent={world.agent}",
        f"memories/growth?agent={world.agent}",
        f"memories/timeline?agent={world.agent}",
        f"approvals/{world.approval_id}",
        "distrusts?principal=nobody",
        f"distrusts/{world.distrust_id}",
    )
    serious = {}
    for path in (*PAGES, *details):
        page.goto(f"/console/{path}")
        serious[path] = _findings(page, axe)
    page.goto(f"/console/memories?agent={world.agent}&q=lift")
    page.locator("tbody a").first.click()
    serious["memory"] = _findings(page, axe)
    _compare(page, world)
    serious["compared"] = _findings(page, axe)
    page.goto("/console/sign-in")
    serious["sign-in"] = _findings(page, axe)
    assert {path: found for path, found in serious.items() if found} == {}


def test_on_a_phone_no_page_scrolls_sideways_and_every_box_that_does_has_the_keyboard(
    page: Page, world: ConsoleWorld
) -> None:
    page.set_viewport_size({"width": 375, "height": 740})
    details = (
        f"runs/{world.run_id}",
        f"memories?agent={world.agent}&q=lift",
        f"memories/lab?agent={world.agent}&q=lift",
        f"memories/archive?agent={world.agent}",
        f"memories/new?agent={world.agent}",
        f"runs/whatif?agent={world.agent}",
        f"memories/growth?agent={world.agent}",
        f"memories/timeline?agent={world.agent}",
        f"approvals/{world.approval_id}",
        "distrusts?principal=nobody",
        f"distrusts/{world.distrust_id}",
    )
    widths, boxes = {}, {}
    for path in (*PAGES, *details):
        page.goto(f"/console/{path}")
        widths[path] = page.evaluate("document.documentElement.scrollWidth")
        boxes[path] = page.evaluate(
            "[...document.querySelectorAll('main *')].filter(each => each.scrollWidth > each.clientWidth + 1"
            " && ['auto', 'scroll'].includes(getComputedStyle(each).overflowX)"
            " && (each.tabIndex < 0 || !each.role || !each.ariaLabel)).map(each => each.outerHTML.slice(0, 160))"
        )
    _compare(page, world)
    widths["compared"] = page.evaluate("document.documentElement.scrollWidth")
    assert {path: width for path, width in widths.items() if width > 375} == {}
    assert {path: found for path, found in boxes.items() if found} == {}


@pytest.mark.parametrize("look", ["light", "dark"])
def test_the_page_of_an_evaluation_fits_a_phone_and_axe_finds_nothing_serious(
    browser: Browser, axe: str, tmp_path: Path, look: Any
) -> None:
    evaluation_page(tmp_path, [BEFORE, AFTER], [AFTER, BEFORE])
    context = browser.new_context(viewport={"width": 375, "height": 740}, color_scheme=look)
    page, wrong = context.new_page(), list[str]()
    page.on("console", lambda message: wrong.append(message.text))
    page.on("request", lambda request: wrong.append(request.url) if request.url.startswith("http") else None)
    page.goto((tmp_path / "report.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    for each in page.locator("details").all():
        each.evaluate("each => { each.open = true; }")
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    assert _findings(page, axe) == []
    assert wrong == []
    context.close()
