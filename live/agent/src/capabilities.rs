//! What the kernel gives.
