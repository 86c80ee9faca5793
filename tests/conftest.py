"""What every test process must know before anything else is imported."""

import atexit
import os
import shutil
import tempfile

# mem0 reads these once, when any test imports it first: without them it would call home and write to the home folder.
os.environ["MEM0_TELEMETRY"] = "False"
os.environ["MEM0_DIR"] = tempfile.mkdtemp(prefix="memtend-mem0-")
atexit.register(shutil.rmtree, os.environ["MEM0_DIR"], ignore_errors=True)
os.environ["HF_HUB_OFFLINE"] = "1"
