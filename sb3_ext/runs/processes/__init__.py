"""Work in other processes: a queue of jobs, and the interpreter that runs them."""
