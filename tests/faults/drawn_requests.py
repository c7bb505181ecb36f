"""A check for schemathesis: what the description of the API allows is refused for a reason only.

Schemathesis loads this in an environment of its own. Its own check of valid requests counts every
refusal, also of what no schema can say; this one knows those reasons by their code.
"""

import os
from typing import Any

import schemathesis

OWN_PREFIX, NOBODYS_PREFIX = os.environ["ETT_OWN_PREFIX"], "ett_00000000"

#: What a schema cannot say, by the code of the fault.
REASONS = {
    "bad_cursor": "it is opaque: only a page before can have made it",
    "bad_text": "which characters can be shown is a matter of Unicode",
    "bad_job": "likewise",
    "bad_window": "an end is compared with a begin, or with now",
    "from_after_to": "likewise",
    "timestamp_out_of_range": "an instant is compared with now",
    "missing": "one of several must be there",
    "out_of_bounds": "what several come to has a bound",
    "too_many_points": "likewise",
    "bad_address": "whether a host has a public address is asked of the network",
    "too_large": "an event has a bound of bytes",
    "too_deep": "how deep what has no type of its own may be nested",
    "conflict": "what is stored decides: an event of this id",
    "too_old": "likewise: that the job was pruned",
    "other_cluster": "likewise: where the launch was recorded",
    "not_measured": "likewise: whether the cohort trained",
    "unreadable_scenario": "a scenario is a sentence",
}
#: The same of refusals without a code, by what they say.
SENTENCES = {
    "A key must expire in the future.": "an instant is compared with now",
    "A name has 1 to 100 printable characters and no slash.": "which can be printed says Unicode",
}


@schemathesis.hook
def before_call(_: schemathesis.HookContext, case: schemathesis.Case, __: dict[str, Any]) -> None:
    """Keep the key that requests are sent with: all that follow would be refused."""
    if case.path_parameters and case.path_parameters.get("prefix") == OWN_PREFIX:
        case.path_parameters["prefix"] = NOBODYS_PREFIX


@schemathesis.check
def valid_data_is_refused_for_a_reason(
    _ctx: schemathesis.CheckContext, response: schemathesis.Response, case: schemathesis.Case
) -> None:
    """Let a valid request be refused as invalid only where no schema could have said so."""
    meta = case.meta
    if response.status_code not in (400, 422) or not meta.generation.mode.is_positive:
        return
    answer = response.json()
    faults = answer.get("errors", ())
    is_explained = all(has_reason(fault, case.body) for fault in faults)
    if not is_explained or (not faults and answer.get("detail") not in SENTENCES):
        raise AssertionError(f"what the schema allows was refused: {answer}")


def has_reason(fault: dict[str, Any], body: Any) -> bool:
    """Return whether no schema could have said so."""
    # 1.0 is an integer to a schema, and none as it is written.
    if fault["code"] in ("wrong_type", "int_type"):
        return holds_whole_float(standing_at(fault["pointer"], body))
    return fault["code"] in REASONS


def holds_whole_float(value: Any) -> bool:
    """Return whether 1.0 or its like stands in *value*."""
    if isinstance(value, float):
        return value.is_integer()
    members = value.values() if isinstance(value, dict) else value
    return isinstance(value, dict | list) and any(map(holds_whole_float, members))


def standing_at(pointer: str, body: Any) -> Any:
    """Return what stands at a pointer (RFC 6901)."""
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        body = body[int(name)] if isinstance(body, list) else body[name]
    return body
