"""What a kernel does and may do: accesses, dependences, legality, shapes. Functions of values passed in."""
