from collections import Counter

import pytest
from support.density_corpus import FOLDER, samples

LANGUAGES = {"ar", "de", "en", "es", "fr", "ja", "ru", "zh"}


def test_there_are_at_least_three_hundred_texts_and_none_twice() -> None:
    assert len({sample.text for sample in samples()}) == len(samples()) >= 300


@pytest.mark.parametrize("density", ["dense", "sparse"])
def test_both_sides_speak_eight_languages_in_both_halves(density: str) -> None:
    for held_out in (False, True):
        spoken = {each.language for each in samples() if each.density == density and each.held_out is held_out}
        assert spoken == LANGUAGES


def test_every_kind_of_text_stands_on_one_side_and_in_both_halves() -> None:
    for kind in {sample.kind for sample in samples()}:
        assert len({sample.density for sample in samples() if sample.kind == kind}) == 1
        assert {sample.held_out for sample in samples() if sample.kind == kind} == {False, True}


def test_the_halves_are_of_a_size_and_neither_side_is_rare() -> None:
    held_out = [sample for sample in samples() if sample.held_out]
    assert 0.45 <= len(held_out) / len(samples()) <= 0.5
    assert min(Counter(sample.density for sample in held_out).values()) >= 60


def test_one_text_in_six_sets_a_trap() -> None:
    assert sum(bool(sample.trap) for sample in samples()) >= len(samples()) / 6


def test_no_file_of_texts_is_too_long_to_read() -> None:
    assert max(len(path.read_text(encoding="utf-8").splitlines()) for path in FOLDER.iterdir()) < 400
