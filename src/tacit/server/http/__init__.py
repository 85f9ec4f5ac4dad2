"""What the service answers over HTTP: routes, messages, and what is let in."""
