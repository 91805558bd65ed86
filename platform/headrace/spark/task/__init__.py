"""The code of a Spark task: the chain of a plan task, its state, its staged output, its report."""
