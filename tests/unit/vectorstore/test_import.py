"""Importing the package is cheap: clients that only want its name load neither the engine nor a web server."""

import subprocess
import sys


def test_importing_the_package_loads_no_engine() -> None:
    heavy = "{'qdrant_edge', 'qdrant_client', 'starlette', 'uvicorn'}"
    code = f"import sys, memcore.vectorstore; print(*({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
