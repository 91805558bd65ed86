"""Tests of the declared ranges of libraries: `make libraries` runs each with its lowest and its highest version."""
