//! The volumes of one series: echoes, time points, b-values, a localizer among the slices; and their keys.

use std::collections::{BTreeSet, HashMap};

use crate::geometry::{Vector, dot};
use crate::marks::{Mark, number};
use crate::stack::{Slice, Stack};

/// The line along which slices are stacked.
pub(crate) struct Line {
    pub normal: Vector,
    /// Positions closer than this are the same.
    pub tiny: f64,
}

impl Line {
    /// The position along it.
    pub fn depth(&self, slice: &Slice) -> f64 {
        slice.info().position.map_or(0.0, |position| dot(position, self.normal))
    }

    /// Slices by position. The order within a position is kept.
    pub fn places(&self, mut slices: Vec<Slice>) -> Vec<Vec<Slice>> {
        slices.sort_by(|a, b| self.depth(a).total_cmp(&self.depth(b)));
        let mut places: Vec<Vec<Slice>> = Vec::new();
        for slice in slices {
            match places.last_mut() {
                Some(place) if self.depth(&slice) - self.depth(&place[0]) < self.tiny => place.push(slice),
                _ => places.push(vec![slice]),
            }
        }
        places
    }
}

/// Separates slices at the same positions by the properties in which they differ, such as the echo. Slices
/// that differ in none stay together.
pub(crate) fn apart(slices: Vec<Slice>, line: &Line) -> Vec<Vec<Slice>> {
    let places = line.places(slices.clone());
    if places.iter().all(|place| place.len() == 1) {
        return vec![slices];
    }
    match Mark::ALL.into_iter().find_map(|mark| by(mark, &slices, &places)) {
        Some(parts) => parts.into_iter().flat_map(|part| apart(part, line)).collect(),
        None => vec![slices],
    }
}

/// The slices by the values of a mark, if they are volumes: a position has each value, so that numbers that
/// count through all slices are none; and at least half of the smallest lies where another one lies, so that
/// parts of a body that touch stay together.
fn by(mark: Mark, slices: &[Slice], places: &[Vec<Slice>]) -> Option<Vec<Vec<Slice>>> {
    let parts = with(mark, slices);
    let distinct = |place: &Vec<Slice>| {
        let mut values: Vec<Option<&str>> = place.iter().map(|slice| value(slice, mark)).collect();
        values.sort_unstable();
        values.dedup();
        values.len()
    };
    let counts: Vec<usize> = places.iter().map(distinct).collect();
    let most = counts.iter().copied().max().unwrap_or(1);
    let shared = counts.iter().filter(|count| **count > 1).count();
    let smallest = parts.iter().map(Vec::len).min().unwrap_or(0);
    (parts.len() > 1 && parts.len() == most && 2 * shared >= smallest.min(places.len())).then_some(parts)
}

/// The slices by the values of a mark, in the order in which these first appear.
pub(crate) fn with(mark: Mark, slices: &[Slice]) -> Vec<Vec<Slice>> {
    let mut parts: Vec<Vec<Slice>> = Vec::new();
    let mut known: HashMap<Option<&str>, usize> = HashMap::new();
    for slice in slices {
        let part = *known.entry(value(slice, mark)).or_insert(parts.len());
        match parts.get_mut(part) {
            Some(part) => part.push(slice.clone()),
            None => parts.push(vec![slice.clone()]),
        }
    }
    parts
}

fn value(slice: &Slice, mark: Mark) -> Option<&str> {
    slice.info().marks.get(mark)
}

/// Gives each volume of a series the parts of its key, and a key if there are several: the fewest parts in
/// which all differ.
pub(crate) fn name(stacks: &mut [Stack]) {
    let types: Vec<BTreeSet<String>> = stacks.iter().map(|stack| image_type(stack).into_iter().collect()).collect();
    let shared = types.iter().skip(1).fold(types.first().cloned().unwrap_or_default(), |all, one| &all & one);
    let parts: Vec<Vec<Option<String>>> = stacks.iter().map(|stack| parts(stack, &shared)).collect();
    let keys = keys(&parts);
    let several = stacks.len() > 1;
    for ((stack, parts), key) in stacks.iter_mut().zip(parts).zip(keys) {
        let words = image_type(stack);
        stack.parts = parts.into_iter().flatten().chain(words).collect();
        stack.key = several.then_some(key);
    }
}

/// The parts of a volume's key, in the order in which they are tried. `shared` are the words that the
/// ImageTypes of all volumes have.
fn parts(stack: &Stack, shared: &BTreeSet<String>) -> Vec<Option<String>> {
    let first = &stack.slices[0];
    let format = &first.file.format;
    let of_mark = |mark: Mark| match mark {
        Mark::ImageType | Mark::Direction => None,
        mark => common(stack, mark).map(ToOwned::to_owned),
    };
    let spacing = first.info().spacing.map(|[x, y]| format!("{}mm", [x, y].map(number).join("x")));
    [Some(plane(stack)), own_type(stack, shared)]
        .into_iter()
        .chain(Mark::ALL.map(of_mark))
        .chain([
            (format.channels() > 1).then(|| "colour".to_owned()),
            Some(format!("{}x{}", format.columns, format.rows)),
            spacing,
        ])
        .collect()
}

/// The value that all slices of a volume have.
fn common(stack: &Stack, mark: Mark) -> Option<&str> {
    let first = value(&stack.slices[0], mark)?;
    stack.slices.iter().all(|slice| value(slice, mark) == Some(first)).then_some(first)
}

fn plane(stack: &Stack) -> String {
    let info = stack.slices[0].info();
    let word = match info.position.and(info.orientation) {
        _ if info.marks.is_localizer() => "localizer",
        None => "unplaced",
        Some(orientation) => {
            let [x, y, z] = orientation.normal().map(f64::abs);
            match () {
                () if z >= x && z >= y => "axial",
                () if y >= x => "coronal",
                () => "sagittal",
            }
        }
    };
    word.to_owned()
}

fn image_type(stack: &Stack) -> Vec<String> {
    stack.slices[0].info().marks.image_type()
}

/// The words of a volume's ImageType that not all volumes have.
fn own_type(stack: &Stack, shared: &BTreeSet<String>) -> Option<String> {
    common(stack, Mark::ImageType)?;
    let mut own = image_type(stack);
    own.retain(|word| !shared.contains(word));
    own.dedup();
    Some(if own.is_empty() { "plain".to_owned() } else { own.join("_") })
}

/// A key for each volume, from the parts of all: a part is used if it distinguishes more of them.
fn keys(volumes: &[Vec<Option<String>>]) -> Vec<String> {
    let count = volumes.first().map_or(0, Vec::len);
    let join = |volume: &Vec<Option<String>>, used: &[usize]| {
        used.iter().filter_map(|at| volume[*at].as_deref()).collect::<Vec<_>>().join("-")
    };
    let distinct = |used: &[usize]| {
        let mut keys: Vec<String> = volumes.iter().map(|volume| join(volume, used)).collect();
        keys.sort_unstable();
        keys.dedup();
        keys.len()
    };
    let mut used: Vec<usize> = Vec::new();
    for at in 0..count {
        let more = [&used[..], &[at]].concat();
        if distinct(&more) > distinct(&used) {
            used = more;
        }
    }
    let plain = |key: String| if key.is_empty() { "volume".to_owned() } else { key };
    let keys: Vec<String> = volumes.iter().map(|volume| plain(join(volume, &used))).collect();
    let mut alike: HashMap<&str, usize> = HashMap::new();
    keys.iter().for_each(|key| *alike.entry(key).or_default() += 1);
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    let mut named = Vec::new();
    for key in &keys {
        let number = numbers.entry(key).or_default();
        *number += 1;
        named.push(if alike[key.as_str()] > 1 { format!("{key}-{number}") } else { key.clone() });
    }
    named
}

#[cfg(test)]
mod tests {
    use super::keys;

    #[test]
    fn a_key_has_the_fewest_parts_that_tell_all_apart() {
        let volume = |parts: [&str; 4]| parts.map(|part| (!part.is_empty()).then(|| part.to_owned())).to_vec();
        let of = |volumes: &[[&str; 4]]| keys(&volumes.iter().map(|parts| volume(*parts)).collect::<Vec<_>>());
        assert_eq!(of(&[["axial", "m", "echo1", "acq1"], ["axial", "m", "echo2", "acq1"]]), ["echo1", "echo2"]);
        assert_eq!(of(&[["axial", "m", "", "1"], ["coronal", "p", "", "2"]]), ["axial", "coronal"]);
        let four = [["axial", "m", "echo1", ""], ["axial", "p", "echo1", ""], ["axial", "m", "echo2", ""]];
        assert_eq!(of(&four), ["m-echo1", "p-echo1", "m-echo2"]);
        assert_eq!(of(&[["axial", "m", "", ""]; 2]), ["volume-1", "volume-2"], "only their order differs");
        assert_eq!(of(&[["axial", "", "", ""], ["axial", "", "echo2", ""]]), ["volume", "echo2"]);
        let directions = [["b0"; 4], ["b1000"; 4], ["b1000"; 4]];
        assert_eq!(of(&directions), ["b0", "b1000-1", "b1000-2"]);
    }
}
