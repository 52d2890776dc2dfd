//! The picture `machine.png`: curves over time, and the phases of the run below them.

use hearth_machine::About;
use hearth_pictures::colours::{self, BACKGROUND, CURVE, FAINT, GRID, TEXT};
use hearth_pictures::{Canvas, Rgb, axis, text};

use super::columns::{self, PACKAGES};
use super::phases::Phase;
use super::record::Record;

const WIDTH: usize = 1280;
const LEFT: usize = 90;
const RIGHT: usize = 30;
const TOP: usize = 70;
/// The height of the curves of a panel, below its title.
const PANEL: usize = 96;
const TITLE: usize = 30;
const GAP: usize = 18;
/// The height of a strip of the band.
const STRIP: usize = 24;
/// The largest number of curves that a panel lists by name.
const NAMED: usize = 9;
/// The largest number of points of a curve. In a long run each is the mean of a time span, drawn
/// over a dim range from minimum to maximum.
const POINTS: usize = 580;

/// The colour of a restart: the end of a process, and the beginning of the one that resumes the
/// run.
const RESUMED: Rgb = [255, 80, 80];

/// The colours of phases.
fn colour_of(phase: Phase) -> Rgb {
    match phase {
        Phase::Start => [120, 120, 128],
        Phase::Training => CURVE,
        Phase::Validation => colours::of_class(1),
        Phase::Checkpoint => colours::of_class(7),
        Phase::Off => BACKGROUND,
    }
}

/// A curve of a panel.
struct Curve {
    name: String,
    column: usize,
    colour: Rgb,
}

/// Curves with one unit.
struct Panel {
    title: &'static str,
    /// The number by which values are divided: the size of the unit.
    unit: f64,
    /// The upper end of the axis, if it is known.
    upper: Option<f64>,
    curves: Vec<Curve>,
}

/// The panels that have values.
fn panels(record: &Record) -> Vec<Panel> {
    let measured = |name: &str| {
        let column = record.names.iter().position(|other| other == name)?;
        record.sums.stats[column].map(|_| column)
    };
    let own = |title, unit, curves: &[(&str, &str, Rgb)]| {
        let curves = curves.iter().filter_map(|(column, name, colour)| {
            Some(Curve { name: (*name).to_owned(), column: measured(column)?, colour: *colour })
        });
        Panel { title, unit, upper: None, curves: curves.collect() }
    };
    let gpus = |title, unit, upper, what: &str| {
        let of = record.names.iter().filter_map(|name| columns::of_gpu(name).filter(|(_, rest)| *rest == what));
        let curves = of.filter_map(|(number, _)| {
            let column = measured(&format!("gpu{number}_{what}"))?;
            Some(Curve { name: format!("GPU {number}"), column, colour: colours::of_class(number + 1) })
        });
        Panel { title, unit, upper, curves: curves.collect() }
    };
    let orange = colours::of_class(1);
    let mut power = gpus("Power, W", 1.0, None, "power_w");
    power.curves.extend(measured(PACKAGES).map(|column| Curve {
        name: "processors".to_owned(),
        column,
        colour: CURVE,
    }));
    let gib = f64::from(1 << 30);
    let all = vec![
        own("CPU, % of one core", 1.0, &[("process_cpu_percent_of_core", "process", CURVE)]),
        own(
            "Memory, GiB",
            gib,
            &[("process_memory_bytes", "process", CURVE), ("machine_free_memory_bytes", "free in the machine", orange)],
        ),
        own(
            "Disk, MB/s",
            1e6,
            &[("process_read_bytes_per_s", "read", CURVE), ("process_written_bytes_per_s", "written", orange)],
        ),
        gpus("GPU in use, % of the time", 1.0, Some(100.0), "utilisation_percent"),
        gpus("GPU memory, GiB", gib, None, "memory_bytes"),
        power,
        gpus("Temperature, °C", 1.0, None, "temperature_c"),
        gpus("Clock of multiprocessors, MHz", 1.0, None, "sm_clock_mhz"),
        gpus("Clock of memory, MHz", 1.0, None, "memory_clock_mhz"),
    ];
    all.into_iter().filter(|panel| !panel.curves.is_empty()).collect()
}

/// Converts seconds to pixels.
struct Across {
    end: f64,
}

impl Across {
    fn place(&self, seconds: f64) -> f64 {
        LEFT as f64 + (seconds / self.end).clamp(0.0, 1.0) * (WIDTH - RIGHT - LEFT) as f64
    }

    /// The name of the axis unit, and its seconds.
    fn unit(&self) -> (&'static str, f64) {
        match self.end {
            end if end < 300.0 => ("seconds", 1.0),
            end if end < 3.0 * 3600.0 => ("minutes", 60.0),
            _ => ("hours", 3600.0),
        }
    }
}

/// Draws a run.
pub(super) fn picture(record: &Record, about: &About) -> Canvas {
    let panels = panels(record);
    let end = record.last.as_ref().map_or(0.0, |row| row.at);
    let across = Across { end: if end > 0.0 { end } else { 1.0 } };
    let band = TOP + panels.len() * (TITLE + PANEL + GAP);
    let mut canvas = Canvas::new(WIDTH, band + 2 * STRIP + 124, BACKGROUND);
    canvas.text(LEFT, 12, text::TITLE, TEXT, "The machine during the run");
    canvas.text(LEFT, 38, text::SMALL, FAINT, &machine(about));
    let bottom = band + 2 * STRIP + 4;
    let tops: Vec<usize> = (0..panels.len()).map(|number| TOP + TITLE + number * (TITLE + PANEL + GAP)).collect();
    time_axis(&mut canvas, &across, &tops, bottom);
    for (panel, top) in panels.iter().zip(&tops) {
        panel.draw(&mut canvas, record, &across, *top);
    }
    for at in &record.resumed {
        let x = across.place(*at) as usize;
        tops.iter().for_each(|top| canvas.fill(x, *top, 2, PANEL, RESUMED));
    }
    epochs(&mut canvas, record, &across, band);
    phases(&mut canvas, record, &across, band + STRIP + 4);
    legend(&mut canvas, record, bottom + 58);
    canvas
}

/// A line that describes the machine.
fn machine(about: &About) -> String {
    let mut words = vec![format!("{} cores", about.cores)];
    words.extend(about.memory.map(|bytes| format!("{:.0} GiB", bytes as f64 / f64::from(1 << 30))));
    let mut first = 0;
    for equal in about.gpus.chunk_by(|a, b| a.name == b.name) {
        let last = first + equal.len() - 1;
        let numbers = if last > first { format!("{first} to {last}") } else { first.to_string() };
        words.push(format!("GPU {numbers}: {}", equal[0].name));
        first = last + 1;
    }
    let line = words.join("   ");
    text::wrap(text::SMALL, &line, WIDTH - LEFT - RIGHT).swap_remove(0)
}

fn time_axis(canvas: &mut Canvas, across: &Across, panels: &[usize], bottom: usize) {
    let (unit, seconds) = across.unit();
    let step = axis::step(across.end / seconds, 10.0);
    let mut last = 0;
    for tick in (0..).map(|i| f64::from(i) * step).take_while(|tick| *tick <= across.end / seconds * (1.0 + 1e-9)) {
        let x = across.place(tick * seconds) as usize;
        // Through the curves, not through the text.
        panels.iter().for_each(|top| canvas.fill(x, *top, 1, PANEL, GRID));
        canvas.fill(x, bottom, 1, 4, GRID);
        let words = axis::number(tick);
        let half = text::width(text::SMALL, &words) / 2;
        last = canvas.text(x.saturating_sub(half), bottom + 6, text::SMALL, FAINT, &words);
    }
    let width = text::width(text::SMALL, unit);
    if last + 12 + width < WIDTH {
        canvas.text(WIDTH - RIGHT - width, bottom + 6 + 18, text::SMALL, FAINT, unit);
    } else {
        canvas.text(LEFT, bottom + 6 + 18, text::SMALL, FAINT, unit);
    }
}

impl Panel {
    fn draw(&self, canvas: &mut Canvas, record: &Record, across: &Across, top: usize) {
        let bottom = top + PANEL;
        let stats = self.curves.iter().filter_map(|curve| record.sums.stats[curve.column]);
        let (low, high) = stats.fold((0.0_f64, 0.0_f64), |(low, high), stat| (low.min(stat.min), high.max(stat.max)));
        let (low, high) = (low / self.unit, self.upper.unwrap_or(high / self.unit));
        let range = if high > low { high - low } else { 1.0 };
        let step = axis::step(range, 3.0);
        let (first, last) = ((low / step).floor(), ((low + range) / step - 1e-9).ceil());
        let (low, high) = (first * step, last * step);
        let down = |value: f64| bottom as f64 - (value / self.unit - low) / (high - low) * PANEL as f64;

        for tick in first as i64..=last as i64 {
            let value = tick as f64 * step;
            let y = down(value * self.unit) as usize;
            canvas.fill(LEFT, y, WIDTH - RIGHT - LEFT, 1, GRID);
            let words = axis::number(value);
            let left = LEFT.saturating_sub(text::width(text::SMALL, &words) + 10);
            canvas.text(left, y.saturating_sub(10), text::SMALL, FAINT, &words);
        }
        // Ranges are drawn first, so that none hides a curve.
        for curve in &self.curves {
            for point in record.track.points(curve.column, POINTS).filter(|point| point.max > point.min) {
                let [left, right] = [-0.5, 0.5].map(|half| across.place(point.at + half * point.seconds));
                let (x, y) = (left as usize, down(point.max) as usize);
                let (width, height) = (right.ceil() as usize - x, down(point.min).ceil() as usize + 1 - y);
                canvas.fill(x, y, width, height, dim(curve.colour));
            }
        }
        for curve in &self.curves {
            let mut before: Option<((f64, f64), u64)> = None;
            for point in record.track.points(curve.column, POINTS) {
                let place = (across.place(point.at), down(point.mean));
                match before {
                    Some((from, part)) if part == point.part => canvas.line(from, place, curve.colour),
                    // The first point of a process may be its only one.
                    _ => canvas.line(place, place, curve.colour),
                }
                before = Some((place, point.part));
            }
        }
        self.names(canvas, record, top - TITLE);
    }

    /// Draws the title, and the curves' names with their colours and highest values.
    fn names(&self, canvas: &mut Canvas, record: &Record, y: usize) {
        let mut x = canvas.text(LEFT, y + 2, text::BODY, TEXT, self.title) + 28;
        let highest = |curve: &Curve| record.sums.stats[curve.column].map_or(0.0, |stat| stat.max / self.unit);
        let few = self.curves.len() <= 4;
        for curve in self.curves.iter().take(NAMED) {
            let words = if few { format!("{} (to {})", curve.name, short(highest(curve))) } else { curve.name.clone() };
            canvas.fill(x, y + 9, 12, 8, curve.colour);
            x = canvas.text(x + 18, y + 4, text::SMALL, FAINT, &words) + 20;
        }
        if !few {
            let more = self.curves.len().saturating_sub(NAMED);
            let more = if more > 0 { format!("and {more} more ") } else { String::new() };
            let most = self.curves.iter().map(highest).fold(0.0, f64::max);
            canvas.text(x, y + 4, text::SMALL, FAINT, &format!("{more}(to {})", short(most)));
        }
    }
}

/// A dim colour for the range behind a curve.
fn dim(colour: Rgb) -> Rgb {
    std::array::from_fn(|c| ((u16::from(colour[c]) + 3 * u16::from(BACKGROUND[c])) / 4) as u8)
}

/// Formats a number with about three digits.
fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => axis::number((value * 10.0).round() / 10.0),
        _ => axis::number((value * 100.0).round() / 100.0),
    }
}

/// Draws the numbers of the epochs, if there is room.
fn epochs(canvas: &mut Canvas, record: &Record, across: &Across, y: usize) {
    label(canvas, y, "epochs");
    let marks = record.phases.marks();
    let mut begins: Vec<(f64, u64)> = Vec::new();
    for mark in marks {
        let epoch = if mark.phase == Phase::Off { 0 } else { mark.epoch };
        if begins.last().is_none_or(|(_, last)| *last != epoch) {
            begins.push((mark.at, epoch));
        }
    }
    for (index, (at, epoch)) in begins.iter().enumerate() {
        if *epoch == 0 {
            continue;
        }
        let to = begins.get(index + 1).map_or(across.end, |(at, _)| *at);
        let (from, to) = (across.place(*at) as usize, across.place(to) as usize);
        let colour = if epoch % 2 == 0 { [74, 78, 96] } else { [48, 52, 66] };
        canvas.fill(from, y, (to - from).max(1), STRIP, colour);
        let words = epoch.to_string();
        let width = text::width(text::SMALL, &words);
        if width + 6 < to - from {
            canvas.text(from + (to - from - width) / 2, y + 2, text::SMALL, TEXT, &words);
        }
    }
}

/// Draws the phases. A column of pixels with several phases gets the mean of their colours,
/// weighted by time.
fn phases(canvas: &mut Canvas, record: &Record, across: &Across, y: usize) {
    label(canvas, y, "phases");
    let width = WIDTH - RIGHT - LEFT;
    let pixel = across.end / width as f64;
    for column in 0..width {
        let from = column as f64 * pixel;
        let mut sum = [0.0; 3];
        for (start, end, _, phase) in record.phases.pieces(from, from + pixel) {
            let share = (end - start) / pixel;
            let colour = colour_of(phase);
            (0..3).for_each(|c| sum[c] += share * f64::from(colour[c]));
        }
        canvas.fill(LEFT + column, y, 1, STRIP, sum.map(|part| part.round() as u8));
    }
}

fn label(canvas: &mut Canvas, y: usize, words: &str) {
    let left = LEFT.saturating_sub(text::width(text::SMALL, words) + 10);
    canvas.text(left, y + 2, text::SMALL, FAINT, words);
}

/// Draws the colours of the phases, with the fraction of time of each.
fn legend(canvas: &mut Canvas, record: &Record, y: usize) {
    let total = record.sums.total.seconds;
    let mut x = LEFT;
    for (phase, used) in &record.sums.by_phase {
        canvas.fill(x, y + 5, 16, 12, colour_of(*phase));
        let words = format!("{phase} {} %", short(used.seconds / total * 100.0));
        x = canvas.text(x + 22, y, text::BODY, TEXT, &words) + 26;
    }
    if !record.resumed.is_empty() {
        canvas.fill(x + 7, y, 2, 22, RESUMED);
        canvas.text(x + 18, y, text::BODY, TEXT, "resumed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine_monitor::columns::Row;
    use hearth_machine::{GpuAbout, Vendor};

    /// A run of two epochs on a machine with a GPU: a row a second, of which one has a peak.
    fn run(seconds: u32, peak: u32) -> (Record, About) {
        let gpu = GpuAbout { vendor: Vendor::Nvidia, name: "H100".to_owned(), memory: None };
        let about = About { cores: 2, memory: Some(8 << 30), gpus: vec![gpu], without: Vec::new() };
        let names: Vec<String> = [PACKAGES, "gpu0_power_w"].map(String::from).to_vec();
        let mut record = Record::new(names, 1.0);
        let end = f64::from(seconds - 1);
        for (part, epoch, phase) in [
            (0.0, 0, Phase::Start),
            (0.1, 1, Phase::Training),
            (0.4, 1, Phase::Validation),
            (0.5, 1, Phase::Checkpoint),
            (0.6, 2, Phase::Training),
        ] {
            record.phases.enter(part * end, epoch, phase);
        }
        for second in 0..seconds {
            let power = if second == peak { 500.0 } else { 100.0 };
            let values = vec![None, Some(power)];
            record.row(Row { part: 1, at: f64::from(second), unix: 0.0, epoch: 1, phase: Phase::Training, values });
        }
        record.end();
        (record, about)
    }

    /// The columns of a colour in the rows of a picture.
    fn columns_of(canvas: &Canvas, rows: std::ops::Range<usize>, colour: Rgb) -> Vec<usize> {
        (LEFT..WIDTH).filter(|x| rows.clone().any(|y| canvas.get(*x, y) == colour)).collect()
    }

    #[test]
    fn a_peak_is_drawn_where_it_was() {
        let (orange, plot) = (colours::of_class(1), (WIDTH - RIGHT - LEFT) as f64);
        // Each row has a point, or many rows share one: then the range includes the peak.
        for (seconds, peak, colour) in [(101, 40, orange), (50_001, 20_000, dim(orange))] {
            let (record, about) = run(seconds, peak);
            let canvas = picture(&record, &about);
            // The axis ends at 600 W: 500 W is a sixth below its top.
            let top = TOP + TITLE + PANEL / 6;
            let high = columns_of(&canvas, top..top + 4, colour);
            let x = (LEFT as f64 + 0.4 * plot) as usize;
            assert!(high.iter().all(|column| column.abs_diff(x) <= 6) && !high.is_empty(), "{high:?}, not {x}");
            assert!(columns_of(&canvas, TOP + TITLE + 2..top, colour).is_empty());
            let low = TOP + TITLE + PANEL - PANEL / 6;
            let all = columns_of(&canvas, low - 2..low + 3, orange).len() as f64;
            assert!(all > 0.97 * plot, "100 W elsewhere: {all}");
            // One panel: the CPUs report nothing.
            assert_eq!(canvas.height(), TOP + TITLE + PANEL + GAP + 2 * STRIP + 124);
        }
    }

    #[test]
    fn the_band_has_the_phases() {
        let (record, about) = run(101, 40);
        let canvas = picture(&record, &about);
        let y = TOP + TITLE + PANEL + GAP + STRIP + 4 + STRIP / 2;
        let at = |part: f64| canvas.get(LEFT + (part * (WIDTH - RIGHT - LEFT) as f64) as usize, y);
        let wanted = [
            (0.05, Phase::Start),
            (0.25, Phase::Training),
            (0.45, Phase::Validation),
            (0.55, Phase::Checkpoint),
            (0.8, Phase::Training),
        ];
        for (part, phase) in wanted {
            assert_eq!(at(part), colour_of(phase), "{phase}");
        }
        // The epochs above it: none, the first, the second.
        let above: Vec<Rgb> = [0.05, 0.12, 0.65]
            .map(|part| canvas.get(LEFT + (part * (WIDTH - RIGHT - LEFT) as f64) as usize, y - STRIP - 4))
            .to_vec();
        assert!(above[0] == BACKGROUND && above[1] != above[2] && above[1] != BACKGROUND, "{above:?}");
    }

    #[test]
    fn odd_runs_draw_something() {
        let (mut record, about) = run(2, 0);
        record.resumed.push(0.5);
        assert_eq!(picture(&record, &about).width(), WIDTH);
        let nothing = Record::new(vec!["gpu0_power_w".to_owned()], 1.0);
        assert_eq!(picture(&nothing, &About::default()).height(), TOP + 2 * STRIP + 124);
        let mut odd = Record::new(vec!["gpu0_temperature_c".to_owned()], 1.0);
        for (at, value) in [(0.0, -40.0), (0.0, -40.0), (1.0, 0.0)] {
            let values = vec![Some(value)];
            odd.row(Row { part: 1, at, unix: 0.0, epoch: 0, phase: Phase::Start, values });
        }
        picture(&odd, &about);
    }

    #[test]
    fn equal_gpus_are_named_once() {
        let gpu = |name: &str| GpuAbout { vendor: Vendor::Amd, name: name.to_owned(), memory: None };
        let gpus = vec![gpu("A"), gpu("A"), gpu("B")];
        let about = About { cores: 4, memory: Some(16 << 30), gpus, without: Vec::new() };
        assert_eq!(machine(&about), "4 cores   16 GiB   GPU 0 to 1: A   GPU 2: B");
    }
}
