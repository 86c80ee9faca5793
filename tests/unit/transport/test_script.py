from hashlib import sha1

from workers.transport.scripts import TURN, TURN_DIGEST


def test_a_script_is_named_as_the_server_names_it() -> None:
    assert sha1(TURN.encode(), usedforsecurity=False).hexdigest() == TURN_DIGEST
