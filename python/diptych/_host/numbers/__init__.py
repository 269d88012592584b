"""Numbers of the host that a trace records: they stay tensors of the graph as long as nobody needs their values."""
