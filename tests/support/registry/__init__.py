"""Schema registries of tests: a stand-in that answers as Confluent's, and a real Apicurio."""
