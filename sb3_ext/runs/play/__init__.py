"""Playing agents: scores, tables of episodes, videos and films, games with keys, and grids over parameters."""
