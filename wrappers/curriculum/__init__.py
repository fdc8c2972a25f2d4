"""Curricula: the stages of a training, and the environment that plays them."""
