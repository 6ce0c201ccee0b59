"""Hardware instructions with their code in each target, and tables of them."""
