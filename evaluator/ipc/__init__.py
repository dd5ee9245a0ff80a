"""Messages and tensors between driver, referee and contestant; owned by none of them."""
