"""The verbs of steps, one module each: the model, its file form and its example. `table` lists them."""
