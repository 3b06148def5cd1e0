"""Sources of events: how to recognise them, and the units of work in their events."""
