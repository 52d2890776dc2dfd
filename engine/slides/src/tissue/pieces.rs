//! Drops small pieces of a mask, and fills holes.

/// Drops pieces with fewer than `least` pixels; diagonal neighbours are connected.
pub(super) fn drop_small(mask: &mut [bool], width: usize, least: usize) {
    if least > 1 {
        flip(mask, width, true, |piece| piece.pixels < least);
    }
}

/// Fills holes with at most `most` pixels: background that is not connected to the border by edges.
pub(super) fn fill_holes(mask: &mut [bool], width: usize, most: usize) {
    if most > 0 {
        flip(mask, width, false, |piece| piece.pixels <= most && !piece.at_border);
    }
}

struct Piece {
    pixels: usize,
    at_border: bool,
}

/// Inverts the connected pieces of `value` that `wanted` selects.
fn flip(mask: &mut [bool], width: usize, value: bool, wanted: impl Fn(&Piece) -> bool) {
    let height = mask.len() / width.max(1);
    // Tissue connects diagonally, so background must not.
    let reach: &[(isize, isize)] = if value {
        &[(-1, -1), (0, -1), (1, -1), (-1, 0), (1, 0), (-1, 1), (0, 1), (1, 1)]
    } else {
        &[(0, -1), (-1, 0), (1, 0), (0, 1)]
    };
    let mut seen = vec![false; mask.len()];
    let mut members = Vec::new();
    for start in 0..mask.len() {
        if seen[start] || mask[start] != value {
            continue;
        }
        members.clear();
        members.push(start);
        seen[start] = true;
        let mut at_border = false;
        let mut next = 0;
        while let Some(&at) = members.get(next) {
            next += 1;
            let (x, y) = (at % width, at / width);
            at_border |= x == 0 || y == 0 || x + 1 == width || y + 1 == height;
            for (dx, dy) in reach {
                let (Some(x), Some(y)) = (x.checked_add_signed(*dx), y.checked_add_signed(*dy)) else { continue };
                if x < width && y < height && mask[y * width + x] == value && !seen[y * width + x] {
                    seen[y * width + x] = true;
                    members.push(y * width + x);
                }
            }
        }
        if wanted(&Piece { pixels: members.len(), at_border }) {
            members.iter().for_each(|at| mask[*at] = !value);
        }
    }
}
