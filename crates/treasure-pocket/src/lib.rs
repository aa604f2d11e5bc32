//! The pocket models, embedded so that the binary works from any directory.
