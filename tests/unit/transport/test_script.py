from hashlib import sha1

from workers.transport.scripts import TURN, Script


def test_a_script_is_named_as_the_server_names_it() -> None:
    assert Script.of("return 1").digest == "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"
    assert TURN.digest == sha1(TURN.text.encode(), usedforsecurity=False).hexdigest()
