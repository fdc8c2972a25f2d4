"""Hyperparameter files: reading them with line numbers (``reader``, ``files``), what a section may contain (``schema``,
made from the algorithm's constructor), the checks (``check``, ``parts``, ``train_command``), and ``sb3-ext config``
(``format``, ``show``, ``editor_schema``).
"""

import rl_zoo3.exp_manager  # noqa: F401  first: its import loads our plugin, which imports modules of this package
