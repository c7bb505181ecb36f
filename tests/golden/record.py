"""Records the public surface of a seeded fleet; see CONTRIBUTING.md.

It knows the service by its command, its routes, its views and its files alone, so that the same
program records before and after whatever is moved inside.
"""

import io
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet

from tests.golden import commands, pages, programs, requests
from tests.golden.acts import Stage, stage
from tests.golden.server import Answer, Server
from tests.golden.steady import Json, abridged, apart, digest, steady, steady_text, table, wording

_Outputs = Mapping[str, Mapping[str, Any]]
_Answered = tuple[str, int, Mapping[str, str], Json]

_USAGE = 2
_PARTS = ("", "/ledger")

LOG = Path(__file__).with_name("mlperf.log")


@dataclass(frozen=True)
class Record:
    """One surface: what must not change, and its wording."""

    data: Json
    text: str = ""


def record(folder: Path) -> dict[str, Record]:
    """Make the fleet in *folder*, which must be empty, and record every surface of it."""
    with ThreadPoolExecutor() as beside:  # most of the time is other processes'
        wire = beside.submit(programs.wire, folder)
        with stage(folder / "fleet") as recorded:
            printed = beside.submit(_run, recorded)
            surfaces = {
                "demo": _demo(recorded),
                "acts": _answers(recorded, _acted(recorded)),
                "jobs": _jobs(recorded),
                "api": _answers(recorded, _read(recorded)),
                "refusals": _answers(recorded, _refused(recorded.server)),
                "metrics": _metrics(recorded.server),
                "schema": Record(pages.schema(recorded.server.read("/openapi.json"))),
                "webhooks": _webhooks(recorded),
                "commands": _commands(printed.result(), recorded),
                "report": _report(printed.result()),
                "frames": Record(
                    programs.frames(recorded.server.folder, recorded.drawn, **_remote(recorded))
                ),
            }
            surfaces["changes"] = _changed(recorded)
        surfaces["views"] = Record(pages.views(recorded.server.folder / "ett.db", recorded.drawn))
        surfaces |= _without_server(recorded)
        surfaces["wire"] = Record(wire.result())
    return surfaces


def _demo(recorded: Stage) -> Record:
    return Record(
        steady({"counts": recorded.demo["printed"]["counts"], "truth": recorded.demo["truth"]})
    )


def _answers(recorded: Stage, answers: Iterable[_Answered]) -> Record:
    data: dict[str, Json] = {}
    texts = []
    counts: Counter[str] = Counter()
    for request, status, headers, answer in answers:
        counts[request] += 1
        name = f"{request} ({counts[request]})" if counts[request] > 1 else request
        content, text = apart(steady(answer, recorded.drawn))
        data[name] = {"status": status, **headers, "answer": abridged(content)}
        texts += [_section(name, text)]
    return Record(data, "".join(texts))


def _acted(recorded: Stage) -> Iterable[_Answered]:
    for act in recorded.acts:
        yield act.request, act.answer.status, _headers(act.answer), act.content


def _section(name: str, text: str) -> str:
    return f"== {name}\n{text}\n\n" if text else ""


def _read(recorded: Stage) -> Iterable[_Answered]:
    for request in requests.READ:
        answer = recorded.server.ask("GET", request.format(**recorded.ids))
        yield f"GET {request}", answer.status, _headers(answer), _content(answer, request)


def _jobs(recorded: Stage) -> Record:
    """Record what stands for the numbers of each job; the simplest ones are in the views alone."""
    digests = {}
    for project, text in (("default", ""), ("research", "live-")):
        jobs = recorded.server.read("/v1/jobs", project=project, q=text, limit=1000)["jobs"]
        for name in sorted(job["job"] for job in jobs):
            paths = [f"/v1/jobs/{name}{part}" for part in _PARTS]
            answers = [recorded.server.read(path, project=project) for path in paths]
            digests[name] = digest(apart(steady(answers, recorded.drawn))[0])
    return Record(digests)


def _headers(answer: Answer) -> Mapping[str, str]:
    """Return the headers that say more than the usual."""
    usual = {"content-type": "application/json", "x-request-id": "golden"}
    return {name: text for name, text in answer.headers.items() if usual.get(name) != text}


def _content(answer: Answer, request: str) -> Json:
    """Return what an answer says, whatever it is written in."""
    if answer.media_type == "text/csv":
        return table(answer.body.decode(), request.partition("?")[0].rpartition("/")[2])
    if "parquet" in answer.media_type:
        rows = pyarrow.parquet.read_table(io.BytesIO(answer.body))
        types = {field.name: str(field.type) for field in rows.schema}
        return {"columns": types, "rows": len(rows), "digest": digest(steady(rows.to_pylist()))}
    return answer.json if answer.body else None


def _refused(server: Server) -> Iterable[_Answered]:
    for method, path, body, headers in requests.REFUSED:
        answer = server.ask(method, path, body=body, headers=headers)
        shown = [json.dumps(part) for part in (body, headers) if part and isinstance(part, dict)]
        name = " ".join([method, path, *shown])
        assert answer.status >= 400, name  # or it changed what others read
        yield name, answer.status, _headers(answer), _content(answer, path)


def _metrics(server: Server) -> Record:
    plain = server.ask("GET", "/metrics").body.decode()
    open_metrics = {"Accept": "application/openmetrics-text; version=1.0.0"}
    other = server.ask("GET", "/metrics", headers=open_metrics).body.decode()
    data, text = pages.metrics(plain)
    exemplars = [line.partition(" # ")[2] for line in other.splitlines() if " # {" in line]
    return Record({"families": data, "exemplars": abridged(sorted(set(exemplars)))}, text)


def _webhooks(recorded: Stage) -> Record:
    data: dict[str, Json] = {}
    texts = []
    counts: Counter[str] = Counter()
    for message in sorted(recorded.messages, key=lambda message: (message.path, message.body)):
        counts[message.path] += 1
        name = f"{message.path} {counts[message.path]}"
        body, text = apart(steady(json.loads(message.body)))
        data[name] = {"headers": sorted(message.headers), "body": body}
        texts += [_section(name, text)]
    return Record(data, "".join(texts))


def _remote(recorded: Stage) -> dict[str, str]:
    return {"ETT_URL": recorded.server.url, "ETT_API_KEY": recorded.server.key}


def _run(recorded: Stage) -> _Outputs:
    """Run the commands that only read, and the report, in one process."""
    folder = recorded.server.folder
    (folder / LOG.name).write_bytes(LOG.read_bytes())
    words = [*_reading(recorded), commands.HTML]
    return commands.run(folder, words, **_remote(recorded))


def _reading(recorded: Stage) -> list[str]:
    formatted = [command.format(**recorded.ids) for command in commands.OF_THE_SERVER]
    both = [command + form for command in formatted for form in (" --json", "")]
    return [*both, *commands.AS_THEY_ARE, *commands.FAIL]


def _commands(printed: _Outputs, recorded: Stage) -> Record:
    return _printed({command: printed[command] for command in _reading(recorded)}, recorded.drawn)


def _report(printed: _Outputs) -> Record:
    html = printed[commands.HTML]["out"]
    text = pages.text_of(html)
    return Record({"elements": pages.shape_of(html), "text": wording(text)}, text)


def _changed(recorded: Stage) -> Record:
    """Record what commands do that write; nothing else is read meanwhile, nor metrics later."""
    written = [f"{command.format(**recorded.ids)} --json" for command in commands.THAT_WRITE]
    printed = commands.run(recorded.server.folder, written, **_remote(recorded))
    recorded.server.settle()
    return _printed(printed, recorded.drawn)


def _without_server(recorded: Stage) -> dict[str, Record]:
    """Record what commands print of the database itself, and all help."""
    outputs = commands.run(recorded.server.folder, [*commands.OF_THE_DATABASE, commands.HELP])
    of_database = {command: outputs[command] for command in commands.OF_THE_DATABASE}
    return {
        "database": _printed(of_database, recorded.drawn),
        "arguments": _arguments(outputs),
    }


def _printed(printed: _Outputs, drawn: Mapping[str, str]) -> Record:
    data, texts = {}, []
    for command, each in printed.items():
        out, err = (steady_text(each[stream], drawn) for stream in ("out", "err"))
        err = "" if each["code"] == _USAGE else err  # argparse's words
        content, text = _output_of(command, out)
        name = steady_text(command, drawn)
        data[name] = {"code": each["code"], "out": content, "err": wording(err)}
        texts += [_section(name, "\n".join(filter(None, [text, err])))]
    return Record(data, "".join(texts))


def _output_of(command: str, out: str) -> tuple[Json, str]:
    """Return what a command printed as data, and as text."""
    try:
        content, text = apart(steady({command.partition(" ")[0]: _json(out)}))
        return abridged(content), text
    except ValueError:
        pass
    if command.startswith("export openmetrics"):
        families, text = pages.metrics(out)
        return {name: digest(family) for name, family in families.items()}, text
    if command.startswith("export"):
        return abridged(table(out, "rows")), ""
    return wording(out), out


def _json(out: str) -> Json:
    """Read JSON, or a line of it each."""
    return json.loads(out if out.startswith(("{\n", "[")) else f"[{','.join(out.splitlines())}]")


def _arguments(printed: _Outputs) -> Record:
    data, texts = {}, []
    for command, each in printed.items():
        if not command.endswith(commands.HELP):
            continue
        arguments = each["arguments"]
        helps = {argument["name"]: argument.pop("help", "") for argument in arguments}
        for argument in arguments:
            helps |= argument.pop("verbs", {})
        lines = [*filter(None, each["description"]), *map(": ".join, helps.items())]
        data[command] = arguments
        texts.append(_section(command, "\n".join(lines)))
    return Record(data, "".join(texts))
