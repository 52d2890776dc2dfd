//! The recorded ranges: [`Timeline`].

use std::sync::Arc;

use serde::Serialize;

/// The value of a range's extra field.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// A count.
    Number(i64),
    /// Any other number.
    Float(f64),
    /// Yes or no.
    Flag(bool),
    /// Text.
    Text(Box<str>),
}

impl Value {
    /// Formats the value for a table.
    pub fn text(&self) -> String {
        match self {
            Value::Number(value) => value.to_string(),
            Value::Float(value) => value.to_string(),
            Value::Flag(value) => value.to_string(),
            Value::Text(value) => value.to_string(),
        }
    }
}

/// Work of one thread, from its start to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Range {
    /// The kind of work: `forward`, `transform`, ...
    pub name: &'static str,
    /// The detail of that kind: the range's field `name`.
    pub detail: Option<Arc<str>>,
    /// The other fields.
    pub fields: Vec<(&'static str, Value)>,
    /// The index of the thread in [`Timeline::threads`].
    pub thread: usize,
    /// The start, in nanoseconds since the start of the recording.
    pub start: u64,
    /// The duration in nanoseconds.
    pub nanos: u64,
    /// Bytes in use by the process at the start and at the end; 0 without a
    /// [probe](crate::measure_memory).
    pub memory: [u64; 2],
}

impl Range {
    /// The end, in nanoseconds since the start of the recording.
    pub fn end(&self) -> u64 {
        self.start + self.nanos
    }

    /// Kind and detail, as shown in tables and traces.
    pub fn label(&self) -> String {
        match &self.detail {
            Some(detail) => format!("{} {detail}", self.name),
            None => self.name.to_owned(),
        }
    }
}

/// All ranges of a recording, sorted by thread and start: a range comes after those that contain
/// it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeline {
    /// The ranges.
    pub ranges: Vec<Range>,
    /// The names of the threads.
    pub threads: Vec<String>,
    /// The recorded nanoseconds, without pauses.
    pub nanos: u64,
    /// The number of ranges dropped for lack of room.
    pub lost: u64,
}

impl Timeline {
    /// The ranges of the given kind.
    pub fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Range> {
        self.ranges.iter().filter(move |range| range.name == name)
    }

    /// For each range in order, the time that its thread spent in it, but in no range within it.
    pub fn own_nanos(&self) -> Vec<u64> {
        let mut own: Vec<u64> = self.ranges.iter().map(|range| range.nanos).collect();
        let mut open: Vec<usize> = Vec::new();
        for (place, range) in self.ranges.iter().enumerate() {
            while let Some(around) = open.last() {
                let outer = &self.ranges[*around];
                if outer.thread == range.thread && outer.end() >= range.end() && outer.start <= range.start {
                    own[*around] = own[*around].saturating_sub(range.nanos);
                    break;
                }
                open.pop();
            }
            open.push(place);
        }
        own
    }

    pub(crate) fn sort(&mut self) {
        // Of two ranges with the same start, the longer one contains the other.
        self.ranges.sort_by(|a, b| (a.thread, a.start, b.nanos).cmp(&(b.thread, b.start, a.nanos)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(name: &'static str, thread: usize, start: u64, nanos: u64) -> Range {
        Range { name, detail: None, fields: Vec::new(), thread, start, nanos, memory: [0; 2] }
    }

    #[test]
    fn time_within_other_ranges_is_not_a_ranges_own() {
        let ranges = vec![
            range("loss", 0, 60, 10),
            range("iteration", 0, 0, 100),
            range("forward", 0, 0, 50),
            range("conv", 0, 10, 20),
            range("batch", 1, 5, 70),
            range("iteration", 0, 100, 30),
        ];
        let mut timeline = Timeline { ranges, threads: vec!["a".into(), "b".into()], nanos: 130, lost: 0 };
        timeline.sort();
        let own: Vec<(&str, u64)> = timeline.ranges.iter().map(|range| range.name).zip(timeline.own_nanos()).collect();
        let expected =
            [("iteration", 40), ("forward", 30), ("conv", 20), ("loss", 10), ("iteration", 30), ("batch", 70)];
        assert_eq!(own, expected);
        // Every nanosecond of a thread is one range's own.
        assert_eq!(own.iter().map(|(_, nanos)| nanos).sum::<u64>(), 130 + 70);
    }
}
