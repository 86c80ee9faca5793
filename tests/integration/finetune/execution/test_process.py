"""Stages in processes only."""

import os

from memcore.finetune.execution.factory import end_by_name
from memcore.finetune.execution.process import name_of


def test_a_name_says_which_process_and_since_when() -> None:
    name = name_of(os.getpid())
    assert name.startswith(f"process:{os.getpid()}:")
    assert name == name_of(os.getpid())


def test_a_number_that_is_anothers_by_now_is_left_alone() -> None:
    # Were it not, this test would not come to its end.
    assert not end_by_name(f"{name_of(os.getpid())}0")
    assert not end_by_name(f"process:{os.getpid()}:")
    assert not end_by_name("process:")
    assert not end_by_name("elsewhere:1")
