"""``ett audit``: what every published definition makes of the same log. Needs no server."""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ett_service.cli.output import NONE, percent, say, write_line
from ett_service.cli.record.import_ import FORMATS
from ett_service.cli.record.import_delivery import Tally, decoded
from ett_service.cli.record.import_options import OPTIONS, keywords_of
from ett_service.cli.tables import write_cells
from ett_service.cli.verb import Failure, Verb, now_us
from ett_service.core.intervals import rfc3339
from ett_service.core.planning.definitions import (
    JobAudit,
    Pairs,
    RecordedEvent,
    Without,
    audit,
    ignored,
    ratio,
)
from ett_service.importers.importer import ImportedRun, Report
from ett_service.importers.kubernetes import cluster
from ett_service.importers.recognition import UNKNOWN, by_format

TITLES: Mapping[str, str] = {
    "ett_ratio": "ETT%",
    "google_goodput": "Google's goodput",
    "cre_goodput": "CRE goodput",
    "ettr": "ETTR",
    "megascale_rate": "MegaScale's rate",
    "one_logger_productive": "one-logger's productive",
}
"""What people call each definition."""

_SHORT = {
    **TITLES,
    "google_goodput": "Google",
    "cre_goodput": "CRE",
    "megascale_rate": "MegaScale",
    "one_logger_productive": "one-logger",
}
_IGNORED = "ignored"
_MOST_RECORDS = 10


@dataclass(slots=True)
class Job:
    """The events of one job, and where each was recorded."""

    events: dict[str, RecordedEvent] = field(default_factory=dict)  #: by id
    records: list[tuple[Path, int]] = field(default_factory=list)
    numbers: dict[tuple[Path, int], int] = field(default_factory=dict)

    def take(self, run: ImportedRun) -> None:
        """Add what a run says."""
        for facts, batch in decoded(run):
            for arrival in batch.arrivals:
                place = (run.path, facts[arrival.index].line)
                number = self.numbers.setdefault(place, len(self.numbers))
                if number == len(self.records):
                    self.records.append(place)
                self.events.setdefault(arrival.event.id, RecordedEvent(arrival.event, number))


@dataclass(frozen=True, slots=True)
class Audited:
    """What was read, and the audit of each job."""

    format: str  #: of several their names
    report: Report
    refused: Sequence[str]
    audits: Mapping[str, JobAudit]
    jobs: Mapping[str, Job]


def _options(parser: ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="file or folder")
    parser.add_argument(
        "--format",
        choices=sorted(FORMATS),
        help="the format of all; each path's is recognised if not given",
    )
    parser.add_argument("--job", metavar="NAME", help="make all runs attempts of this job")
    parser.set_defaults(template=cluster.DEFAULT_NAME)


def _audit(args: Namespace) -> Audited:
    """Read the logs as ``ett import`` does, and fold them here.

    Raises:
        Failure: where a path is missing, the format not recognised, or nothing can be read.
    """
    spare = "log" if args.profile else "csv" if args.mapping else None
    grouped = {args.format: args.paths} if args.format else by_format(args.paths, spare)
    if not grouped:
        if missing := next((path for path in args.paths if not path.exists()), None):
            raise Failure(f"{missing}: there is no such file or folder")
        raise Failure("the format of these files is not recognised", "Name it with --format.")
    tally, jobs, total = Tally(), dict[str, Job](), Report()
    for path in grouped.pop(UNKNOWN, ()):
        total.miss(path, "is of no known format and is not read; audit it by itself with --format")
    name = ", ".join(grouped)
    for each, paths in grouped.items():
        form = FORMATS[each]
        runs, report = form.read(paths, args.job, **keywords_of(form.options, args))
        for run in runs:
            if tally.take(run):
                jobs.setdefault(run.job, Job()).take(run)
        total.add(report)
    refused = [*total.refused, *tally.refused]
    if not jobs:
        reasons = [*refused, *total.unread, *total.first_skipped, "the files hold nothing"]
        raise Failure(f"nothing could be read as {name}: {reasons[0]}")
    as_of = now_us()
    audits = {job: audit(list(each.events.values()), as_of) for job, each in jobs.items()}
    return Audited(name, total, refused, audits, jobs)


def _as_json(answer: Audited) -> dict[str, Any]:
    jobs = [_job_as_json(name, of, answer.jobs[name]) for name, of in answer.audits.items()]
    report = asdict(answer.report)
    return {"format": answer.format, **report, "refused": answer.refused, "jobs": jobs}


def _job_as_json(name: str, of: JobAudit, job: Job) -> dict[str, Any]:
    ledger = of.ledger
    return {
        "job": name,
        "state": ledger.state,
        "provisional": ledger.provisional,
        "e2e_seconds": ledger.e2e_us / 1e6,
        "attempts": len(ledger.attempts),
        "failures": ledger.failures,
        "definitions": {
            each: {
                "ratio": ratio(pair),
                "numerator_seconds": pair[0] / 1e6,
                "denominator_seconds": pair[1] / 1e6,
                "ignores": [kind.name for kind in of.kinds if kind.pairs[each] == pair],
            }
            for each, pair in of.pairs.items()
        },
        "kinds": [
            {
                "kind": kind.name,
                "records": kind.records,
                "first": _place(job, kind),
                "ignored_by": ignored(of.pairs, kind),
                "without": _ratios(kind.pairs),
            }
            for kind in of.kinds
        ],
        "rests_on": [
            {"record": _place(job, each), "says": each.name, "without": _ratios(each.pairs)}
            for each in of.records
        ],
        "records_tried": of.tried,
        "records": of.of,
    }


def _ratios(pairs: Pairs) -> dict[str, float]:
    return {name: ratio(pair) for name, pair in pairs.items()}


def _place(job: Job, without: Without) -> str:
    path, line = job.records[without.record]
    return f"{path}:{line}"


def _write(answer: Audited, _args: Namespace) -> None:
    for place, (name, of) in enumerate(answer.audits.items()):
        if place:
            write_line()
        _write_job(name, of, answer.jobs[name])
    report = answer.report
    print(
        f"{report.files} files of {answer.format}: {report.records} records read, "
        f"{report.skipped} skipped, {len(answer.refused)} runs refused",
        file=sys.stderr,
    )
    for line in [*answer.refused, *report.unread, *report.first_skipped, *report.notes]:
        say(line)


def _write_job(name: str, of: JobAudit, job: Job) -> None:
    ledger = of.ledger
    state = f"{ledger.state}, provisional" if ledger.provisional else str(ledger.state)
    write_line(
        f"{name}: {state}, {len(ledger.attempts)} attempts, {ledger.failures} failures, "
        f"{ledger.e2e_us / 1e6:.0f} s to {_end(of)}"
    )
    if not any(counted for counted, _ in of.pairs.values()):
        write_line("No record says that it trained, as where only a scheduler reports a job.")
    write_line()
    write_cells(
        ["definition", "ratio", "counts", "over", "ignores"],
        [_definition(each, pair, of) for each, pair in of.pairs.items()],
        right=("ratio", "counts", "over"),
    )
    write_line()
    write_line("Without these records each would be so many points higher or lower:")
    write_cells(
        ["records", "n", *_SHORT.values()],
        [[kind.name, kind.records, *_changes(of.pairs, kind)] for kind in of.kinds],
        right=("n", *_SHORT.values()),
    )
    _write_records(of, job)


def _end(of: JobAudit) -> str:
    return NONE if of.ledger.ended_at is None else rfc3339(of.ledger.ended_at)


def _definition(name: str, pair: tuple[int, int], of: JobAudit) -> list[str]:
    ignores = ", ".join(kind.name for kind in of.kinds if kind.pairs[name] == pair)
    counted, over = (f"{us / 1e6:.0f} s" for us in pair)
    return [TITLES[name], percent(ratio(pair)), counted, over, ignores or NONE]


def _changes(pairs: Pairs, without: Without) -> list[str]:
    return [
        _IGNORED if without.pairs[name] == pair else _points(pair, without.pairs[name])
        for name, pair in pairs.items()
    ]


def _points(pair: tuple[int, int], without: tuple[int, int]) -> str:
    return f"{100 * (ratio(without) - ratio(pair)):+.2f}"


def _write_records(of: JobAudit, job: Job) -> None:
    write_line()
    if not of.records:
        write_line(f"ETT% rests on no single record ({of.tried} of {of.of} tried).")
        return
    write_line(f"ETT% rests most on these ({of.tried} of {of.of} records tried):")
    write_cells(
        ["record", "says", "without it", "points"],
        [
            [
                _place(job, each),
                each.name,
                percent(ratio(each.pairs["ett_ratio"])),
                _points(of.pairs["ett_ratio"], each.pairs["ett_ratio"]),
            ]
            for each in of.records[:_MOST_RECORDS]
        ],
        right=("without it", "points"),
    )


VERB = Verb(
    description="Show what every published definition makes of the same log, which records each "
    "ignores, and which ETT% rests on. Nothing is sent.",
    options=(_options, *(offer for name, offer in OPTIONS.items() if name != "template")),
    run=_audit,
    write=_write,
    as_json=_as_json,
)
