"""Code for other libraries, imported only when it is asked for."""
