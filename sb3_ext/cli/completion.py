"""``sb3-ext completion SHELL``: a script for the shell, which asks this program for the words that can follow."""

import argparse
import itertools
import re
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

from sb3_ext.runs.registry import LOG_FOLDER, Registry

__all__ = ["EPILOG", "add_arguments", "candidates", "run"]

EPILOG = """examples:
  source <(sb3-ext completion bash)                                       for this bash; put it into ~/.bashrc
  source <(sb3-ext completion zsh)                                        for this zsh; put it into ~/.zshrc
  sb3-ext completion fish > ~/.config/fish/completions/sb3-ext.fish       for fish

Completes commands, options, runs (of -f or logs/), environment ids with tuned hyperparameters, and algorithms.
"""
_SCRIPTS = {
    "bash": """_sb3_ext() {
    local IFS=$'\\n'
    COMPREPLY=($(sb3-ext completion words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _sb3_ext sb3-ext
""",
    "zsh": """#compdef sb3-ext
_sb3_ext() {
    local -a found
    found=("${(@f)$(sb3-ext completion words -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    found=(${found:#})
    if (( $#found )); then compadd -a found; else _files; fi
}
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }
compdef _sb3_ext sb3-ext
""",
    "fish": """function __sb3_ext
    sb3-ext completion words -- (commandline -opc)[2..] (commandline -ct) 2>/dev/null
end
complete -c sb3-ext -a '(__sb3_ext)'
""",
}
#: What stands for a run or an environment in a usage
_RUN, _ENV = ("RUN", "RUN[@CHECKPOINT]"), ("ENV",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=[*_SCRIPTS, "words"], help="bash, zsh or fish; the scripts use `words`")
    parser.add_argument("typed", metavar="WORD", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    if args.shell in _SCRIPTS:
        print(_SCRIPTS[args.shell], end="")
    else:
        typed = args.typed[1:] if args.typed[:1] == ["--"] else args.typed
        print("".join(f"{word}\n" for word in candidates(typed)), end="")
    return 0


def candidates(typed: list[str]) -> list[str]:
    """Words that can stand in place of the last one, which may be empty or incomplete."""
    from sb3_ext.cli.main import COMMANDS, make_parser

    *before, current = typed or [""]
    if not before:
        return _starting(current, [*COMMANDS, "--help", "--version"])
    if before[0] not in COMMANDS:
        return []
    parser: argparse.ArgumentParser = make_parser(before[0], import_module(f"sb3_ext.cli.{before[0]}"))
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            parser = next((action.choices[word] for word in before[1:] if word in action.choices), parser)
    flags = parser._option_string_actions
    option = next((flags[word] for word in reversed(before) if word.startswith("-") and word in flags), None)
    takes_many = option is not None and option.nargs in ("+", "*")
    if option is not None and option.nargs != 0 and (before[-1] in option.option_strings or takes_many):
        return _starting(current, _values(option, before))
    if current.startswith("-"):
        return _starting(current, flags)
    positionals = [action for action in parser._actions if not action.option_strings]
    return _starting(current, [word for action in positionals for word in _values(action, before)])


def _values(action: argparse.Action, before: list[str]) -> Iterable[str]:
    if action.choices is not None:
        return action.choices
    if action.metavar == "RUN|ENV":
        return [*_runs(before), *_env_ids()]
    if action.metavar in _RUN or action.dest == "init_from":
        return _runs(before)
    if action.metavar in _ENV or action.dest == "env":
        return _env_ids()
    if action.dest == "algo":
        from sb3_ext.zoo.command_line import algorithms

        return algorithms()
    return ()


def _runs(before: list[str]) -> list[str]:
    """Paths from here, as other completions have them, and the names that stand for a run."""
    given = [value for flag, value in itertools.pairwise(before) if flag in ("-f", "--log-folder")]
    folder = Path(given[-1] if given else LOG_FOLDER)
    return ["@last", "@best", *(str(folder / entry["folder"]) for entry in Registry(folder).entries())]


def _env_ids() -> list[str]:
    """Those with a section in a hyperparameter file: importing Gymnasium, or reading YAML, takes too long."""
    from sb3_ext import hyperparams
    from sb3_ext.zoo.upstream import GENERAL_SECTIONS, hyperparams_folder

    files = [
        path for place in (Path(hyperparams.__file__).parent, hyperparams_folder()) for path in place.glob("*.yml")
    ]
    texts = [path.read_text(encoding="utf-8") for path in files]
    found = {name for text in texts for name in re.findall(r"^['\"]?([\w./-]+)['\"]?:", text, re.MULTILINE)}
    return sorted(found - set(GENERAL_SECTIONS))


def _starting(current: str, words: Iterable[str]) -> list[str]:
    return [word for word in dict.fromkeys(words) if word.startswith(current)]
