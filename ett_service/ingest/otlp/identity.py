"""Who speaks: the job, attempt and rank of a span, by its attributes and its process's."""

import hashlib
from typing import Any, TypeAlias

import msgspec

from ett_service.ingest.members import CLUSTER_OF_LAUNCH
from ett_service.ingest.otlp.mapping import ATTRIBUTES, VERSION, VERSION_ATTRIBUTE, as_word
from ett_service.ingest.otlp.spans import SpanAttributes, Value

Members: TypeAlias = dict[str, Any]
"""Members of an event, as on the wire."""

_OF_A_SPAN = frozenset(
    name
    for member in ("job", "launch", "kubernetes_uid", "run", "attempt", "cycle", "rank")
    for name in ATTRIBUTES[member]
)
_LONGEST_TEXT = 2000
_LONGEST_LAUNCH = 100
_MOST_ORDINAL = 2**31 - 1
_MOST_MACHINES = 1_000_000
_NO_SERVICE = "unknown_service"
_FACTS = (
    "name", "team", "model", "cluster", "hardware", "image", "owner", "code_version",
)  # fmt: skip
_DIGEST = 24


def value_of(member: str, *sources: SpanAttributes) -> Value | None:
    """Return what the first of *sources* says of *member*, None if none does."""
    for source in sources:
        for name in ATTRIBUTES[member]:
            value = source.get(name)
            if value is not None and value != "":
                return value
    return None


def word_of(member: str, *sources: SpanAttributes) -> str | None:
    """Return it as a member of an event can have it."""
    value = value_of(member, *sources)
    return None if value is None else as_word(str(value))


def text_of(member: str, *sources: SpanAttributes) -> str | None:
    """Return it as a text that may be long, and have lines."""
    value = value_of(member, *sources)
    return None if value is None else str(value)[:_LONGEST_TEXT]


def number_of(member: str, *sources: SpanAttributes, most: int = _MOST_ORDINAL) -> int | None:
    """Return it as an integer from 0 to *most*, None for whatever else it is."""
    value = value_of(member, *sources)
    if isinstance(value, str):
        value = int(value) if value.isascii() and value.isdigit() and len(value) < 20 else None  # noqa: PLR2004
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value <= most else None


def names_more(span: SpanAttributes) -> bool:
    """Whether a span's own attributes say who speaks."""
    return not _OF_A_SPAN.isdisjoint(span)


def identity(span: SpanAttributes, resource: SpanAttributes) -> Members | None:
    """Return the members that say who speaks, None where no job is named."""
    job = _job(span, resource)
    if job is None:
        return None
    members: Members = {"job": job}
    launch = _launch(span, resource)
    if launch is not None:
        members["launch"] = launch[:_LONGEST_LAUNCH]
    for member in ("attempt", "cycle", "rank"):
        number = number_of(member, span, resource)
        if number is not None:
            members[member] = number
    for member, word in (("host", word_of("host", resource)), ("producer", _producer(resource))):
        if word:
            members[member] = word
    return members


def _job(span: SpanAttributes, resource: SpanAttributes) -> str | None:
    """A job that only Slurm names is called as our client calls it, so that both meet."""
    sources = (span, resource)
    if (job := value_of("job", *sources)) is not None:
        return str(job)
    if (job := value_of("slurm_job", *sources)) is not None:
        return f"slurm-{job}"
    for member in ("whole", "kubernetes_job", "run"):
        if (job := value_of(member, *sources)) is not None:
            return str(job)
    service = value_of("service", resource)
    return None if service is None or str(service).startswith(_NO_SERVICE) else str(service)


def _launch(span: SpanAttributes, resource: SpanAttributes) -> str | None:
    """Return the scheduler's id, by which a watcher of it knows the launch, too.

    In Kubernetes that is the uid of the job, of which a Job may be a part. Where the uid is not
    told there is no launch: the number of a run would make another one beside the watcher's.
    """
    sources = (span, resource)
    if (launch := word_of("launch", *sources)) is not None:
        return launch
    if value_of("whole", *sources) is not None:
        return word_of("whole_uid", *sources)
    is_in_kubernetes = any(
        value_of(each, *sources) is not None for each in ("kubernetes_job", "pod")
    )
    return word_of("kubernetes_uid" if is_in_kubernetes else "run", *sources)


def _producer(resource: SpanAttributes) -> str:
    """Name one life of one process: an instance may keep its name across restarts."""
    parts = (value_of(member, resource) for member in ("instance", "life", "process"))
    named = ":".join(str(part) for part in parts if part is not None)
    return as_word(named) if named else ""


def job_facts(resource: SpanAttributes) -> Members:
    """Return what *resource* says of the job, and by which version of the mapping."""
    facts: Members = {member: word_of(member, resource) for member in _FACTS}
    facts["attributes"] = {VERSION_ATTRIBUTE: VERSION}
    if (cluster := word_of("cluster_of_launch", resource)) is not None:
        facts["attributes"][CLUSTER_OF_LAUNCH] = cluster
    return {member: word for member, word in facts.items() if word is not None}


def attempt_facts(resource: SpanAttributes) -> Members:
    """Return what *resource* says of the attempt: its accelerators, machines and code."""
    hosts = number_of("hosts", resource, most=_MOST_MACHINES)
    facts: Members = {
        "gpus": _gpus(resource, hosts),
        "hosts": hosts,
        "code_version": word_of("code_version", resource),
    }
    return {member: value for member, value in facts.items() if value is not None}


def _gpus(resource: SpanAttributes, hosts: int | None) -> int | None:
    """Those of the allocation, else one for each rank."""
    if (gpus := number_of("gpus", resource, most=_MOST_MACHINES)) is not None:
        return gpus
    a_host = number_of("host_gpus", resource, most=_MOST_MACHINES)
    if a_host and hosts:
        return min(a_host * hosts, _MOST_MACHINES)
    return number_of("ranks", resource, most=_MOST_MACHINES)


def digest(*content: object) -> str:
    """Return a short name for *content*: the same always has the same one."""
    return hashlib.sha256(msgspec.json.encode(content, order="sorted")).hexdigest()[:_DIGEST]
