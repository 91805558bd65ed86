"""librdkafka called through ctypes, whole batches at a time, without a Python object per record."""
