//! The order of frames on one connection between two carricks: what may come, what it means, and when the connection is at rest.
//!
//! Each way of a relayed connection ends with exactly one END, or with RESET (which REFUSED stands for, from the far end). RESET may also
//! follow END, while the other way goes on; then the two can cross on the link, and it comes when its relayed connection is over
//! for who gets it. It is known by its number, and means nothing then.
use super::{ErrorCode, Frame};
use std::net::SocketAddr;

/// One way of the relayed connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The far end has not said yet whether the server has accepted.
    Unanswered,
    /// DATA may come.
    Flowing,
    /// END has come.
    Ended,
    /// RESET or REFUSED has come.
    Reset,
}

impl Way {
    fn is_over(self) -> bool {
        matches!(self, Self::Ended | Self::Reset)
    }
}

/// What a frame that came means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A connection is to be relayed; the frame says which.
    Open,
    /// The server has accepted.
    Opened(SocketAddr),
    /// It has not; RESET is to be sent, unless the own way is over.
    Refused(ErrorCode),
    /// So many bytes follow.
    Data(u32),
    /// They follow, and are dropped: this direction was reset.
    Unwanted(u32),
    /// Nothing more comes this way.
    End,
    /// Nothing more comes this way; RESET is to be sent, unless the own way is over.
    Reset(ErrorCode),
    /// Nothing: it is about a relayed connection that is over.
    Nothing,
}

/// What was said about the present relayed connection, or the last one.
#[derive(Debug, Clone)]
pub struct ConnectionState {
    opens: bool,
    number: u32,
    ours: Way,
    theirs: Way,
}

impl ConnectionState {
    /// Of the end that opens relayed connections, or of the other one.
    #[must_use]
    pub fn new(opens: bool) -> Self {
        Self {
            opens,
            number: 0,
            ours: Way::Ended,
            theirs: Way::Ended,
        }
    }

    /// The number of the relayed connection; 0: there was none yet.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Whether another connection may be relayed: nothing of the last one is to come that means anything.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        self.ours.is_over() && self.theirs.is_over()
    }

    /// Whether nothing more is to be sent but RESET.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ours.is_over()
    }

    /// Whether RESET may be sent, or has to be.
    #[must_use]
    pub fn may_reset(&self) -> bool {
        self.ours != Way::Reset && !self.is_at_rest()
    }

    /// Whether DATA may be sent.
    #[must_use]
    pub fn may_send(&self) -> bool {
        self.ours == Way::Flowing
    }

    /// OPEN is about to be sent: its number. `None`: another connection is needed for it.
    pub fn open(&mut self) -> Option<u32> {
        if !self.opens || !self.is_at_rest() {
            return None;
        }
        self.number = self.number.checked_add(1)?;
        (self.ours, self.theirs) = (Way::Flowing, Way::Unanswered);
        Some(self.number)
    }

    /// The frame that says that the server has accepted.
    pub fn opened(&mut self, server: SocketAddr) -> Frame {
        debug_assert_eq!(self.ours, Way::Unanswered);
        self.ours = Way::Flowing;
        Frame::Opened {
            number: self.number,
            server,
        }
    }

    /// The frame that says that it has not.
    pub fn refused(&mut self, why: ErrorCode) -> Frame {
        debug_assert_eq!(self.ours, Way::Unanswered);
        self.ours = Way::Reset;
        Frame::Refused {
            number: self.number,
            why,
        }
    }

    /// The frame that ends the own way.
    pub fn end(&mut self) -> Frame {
        debug_assert_eq!(self.ours, Way::Flowing);
        self.ours = Way::Ended;
        Frame::End
    }

    /// The frame that gives the relayed connection up. Only if it [may be sent](ConnectionState::may_reset).
    pub fn reset(&mut self, why: ErrorCode) -> Frame {
        debug_assert!(self.may_reset());
        self.ours = Way::Reset;
        Frame::Reset {
            number: self.number,
            why,
        }
    }

    /// Processes a received frame, and returns what it means.
    ///
    /// # Errors
    /// It must not come now; the connection is to be given up.
    pub fn came(&mut self, frame: &Frame) -> Result<Event, &'static str> {
        match frame {
            Frame::Hello { .. } => Err("HELLO comes only once"),
            Frame::Open { number, .. } => {
                if self.opens {
                    return Err("only who has opened the connection sends OPEN");
                }
                if !self.is_at_rest() {
                    return Err("OPEN comes while another connection is relayed");
                }
                if Some(*number) != self.number.checked_add(1) {
                    return Err("OPEN has another number than the next");
                }
                self.number = *number;
                (self.ours, self.theirs) = (Way::Unanswered, Way::Flowing);
                Ok(Event::Open)
            }
            Frame::Opened { number, server } => {
                self.expect_answer(*number)?;
                self.theirs = Way::Flowing;
                Ok(Event::Opened(*server))
            }
            Frame::Refused { number, why } => {
                self.expect_answer(*number)?;
                self.theirs = Way::Reset;
                Ok(Event::Refused(*why))
            }
            Frame::Data(bytes) => match (self.theirs, self.ours) {
                (Way::Flowing, Way::Reset) => Ok(Event::Unwanted(*bytes)),
                (Way::Flowing, _) => Ok(Event::Data(*bytes)),
                _ => Err("DATA comes before OPENED, or after the end"),
            },
            Frame::End => {
                if self.theirs != Way::Flowing {
                    return Err("END comes before OPENED, or after the end");
                }
                self.theirs = Way::Ended;
                Ok(Event::End)
            }
            Frame::Reset { number, why } => match number.cmp(&self.number) {
                std::cmp::Ordering::Greater => Err("RESET has a number that is not known"),
                std::cmp::Ordering::Less => Ok(Event::Nothing),
                std::cmp::Ordering::Equal if self.theirs == Way::Reset => {
                    Err("RESET comes only once")
                }
                std::cmp::Ordering::Equal => {
                    let is_over = self.is_at_rest();
                    self.theirs = Way::Reset;
                    Ok(if is_over {
                        Event::Nothing
                    } else {
                        Event::Reset(*why)
                    })
                }
            },
        }
    }

    fn expect_answer(&self, number: u32) -> Result<(), &'static str> {
        if self.opens && self.theirs == Way::Unanswered && number == self.number {
            Ok(())
        } else {
            Err("an answer comes that nobody waits for")
        }
    }
}
