from measure.door_mutations import MUTANTS
from measure.mutants import places
from measure.mutated_areas import TESTS
from support.repository import ROOT


def test_the_line_that_each_mutant_breaks_is_in_the_product_once() -> None:
    assert [each.line for each in MUTANTS if len(places(ROOT, each.line)) != 1] == []


def test_the_tests_that_must_see_a_mutant_exist() -> None:
    assert [test for tests in TESTS.values() for test in tests if not (ROOT / test).exists()] == []
