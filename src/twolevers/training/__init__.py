"""Loss, optimizer, schedule, checkpoint, loop."""
