"""Parts of the control plane in this process: servers, dispatchers, drivers, slots, transcripts of the job machine."""
