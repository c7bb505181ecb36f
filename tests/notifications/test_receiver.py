"""A receiver shows neither its address nor its secrets."""

from ett_service.notifications.formats import FORMATS
from ett_service.notifications.receiver import Receiver


def test_neither_address_nor_secret_of_a_receiver_is_in_its_repr() -> None:
    receiver = Receiver(1, "a", "https://a.example/T0K3N", FORMATS["generic"], ("CANARY",))
    assert "T0K3N" not in repr(receiver)
    assert "CANARY" not in repr(receiver)
