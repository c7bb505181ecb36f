"""``ett import``: logs of other programs, as events to the server or to standard output."""

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

from ett_service.cli.arguments import server
from ett_service.cli.output import say, write_json, write_line
from ett_service.cli.progress import reading
from ett_service.cli.record import otlp_files
from ett_service.cli.record.import_delivery import Delivery, Tally, told_twice
from ett_service.cli.record.import_options import CHECKED, OPTIONS, Checked, keywords_of
from ett_service.cli.verb import Failure, Verb, add_json
from ett_service.importers import mlperf
from ett_service.importers.importer import ImportedRun, Report
from ett_service.importers.kubernetes import dumps
from ett_service.importers.logs import megatron, profiled_log, table, torch_trace, torchelastic
from ett_service.importers.slurm import sacct
from ett_service.importers.telemetry import dlrover, goodput, mlflow, nvrx, one_logger, wandb


class Format(NamedTuple):
    """A format of logs."""

    summary: str
    read: Callable[..., tuple[Iterator[ImportedRun], Report]]  #: an importer
    options: tuple[str, ...] = ()  #: keywords that it takes beyond paths and job; see OPTIONS


FORMATS: Mapping[str, Format] = {
    "csv": Format("CSV files, by a mapping", table.read_csv, ("mapping", "zone")),
    "dlrover": Format("training events of DLRover", dlrover.read, ("zone",)),
    "goodput": Format("entries of Google's ml-goodput-measurement (JSON)", goodput.read),
    "k8s": Format(
        "dumps of Kubernetes (kubectl get -o json or yaml, saved watches)",
        dumps.read,
        ("template",),
    ),
    "log": Format("any log, by a profile of patterns", profiled_log.read, ("profile", "zone")),
    "megatron": Format(
        "output of Megatron-LM or DeepSpeed, and progress.txt", megatron.read, ("zone",)
    ),
    "mlflow": Format("runs of a local MLflow store (mlruns or SQLite)", mlflow.read),
    "mlperf": Format("result logs of MLPerf Training (:::MLLOG lines)", mlperf.read),
    "nvrx": Format("cycle files and launcher logs of NVRx", nvrx.read),
    "one-logger": Format("files of nv-one-logger's JSON exporter", one_logger.read),
    "otlp": Format("files of OTLP traces (JSON lines or protobuf)", otlp_files.read),
    "parquet": Format("Parquet files, by a mapping", table.read_parquet, ("mapping", "zone")),
    "sacct": Format("Slurm's accounting (sacct -D -P, -p or --json)", sacct.read, ("name", "zone")),
    "torch-trace": Format("compile logs of PyTorch (TORCH_TRACE)", torch_trace.read),
    "torchelastic": Format(
        "error files and events of torchrun agents", torchelastic.read, ("zone",)
    ),
    "wandb": Format("offline runs of Weights & Biases (run-*.wandb)", wandb.read),
}


def _options(parser: ArgumentParser) -> None:
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="file or folder")
    parser.add_argument("--job", metavar="NAME", help="make all runs attempts of this job")
    parser.add_argument(
        "--dry-run", action="store_true", help="print the events, one a line; send nothing"
    )
    parser.set_defaults(check=False)


def _offer_check(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--check", action="store_true", help="try the file's own test instead; import nothing"
    )


def _options_of(form: Format) -> tuple[Callable[[ArgumentParser], None], ...]:
    own = [OPTIONS[name] for name in form.options]
    check = [] if set(CHECKED).isdisjoint(form.options) else [_offer_check]
    return (_options, *own, *check, server, add_json)


def _import(args: Namespace) -> None:
    """Read the logs, send what they say, and report what could not be read.

    Raises:
        Failure: where nothing could be read, or a run could not be imported as it is.
    """
    form = FORMATS[args.format]
    keywords = keywords_of(form.options, args)
    if args.check:
        _check(*(keywords[name] for name in CHECKED if name in keywords))
        return
    if not args.paths:
        raise Failure(
            "no file is named", f"Name files or folders after `ett import {args.format}`."
        )
    runs, report = form.read(args.paths, args.job, **keywords)
    tally = Tally()
    with reading(args.paths, lambda: f"{report.records} records, {tally.events} events"):
        if args.dry_run:
            _print(runs, tally)
        else:
            _send(args, runs, tally)
    _complain(report, tally)
    refused = len(report.refused) + len(tally.refused)
    if tally.runs or refused:
        _summarize(args, report, tally)
    if tally.broken:
        raise Failure(
            f"the server refused {tally.rejected} events: {_codes(tally)}",
            "The others of these jobs are stored; `ett jobs delete NAME` removes them.",
        )
    if refused:
        done = "printed" if args.dry_run else "stored"
        stored = f"The others are {done}." if tally.runs else f"Nothing was {done}."
        raise Failure(f"{refused} runs were not imported", stored)
    if not tally.runs:
        raise Failure("nothing could be read", "Check that the paths are logs of this format.")


def _check(checked: Checked) -> None:
    """Try the test that a profile or mapping holds.

    Raises:
        Failure: where a part of it fails.
    """
    failures = list(checked.failures())
    for failure in failures:
        say(failure)
    if failures:
        raise Failure(
            f"{len(failures)} checks fail", "Change the pattern, or what it should become."
        )
    print("all checks hold", file=sys.stderr)


def _print(runs: Iterator[ImportedRun], tally: Tally) -> None:
    for run in runs:
        for fact in run.facts if tally.take(run) else ():
            print(json.dumps(fact.event, ensure_ascii=False))


def _send(args: Namespace, runs: Iterator[ImportedRun], tally: Tally) -> None:
    delivery = Delivery(args, tally)
    try:
        for run in runs:
            if tally.take(run):
                delivery.take(run)
        delivery.finish()
        if args.format == "sacct" and (twice := told_twice(args, tally.launches)):
            say(twice)
    except Failure:
        if (begun := delivery.begun) is not None:
            say(f"{begun.path}: of job {begun.job} a part is stored; import it again for the rest")
        raise


def _codes(tally: Tally) -> str:
    return ", ".join(f"{code} ({count})" for code, count in tally.codes.most_common())


def _complain(report: Report, tally: Tally) -> None:
    """Say on standard error what was not read, not imported, or read but not used."""
    lines = [*report.unread, *report.unfinished, *report.notes]
    lines += [f"{why}: its run is not imported" for why in tally.refused]
    lines += report.refused
    lines += [f"{why}: a part of job {job} is missing" for job, why in tally.broken.items()]
    if report.unlisted:
        lines += [f"{report.unlisted} more remarks of these kinds are not shown"]
    if report.skipped:
        lines += [f"{report.skipped} lines were skipped, the first of them:"]
        lines += [f"  {line}" for line in report.first_skipped]
    for line in lines:
        say(line)


def _summarize(args: Namespace, report: Report, tally: Tally) -> None:
    figures = {**asdict(report), **tally.as_json()}
    if args.json and args.dry_run:  # the events are the data
        print(json.dumps(figures, ensure_ascii=False), file=sys.stderr)
        return
    if args.json:
        write_json(figures)
        return
    for job in tally.jobs if not args.dry_run else ():
        write_line(job)
    done = "printed" if args.dry_run else f"{tally.accepted} accepted, {tally.duplicate} duplicates"
    print(
        f"{report.files} files, {report.records} records read, {report.skipped} lines skipped, "
        f"{len(tally.jobs)} jobs: {tally.events} events, {done}, {tally.rejected} refused",
        file=sys.stderr,
    )


VERB = Verb(
    acts_dest="format",
    acts={
        name: Verb(
            summary=form.summary,
            description=f"Import {form.summary}.",
            options=_options_of(form),
            run=_import,
        )
        for name, form in FORMATS.items()
    },
)
