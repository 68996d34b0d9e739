"""What can be asked of a server, one file for each kind of question."""
