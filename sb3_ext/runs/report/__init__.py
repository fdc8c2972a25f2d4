"""The report of a run, in Markdown and plots."""
