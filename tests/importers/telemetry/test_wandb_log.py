"""The framing of W&B's logs, and what is damaged in it."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ett_service.importers.files import Unreadable
from ett_service.importers.telemetry.wandb_log import Damaged, fields, records, short_pair
from tests.builders.wandb import BLOCK, field, framed


def read(path: Path, content: bytes) -> list[int | None]:
    """The number that each record holds in its field 1; None for a damaged one."""
    path.write_bytes(content)
    return [None if record is None else record[1][0] for _, record in records(path)]  # type: ignore[misc]


def numbered(count: int, size: int = 0) -> list[bytes]:
    return [field(1, number) + field(2, bytes(size)) for number in range(count)]


@pytest.mark.parametrize("size", [0, 5_000, BLOCK - 12, BLOCK, 3 * BLOCK])
def test_records_are_read_across_blocks(tmp_path: Path, size: int) -> None:
    assert read(tmp_path / "run-a.wandb", framed(*numbered(9, size))) == [*range(9)]


def test_a_cut_record_is_damaged_and_those_before_it_are_read(tmp_path: Path) -> None:
    content = framed(*numbered(5, BLOCK))
    assert read(tmp_path / "run-a.wandb", content[:-10]) == [0, 1, 2, 3, None]


def test_of_a_damaged_block_the_next_is_read(tmp_path: Path) -> None:
    content = bytearray(framed(*numbered(20, 5_000)))
    content[100] ^= 1
    first, *rest = read(tmp_path / "run-a.wandb", bytes(content))

    assert first is None
    assert [number for number in rest if number is not None] == [*range(7, 20)]


def test_what_is_no_such_log_is_unreadable(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="no log of an offline run"):
        read(tmp_path / "run-a.wandb", b"hello")


@given(st.binary(max_size=60))
def test_any_bytes_are_fields_or_damaged(body: bytes) -> None:
    try:
        assert all(number >= 0 for number in fields(body))
    except Damaged:
        assert body


@pytest.mark.parametrize("name", ["_step", "loss", "a" * 200])
@pytest.mark.parametrize("value", ["7", "", "x" * 127, "x" * 128, "x" * 300])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_an_item_is_read_at_a_glance_as_its_fields_say(name: str, value: str, number: int) -> None:
    item = field(number, name) + field(16, value)
    pair = short_pair(item)
    is_short = number < 3 and len(name) < 128 and len(value) < 128
    assert pair == ((name.encode(), value.encode()) if is_short else None)
    for other in (item[:-1], item + field(2, "more"), item[:1], b"", field(1, name)):
        assert short_pair(other) is None
