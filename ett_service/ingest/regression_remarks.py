"""What people say of regressions, as it is written on the wire."""

from typing import Any

import msgspec
from msgspec import Struct

from ett_service.core.regression import Triage
from ett_service.ingest.remarks import Why
from ett_service.ingest.wire import Instant, Labels, Word


class NewTriage(Struct, kw_only=True, forbid_unknown_fields=True):
    """What a finding is."""

    verdict: Triage
    why: Why


class NewAcknowledgement(Struct, kw_only=True, forbid_unknown_fields=True):
    """Somebody looks after it."""

    why: Why | None = None


class NewBaseline(Struct, kw_only=True, forbid_unknown_fields=True):
    """What is now is the new normal."""

    why: Why


class NewRegressionMute(Struct, kw_only=True, forbid_unknown_fields=True):
    """Tell nobody of the cohort and phase of a regression for a while."""

    until: Instant
    why: Why


class NewMute(
    NewRegressionMute, kw_only=True, forbid_unknown_fields=True, rename={"begin": "from"}
):
    """Tell nobody of these cohorts and this phase; what is left out is all of it.

    Without `from` it begins now.
    """

    cohort: Labels | None = None
    phase: Word | None = None
    begin: Instant | None = None


def regression_remark_schema() -> dict[str, Any]:
    """Return the JSON schemas by name, for OpenAPI."""
    kinds = (NewTriage, NewAcknowledgement, NewBaseline, NewRegressionMute, NewMute)
    _, schemas = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    return schemas
