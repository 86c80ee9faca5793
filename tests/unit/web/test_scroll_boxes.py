"""Boxes of the console that scroll: a keyboard reaches them, and a screen reader names them."""

import re

from support.repository import ROOT

TEMPLATES = sorted((ROOT / "ops" / "web" / "templates").glob("*.html"))


def test_every_table_that_may_scroll_is_reached_by_the_keyboard_and_has_a_name() -> None:
    boxes = [box for page in TEMPLATES for box in re.findall(r'<div class="table"[^>]*>', page.read_text())]
    assert len(boxes) > 10
    assert [box for box in boxes if not re.search(r'role="region" tabindex="0" aria-label="[^"]+"', box)] == []
