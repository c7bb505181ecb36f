"""What tests build: one module for each thing, so that none of them is built in two ways."""
