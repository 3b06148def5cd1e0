"""How the shop's handlers are tested: read them as a description of what the shop promises."""
