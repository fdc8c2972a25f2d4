"""Measures what an installed sb3-ext adds to each start of Python, and what importing it costs.

    python scripts/benchmarks/startup.py

Builds the wheel, installs it into one of two empty virtual environments, and starts Python in both, in turns.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

PROJECT = Path(__file__).parents[2]
IMPORT = "import time; start = time.perf_counter(); import sb3_ext; print(time.perf_counter() - start)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-n", "--n-starts", type=int, default=50, help="starts per side; the median is reported")
    n_starts = parser.parse_args().n_starts
    with tempfile.TemporaryDirectory() as folder:
        without, installed = make_environments(Path(folder))
        times: dict[Path, list[float]] = {without: [], installed: []}
        for _ in range(n_starts):
            for python, measured in times.items():
                measured.append(time_start(python))
        plain, hooked = (1000 * statistics.median(times[python]) for python in (without, installed))
        # SB3_EXT_AUTOLOAD=0, or the hook would have imported the package before the clock starts
        imports = [run(installed, IMPORT, SB3_EXT_AUTOLOAD="0") for _ in range(n_starts)]
    print(f"python -c pass   without {plain:.2f} ms, installed {hooked:.2f} ms: {hooked - plain:+.2f} ms")
    print(f"import sb3_ext   {1000 * statistics.median(map(float, imports)):.2f} ms")
    print(f"(medians of {n_starts})")


def make_environments(folder: Path) -> tuple[Path, Path]:
    """Two virtual environments, the second one with the wheel."""
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(PROJECT)]
    subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
    pythons = []
    for name in ("without", "installed"):
        venv.create(folder / name)
        pythons.append(folder / name / "bin" / "python")
    (wheel,) = folder.glob("*.whl")
    install = [sys.executable, "-m", "pip", "--python", str(pythons[1]), "install", "--quiet", "--no-deps", str(wheel)]
    subprocess.run(install, check=True)
    return pythons[0], pythons[1]


def time_start(python: Path) -> float:
    start = time.perf_counter()
    run(python, "pass")
    return time.perf_counter() - start


def run(python: Path, code: str, **environment: str) -> str:
    return subprocess.run([python, "-c", code], check=True, capture_output=True, text=True, env=environment).stdout


if __name__ == "__main__":
    main()
