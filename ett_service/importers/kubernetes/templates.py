"""What the template of a pod says: who its trainer is, and what it asks for."""

import re
import unicodedata
from collections.abc import Mapping
from typing import Any, NamedTuple

from ett_service.importers.importer import clean

Json = Mapping[str, Any]
_IDENTITY = ("ETT_JOB", "ETT_LAUNCH", "ETT_ATTEMPT")
_FIELD = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")
_ACCELERATOR = re.compile(r".+/(gpu|tpu|gaudi|neuron|neuroncore|npu)s?$|.+/(mig|gpu)[-.].+")
_PRODUCT = re.compile(r".*(gpu\.product|gke-accelerator|gke-tpu-accelerator|accelerator-name)$")


_MOST = 1_000_000


class Claims(NamedTuple):
    """Who a trainer in the pod says that it is, by its environment; None where it says nothing."""

    job: str | None = None
    launch: str | None = None
    attempt: int | None = None


class Asks(NamedTuple):
    """What containers ask for."""

    gpus: int = 0
    hardware: str | None = None
    image: str | None = None


def count(value: Any) -> int:
    """Return a number of things. Raises ValueError or TypeError for any other."""
    number = int(value or 0)
    if not 0 <= number <= _MOST:
        raise ValueError("no number of things")
    return number


def _containers(spec: Json) -> list[Json]:
    return [*spec["containers"], *(spec.get("initContainers") or ())]


def main_container(spec: Json) -> Json:
    """Return the trainer's container: the one with accelerators, else the first."""
    containers = spec["containers"]
    return next((each for each in containers if _gpus(each)), containers[0])


def _gpus(container: Json) -> int:
    resources = container.get("resources") or {}
    amounts = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    return sum(count(amount) for name, amount in amounts.items() if _ACCELERATOR.fullmatch(name))


def asks_of(spec: Json) -> Asks:
    """Read what the containers of a pod ask for together."""
    selectors = spec.get("nodeSelector") or {}
    return Asks(
        gpus=sum(_gpus(each) for each in spec["containers"]),
        hardware=next(
            (clean(name) or None for key, name in selectors.items() if _PRODUCT.match(key)), None
        ),
        image=clean(str(main_container(spec).get("image") or "")) or None,
    )


def claims_of(
    spec: Json,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    fields: Mapping[str, str],
) -> Claims:
    """Read the identity that containers are given, the trainer's first.

    *fields* are those of the pod by their path, as far as they are known.
    """
    claims: dict[str, str] = {}
    for container in [main_container(spec), *_containers(spec)]:
        for entry in container.get("env") or ():
            if entry["name"] in _IDENTITY:
                value = _value(entry, labels, annotations, fields)
                if value:
                    claims.setdefault(entry["name"], clean(value))
    attempt = claims.get("ETT_ATTEMPT", "")
    return Claims(
        job=_job_name(claims.get("ETT_JOB", "")),
        launch=claims.get("ETT_LAUNCH", "")[:100] or None,
        attempt=count(attempt) if attempt.isascii() and attempt.isdigit() else None,
    )


def _job_name(text: str) -> str | None:
    """Return a job's name, None where trainers do without it, too: it could not be stored."""
    name = unicodedata.normalize("NFC", text)
    return None if "/" in name or name in ("", ".", "..") else name


def _value(
    entry: Json,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    fields: Mapping[str, str],
) -> str | None:
    """Return what an environment's entry is, None where it cannot be told from here."""
    if "valueFrom" not in entry:
        value = str(entry.get("value") or "")
        return None if "$(" in value else value
    path = str((entry["valueFrom"].get("fieldRef") or {}).get("fieldPath", ""))
    if (part := _FIELD.fullmatch(path)) is None:
        return fields.get(path)
    return (labels if part[1] == "labels" else annotations).get(part[2])
