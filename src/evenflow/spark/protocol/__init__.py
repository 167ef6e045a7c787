"""What driver and tasks exchange through files and Spark; imports neither side."""
