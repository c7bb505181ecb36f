"""Bodies are inflated up to the limit and no further, and nothing may follow them."""

import gzip
import os
import tracemalloc

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from ett_service.ingest.inflate import inflate
from ett_service.ingest.refusals import BadEncoding, BodyTooLarge, UnsupportedMedia

MIB = 1 << 20
COMPRESS = {"gzip": gzip.compress, "zstd": zstandard.ZstdCompressor().compress}
ENCODINGS = tuple(COMPRESS)


@given(body=st.binary(max_size=2000), encoding=st.sampled_from(ENCODINGS))
def test_a_body_comes_out_as_it_went_in(body: bytes, encoding: str) -> None:
    assert inflate(COMPRESS[encoding](body), encoding, 2000) == body


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_body_may_be_as_large_as_the_limit_and_no_larger(encoding: str) -> None:
    body = os.urandom(100_000)
    compressed = COMPRESS[encoding](body)

    assert inflate(compressed, encoding, 100_000) == body
    with pytest.raises(BodyTooLarge) as refused:
        inflate(compressed, encoding, 99_999)
    assert (refused.value.what, refused.value.limit) == ("inflated bytes", 99_999)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_bomb_is_stopped_at_the_limit(encoding: str) -> None:
    bomb = COMPRESS[encoding](bytes(128 * MIB))
    tracemalloc.start()
    with pytest.raises(BodyTooLarge):
        inflate(bomb, encoding, MIB)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 32 * MIB


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_body_that_is_cut_broken_or_followed_by_something_is_refused(encoding: str) -> None:
    whole = COMPRESS[encoding](b"some events " * 100)
    for body in (whole[:-1], whole[: len(whole) // 2], b"", b"plain", whole + b"x", whole + whole):
        with pytest.raises(BadEncoding):
            inflate(body, encoding, MIB)


def test_a_window_that_the_sender_chose_too_large_is_refused() -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=27)
    stream = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    body = stream.compress(b"x" * 100) + stream.flush()

    with pytest.raises(BadEncoding):
        inflate(body, "zstd", MIB)


@pytest.mark.parametrize("encoding", ["", "identity", " Identity "])
def test_a_body_that_is_not_compressed_is_left_alone(encoding: str) -> None:
    assert inflate(b"{}", encoding, 1) == b"{}"


@pytest.mark.parametrize("encoding", ["br", "deflate", "gzip, gzip", "gzip, zstd", "x-gzip"])
def test_other_and_stacked_encodings_are_not_taken(encoding: str) -> None:
    with pytest.raises(UnsupportedMedia):
        inflate(b"{}", encoding, MIB)
