from workers.transport.qos import GROUP_SIZE, Acks


def test_a_group_is_sent_in_order_and_forgotten_when_the_broker_answers() -> None:
    acks = Acks()
    for tag in ("a", "b"):
        acks.add(tag)

    assert acks.send() == ["a", "b"]
    acks.confirm()

    assert len(acks) == 0
    assert acks.send() == []


def test_a_group_without_an_answer_waits_again_before_what_came_later() -> None:
    acks = Acks()
    acks.add("a")
    acks.add("b")
    acks.send()
    acks.add("c")

    acks.recall()

    assert acks.send() == ["a", "b", "c"]


def test_recalling_twice_repeats_nothing() -> None:
    acks = Acks()
    acks.add("a")
    acks.send()

    acks.recall()
    acks.recall()

    assert acks.send() == ["a"]


def test_no_group_outgrows_what_a_script_can_unpack() -> None:
    acks = Acks()
    for number in range(GROUP_SIZE + 1):
        acks.add(str(number))

    assert len(acks.send()) == GROUP_SIZE
    acks.confirm()
    assert acks.send() == [str(GROUP_SIZE)]
