"""What the algorithms share, and what every layer may use: nothing here knows RL Zoo or one particular algorithm."""
