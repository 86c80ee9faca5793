"""Language models: models that propose; what they say is fenced on the way in and checked on the way out."""
