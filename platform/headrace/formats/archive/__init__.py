"""The archive of Kafka topics: each partition's history as Parquet files that any tool can read.

    names      file names, and the guarantees that they encode (pure)
    ranges     the files to read from a position on (pure)
    coverage   whether a range can be read without a hole (pure)
    schema     columns and footer of a file
    folder     listing, opening and putting files; the only module here that knows fsspec
    building   rows to the bytes of one file
    reading    one file, from a position on
    partition  one partition, from a position on, over all its files

Must not know Kafka clients and pipelines: the connectors `kafka` and `archive` and the command line do.
"""
