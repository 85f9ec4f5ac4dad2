"""The linear program over lift vectors, in floats: nothing in here is a proof of privacy."""
