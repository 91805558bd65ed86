"""The pipeline file: its model, the YAML loader with file:line:column errors, and its JSON schema.

`load_pipeline` reads a file, `pipeline_from_dict` reads plain Python data; both give the same frozen `Pipeline` or
raise `InvalidPipeline` with everything that is wrong. Nothing here knows plans or expressions: whether a column exists
or an expression types is found by the layers above, which ask `LoadedPipeline` for places in the file.
"""
