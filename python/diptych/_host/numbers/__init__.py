"""Numbers of the host that a trace records: they stay tensors as long as nobody needs their values.

A capture that holds for one number alone is of little use where the number goes straight back into a tensor, as in
x / total.item(). So item() of a floating-point tensor gives an OpenFloat. Operators take it as a tensor of the graph; arithmetic
with it is recorded; a comparison is asked for its truth, by which the capture is guarded. Everything else asks for the value.
See Note [Open numbers] in trace/host_numbers.h.
"""
