"""Metadata is in setup.cfg. This file refuses checkouts without links, builds the kernel, and carries the hook into
editable installs."""

import sys
from pathlib import Path

import setuptools

for name in ("callbacks", "hyperparams", "wrappers"):
    if not (Path(__file__).parent / "sb3_ext" / name).is_dir():
        sys.exit(
            f"sb3_ext/{name} must be a symbolic link to {name}/; this checkout has a text file there, as clones on "
            "Windows do. Switch on developer mode in Windows, then run `git config core.symlinks true` and "
            "`git checkout -- sb3_ext`, or install a release: `pip install sb3-ext`."
        )


class Distribution(setuptools.Distribution):
    def has_data(self) -> bool:
        """Setuptools' editable build asks for this name before it installs data files, and no one defines it."""
        return bool(self.data_files)


KERNEL = "sb3_ext/fast/kernel"

setuptools.setup(
    distclass=Distribution,
    options={"bdist_wheel": {"py_limited_api": "cp311"}},  # one wheel for all later versions of Python
    ext_modules=[
        setuptools.Extension(
            f"{KERNEL.replace('/', '.')}._kernel",
            [f"{KERNEL}/kernel.c"],
            depends=sorted(str(path) for path in Path(KERNEL).glob("*.h")),
            # NaN and infinity keep their meaning, so not -ffast-math
            extra_compile_args=["-O3", "-std=gnu11", "-fno-math-errno", "-fno-trapping-math", "-Wno-psabi"],
            py_limited_api=True,
            optional=True,  # without a C compiler, training takes the plain path
        )
    ],
)
