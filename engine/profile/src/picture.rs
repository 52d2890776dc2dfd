//! The picture `memory.png`: memory over time, with the owners stacked.

use hearth_pictures::colours::{self, BACKGROUND, FAINT, GRID, TEXT};
use hearth_pictures::{Canvas, axis, text};

use crate::memory::Memory;
use crate::owners::MemoryByOwner;

const WIDTH: usize = 1280;
const LEFT: usize = 90;
const RIGHT: usize = 30;
const TOP: usize = 76;
const HEIGHT: usize = 360;
const MIB: f64 = 1_048_576.0;

/// Draws memory over the seconds of a recording.
pub(crate) fn picture(by_owner: &MemoryByOwner, memory: &Memory, seconds: f64) -> Canvas {
    let owners = &by_owner.owners;
    let most = memory.peak as f64 / MIB;
    let rows = owners.len().div_ceil(3);
    let mut canvas = Canvas::new(WIDTH, TOP + HEIGHT + 70 + rows * 26, BACKGROUND);
    canvas.text(LEFT, 12, text::TITLE, TEXT, "Memory by owner");
    let iteration = memory.iteration.map(|number| format!(", iteration {number}")).unwrap_or_default();
    let whose = memory.at.last().map(|range| format!(" in {range}")).unwrap_or_default();
    let words = format!("{most:.0} MiB at most, after {:.2} s{whose}{iteration}", memory.seconds);
    canvas.text(LEFT, 40, text::SMALL, FAINT, &text::wrap(text::SMALL, &words, WIDTH - LEFT - RIGHT).swap_remove(0));
    let step = axis::step(most.max(1.0), 5.0);
    let high = (most / step).ceil().max(1.0) * step;
    let bottom = TOP + HEIGHT;
    let down = |mib: f64| bottom - (mib / high * HEIGHT as f64).round() as usize;
    let end = if seconds > 0.0 { seconds } else { 1.0 };
    let plot = WIDTH - LEFT - RIGHT;
    let mut samples = by_owner.samples.iter().peekable();
    let mut now: Option<&(u64, Vec<u64>)> = None;
    for column in 0..plot {
        let until = (column + 1) as f64 / plot as f64 * end * 1e9;
        // A column shows its maximum, or else the last value before it.
        let mut highest: Option<&(u64, Vec<u64>)> = None;
        while let Some(sample) = samples.next_if(|sample| sample.0 as f64 <= until) {
            if highest.is_none_or(|highest| sum(sample) > sum(highest)) {
                highest = Some(sample);
            }
        }
        now = highest.or(now);
        let Some((_, bytes)) = now else { continue };
        let mut below = 0.0;
        for (index, bytes) in bytes.iter().enumerate() {
            let above = below + *bytes as f64 / MIB;
            let (y, to) = (down(above), down(below));
            canvas.fill(LEFT + column, y, 1, to - y, colours::of_class(index + 1));
            below = above;
        }
    }
    for tick in (0..).map(|i| f64::from(i) * step).take_while(|tick| *tick <= high * (1.0 + 1e-9)) {
        canvas.fill(LEFT, down(tick), plot, 1, GRID);
        let words = axis::number(tick);
        let left = LEFT.saturating_sub(text::width(text::SMALL, &words) + 10);
        canvas.text(left, down(tick).saturating_sub(10), text::SMALL, FAINT, &words);
    }
    let step = axis::step(end, 10.0);
    for tick in (0..).map(|i| f64::from(i) * step).take_while(|tick| *tick <= end * (1.0 + 1e-9)) {
        let x = LEFT + (tick / end * plot as f64) as usize;
        canvas.fill(x, bottom, 1, 5, GRID);
        let words = axis::number(tick);
        canvas.text(x.saturating_sub(text::width(text::SMALL, &words) / 2), bottom + 7, text::SMALL, FAINT, &words);
    }
    canvas.text(LEFT, bottom + 28, text::SMALL, FAINT, "seconds; memory in MiB");
    for (index, owner) in owners.iter().enumerate() {
        let (x, y) = (LEFT + index % 3 * (plot / 3), bottom + 58 + index / 3 * 26);
        canvas.fill(x, y + 5, 16, 12, colours::of_class(index + 1));
        let at_peak = memory.owners.get(owner).map_or(0.0, |bytes| *bytes as f64 / MIB);
        canvas.text(x + 24, y, text::BODY, TEXT, &format!("{owner}: {at_peak:.1} at the peak"));
    }
    canvas
}

fn sum((_, bytes): &(u64, Vec<u64>)) -> u64 {
    bytes.iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_as_high_as_its_memory() {
        let mib = |n: u64| n << 20;
        let owners = ["weights".to_owned(), "activations".to_owned()].to_vec();
        let samples =
            vec![(0, vec![mib(20), 0]), (500_000_000, vec![mib(20), mib(80)]), (900_000_000, vec![mib(20), 0])];
        let by_owner = MemoryByOwner { owners, samples };
        let peak = by_owner.peak();
        let memory = Memory { peak: mib(100), owners: peak.into_iter().collect(), ..Memory::default() };
        let canvas = picture(&by_owner, &memory, 1.0);
        let plot = WIDTH - LEFT - RIGHT;
        let column = |seconds: f64, class: usize| {
            let x = LEFT + (seconds * plot as f64) as usize;
            (TOP..TOP + HEIGHT).filter(|y| canvas.get(x, *y) == colours::of_class(class)).count()
        };
        // The axis ends at 100 MiB; each grid line hides a pixel.
        let near = |got: usize, mib: usize| got.abs_diff(mib * HEIGHT / 100) <= 6;
        assert!(near(column(0.2, 1), 20) && column(0.2, 2) == 0);
        assert!(near(column(0.7, 1), 20) && near(column(0.7, 2), 80), "{} {}", column(0.7, 1), column(0.7, 2));
        assert!(near(column(0.95, 1), 20) && column(0.95, 2) == 0);
        picture(&MemoryByOwner::default(), &Memory::default(), 0.0);
    }
}
