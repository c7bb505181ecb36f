"""The tools as the SDK's own client meets them, over stdio and streamable HTTP."""

import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest

from ett_service.client.sending.transport import request
from tests.builders.servers.ett import Server
from tests.builders.servers.processes import bare_environment
from tests.builders.servers.programs import free_port
from tests.builders.servers.waiting import wait_for

mcp = pytest.importorskip("mcp", reason="the MCP SDK, of the extra `mcp`, is not installed")
anyio = pytest.importorskip("anyio")

T = TypeVar("T")

PROGRAM = "import sys; from ett_service.cli.main import main; sys.exit(main())"
HOUR = {"begin": "2026-03-01T08:00:00Z", "end": "2026-03-01T09:00:00Z"}
BASE = {"base_begin": "2026-02-28T08:00:00Z", "base_end": "2026-02-28T09:00:00Z"}

CALLS: dict[str, dict[str, Any]] = {
    "where_did_the_gpu_hours_go": {**HOUR, "by": ["team"]},
    "why_did_it_change": {**HOUR, **BASE, "owners": True},
    "what_to_fix_first": {**HOUR, "scenarios": ["halve infra failures"]},
    "what_happened_to_the_job": {"job": "llm-7b"},
    "which_jobs": {"text": "llm"},
}


def environment(server: Server) -> dict[str, str]:
    return {**bare_environment(), "ETT_URL": server.url, "ETT_API_KEY": server.key}


def over_stdio(server: Server) -> Any:
    return mcp.StdioServerParameters(
        command=sys.executable, args=["-c", PROGRAM, "mcp"], env=environment(server)
    )


@contextmanager
def over_http(server: Server) -> Iterator[str]:
    port = free_port()
    command = [sys.executable, "-c", PROGRAM, "mcp", "--http", str(port)]
    with subprocess.Popen(command, env=environment(server), stderr=subprocess.PIPE) as process:
        try:
            wait_for(lambda: _listens(port, process))
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.terminate()


def _listens(port: int, process: "subprocess.Popen[bytes]") -> bool:
    assert process.poll() is None
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def with_client(where: Any, act: Callable[[Any], Awaitable[T]]) -> T:
    """Connect the SDK's client, and do something with it."""

    async def connected() -> T:
        async with mcp.Client(where) as client:
            return await act(client)

    done: T = anyio.run(connected)
    return done


async def _every_tool(client: Any) -> None:
    assert "no instructions" in client.instructions
    listed = (await client.list_tools()).tools
    assert {tool.name for tool in listed} == set(CALLS)
    assert all(tool.annotations.read_only_hint and tool.description for tool in listed)
    for name, arguments in CALLS.items():
        answer = await client.call_tool(name, arguments)
        assert not answer.is_error, (name, answer.content)
        content = answer.structured_content
        assert set(content["basis"]) == {"window", "weight", "n", "formula_version", "link"}
        if name == "where_did_the_gpu_hours_go":
            assert content["answer"]["ett_ratio"] == pytest.approx(0.5, abs=0.01)


async def _refusals(client: Any, key: str) -> None:
    for name, arguments in (
        ("what_happened_to_the_job", {"job": "nobody"}),
        ("where_did_the_gpu_hours_go", {"begin": "yesterday"}),
        ("where_did_the_gpu_hours_go", {"where": ["colour:red"]}),
        ("where_did_the_gpu_hours_go", {**HOUR, "group_by": ["team"]}),
        ("which_jobs", {"txt": "llm"}),
    ):
        answer = await client.call_tool(name, arguments)
        assert answer.is_error
        [content] = answer.content
        assert content.text
        assert ".." not in content.text
        assert key not in content.text
        if unknown := {"group_by", "txt"} & set(arguments):
            assert f"no argument {unknown.pop()!r}" in content.text


def test_every_tool_answers_over_stdio_and_a_refusal_is_an_error(served: Server) -> None:
    async def act(client: Any) -> None:
        await _every_tool(client)
        await _refusals(client, served.key)

    with_client(over_stdio(served), act)


def test_every_tool_answers_over_http_and_no_page_of_another_site_can_ask(
    served: Server,
) -> None:
    with over_http(served) as url:
        with_client(url, _every_tool)
        json_headers = {"Content-Type": "application/json", "Accept": "application/json"}
        for foreign in ({"Host": "evil.example"}, {"Origin": "https://evil.example"}):
            refused = request("POST", url, None, b"{}", {**json_headers, **foreign}, timeout=30)
            assert refused.status in {403, 421}
