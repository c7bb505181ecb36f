"""The settings and the database of this machine, for verbs that need no server."""

import os
from argparse import Namespace
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager

from ett_service.settings import Loaded, Settings, load
from ett_service.storage.engine.store import Readable, open_for_reading


def loaded(args: Namespace, overrides: Mapping[str, object] | None = None) -> Loaded:
    """Read the settings; *overrides* that are not None win, by the name of their variable.

    Raises:
        BadSettings: naming what is wrong.
    """
    flags = {name: str(value) for name, value in (overrides or {}).items() if value is not None}
    return load(os.environ | flags, args.config)


@contextmanager
def opened_for_reading(args: Namespace) -> Iterator[tuple[Settings, Readable]]:
    """Load the settings and open the database that they name; a server may run meanwhile."""
    settings = loaded(args).settings
    with closing(open_for_reading(settings.database_url)) as store:
        yield settings, store
