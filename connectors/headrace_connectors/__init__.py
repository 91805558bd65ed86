"""The connectors that come with headrace, one package each. The platform finds them by entry point and never imports
them; they import only the contract, the formats and the vocabulary, and never each other."""
