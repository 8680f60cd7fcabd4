//! Timestamps: a date is formatted once per second, in the local time zone.
use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::time::SystemTime;

/// One worker's formatted second.
#[derive(Debug)]
pub(super) struct LogClock {
    zone: TimeZone,
    second: Option<u64>,
    stamp: Stamp,
}

/// A time in the notations that the formats use.
#[derive(Debug, Default)]
pub(super) struct Stamp {
    /// `10/Oct/2000:13:55:36 -0700`
    pub combined: String,
    /// `2000-10-10T13:55:36`
    pub date_time: String,
    /// `-07:00`
    pub offset: String,
    /// Within the second.
    pub millisecond: u32,
}

impl LogClock {
    /// In the zone given by `TZ` or the system.
    pub fn new() -> Self {
        Self::in_zone(TimeZone::system())
    }

    pub fn in_zone(zone: TimeZone) -> Self {
        Self {
            zone,
            second: None,
            stamp: Stamp::default(),
        }
    }

    /// The stamp for `now`. A time before 1970 is shown as 1970.
    pub fn at(&mut self, now: SystemTime) -> &Stamp {
        let since_1970 = now
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let second = since_1970.as_secs();
        if self.second != Some(second) {
            self.second = Some(second);
            let timestamp = i64::try_from(second)
                .ok()
                .and_then(|second| Timestamp::from_second(second).ok());
            let zoned = timestamp
                .unwrap_or(Timestamp::UNIX_EPOCH)
                .to_zoned(self.zone.clone());
            self.stamp.combined = zoned.strftime("%d/%b/%Y:%H:%M:%S %z").to_string();
            self.stamp.date_time = zoned.strftime("%Y-%m-%dT%H:%M:%S").to_string();
            self.stamp.offset = zoned.strftime("%:z").to_string();
        }
        self.stamp.millisecond = since_1970.subsec_millis();
        &self.stamp
    }
}
