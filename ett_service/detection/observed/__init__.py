"""What attempts showed, as of any day: the values that the search compares."""
