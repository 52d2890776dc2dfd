//! The legend of the outlines.

use std::collections::BTreeSet;

use hearth_pictures::colours::{FAINT, TEXT, of_class};
use hearth_pictures::{Canvas, text};

use super::panel::{Line, Panel};

/// The length of a sample line.
const SAMPLE: usize = 34;
/// Pixels between sample and word, and between entries.
const GAP: usize = 8;
const BETWEEN: usize = 26;

enum Entry {
    Class(u8, String),
    Line(Line, &'static str),
    Words(String),
}

/// The legend: names of the classes in the panels, in their colours, and the meaning of solid and
/// dashed lines.
pub struct Legend(Vec<Entry>);

impl Legend {
    /// The legend of these panels. `names` are those of class 1, 2, ...; a class without a name is
    /// shown as its number.
    pub fn new<'a>(panels: impl IntoIterator<Item = &'a Panel>, names: &[String]) -> Self {
        let (mut classes, mut lines) = (BTreeSet::new(), [false; 2]);
        for panel in panels {
            classes.extend(panel.classes());
            for layer in &panel.layers {
                lines[usize::from(layer.line == Line::Dashed)] = true;
            }
        }
        let name = |class: u8| names.get(usize::from(class) - 1).cloned().unwrap_or_else(|| format!("class {class}"));
        let mut entries: Vec<Entry> = classes.into_iter().map(|class| Entry::Class(class, name(class))).collect();
        if entries.is_empty() && lines.contains(&true) {
            entries.push(Entry::Words("nothing is outlined in these slices".into()));
        }
        if lines[0] {
            entries.push(Entry::Line(Line::Solid, "label"));
        }
        if lines[1] {
            entries.push(Entry::Line(Line::Dashed, "prediction"));
        }
        Self(entries)
    }

    /// Appends further words.
    pub fn with(mut self, words: Option<String>) -> Self {
        self.0.extend(words.map(Entry::Words));
        self
    }

    /// The height at this width.
    pub fn height(&self, width: usize) -> usize {
        self.places(width).last().map_or(0, |(_, top)| top + text::line_height(text::BODY))
    }

    /// Draws the legend at this width.
    pub fn draw(&self, canvas: &mut Canvas, left: usize, top: usize, width: usize) {
        let size = text::BODY;
        let middle = text::line_height(size) / 2;
        for (entry, (x, y)) in self.0.iter().zip(self.places(width)) {
            let (x, y) = (left + x, top + y);
            match entry {
                Entry::Class(class, name) => {
                    canvas.fill(x, y + middle - 4, SAMPLE / 2, 9, of_class(usize::from(*class)));
                    canvas.text(x + SAMPLE / 2 + GAP, y, size, TEXT, name);
                }
                Entry::Line(line, words) => {
                    match line {
                        Line::Solid => canvas.fill(x, y + middle, SAMPLE, 2, TEXT),
                        Line::Dashed => (0..3).for_each(|dash| canvas.fill(x + dash * 13, y + middle - 1, 8, 4, TEXT)),
                    }
                    canvas.text(x + SAMPLE + GAP, y, size, FAINT, words);
                }
                Entry::Words(words) => {
                    canvas.text(x, y, size, FAINT, words);
                }
            }
        }
    }

    /// The position of each entry: in lines, from left to right.
    fn places(&self, width: usize) -> Vec<(usize, usize)> {
        let (mut x, mut y) = (0, 0);
        let place = |entry: &Entry| {
            let wide = match entry {
                Entry::Class(_, name) => SAMPLE / 2 + GAP + text::width(text::BODY, name),
                Entry::Line(_, words) => SAMPLE + GAP + text::width(text::BODY, words),
                Entry::Words(words) => text::width(text::BODY, words),
            };
            if x > 0 && x + wide > width {
                (x, y) = (0, y + text::line_height(text::BODY));
            }
            let place = (x, y);
            x += wide + BETWEEN;
            place
        };
        self.0.iter().map(place).collect()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
