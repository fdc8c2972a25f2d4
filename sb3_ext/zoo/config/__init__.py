"""Hyperparameter files: reading them with line numbers (``reader``, ``files``), what a section may contain (``schema``,
made from the algorithm's constructor), the checks (``check``, ``parts``, ``train_command``), and ``sb3-ext config``
(``format``, ``show``, ``editor_schema``).
"""
