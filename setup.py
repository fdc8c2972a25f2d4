"""Metadata is in setup.cfg; this file only carries the autoload hook into editable installs too."""

import setuptools


class Distribution(setuptools.Distribution):
    def has_data(self) -> bool:
        """Setuptools' editable build asks for this name before it installs data files, and no one defines it."""
        return bool(self.data_files)


setuptools.setup(distclass=Distribution)
