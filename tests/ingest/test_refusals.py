"""The closed list of codes, each with a sentence for whoever meets it."""

from ett_service.ingest.refusals import BadBatch, BodyTooLarge, Code, Refusal


def test_every_code_has_a_sentence() -> None:
    assert all(code.sentence.endswith(".") for code in Code)
    assert len({code.sentence for code in Code}) == len(Code)


def test_a_code_is_written_as_its_word() -> None:
    assert f"{Code.CONFLICT}" == "conflict"


def test_refusals_of_a_whole_request_say_why() -> None:
    assert "at most 5 events" in str(BodyTooLarge("events", 5))
    assert str(BadBatch(Refusal(Code.BAD_TEXT, "/producer"))) == Code.BAD_TEXT.sentence
