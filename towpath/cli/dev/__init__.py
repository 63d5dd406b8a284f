"""``towpath dev``: workers on a database beside the code that is being written, and what becomes of deliveries."""
