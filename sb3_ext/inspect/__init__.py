"""The inspector: a page in the browser that shows a run step by step.

``episode.py`` plays an episode and describes each step, ``server.py`` sends it to the page in ``viewer/``, and
``page.py`` puts page and episode into one file. What the page shows comes from ``runs``; here is what a browser needs.
"""
