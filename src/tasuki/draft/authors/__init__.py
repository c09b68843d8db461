"""Ways of writing a draft, one file each."""
