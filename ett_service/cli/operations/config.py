"""``ett config``: the settings in force, and where each came from."""

from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from ett_service.cli.arguments import config
from ett_service.cli.operations.local import loaded
from ett_service.cli.output import write_line
from ett_service.cli.tables import identifier, prose, text, write_table
from ett_service.cli.verb import Verb
from ett_service.logs import redact

_COLUMNS = (identifier("setting"), prose("value"), text("from", "source"))


def _settings(args: Namespace) -> Mapping[str, Any]:
    loading = loaded(args)
    values = loading.settings.model_dump(mode="json", by_alias=True)
    return {
        name: {"value": redact(value) if isinstance(value, str) else value, "source": source}
        for (name, value), source in zip(values.items(), loading.sources.values(), strict=True)
    }


def _write_settings(settings: Mapping[str, Any], _args: Namespace) -> None:
    write_table(_COLUMNS, [{"setting": name, **entry} for name, entry in settings.items()])


def _write_valid(_settings: Any, _args: Namespace) -> None:
    write_line("The settings are valid.")


VERB = Verb(
    acts={
        "show": Verb(
            summary="print each setting and its source; passwords are redacted",
            options=(config,),
            run=_settings,
            write=_write_settings,
        ),
        "check": Verb(
            summary="check whether the settings are valid",
            options=(config,),
            run=_settings,
            write=_write_valid,
        ),
    },
)
