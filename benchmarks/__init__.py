"""Speed, memory and start-up, measured against plain C and against other libraries."""
