"""The processes of a simulated cluster: coordinator, workers, slots, connector hosts, and what runs in them."""
