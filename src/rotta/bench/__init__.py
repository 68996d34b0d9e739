"""How fast the methods are: ``rotta bench``. Measured in one process, in turns, on equal inputs."""
