"""What tests build: a module for each, so that none is built in two ways."""
