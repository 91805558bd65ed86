"""The pure decisions of a slot in its one attempt and its open epochs: no threads, no clock, no I/O. `slot.runtime` and
`worker.state.uploader` execute them."""
