//! ASAP's XML, as in CAMELYON16 and CAMELYON17.

use roxmltree::{Document, Node};

use super::{Point, Shape, checked, title};
use crate::error::Fault;

/// ASAP's types without an area.
const FLAT: [&str; 3] = ["dot", "pointset", "measurement"];

/// The shapes of a document, and the number of objects without an area.
pub(super) fn read(text: &str) -> Result<(Vec<Shape>, usize), Fault> {
    let document = Document::parse(text).map_err(|error| Fault::damaged(format!("not well-formed XML: {error}")))?;
    let root = document.root_element();
    if root.tag_name().name() != "ASAP_Annotations" {
        let name = root.tag_name().name();
        return Err(Fault::unsupported(format!(
            "the root element is <{name}>, expected <ASAP_Annotations> (ASAP); other programs' annotations: export GeoJSON"
        )));
    }
    let (mut shapes, mut ignored) = (Vec::new(), 0);
    let annotations = root.descendants().filter(|node| node.has_tag_name("Annotation"));
    for (index, node) in annotations.enumerate() {
        let name = node.attribute("Name").unwrap_or_default();
        let of = title(index, name);
        let kind = node.attribute("Type").unwrap_or("Polygon").to_ascii_lowercase();
        match kind.as_str() {
            // A spline is drawn as straight lines between its points, as in ASAP's own masks.
            "polygon" | "spline" | "rectangle" => {}
            kind if FLAT.contains(&kind) => {
                ignored += 1;
                continue;
            }
            other => {
                return Err(Fault::unsupported(format!(
                    "annotation {of} is of the type {other:?}, expected Polygon, Spline or Rectangle"
                )));
            }
        }
        // ASAP closes rings itself: the first point is not repeated. Some writers repeat it.
        let mut ring = points(node, &of)?;
        if ring.len() > 1 && ring.first() == ring.last() {
            ring.pop();
        }
        let class = node.attribute("PartOfGroup").filter(|group| *group != "None").unwrap_or_default();
        shapes.push(Shape { name: name.to_owned(), class: class.to_owned(), rings: vec![checked(ring, &of)?] });
    }
    Ok((shapes, ignored))
}

/// The points of an annotation in their order.
fn points(annotation: Node<'_, '_>, of: &str) -> Result<Vec<Point>, Fault> {
    let mut points = Vec::new();
    for (place, node) in annotation.descendants().filter(|node| node.has_tag_name("Coordinate")).enumerate() {
        let number = |key: &str| {
            let text = node
                .attribute(key)
                .ok_or_else(|| Fault::damaged(format!("annotation {of}: coordinate {} has no {key}", place + 1)))?;
            // Some locales write a decimal comma.
            text.trim().replace(',', ".").parse::<f64>().map_err(|_| {
                Fault::damaged(format!("annotation {of}: coordinate {}: {key}=\"{text}\" is not a number", place + 1))
            })
        };
        let order = if node.attribute("Order").is_some() { number("Order")? } else { place as f64 };
        points.push((order, [number("X")?, number("Y")?]));
    }
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    Ok(points.into_iter().map(|(_, point)| point).collect())
}
