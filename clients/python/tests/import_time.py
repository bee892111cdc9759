"""Fails when the import of the package takes more than 150 ms, at the best of five tries."""

import subprocess
import sys

PROGRAM = "import time; at = time.perf_counter(); from kitfleet import Kitfleet; print((time.perf_counter() - at) * 1000)"
best = min(float(subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout) for _ in range(5))
print(f"Python: the import takes {best:.0f} ms")
sys.exit(best > 150)
