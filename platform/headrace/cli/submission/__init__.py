"""`headrace submit` and `upgrade`: a pipeline on its way to a cluster, also to one that is made for it."""
