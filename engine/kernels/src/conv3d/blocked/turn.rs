//! Transposes sums from the order of registers, with the channels of each output contiguous, to
//! rows of the output.

use std::mem::MaybeUninit;

use crate::shared::Shared;

use super::plan::RowGroup;
use super::{Loops, WIDTH};

/// Transposes `[output][channel]` to `[channel][output]`. The `padded` outputs are whole squares.
pub fn turn(loops: Loops<'_>, sums: &[f32], rows: &mut [f32], lanes: usize, padded: usize) {
    for vector in (0..lanes).step_by(WIDTH) {
        for position in (0..padded).step_by(WIDTH) {
            let from = &sums[position * lanes + vector..];
            let to = &mut rows[vector * padded + position..];
            assert!(from.len() >= 15 * lanes + WIDTH && to.len() >= 15 * padded + WIDTH, "a whole square");
            // SAFETY: the assertion checks that both squares lie within their buffers.
            unsafe { (loops.channels.transpose)(from.as_ptr(), lanes, to.as_mut_ptr(), padded) };
        }
    }
}

/// Same as [`turn`] for at least sixteen outputs, writing the channels directly to `out`, `volume`
/// values apart from `start` on. No other task may write to this part of these channels.
pub fn turn_into(loops: Loops<'_>, sums: &[f32], out: Shared, start: usize, volume: usize, [lanes, count]: [usize; 2]) {
    let last = count.checked_sub(WIDTH).expect("a whole square");
    for channel in (0..lanes).step_by(WIDTH) {
        let to = out.rows(start + channel * volume, volume, [WIDTH, count]);
        // Where the outputs are not whole squares, the last square overlaps the one before it.
        for position in (0..count).step_by(WIDTH).map(|position| position.min(last)) {
            let from = &sums[position * lanes + channel..];
            assert!(from.len() >= 15 * lanes + WIDTH, "a whole square");
            // SAFETY: the assertion checks that the square lies within its buffer; this part of
            // this row of these channels lies within the output, and no other task uses it.
            unsafe { (loops.channels.transpose)(from.as_ptr(), lanes, to.add(position), volume) };
        }
    }
}

/// Copies a row.
pub fn write_whole(target: &mut [MaybeUninit<f32>], values: &[f32]) {
    let (whole, rest) = values.as_chunks::<WIDTH>();
    let (places, last) = target[..values.len()].as_chunks_mut::<WIDTH>();
    for (to, from) in places.iter_mut().zip(whole) {
        to.iter_mut().zip(from).for_each(|(to, from)| _ = to.write(*from));
    }
    last.iter_mut().zip(rest).for_each(|(to, from)| _ = to.write(*from));
}

/// Interleaves the columns of one row.
pub fn write_row<'a>(
    loops: Loops<'_>,
    target: &mut [MaybeUninit<f32>],
    group: &RowGroup,
    step: usize,
    row: impl Fn(usize) -> &'a [f32],
) {
    let starts = |column: usize| group.columns[column].start;
    match group.columns.len() {
        1 if step == 1 => write_whole(&mut target[starts(0)..], row(0)),
        2 if step == 2 && starts(0) + starts(1) == 1 && row(0).len() == row(1).len() => {
            let (even, odd) = if starts(0) == 0 { (row(0), row(1)) } else { (row(1), row(0)) };
            assert!(target.len() >= 2 * even.len(), "the columns of a row fit in it");
            // SAFETY: both rows have equally many values, and there is space for all of them.
            unsafe {
                (loops.channels.in_turn)([even.as_ptr(), odd.as_ptr()], even.len(), target.as_mut_ptr().cast());
            }
        }
        columns => {
            for column in 0..columns {
                let places = target[starts(column)..].iter_mut().step_by(step);
                places.zip(row(column)).for_each(|(place, value)| _ = place.write(*value));
            }
        }
    }
}
