//! Outlines of classes: solid and dashed, visible where they coincide.

use std::collections::BTreeMap;

use hearth_pictures::Canvas;
use hearth_pictures::colours::{HALO, of_class};

use super::panel::{Layer, Line, Panel, Place};

/// The lengths in pixels of the dashes and gaps of a dashed line.
const DASH: u32 = 8;
const GAP: u32 = 9;

/// The length in pixels after which coinciding outlines alternate.
const TURN: u32 = DASH + GAP;

/// The position of a pixel along its outline, and the classes of the outlines through it. It is
/// sorted, because dots overlap and the picture must be reproducible.
type Edge = BTreeMap<(usize, usize), (u32, Vec<u8>)>;

/// Draws the outlines of a panel: solid ones thin, dashed ones thick above them, so that both are
/// visible where they coincide. Coinciding layers of one kind (nested regions) alternate.
pub fn draw(canvas: &mut Canvas, place: Place, panel: &Panel) {
    let edges = [Line::Solid, Line::Dashed].map(|line| {
        let mut edge = Edge::new();
        for layer in panel.layers.iter().filter(|layer| layer.line == line) {
            for (along, x, y, class) in outline(place, panel, layer) {
                edge.entry((x, y)).or_insert((along, Vec::new())).1.push(class);
            }
        }
        (line, edge)
    });
    let mut dot = |x: usize, y: usize, before: usize, size: usize, colour| {
        let (left, top) = (x.saturating_sub(before), y.saturating_sub(before));
        let (wide, high) = (size.min(place.width - left), size.min(place.height - top));
        canvas.fill(place.left + left, place.top + top, wide, high, colour);
    };
    for (line, edge) in &edges {
        let dashed = *line == Line::Dashed;
        // A dark rim keeps the lines readable on bright tissue, and separates dashes from the lines
        // below them.
        for ((x, y), (along, _)) in edge {
            match (dashed, along % TURN < DASH) {
                (false, _) => dot(*x, *y, 1, 4, HALO),
                (true, true) => dot(*x, *y, 2, 6, HALO),
                (true, false) => {}
            }
        }
        for ((x, y), (along, classes)) in edge {
            let colour = of_class(usize::from(classes[(along / TURN) as usize % classes.len()]));
            match (dashed, along % TURN < DASH) {
                (false, _) => dot(*x, *y, 0, 2, colour),
                (true, true) => dot(*x, *y, 1, 4, colour),
                (true, false) => {}
            }
        }
    }
}

/// The pixels inside a class at its edge, in the order of the outline: for each the position along
/// the outline, its place and its class.
fn outline(place: Place, panel: &Panel, layer: &Layer) -> Vec<(u32, usize, usize, u8)> {
    let Place { width, height, .. } = place;
    let class = |x: usize, y: usize| layer.classes[y * panel.height / height * panel.width + x * panel.width / width];
    let is_edge = |x: usize, y: usize| {
        let own = class(x, y);
        let differs = |x: usize, y: usize| class(x, y) != own;
        own > 0
            && (x == 0
                || y == 0
                || x + 1 == width
                || y + 1 == height
                || differs(x - 1, y)
                || differs(x + 1, y)
                || differs(x, y - 1)
                || differs(x, y + 1))
    };
    let mut waiting: Vec<bool> = (0..width * height).map(|i| is_edge(i % width, i / width)).collect();
    let mut found = Vec::new();
    for first in 0..width * height {
        let (mut at, mut along) = (first, 0);
        while waiting[at] {
            waiting[at] = false;
            let (x, y) = (at % width, at / width);
            found.push((along, x, y, class(x, y)));
            along += 1;
            let next = NEIGHBOURS.iter().filter_map(|(dx, dy)| {
                let (x, y) = (x.checked_add_signed(*dx)?, y.checked_add_signed(*dy)?);
                (x < width && y < height).then_some(y * width + x)
            });
            at = next
                .into_iter()
                .find(|next| waiting[*next] && class(next % width, next / width) == class(x, y))
                .unwrap_or(at);
        }
    }
    found
}

/// The next pixels of an outline, straight ones first.
const NEIGHBOURS: [(isize, isize); 8] = [(1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1)];

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place = Place { left: 0, top: 0, width: 128, height: 128 };

    fn square(class: u8, from: usize, to: usize) -> Vec<u8> {
        let inside = |i: usize| (from..to).contains(&(i % 32)) && (from..to).contains(&(i / 32));
        (0..32 * 32).map(|i| if inside(i) { class } else { 0 }).collect()
    }

    fn drawn(layers: Vec<Layer>) -> Canvas {
        let panel = Panel {
            width: 32,
            height: 32,
            pixel: [1.0; 2],
            pixels: vec![[200; 3]; 32 * 32],
            layers,
            letters: None,
            caption: String::new(),
        };
        let mut canvas = Canvas::new(PLACE.width, PLACE.height, [200; 3]);
        draw(&mut canvas, PLACE, &panel);
        canvas
    }

    #[test]
    fn a_dashed_outline_has_gaps_on_every_side_and_a_solid_one_has_none() {
        let solid = drawn(vec![Layer { line: Line::Solid, classes: square(1, 8, 24) }]);
        let dashed = drawn(vec![Layer { line: Line::Dashed, classes: square(1, 8, 24) }]);
        for side in 0..4 {
            // Along the pixels at the edge, 32 to 95.
            let on = |canvas: &Canvas| {
                let place = |i: usize| [(i, 32), (i, 95), (32, i), (95, i)][side];
                (36..92).filter(|i| canvas.get(place(*i).0, place(*i).1) == of_class(1)).count()
            };
            assert_eq!(on(&solid), 56, "side {side}");
            assert!((20..50).contains(&on(&dashed)), "side {side}: {}", on(&dashed));
        }
    }

    #[test]
    fn coinciding_outlines_all_show() {
        // Truth and prediction of one class: a thin line is visible between thick dashes with dark
        // ends.
        let both = [Line::Solid, Line::Dashed].map(|line| Layer { line, classes: square(1, 8, 24) });
        let both = drawn(both.into());
        let thick = |x: usize| (30..36).filter(|y| both.get(x, *y) == of_class(1)).count();
        let found: Vec<usize> = (40..90).map(thick).collect();
        assert!([2, 4, 0].iter().all(|wide| found.contains(wide)), "{found:?}");
        // Nested regions of the same size, and a smaller one within.
        let regions = [square(1, 8, 24), square(2, 8, 24), square(3, 12, 20)];
        let regions = drawn(regions.into_iter().map(|classes| Layer { line: Line::Dashed, classes }).collect());
        for class in 1..=3 {
            assert!(regions.count(of_class(class)) > 100, "region {class}");
        }
    }

    #[test]
    fn touching_classes_are_drawn_the_same_each_time() {
        let classes = || (0..32 * 32).map(|i| (i % 32 / 2 + i / 64) as u8 % 7).collect();
        let once = || drawn(vec![Layer { line: Line::Dashed, classes: classes() }]).png().unwrap();
        assert!((0..4).all(|_| once() == once()));
    }

    #[test]
    fn a_class_that_fills_the_panel_stays_within_it() {
        let mut canvas = Canvas::new(40, 40, [9; 3]);
        let panel = Panel {
            width: 2,
            height: 2,
            pixel: [1.0; 2],
            pixels: vec![[200; 3]; 4],
            layers: vec![Layer { line: Line::Dashed, classes: vec![1; 4] }],
            letters: None,
            caption: String::new(),
        };
        draw(&mut canvas, Place { left: 10, top: 10, width: 20, height: 20 }, &panel);
        let outside = |x: usize, y: usize| !(10..30).contains(&x) || !(10..30).contains(&y);
        assert!((0..1600).all(|i| !outside(i % 40, i / 40) || canvas.get(i % 40, i / 40) == [9; 3]));
        assert!(canvas.count(of_class(1)) > 0);
    }
}
