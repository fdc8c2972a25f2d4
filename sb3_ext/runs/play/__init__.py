"""Playing agents: scores, tables of episodes, videos, and grids over an environment's parameters."""
