//! Annotations: polygons in pixels of level 0, with names and classes.
//!
//! Read from ASAP's XML and from GeoJSON as QuPath writes it, tested against points, and drawn as
//! masks of any region at any level.

mod asap;
mod contours;
mod geojson;
mod raster;
mod write;

use std::path::{Path, PathBuf};

use crate::error::{Fault, SlideError};

pub use contours::contours;
pub use raster::Area;
pub use write::{Feature, Geometry, geojson};

/// A point, x and y in pixels of level 0: pixel `i` covers `i` to `i + 1`.
pub type Point = [f64; 2];

/// The classes that [`Pick::default`] excludes: CAMELYON16's group `_2` and names that annotators
/// use. Compared without regard to case.
pub const EXCLUDED: [&str; 6] = ["_2", "normal", "exclusion", "exclude", "ignore", "ignore*"];

/// One annotated object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shape {
    /// The name; may be empty.
    pub name: String,
    /// The class: ASAP's group, QuPath's classification; empty if it has none.
    pub class: String,
    /// Rings without a repeated last point. A point is inside if it is inside an odd number of
    /// them, so that a ring within another one is a hole.
    pub rings: Vec<Vec<Point>>,
}

/// The annotations of a slide.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Annotations {
    /// The file.
    pub path: PathBuf,
    /// Objects with an area, in the order of the file.
    pub shapes: Vec<Shape>,
    /// The number of ignored objects without an area: points, lines, measurements.
    pub ignored: usize,
}

/// A selection of classes, compared without regard to case.
#[derive(Clone, Debug, PartialEq)]
pub struct Pick {
    /// The classes that are drawn; if empty, all classes that are not excluded.
    pub include: Vec<String>,
    /// The classes that are cut out of them.
    pub exclude: Vec<String>,
}

impl Default for Pick {
    fn default() -> Self {
        Pick { include: Vec::new(), exclude: EXCLUDED.map(str::to_owned).to_vec() }
    }
}

/// The role of a shape in a [`Pick`].
#[derive(Clone, Copy, PartialEq)]
enum Role {
    Drawn,
    CutOut,
    Neither,
}

impl Pick {
    fn role(&self, class: &str) -> Role {
        let among = |names: &[String]| names.iter().any(|name| name.eq_ignore_ascii_case(class));
        match (among(&self.include), among(&self.exclude)) {
            (true, _) => Role::Drawn,
            (false, true) => Role::CutOut,
            (false, false) if self.include.is_empty() => Role::Drawn,
            (false, false) => Role::Neither,
        }
    }
}

impl Annotations {
    /// Reads a file; its content decides between XML and GeoJSON.
    ///
    /// # Errors
    /// The file is neither, is damaged, has a ring that is not closed (GeoJSON) or of fewer than
    /// three points, or a coordinate that is not a finite number.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, SlideError> {
        let path = path.as_ref();
        let bytes = hearth_files::read(path).map_err(|source| SlideError::Io { path: path.to_owned(), source })?;
        Self::from_bytes(path, &bytes)
    }

    /// Reads annotations in memory; errors name them `name`.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn from_bytes(name: impl AsRef<Path>, bytes: &[u8]) -> Result<Self, SlideError> {
        let name = name.as_ref();
        let read = || {
            let text = std::str::from_utf8(bytes).map_err(|_| Fault::damaged("not a text in UTF-8"))?;
            let text = text.trim_start_matches('\u{feff}');
            match text.trim_start().chars().next() {
                Some('<') => asap::read(text),
                Some('{' | '[') => geojson::read(text),
                _ => Err(Fault::unsupported("neither XML (ASAP) nor JSON (GeoJSON)")),
            }
        };
        let (shapes, ignored) = read().map_err(|fault| fault.of(name))?;
        if ignored > 0 {
            let what = "points, lines or measurements, which have no area";
            tracing::warn!("{}: {ignored} annotations are ignored: {what}", name.display());
        }
        Ok(Annotations { path: name.to_owned(), shapes, ignored })
    }

    /// Checks that all points lie on a slide of this size (its edges included).
    ///
    /// # Errors
    /// For the first shape that reaches outside: its name, the point and the slide's size.
    pub fn check(&self, (width, height): (usize, usize)) -> Result<(), SlideError> {
        for (index, shape) in self.shapes.iter().enumerate() {
            let beyond = |[x, y]: &&Point| !(0.0..=width as f64).contains(x) || !(0.0..=height as f64).contains(y);
            if let Some([x, y]) = shape.rings.iter().flatten().find(beyond) {
                let what = format!(
                    "annotation {} has a point at ({x}, {y}), beyond the edge of the slide of {width} x {height} pixels; \
                     are these the annotations of this slide, in pixels of level 0?",
                    title(index, &shape.name)
                );
                return Err(Fault::Damaged(what).of(&self.path));
            }
        }
        Ok(())
    }

    /// The classes in the order of their first use.
    pub fn classes(&self) -> Vec<&str> {
        let mut classes: Vec<&str> = Vec::new();
        for shape in &self.shapes {
            if !classes.contains(&shape.class.as_str()) {
                classes.push(&shape.class);
            }
        }
        classes
    }

    /// The shapes that are drawn.
    pub fn drawn(&self, pick: &Pick) -> impl Iterator<Item = &Shape> {
        self.shapes.iter().filter(move |shape| pick.role(&shape.class) == Role::Drawn)
    }

    /// Whether a point lies in a drawn shape and in none that is cut out.
    pub fn contains(&self, point: Point, pick: &Pick) -> bool {
        let within =
            |role: Role| self.shapes.iter().any(|shape| pick.role(&shape.class) == role && shape.contains(point));
        within(Role::Drawn) && !within(Role::CutOut)
    }
}

impl Shape {
    /// Whether a point lies inside an odd number of rings.
    pub fn contains(&self, [x, y]: Point) -> bool {
        let crossings = self.edges().filter(|[a, b]| raster::crossing(*a, *b, y).is_some_and(|at| at <= x)).count();
        crossings % 2 == 1
    }

    /// The smallest box around the shape: left, top, right, bottom.
    pub fn bounds(&self) -> [f64; 4] {
        let start = [f64::INFINITY, f64::INFINITY, f64::NEG_INFINITY, f64::NEG_INFINITY];
        self.rings.iter().flatten().fold(start, |[l, t, r, b], [x, y]| [l.min(*x), t.min(*y), r.max(*x), b.max(*y)])
    }

    /// All edges, including those that close rings.
    fn edges(&self) -> impl Iterator<Item = [Point; 2]> {
        let pairs = |ring: &Vec<Point>| {
            let next = ring.iter().skip(1).chain(ring.first());
            ring.iter().zip(next).map(|(a, b)| [*a, *b]).collect::<Vec<_>>()
        };
        self.rings.iter().flat_map(pairs)
    }
}

/// The name of a shape in messages.
fn title(index: usize, name: &str) -> String {
    if name.is_empty() { format!("{} (without a name)", index + 1) } else { format!("{} ({name:?})", index + 1) }
}

/// Checks a ring without a repeated last point.
fn checked(ring: Vec<Point>, of: &str) -> Result<Vec<Point>, Fault> {
    if let Some([x, y]) = ring.iter().find(|point| !point.iter().all(|v| v.is_finite())) {
        return Err(Fault::damaged(format!("annotation {of}: a point at ({x}, {y}); coordinates must be finite")));
    }
    if ring.len() < 3 {
        let count = ring.len();
        return Err(Fault::damaged(format!("annotation {of}: a ring of {count} points; an area has at least 3")));
    }
    Ok(ring)
}
