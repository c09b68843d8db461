"""What the page of one agent is made of."""
