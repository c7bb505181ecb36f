"""Bodies of large answers."""

import zlib
from collections.abc import AsyncIterator, Iterable, Mapping

from starlette.responses import StreamingResponse

_PIECE = 64 << 10


class Packed:
    """A body that is made piece by piece and held compressed, at a tenth of its size.

    So a large answer is read from one state of the database, and while a slow client takes it,
    neither a connection nor much memory is held.
    """

    def __init__(self, pieces: Iterable[bytes]) -> None:
        packing = zlib.compressobj(1)
        self._length = 0
        self._packed: list[bytes] = []
        for piece in pieces:
            self._length += len(piece)
            if packed := packing.compress(piece):
                self._packed.append(packed)
        self._packed.append(packing.flush())

    def response(self, media_type: str, headers: Mapping[str, str]) -> StreamingResponse:
        """Answer with it, once."""
        length = {"Content-Length": str(self._length)}
        return StreamingResponse(
            self._unpacked(), headers={**headers, **length}, media_type=media_type
        )

    async def _unpacked(self) -> AsyncIterator[bytes]:
        unpacking = zlib.decompressobj()
        self._packed.reverse()
        while self._packed:
            left = self._packed.pop()
            while left:
                yield unpacking.decompress(left, _PIECE)
                left = unpacking.unconsumed_tail
        yield unpacking.flush()
