"""Answers that are held compressed until they are taken."""

import asyncio
import tracemalloc

import pytest

from ett_service.api.load.packed import Packed


@pytest.mark.parametrize("sizes", [[], [0], [5], [70_000, 0, 1], [1 << 20] * 3])
def test_a_packed_answer_comes_out_as_it_went_in(sizes: list[int]) -> None:
    pieces = [bytes(each % 251 for each in range(size)) for size in sizes]
    response = Packed(pieces).response("text/plain", {})

    async def body() -> bytes:
        return b"".join(
            [piece async for piece in response.body_iterator if isinstance(piece, bytes)]
        )

    assert asyncio.run(body()) == b"".join(pieces)
    assert response.headers["content-length"] == str(sum(sizes))


def test_a_packed_answer_holds_a_small_part_of_itself() -> None:
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    response = Packed(b'{"ett_ratio":0.87,"jobs":12}' * 2_500 for _ in range(200)).response("x", {})
    held = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()

    assert int(response.headers["content-length"]) > 10_000_000
    assert held < 2_000_000
