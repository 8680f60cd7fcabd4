//! Character classes of RFC 9110 section 5.6 and RFC 9112.
