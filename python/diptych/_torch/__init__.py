"""What takes the place of torch's own functions in a trace: its checkpoint, higher-order operators, batch_norm and the rest."""
