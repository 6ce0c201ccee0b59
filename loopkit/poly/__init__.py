"""Integer sets and relations: the only package that imports islpy."""
