"""Objects from files of users: found, read, repaired, taken apart, remembered."""
