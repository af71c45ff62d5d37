"""Labels around blocks, functions and modules."""
