"""The quickstart: one handler that reads documents and writes down what it found."""
