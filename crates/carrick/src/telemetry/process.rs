//! What the kernel says of this process: memory, descriptors, start.
