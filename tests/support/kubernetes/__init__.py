"""Real Kubernetes for tests: its programs, built from Go modules, and a control plane that runs on loopback."""
