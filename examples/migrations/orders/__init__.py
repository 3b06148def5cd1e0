"""An order API (REST), with a resolver of Powertools."""
