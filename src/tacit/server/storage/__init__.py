"""What the service keeps: a database, a vault beside it, and how reports enter them."""
