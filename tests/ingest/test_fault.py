"""Whatever the decoder says becomes a code and a pointer, without the value."""

import msgspec
import pytest

from ett_service.ingest.refusals import Code, escape, fault_of


@pytest.mark.parametrize(
    ("message", "code", "pointer"),
    [
        ("Expected `int`, got `str` - at `$.step`", Code.WRONG_TYPE, "/step"),
        ("Expected `object`, got `array`", Code.WRONG_TYPE, ""),
        ("Expected `int` >= 0 - at `$.step`", Code.OUT_OF_RANGE, "/step"),
        ("Number out of range - at `$.flops`", Code.OUT_OF_RANGE, "/flops"),
        ("Integer value out of range - at `$.seq`", Code.OUT_OF_RANGE, "/seq"),
        ("Expected `str` of length <= 64 - at `$.id`", Code.BAD_ID, "/id"),
        ("Expected `str` of length >= 1 - at `$.host`", Code.BAD_LENGTH, "/host"),
        ("Expected `str` of length <= 128 - at `key` in `$.labels`", Code.BAD_LENGTH, "/labels"),
        ("Expected `str`, got `int` - at `$.labels[...]`", Code.WRONG_TYPE, "/labels"),
        ("Expected `str`, got `int` - at `$.a[1].b`", Code.WRONG_TYPE, "/a/1/b"),
        ("Invalid value 'secret' - at `$.type`", Code.UNKNOWN_TYPE, "/type"),
        ("Invalid enum value 'secret' - at `$.phase`", Code.UNKNOWN_PHASE, "/phase"),
        ("Invalid enum value 'secret' - at `$.cause`", Code.UNKNOWN_VALUE, "/cause"),
        ("Object contains unknown field `a/b`", Code.UNKNOWN_MEMBER, "/a~1b"),
        ("Object contains unknown field ` - at `$.x``", Code.UNKNOWN_MEMBER, "/ - at `$.x`"),
        ("Object missing required field `job`", Code.MISSING_MEMBER, "/job"),
    ],
)
def test_a_fault_is_reported_by_code_and_pointer(message: str, code: Code, pointer: str) -> None:
    fault = fault_of(msgspec.ValidationError(message))

    assert (fault.code, fault.pointer) == (code, pointer)
    assert "secret" not in str(fault)


def test_a_pointer_escapes_what_means_something_in_it() -> None:
    assert escape("~/a") == "~0~1a"
