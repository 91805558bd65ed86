"""The reference of connectors, formats and steps: pages that are written from the models."""
