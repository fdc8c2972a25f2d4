"""Prompts for language models, one Markdown file each: what to do with the runs that follow below it."""

from pathlib import Path

from sb3_ext.common.names import nearest
from sb3_ext.common.usage_error import UsageError
from sb3_ext.runs.plain_files import read_small_text

__all__ = ["prompt_names", "read_prompt"]

_FOLDER = Path(__file__).parent


def prompt_names() -> list[str]:
    return sorted(path.stem for path in _FOLDER.glob("*.md"))


def read_prompt(name: str) -> str:
    """
    :param name: one of :func:`prompt_names`, or a file
    :raises UsageError: when there is no such prompt, or it can't be read
    """
    path = _FOLDER / f"{name}.md" if name in prompt_names() else Path(name)
    problems: list[str] = []
    text = read_small_text(path, problems)
    if problems:
        raise UsageError(f"--prompt {name}: {problems[0]}")
    if text is None:
        raise UsageError(f"--prompt {name}: there is no such file, and no such prompt: {nearest(name, prompt_names())}")
    if not text.strip():
        raise UsageError(f"--prompt {name}: the file is empty.")
    return text.strip()
