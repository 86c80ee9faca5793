"""Pictures of pages, kept small: what a page shows now beside what it showed, but for what is never the same twice."""

import base64
import os
from pathlib import Path

import pytest
from playwright.sync_api import Page

STORED = Path(__file__).parents[1] / "fixtures" / "console"

#: Widths of the pictures in pixels, how often smaller they are kept, and the letters that they were taken with.
WIDTHS, HEIGHT, SMALLER, LETTERS = (375, 768, 1440), 900, 8, STORED / "letters.txt"

#: A pixel differs from this on, of 255; more of them than this share are another picture.
PIXEL, MOST = 24, 0.03

#: What is never the same twice: names, ids, times, and what people wrote.
CHANGES = "h1, main a, main time, main pre, main small, main input, main textarea, main .number, .who"

_LETTERS = """() => {
  const pen = document.createElement('canvas').getContext('2d');
  pen.font = '20px ' + getComputedStyle(document.body).fontFamily;
  return pen.measureText('Quick zephyrs vex a bold, jumpy fox 0123456789').width.toFixed(2);
}"""

#: Makes a picture smaller; returns it, and its greys.
_SMALL = """async ([address, times]) => {
  const image = new Image();
  image.src = address;
  await image.decode();
  const canvas = document.createElement('canvas');
  [canvas.width, canvas.height] = [Math.round(image.width / times), Math.round(image.height / times)];
  const pen = canvas.getContext('2d');
  [pen.imageSmoothingQuality, pen.filter] = ['high', 'grayscale(1)'];
  pen.drawImage(image, 0, 0, canvas.width, canvas.height);
  const seen = pen.getImageData(0, 0, canvas.width, canvas.height).data;
  return [canvas.toDataURL('image/png'), [...seen].filter((_, place) => place % 4 === 0)];
}"""


def address_of(picture: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(picture).decode()}"


def small(page: Page, picture: bytes, times: int) -> tuple[bytes, list[int]]:
    """Return a picture that many times smaller, and its greys."""
    tab = page.context.new_page()
    try:
        address, greys = tab.evaluate(_SMALL, [address_of(picture), times])
    finally:
        tab.close()
    return base64.b64decode(address.partition(",")[2]), greys


def taken(page: Page) -> tuple[bytes, list[int]]:
    """Return a small picture of what the tab shows, grey where it changes."""
    masked = page.screenshot(mask=[page.locator(CHANGES)], mask_color="#808080", animations="disabled")
    return small(page, masked, SMALLER)


def apart(one: list[int], other: list[int]) -> float:
    """Return the share of pixels that differ."""
    if len(one) != len(other):
        return 1.0
    return sum(abs(a - b) > PIXEL for a, b in zip(one, other, strict=True)) / len(one)


def stored(page: Page, name: str, picture: bytes) -> list[int]:
    """Return the greys of a stored picture; it is stored anew where ``MEMTEND_TEST_RENEW`` is 1."""
    file = STORED / name
    if is_renewed():
        file.write_bytes(picture)
    return small(page, file.read_bytes(), 1)[1]


def need_the_letters(page: Page) -> None:
    """Skip the test on a machine whose letters are others than those of the pictures."""
    letters = page.evaluate(_LETTERS)
    if is_renewed():
        LETTERS.write_text(letters, encoding="utf-8")
    if letters != LETTERS.read_text(encoding="utf-8"):
        pytest.skip(f"this system's letters are not those of the pictures: {letters} wide")


def is_renewed() -> bool:
    """Say whether pictures are stored anew."""
    return os.environ.get("MEMTEND_TEST_RENEW") == "1"
