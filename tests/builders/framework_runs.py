"""Run programs one after the other, each in a fork of this process, and print their exit codes.

A framework takes seconds to import; here that is done once.
"""

import importlib
import json
import os
import runpy
import sys
from typing import Any


def main(module: str, runs: list[dict[str, Any]]) -> None:
    """Import *module*, run each program, and print the codes as the last line."""
    importlib.import_module(module)
    codes = []
    for each in runs:
        child = os.fork()
        if not child:
            os.environ.update(each["env"])
            sys.argv = [each["program"], *each["arguments"]]
            runpy.run_path(each["program"], run_name="__main__")
            return
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    print(json.dumps(codes))  # noqa: T201 -- for the test that started it


main(sys.argv[1], json.loads(sys.argv[2]))
