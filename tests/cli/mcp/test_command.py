"""``ett mcp`` where the SDK is missing; with it, see ``test_tools.py``."""

import subprocess
import sys


def test_without_the_sdk_it_says_how_to_install_it() -> None:
    program = (
        "import sys; sys.modules['mcp'] = None\n"
        "from ett_service.cli.main import main; sys.exit(main(['mcp']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )

    assert done.returncode == 1
    assert "`ett mcp` needs the MCP SDK" in done.stderr
    assert "pip install 'ett-service[mcp]'" in done.stderr
