"""Records to and from librdkafka as columns, and the digest of what was written."""
