"""Tools that play a saved agent. They load its model, which is a pickle: the user must trust the log folder."""

from typing import Annotated

from mcp.server.mcpserver import Image
from pydantic import Field

from sb3_ext.mcp.access import Access
from sb3_ext.mcp.helper import Helper
from sb3_ext.mcp.inside import find_inside
from sb3_ext.mcp.jobs import episode_rows, screenshot
from sb3_ext.mcp.parameters import RunOrModel, Seed
from sb3_ext.mcp.read_tools import MAX_CHARS
from sb3_ext.runs.find_run import split_checkpoint

__all__ = ["PlayTools"]


class PlayTools:
    """Each public method is a tool; its docstring is the description."""

    def __init__(self, access: Access, helper: Helper) -> None:
        self._access = access
        self._helper = helper

    def sample_episode(
        self,
        run: RunOrModel,
        seed: Seed = 0,
        first_row: Annotated[int, Field(ge=0, description="Where the page starts")] = 0,
        n_rows: Annotated[int, Field(ge=1, le=200)] = 50,
        columns: Annotated[list[str] | None, Field(max_length=50, description="Only these; default: all")] = None,
    ) -> str:
        """Play an episode with a saved agent and read it step by step, as CSV: observation, action, probabilities or
        Q values of the actions, entropy, reward, value, return, advantage, TD error. The same seed gives the same
        episode, so long ones can be read page by page."""
        folder, model = self._find(run)
        return self._helper.call(episode_rows, folder, model, seed, first_row, n_rows, columns or [], MAX_CHARS)

    def take_screenshot(
        self,
        run: RunOrModel,
        step: Annotated[int, Field(ge=0, le=9_999, description="Row of sample_episode with the same seed")] = 0,
        seed: Seed = 0,
    ) -> Image:
        """Take a picture of a frame of the episode that sample_episode shows: what is seen before the action of this
        step."""
        return Image(data=self._helper.call(screenshot, *self._find(run), seed, step), format="png")

    def _find(self, name: str) -> tuple[str, str | None]:
        run, model = split_checkpoint(name)
        return str(find_inside(run, self._access.log_folder)), model
