"""Compressed bodies, inflated up to a limit."""

import zlib

import zstandard

from ett_service.ingest.refusals import BadEncoding, BodyTooLarge, UnsupportedMedia

#: A few bytes can stand for 128 KiB each, so the cap is looked at every so many.
_ZSTD_PIECE = 256
#: What RFC 8878 asks every decoder to take; more would let the sender choose our memory.
_ZSTD_WINDOW = 8 << 20
_GZIP = 16 + zlib.MAX_WBITS


def inflate(body: bytes, encoding: str, limit: int) -> bytes:
    """Undo one *encoding*, the value of ``Content-Encoding``.

    Raises ``BodyTooLarge`` beyond *limit* bytes, ``BadEncoding`` for what is cut, broken or
    followed by anything, ``UnsupportedMedia`` for others and for several.
    """
    match encoding.strip().lower():
        case "" | "identity":
            return body
        case "gzip":
            return _gunzip(body, limit)
        case "zstd":
            return _unzstd(body, limit)
        case _:
            raise UnsupportedMedia("Content-Encoding may be gzip or zstd, once.")


def _gunzip(body: bytes, limit: int) -> bytes:
    stream = zlib.decompressobj(_GZIP)
    try:
        inflated = stream.decompress(body, limit + 1)
    except zlib.error as error:
        raise BadEncoding("The body is not gzip.") from error
    if len(inflated) > limit:
        raise BodyTooLarge("inflated bytes", limit)
    if not stream.eof or stream.unused_data:
        raise BadEncoding("The body is truncated, or something follows it.")
    return inflated


def _unzstd(body: bytes, limit: int) -> bytes:
    stream = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW).decompressobj()
    inflated = bytearray()
    for start in range(0, len(body), _ZSTD_PIECE):
        if stream.eof:
            raise BadEncoding("Something follows the body.")
        try:
            inflated += stream.decompress(body[start : start + _ZSTD_PIECE])
        except zstandard.ZstdError as error:
            raise BadEncoding("The body is not zstd, or needs too much memory.") from error
        if len(inflated) > limit:
            raise BodyTooLarge("inflated bytes", limit)
    if not stream.eof or stream.unused_data:
        raise BadEncoding("The body is truncated, or something follows it.")
    return bytes(inflated)
