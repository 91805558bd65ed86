"""Tables of keyed state: typed columns under a key, as recent rows and sorted runs."""
