"""Whether what a manifest describes exists on AWS as it says: facts are read at the edge and compared by pure rules."""
