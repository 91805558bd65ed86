"""What authors of pipelines and of connectors test with: public, and as stable as the contracts themselves."""
