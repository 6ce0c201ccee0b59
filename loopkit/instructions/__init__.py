"""Hardware instructions, one file each, with their texts; and tables of them."""
