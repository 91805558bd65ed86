"""The pipeline file: its model, the YAML loader with file:line:column errors, and its JSON schema.

`load_pipeline` reads a file, `pipeline_from_dict` reads plain Python data; both return the same frozen `Pipeline` or
raise `InvalidPipelineError` with every problem. Knows neither plans nor expressions: the layers above check columns and
types, and look up places in the file through `LoadedPipeline`.
"""
