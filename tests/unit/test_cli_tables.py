"""Tables of the command line: what a person copies into the next command stays whole."""

import pytest

from ops.cli import console

AGENT = "agent-" + 50 * "x"


@pytest.mark.parametrize("width", [60, 100, 200])
def test_ids_stay_whole_and_other_columns_are_broken_first(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setattr(console, "PLAIN_WIDTH", width)
    row = {"run_id": 36 * "r", "agent_id": AGENT, "company": "globex", "reason": "many words " * 30, "state": "held"}
    console.show_rows([row], columns=tuple(row), as_json=False)
    lines = capsys.readouterr().out.splitlines()
    for whole in (36 * "r", AGENT, "globex"):
        assert any(whole in line for line in lines)
    assert "".join(lines).count("many") == 30, "nothing is left out"


@pytest.mark.parametrize(
    ("value", "shown"), [(5e-05, "5e-05"), (0.0, "0.000"), (0.5, "0.500"), (-0.0004, "-0.0004"), (12.34567, "12.346")]
)
def test_a_small_number_is_not_shown_as_none(value: float, shown: str) -> None:
    assert console.cell({"learning_rate": value}) == f"learning_rate={shown}"
