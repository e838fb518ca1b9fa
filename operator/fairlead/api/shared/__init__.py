"""What the resources share: the base of their models, field types, quantities, schema keywords and errors."""
