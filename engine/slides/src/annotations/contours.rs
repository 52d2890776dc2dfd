//! The outlines of a mask.

use std::collections::HashMap;

use super::{Area, Point, Shape};

/// A corner of pixels: column and row.
type Corner = (usize, usize);

/// The outlines of a mask's pieces along the edges of their pixels: a shape for each piece (pixels
/// that touch by an edge), its outline first, then its holes. Drawing them reproduces the mask.
///
/// # Panics
/// If the mask does not have the area's size.
pub fn contours(mask: &[u8], area: &Area) -> Vec<Shape> {
    let (width, height) = (area.width, area.height);
    assert_eq!(mask.len(), width * height, "a mask of the area's size");
    let set = |x: usize, y: usize| x < width && y < height && mask[y * width + x] != 0;
    let pieces = pieces(mask, width, height);
    // Edges with the set pixel on their right, by the corner where they begin; at a corner where
    // two pixels touch diagonally there are two, one of each pixel.
    let mut edges: HashMap<Corner, Vec<Edge>> = HashMap::new();
    let mut starts = Vec::new();
    for y in 0..height {
        for x in (0..width).filter(|x| set(*x, y)) {
            let pixel = y * width + x;
            let sides = [
                (y == 0 || !set(x, y - 1), (x, y), (x + 1, y)),
                (!set(x + 1, y), (x + 1, y), (x + 1, y + 1)),
                (!set(x, y + 1), (x + 1, y + 1), (x, y + 1)),
                (x == 0 || !set(x - 1, y), (x, y + 1), (x, y)),
            ];
            for (_, from, to) in sides.into_iter().filter(|(open, ..)| *open) {
                edges.entry(from).or_default().push(Edge { to, pixel, taken: false });
                starts.push((from, pixel));
            }
        }
    }
    let count = pieces.iter().copied().max().unwrap_or(0);
    let mut shapes = vec![Shape::default(); count];
    for (start, pixel) in starts {
        let mut ring: Vec<Corner> = Vec::new();
        let (mut at, mut of) = (start, pixel);
        while let Some((next, pixel)) = take(&mut edges, at, of) {
            ring.push(at);
            (at, of) = (next, pixel);
        }
        let place =
            |(x, y): Corner| [area.corner[0] + x as f64 * area.scale[0], area.corner[1] + y as f64 * area.scale[1]];
        for ring in simple(ring) {
            let ring = without_straight(&ring).into_iter().map(place).collect();
            shapes[pieces[pixel] - 1].rings.push(ring);
        }
    }
    for shape in &mut shapes {
        // The outline has the largest bounding box.
        let size = |ring: &Vec<Point>| {
            let [l, t, r, b] = Shape { rings: vec![ring.clone()], ..Shape::default() }.bounds();
            (r - l) * (b - t)
        };
        shape.rings.sort_by(|a, b| size(b).total_cmp(&size(a)));
    }
    shapes
}

/// An edge of a pixel, between a set pixel and an unset one.
struct Edge {
    to: Corner,
    pixel: usize,
    taken: bool,
}

/// Takes the next edge of a ring that arrives along a pixel; `None` if the ring is closed. If two
/// pixels touch diagonally, a ring stays at its pixel.
fn take(edges: &mut HashMap<Corner, Vec<Edge>>, at: Corner, pixel: usize) -> Option<(Corner, usize)> {
    let all = edges.get_mut(&at)?;
    let index = if all.len() > 1 { all.iter().position(|edge| edge.pixel == pixel)? } else { 0 };
    let edge = all.get_mut(index).filter(|edge| !edge.taken)?;
    edge.taken = true;
    Some((edge.to, edge.pixel))
}

/// Splits a ring that visits a corner twice (a piece whose ends touch diagonally) into simple
/// rings.
fn simple(ring: Vec<Corner>) -> Vec<Vec<Corner>> {
    let (mut rings, mut open): (Vec<Vec<Corner>>, Vec<Corner>) = (Vec::new(), Vec::new());
    let mut places: HashMap<Corner, usize> = HashMap::new();
    for corner in ring {
        if let Some(place) = places.get(&corner).copied() {
            let inner = open.split_off(place);
            inner.iter().for_each(|corner| {
                places.remove(corner);
            });
            rings.push(inner);
        }
        places.insert(corner, open.len());
        open.push(corner);
    }
    rings.extend((!open.is_empty()).then_some(open));
    rings
}

/// The number of each pixel's piece, from 1; 0 where the mask is 0. Pixels that touch by an edge
/// belong to one piece.
fn pieces(mask: &[u8], width: usize, height: usize) -> Vec<usize> {
    let (mut pieces, mut count, mut open) = (vec![0; mask.len()], 0, Vec::new());
    for start in 0..mask.len() {
        if mask[start] == 0 || pieces[start] != 0 {
            continue;
        }
        count += 1;
        pieces[start] = count;
        open.push(start);
        while let Some(at) = open.pop() {
            let (x, y) = (at % width, at / width);
            let mut visit = |inside: bool, next: usize| {
                if inside && mask[next] != 0 && pieces[next] == 0 {
                    pieces[next] = count;
                    open.push(next);
                }
            };
            visit(x > 0, at.wrapping_sub(1));
            visit(x + 1 < width, at + 1);
            visit(y > 0, at.wrapping_sub(width));
            visit(y + 1 < height, at + width);
        }
    }
    pieces
}

/// Removes corners between two edges of the same direction.
fn without_straight(ring: &[Corner]) -> Vec<Corner> {
    let count = ring.len();
    let turns = |i: usize| {
        let (before, at, after) = (ring[(i + count - 1) % count], ring[i], ring[(i + 1) % count]);
        !(before.0 == at.0 && at.0 == after.0 || before.1 == at.1 && at.1 == after.1)
    };
    (0..count).filter(|i| turns(*i)).map(|i| ring[i]).collect()
}
