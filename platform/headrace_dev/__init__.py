"""Tools for development in the same wheel: an embedded Kafka broker and the demo. The engine does not import them."""
