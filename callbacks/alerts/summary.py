"""The alerts of a training as a table."""

from collections.abc import Sequence

from rich import box, get_console
from rich.console import Console
from rich.table import Table

from sb3_ext.callbacks.alerts.engine import AlertCount

__all__ = ["print_summary"]


def print_summary(counts: Sequence[AlertCount], console: Console | None = None) -> None:
    console = console or get_console()
    if not counts:
        console.print("No alerts.")
        return
    table = Table(title="Alerts of this training", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("alert", no_wrap=True, style="bold")
    table.add_column("rows", justify="right")
    table.add_column("share", justify="right")
    table.add_column("steps", no_wrap=True)
    table.add_column("what to tune", overflow="fold")
    for count in counts:
        first, last = f"{count.first_step:,}", f"{count.last_step:,}"
        steps = first if first == last else f"{first} to {last}"
        # Rich would read brackets as markup
        table.add_row(count.id, str(count.count), f"{count.share:.0%}", steps, count.advice.replace("[", r"\["))
    console.print(table)
