"""``sb3-ext inspect RUN``: opens a page in the browser that shows a run step by step."""

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from sb3_ext.cli.run_argument import add_run
from sb3_ext.cli.whole_number import seed_number, whole_number
from sb3_ext.common.clean_text import say
from sb3_ext.common.usage_error import UsageError
from sb3_ext.runs.find_run import find_run, split_checkpoint

__all__ = ["EPILOG", "add_arguments", "run"]

EPILOG = """examples:
  sb3-ext inspect @last                              play episodes of the newest run, frame by frame
  sb3-ext inspect logs/ppo_ext/CartPole-v1_1@20000   the model of this step
  sb3-ext inspect                                    all runs of logs/, and the playground
  sb3-ext inspect @last --export episode.html        one file that opens without a server
  sb3-ext inspect @last --host 0.0.0.0               for other machines too; the address then has a token

keys on the page: left and right for a step, with shift for ten; space plays; home and end; t, w and e jump to the
largest TD error, the worst action and the end. Ctrl-C ends the server.
A model contains a pickle: playing it runs code from whoever made it. Only inspect runs from people you trust.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run(parser, nargs="?")
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1, this machine only)"
    )
    parser.add_argument("--port", type=int, default=8765, help="port (default: 8765; 0: any free one)")
    parser.add_argument("--no-browser", action="store_true", help="print the address, don't open a browser")
    export = parser.add_argument_group("without a server")
    export.add_argument("--export", metavar="FILE", help="write an episode as an HTML file")
    export.add_argument("--seed", type=seed_number, default=0, help="of the exported episode (default: 0)")
    export.add_argument("--stochastic", action="store_true", help="sample actions in the exported episode")
    export.add_argument("--max-steps", type=whole_number, default=3000, help="longest exported episode (default: 3000)")


def run(args: argparse.Namespace) -> int:
    name, model = (None, None) if args.run is None else split_checkpoint(args.run)
    folder = None if name is None else find_run(name, args.log_folder)
    if args.export is not None:
        if folder is None:
            raise UsageError("--export needs a run: sb3-ext inspect RUN --export FILE.html")
        return _export(args, folder, model)
    return _serve(args, folder, model)


def _export(args: argparse.Namespace, folder: Path, model: str | None) -> int:
    from rich.progress import Progress

    from sb3_ext.inspect.episode import Wanted, play_for_page
    from sb3_ext.inspect.page import make_page
    from sb3_ext.runs.files import atomic_write
    from sb3_ext.runs.record import read_record

    target = Path(args.export)
    if target.suffix not in (".html", ".htm"):
        raise UsageError(f"--export {target}: a page's name must end with .html.")
    wanted = Wanted(model, args.seed, not args.stochastic, False, args.max_steps)
    messages: list[dict[str, Any]] = []
    with Progress(transient=True, disable=not sys.stdout.isatty()) as progress:
        task = progress.add_task("Playing", total=args.max_steps)
        for message in play_for_page(read_record(folder), wanted):
            messages.append(message)
            progress.update(task, advance=message.get("steps", 0))
    with atomic_write(target) as unfinished:
        unfinished.write_text(make_page({"episodes": [messages]}), encoding="utf-8")
    say(f"{target}: score {messages[-1]['score']:g} in {len(messages[-1]['end']['step'])} steps")
    return 0


def _serve(args: argparse.Namespace, folder: Path | None, model: str | None) -> int:
    try:
        import starlette  # noqa: F401
        import uvicorn
    except ImportError:
        raise UsageError('sb3-ext inspect needs more packages: pip install "sb3-ext[inspect]"') from None
    import secrets
    import threading
    import webbrowser

    from sb3_ext.inspect.server import LOOPBACK, make_app

    listener = _listen(args.host, args.port)
    token = None if args.host in LOOPBACK else secrets.token_urlsafe(16)
    shown = args.host if args.host in LOOPBACK else os.uname().nodename if args.host == "0.0.0.0" else args.host
    address = f"http://{f'[{shown}]' if ':' in shown else shown}:{listener.getsockname()[1]}/"
    address += "" if token is None else f"?token={token}"
    address += "" if model is None else f"#model={model}"
    if not Path(args.log_folder).is_dir():
        say(f"There is no folder {args.log_folder} yet: the playground works, and runs appear when a training starts.")
    print(f"Inspector: {address}  (Ctrl-C ends it)", flush=True)  # not `say`, which would mask the token
    threading.Thread(target=_import_early, daemon=True).start()
    if not args.no_browser:
        threading.Timer(0.5, webbrowser.open, [address]).start()
    app = make_app(Path(args.log_folder), folder, token)
    config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=1)
    try:
        uvicorn.Server(config).run(sockets=[listener])
    except KeyboardInterrupt:
        pass
    return 0


def _listen(host: str, port: int) -> Any:
    import socket

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen()
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"Port {port} of {host} can't be used: {reason}. Choose another one: --port 0") from None
    return listener


def _import_early() -> None:
    """RL Zoo takes seconds to import: the first episode should not wait for it."""
    import sb3_ext.inspect.episode  # noqa: F401
    from sb3_ext.zoo.load_run import import_rl_zoo

    import_rl_zoo()
