"""The store of a rendezvous that no node hosts: ``PORT RUN_ID``, and a line once a node joined."""

import importlib
import sys
import time
from typing import Any

NOBODY = b"Y2FuaW1hZGFt"
"""What agents write before any of them joins."""

LOOKS_EVERY_S = 0.02


def main() -> None:
    """Serve until killed."""
    port, run_id = sys.argv[1:]
    distributed: Any = importlib.import_module("torch.distributed")
    store = distributed.TCPStore("127.0.0.1", int(port), is_master=True, wait_for_workers=False)
    while store.get(f"torch.rendezvous.{run_id}") == NOBODY:
        time.sleep(LOOKS_EVERY_S)
    sys.stdout.write("joined\n")
    sys.stdout.flush()
    while True:
        time.sleep(60)


if __name__ == "__main__":
    main()
