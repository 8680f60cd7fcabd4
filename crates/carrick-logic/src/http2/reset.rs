//! Codes with which streams are reset (RFC 9113 section 7): which of a server's its client is told.

const INTERNAL_ERROR: u32 = 2;
const CANCEL: u32 = 8;
const ENHANCE_YOUR_CALM: u32 = 11;

/// The code for a client whose response a server has cut off with `code`. The others speak of the connection between proxy and
/// server. `NO_ERROR` and `REFUSED_STREAM` cannot be true of a response that has begun and is not whole.
#[must_use]
pub fn reset_for_client(code: u32) -> u32 {
    match code {
        CANCEL | ENHANCE_YOUR_CALM => code,
        _ => INTERNAL_ERROR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_that_speak_of_the_request_are_passed_on() {
        for code in 0..20 {
            let expected = match code {
                8 | 11 => code,
                _ => 2,
            };
            assert_eq!(reset_for_client(code), expected);
        }
    }
}
