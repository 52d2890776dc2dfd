//! Volumes of one series whose slices lie between one another: echoes or acquisitions that do not share
//! positions.

use crate::marks::Mark;
use crate::stack::Slice;
use crate::volumes::{Line, with};

/// Marks that one volume never has several values of. The slices of one volume may be of several
/// acquisitions or trigger times, such as first every second slice, then the others, and their echo times
/// may be rounded differently.
const OF_VOLUMES: [Mark; 3] = [Mark::Echo, Mark::BValue, Mark::Time];

/// The fewest slices of a volume, so that its distances can be judged.
const FEWEST: usize = 3;

/// Separates the slices of several volumes at interleaved positions, such as every 3 mm from 0 and from 1 mm.
/// Each part must have even distances and overlap another one by half of the shorter one at least, so that
/// parts of a body that touch stay together. Slices at even distances are separated by
/// [`OF_VOLUMES`] alone, others also by any mark and by runs of instance numbers. Slices that differ in none
/// stay together.
pub(crate) fn parted(slices: Vec<Slice>, line: &Line) -> Vec<Vec<Slice>> {
    let places = line.places(slices.clone());
    let (fewest, most) = (places.iter().map(Vec::len).min(), places.iter().map(Vec::len).max());
    if fewest == most && most != Some(1) {
        return vec![slices];
    }
    let is_even = most == Some(1) && distance(&depths(&slices, line), line).is_some();
    let marks = if is_even { &OF_VOLUMES[..] } else { &Mark::ALL[..] };
    let by_mark = |mark: &Mark| {
        let found = volumes(with(*mark, &slices), line)?;
        (OF_VOLUMES.contains(mark) || !is_one(&found, line)).then_some(found)
    };
    let by_number = || volumes(runs(&slices, line)?, line).filter(|found| !is_one(found, line));
    let found = marks.iter().find_map(by_mark).or_else(|| if is_even { None } else { by_number() });
    match found {
        Some(parts) => parts.into_iter().flat_map(|part| parted(part, line)).collect(),
        None => vec![slices],
    }
}

/// The positions along the line, in order.
fn depths(slices: &[Slice], line: &Line) -> Vec<f64> {
    let mut depths: Vec<f64> = slices.iter().map(|slice| line.depth(slice)).collect();
    depths.sort_unstable_by(f64::total_cmp);
    depths
}

/// The distance of neighbours, if it is the same for all.
fn distance(depths: &[f64], line: &Line) -> Option<f64> {
    let (first, last) = (depths.first()?, depths.last()?);
    let mean = (last - first) / (depths.len() - 1) as f64;
    let fits = |pair: &[f64]| (pair[1] - pair[0] - mean).abs() <= 0.01 * mean + line.tiny;
    (mean > line.tiny && depths.windows(2).all(fits)).then_some(mean)
}

/// The parts, if each is a volume of its own that lies where another one lies.
fn volumes(parts: Vec<Vec<Slice>>, line: &Line) -> Option<Vec<Vec<Slice>>> {
    let spans: Option<Vec<[f64; 2]>> = parts.iter().map(|part| span(part, line)).collect();
    let spans = spans?;
    let length = |[first, last]: [f64; 2]| last - first;
    let meets = |a: usize| {
        let meet = |b: usize| {
            let shared = [spans[a][0].max(spans[b][0]), spans[a][1].min(spans[b][1])];
            a != b && 2.0 * length(shared) >= length(spans[a]).min(length(spans[b]))
        };
        (0..spans.len()).any(meet)
    };
    (parts.len() > 1 && (0..parts.len()).all(meets)).then_some(parts)
}

/// The first and the last position of a volume with even distances.
fn span(part: &[Slice], line: &Line) -> Option<[f64; 2]> {
    let depths = depths(part, line);
    let [first, .., last] = depths[..] else { return None };
    (part.len() >= FEWEST && distance(&depths, line).is_some()).then_some([first, last])
}

/// Whether all parts together are one volume whose slices were acquired in turns, perhaps without some:
/// they have one distance, and lie at even parts of it.
fn is_one(parts: &[Vec<Slice>], line: &Line) -> bool {
    let each: Vec<Vec<f64>> = parts.iter().map(|part| depths(part, line)).collect();
    let distances: Vec<f64> = each.iter().filter_map(|depths| distance(depths, line)).collect();
    let (Some(first), Some(wide)) = (each.first().and_then(|depths| depths.first()), distances.first()) else {
        return false;
    };
    let step = wide / parts.len() as f64;
    let alike = distances.iter().all(|other| (other - wide).abs() <= 0.02 * wide);
    let on_step = |depth: &f64| {
        let steps = (depth - first) / step;
        (steps - steps.round()).abs() <= 0.1
    };
    let mut starts: Vec<i64> =
        each.iter().filter_map(|depths| Some(((depths.first()? - first) / step).round() as i64)).collect();
    starts.iter_mut().for_each(|start| *start = start.rem_euclid(parts.len() as i64));
    starts.sort_unstable();
    starts.dedup();
    alike && starts.len() == parts.len() && each.iter().flatten().all(on_step)
}

/// Slices in the order of their instance numbers, cut where the direction along the line turns; `None`
/// without numbers, or if numbers repeat.
fn runs(slices: &[Slice], line: &Line) -> Option<Vec<Vec<Slice>>> {
    let numbered = slices.iter().map(|slice| Some(((slice.instance_number()?, slice.frame), slice)));
    let mut numbered: Vec<((i64, usize), &Slice)> = numbered.collect::<Option<_>>()?;
    numbered.sort_by_key(|(number, _)| *number);
    if numbered.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        return None;
    }
    let mut runs: Vec<Vec<Slice>> = Vec::new();
    for (_, slice) in numbered {
        let goes_on = |run: &&mut Vec<Slice>| {
            let at = |slice: &Slice| line.depth(slice);
            match run[..] {
                [.., ref before, ref last] => (at(slice) - at(last)) * (at(last) - at(before)) > 0.0,
                _ => true,
            }
        };
        match runs.last_mut().filter(goes_on) {
            Some(run) => run.push(slice.clone()),
            None => runs.push(vec![slice.clone()]),
        }
    }
    Some(runs)
}
