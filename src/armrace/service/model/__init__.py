"""What an experiment is: the replay of its events, without any input or output."""
