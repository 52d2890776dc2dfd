//! The server's last log lines: [`Journal`].

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::SystemTime;

/// The number of lines that are kept.
const KEPT: usize = 1000;

/// The target of messages that users see without an option (`hearth_engine::NOTICE_TARGET`).
const NOTICE_TARGET: &str = "hearth::notice";

/// The last log lines, for `/logs/`. They are also printed. No line contains the name of a
/// file or patient.
#[derive(Debug, Default)]
pub struct Journal(Mutex<VecDeque<String>>);

impl Journal {
    /// Adds a line.
    pub fn say(&self, line: &str) {
        let line = format!("{} {line}", clock(SystemTime::now()));
        tracing::info!(target: NOTICE_TARGET, "{line}");
        let mut lines = self.0.lock().unwrap_or_else(|held| held.into_inner());
        if lines.len() == KEPT {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    /// The last `count` lines.
    pub fn last(&self, count: usize) -> String {
        let lines = self.0.lock().unwrap_or_else(|held| held.into_inner());
        let skipped = lines.len().saturating_sub(count);
        lines.iter().skip(skipped).flat_map(|line| [line.as_str(), "\n"]).collect()
    }
}

/// Seconds since 1970.
pub fn unix(at: SystemTime) -> u64 {
    at.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// A time as `2026-01-31T23:59:59Z`.
pub fn clock(at: SystemTime) -> String {
    let seconds = unix(at);
    let (days, rest) = (seconds / 86400, seconds % 86400);
    // Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms": civil_from_days.
    let z = days + 719_468;
    let (era, of_era) = (z / 146_097, z % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (4_102_444_800, "2100-01-01T00:00:00Z"),
        ] {
            assert_eq!(clock(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)), expected);
        }
    }

    #[test]
    fn the_last_lines_are_kept() {
        let journal = Journal::default();
        (0..KEPT + 5).for_each(|i| journal.say(&format!("line {i}")));
        assert_eq!(journal.last(usize::MAX).lines().count(), KEPT);
        assert!(journal.last(1).trim_end().ends_with(&format!("line {}", KEPT + 4)));
    }
}
