"""Bodies of requests: read up to a limit of bytes and of time."""

import asyncio

from starlette.requests import Request

from ett_service.api.problems import Kind, Problem
from ett_service.ingest.refusals import BodyTooLarge


async def read_body(request: Request, *, most: int, deadline_s: float) -> bytes:
    """Read the body of *request*, of up to *most* bytes, within *deadline_s* seconds.

    Raises:
        BodyTooLarge: As soon as it is.
        Problem: 408, when the deadline has passed.
    """
    announced = request.headers.get("content-length", "")
    if announced.isascii() and announced.isdigit() and int(announced) > most:
        raise BodyTooLarge("bytes", most)
    try:
        async with asyncio.timeout(deadline_s):
            return await _read(request, most)
    except TimeoutError as error:
        raise Problem(Kind.REQUEST_TIMEOUT, headers={"Connection": "close"}) from error


async def _read(request: Request, most: int) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise BodyTooLarge("bytes", most)
    return bytes(body)
