//! The picture `machine.png`: curves over time, and under them what the run did.

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
/// Of the curves of a panel, under its title.
const PANEL: usize = 96;
const TITLE: usize = 30;
const GAP: usize = 18;
/// A strip of the band.
const STRIP: usize = 24;
/// The most curves that a panel names.
const NAMED: usize = 8;

/// The end of a process, and the beginning of the one that resumes the run.
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
    /// What values are divided by.
    unit: f64,
    /// The upper end of the axis, where it is known.
    upper: Option<f64>,
    curves: Vec<Curve>,
}

/// The panels for which there are values.
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
        gpus("GPU, % of the time", 1.0, Some(100.0), "utilisation_percent"),
        gpus("GPU memory, GiB", gib, None, "memory_bytes"),
        power,
        gpus("Temperature, °C", 1.0, None, "temperature_c"),
        gpus("Clock of multiprocessors, MHz", 1.0, None, "sm_clock_mhz"),
        gpus("Clock of memory, MHz", 1.0, None, "memory_clock_mhz"),
    ];
    all.into_iter().filter(|panel| !panel.curves.is_empty()).collect()
}

/// From seconds to pixels.
struct Across {
    end: f64,
}

impl Across {
    fn place(&self, seconds: f64) -> f64 {
        LEFT as f64 + (seconds / self.end).clamp(0.0, 1.0) * (WIDTH - RIGHT - LEFT) as f64
    }

    /// The unit of the axis in words, and in seconds.
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
    time_axis(&mut canvas, &across, bottom);
    for (number, panel) in panels.iter().enumerate() {
        panel.draw(&mut canvas, record, &across, TOP + number * (TITLE + PANEL + GAP));
    }
    for at in &record.resumed {
        canvas.fill(across.place(*at) as usize, TOP, 2, bottom - TOP, RESUMED);
    }
    epochs(&mut canvas, record, &across, band);
    phases(&mut canvas, record, &across, band + STRIP + 4);
    legend(&mut canvas, record, bottom + 58);
    canvas
}

/// The machine in a line.
fn machine(about: &About) -> String {
    let mut words = vec![format!("{} cores", about.cores)];
    words.extend(about.memory.map(|bytes| format!("{:.0} GiB", bytes as f64 / f64::from(1 << 30))));
    for (number, gpu) in about.gpus.iter().enumerate() {
        words.push(format!("GPU {number}: {}", gpu.name));
    }
    let line = words.join("   ");
    text::wrap(text::SMALL, &line, WIDTH - LEFT - RIGHT).swap_remove(0)
}

fn time_axis(canvas: &mut Canvas, across: &Across, bottom: usize) {
    let (unit, seconds) = across.unit();
    let step = axis::step(across.end / seconds, 10.0);
    let mut last = 0;
    for tick in (0..).map(|i| f64::from(i) * step).take_while(|tick| *tick <= across.end / seconds * (1.0 + 1e-9)) {
        let x = across.place(tick * seconds) as usize;
        canvas.fill(x, TOP, 1, bottom - TOP + 4, GRID);
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
        let (top, bottom) = (top + TITLE, top + TITLE + PANEL);
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
        for curve in &self.curves {
            let mut before: Option<((f64, f64), u64)> = None;
            for point in record.track.points(curve.column) {
                let place = (across.place(point.at), down(point.mean));
                if point.max > point.min {
                    canvas.line((place.0, down(point.max)), (place.0, down(point.min)), curve.colour);
                }
                match before {
                    Some((from, part)) if part == point.part => canvas.line(from, place, curve.colour),
                    // The first of a process may be its only one.
                    _ => canvas.line(place, place, curve.colour),
                }
                before = Some((place, point.part));
            }
        }
        self.names(canvas, record, top - TITLE);
    }

    /// The title, and the curves with their colours and highest values.
    fn names(&self, canvas: &mut Canvas, record: &Record, y: usize) {
        let mut x = canvas.text(LEFT, y + 2, text::BODY, TEXT, self.title) + 28;
        for curve in self.curves.iter().take(NAMED) {
            let Some(stat) = record.sums.stats[curve.column] else { continue };
            let words = format!("{} (to {})", curve.name, short(stat.max / self.unit));
            canvas.fill(x, y + 9, 12, 8, curve.colour);
            x = canvas.text(x + 18, y + 4, text::SMALL, FAINT, &words) + 20;
        }
        if let Some(more) = self.curves.len().checked_sub(NAMED).filter(|more| *more > 0) {
            canvas.text(x, y + 4, text::SMALL, FAINT, &format!("and {more} more"));
        }
    }
}

/// A number with about three digits.
fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => axis::number((value * 10.0).round() / 10.0),
        _ => axis::number((value * 100.0).round() / 100.0),
    }
}

/// The epochs by number, where there is room for it.
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

/// The phases. A column of pixels that has several gets the mean of their colours, by time.
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

/// The colours of the phases, and how much of the time each has.
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

    #[test]
    fn look() {
        let gpu = |name: &str| GpuAbout { vendor: Vendor::Nvidia, name: name.to_owned(), memory: Some(80 << 30) };
        let n: usize = std::env::var("GPUS").map_or(1, |v| v.parse().unwrap());
        let secs: u32 = std::env::var("SECS").map_or(600, |v| v.parse().unwrap());
        let about = About { cores: 16, memory: Some(128 << 30), gpus: vec![gpu("H100 80GB HBM3"); n], without: vec![] };
        let names = columns::of(&about);
        let mut record = Record::new(names.clone(), 1.0);
        let epoch_s = 50.0;
        let mut e = 0;
        record.phases.enter(0.0, 0, Phase::Start);
        for s in 0..secs {
            let t = f64::from(s);
            if t > 8.0 + f64::from(e) * epoch_s {
                e += 1;
                let b = 8.0 + f64::from(e - 1) * epoch_s;
                record.phases.enter(b, u64::from(e), Phase::Training);
                record.phases.enter(b + 38.0, u64::from(e), Phase::Validation);
                record.phases.enter(b + 47.0, u64::from(e), Phase::Checkpoint);
            }
            let (epoch, phase) = record.phases.at(t);
            let noise = |k: f64| ((t * 12.9898 + k * 78.233).sin() * 43758.5453).fract().abs();
            let busy = match phase { Phase::Training => 0.9, Phase::Validation => 0.5, _ => 0.05 };
            let mut values = vec![
                Some(busy * 1200.0 * (0.9 + 0.2 * noise(1.0))), Some(75.0 * busy),
                Some(9e9 + 4e9 * (t / 300.0).min(1.0)), Some(busy * 2e8 * noise(2.0)),
                Some(if phase == Phase::Checkpoint { 4e8 } else { 1e5 }), Some(110e9 - 4e9 * (t / 300.0).min(1.0)), Some(180.0 + 60.0 * busy),
            ];
            for g in 0..n {
                let g = g as f64;
                values.extend([
                    Some((100.0 * busy * (0.95 + 0.1 * noise(3.0 + g))).min(100.0)), Some(4e10 + 1e10 * busy + g * 2e9),
                    Some(120.0 + 550.0 * busy * (0.9 + 0.2 * noise(4.0 + g))), Some(38.0 + 30.0 * busy + g), Some(if busy > 0.1 { 1980.0 } else { 345.0 }), Some(2619.0),
                ]);
            }
            if s == 0 { values[0] = None; }
            record.row(Row { part: if t > 330.0 { 2 } else { 1 }, at: t, unix: 0.0, epoch, phase, values });
        }
        record.end();
        std::fs::write("/tmp/machine.png", picture(&record, &about).png().unwrap()).unwrap();
    }
}
