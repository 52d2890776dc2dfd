//! A run's curves in a fixed amount of memory: [`Track`].

use super::columns::Row;

/// The largest number of points of a curve, which exceeds the number of columns of a picture.
const MOST: usize = 2048;

/// The rows of a time span.
#[derive(Clone, Debug)]
pub(super) struct Bin {
    pub part: u64,
    rows: f64,
    times: f64,
    /// The cell of each column.
    cells: Vec<Cell>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    count: f64,
    sum: f64,
    min: f64,
    max: f64,
}

/// A value of a curve over a time span.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub at: f64,
    /// The length of the time span.
    pub seconds: f64,
    pub mean: f64,
    pub min: f64,
    pub max: f64,
    /// The process; a line joins consecutive points of one process.
    pub part: u64,
}

/// All columns over time. When there is no room for more, neighbours are merged; their minima and
/// maxima are kept.
#[derive(Debug)]
pub(super) struct Track {
    width: f64,
    bins: Vec<Option<Bin>>,
}

impl Track {
    /// A track of rows at an interval of `width` seconds.
    pub(super) fn new(width: f64) -> Self {
        Self { width, bins: Vec::new() }
    }

    pub(super) fn row(&mut self, row: &Row) {
        while row.at / self.width >= MOST as f64 {
            self.halve();
        }
        let index = (row.at.max(0.0) / self.width) as usize;
        if self.bins.len() <= index {
            self.bins.resize(index + 1, None);
        }
        let cells = row.values.iter().map(|value| value.map_or_else(Cell::default, Cell::of)).collect();
        let bin = Bin { part: row.part, rows: 1.0, times: row.at, cells };
        join(&mut self.bins[index], Some(bin));
    }

    fn halve(&mut self) {
        self.width *= 2.0;
        let mut bins = std::mem::take(&mut self.bins).into_iter();
        while let Some(mut first) = bins.next() {
            join(&mut first, bins.next().flatten());
            self.bins.push(first);
        }
    }

    /// The curve of a column, in at most `most` points.
    pub(super) fn points(&self, column: usize, most: usize) -> impl Iterator<Item = Point> + '_ {
        let size = self.bins.len().div_ceil(most.max(1)).max(1);
        self.bins.chunks(size).filter_map(move |bins| {
            // A point that spans two processes belongs to the later one.
            let part = bins.iter().flatten().last()?.part;
            let (mut cell, mut rows, mut times) = (Cell::default(), 0.0, 0.0);
            for bin in bins.iter().flatten() {
                cell = cell.and(bin.cells.get(column).copied()?);
                rows += bin.rows;
                times += bin.times;
            }
            let Cell { count, sum, min, max } = cell;
            let seconds = size as f64 * self.width;
            (count > 0.0).then(|| Point { at: times / rows, seconds, mean: sum / count, min, max, part })
        })
    }
}

fn join(bin: &mut Option<Bin>, other: Option<Bin>) {
    let Some(bin) = bin else {
        *bin = other;
        return;
    };
    let Some(other) = other else { return };
    bin.rows += other.rows;
    bin.times += other.times;
    for (cell, more) in bin.cells.iter_mut().zip(other.cells) {
        *cell = cell.and(more);
    }
    // A curve is not joined across processes; a bin that spans two belongs to the later one.
    bin.part = other.part;
}

impl Cell {
    fn of(value: f64) -> Self {
        Self { count: 1.0, sum: value, min: value, max: value }
    }

    fn and(self, more: Self) -> Self {
        if self.count == 0.0 {
            return more;
        }
        if more.count == 0.0 {
            return self;
        }
        Self {
            count: self.count + more.count,
            sum: self.sum + more.sum,
            min: self.min.min(more.min),
            max: self.max.max(more.max),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine_monitor::phases::Phase;

    fn row(at: f64, part: u64, value: Option<f64>) -> Row {
        Row { part, at, unix: 0.0, epoch: 0, phase: Phase::Training, values: vec![value] }
    }

    #[test]
    fn a_long_run_keeps_its_peak_and_its_mean() {
        let mut track = Track::new(1.0);
        let count = 100_000;
        for second in 0..count {
            let value = if second == 77_777 { 900.0 } else { f64::from(second % 2) };
            track.row(&row(f64::from(second), 1, Some(value)));
        }
        let points: Vec<Point> = track.points(0, usize::MAX).collect();
        assert!(points.len() <= MOST && points.len() > MOST / 2, "{}", points.len());
        let peak = points.iter().max_by(|a, b| a.max.total_cmp(&b.max)).unwrap();
        assert!((peak.at - 77_777.0).abs() <= track.width && peak.max == 900.0, "{peak:?}");
        assert!(points[0].min == 0.0 && points[0].max == 1.0 && points[0].mean == 0.5);
        // The same in fewer points.
        let fewer: Vec<Point> = track.points(0, 10).collect();
        assert!(fewer.len() <= 10 && fewer.iter().filter(|point| point.max == 900.0).count() == 1, "{fewer:?}");
    }

    #[test]
    fn a_short_run_keeps_its_rows() {
        let mut track = Track::new(1.0);
        for (at, part, value) in [(0.0, 1, None), (1.25, 1, Some(3.0)), (2.5, 1, Some(-1.0)), (7.0, 2, Some(2.0))] {
            track.row(&row(at, part, value));
        }
        let points: Vec<_> = track.points(0, 100).map(|point| (point.at, point.mean, point.max, point.part)).collect();
        assert_eq!(points, [(1.25, 3.0, 3.0, 1), (2.5, -1.0, -1.0, 1), (7.0, 2.0, 2.0, 2)]);
        assert_eq!(track.points(1, 100).count(), 0);
    }
}
