"""Messages and tensors between driver, referee and contestant; owned by neither side."""
