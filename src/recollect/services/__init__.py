"""What the product does: one package per area, each operation of the catalogue a function in one of them."""
