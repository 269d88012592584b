"""What functions do on the host while they are traced, and tensors that they keep there between calls."""
