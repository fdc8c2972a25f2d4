"""``sb3-ext tune``: Optuna studies whose best configuration is judged on several seeds and checked on fresh ones."""
