//! GeoJSON (RFC 7946) in pixels of level 0, as QuPath writes it.

use serde_json::Value;

use super::{Point, Shape, checked, title};
use crate::error::Fault;

/// Geometries without an area.
const FLAT: [&str; 4] = ["Point", "MultiPoint", "LineString", "MultiLineString"];

/// The shapes of a document, and the number of objects without an area.
pub(super) fn read(text: &str) -> Result<(Vec<Shape>, usize), Fault> {
    let root: Value = serde_json::from_str(text).map_err(|error| Fault::damaged(format!("not JSON: {error}")))?;
    let list = |value: &Value| value.as_array().cloned();
    let features = match (root["type"].as_str(), &root) {
        (Some("FeatureCollection"), _) => {
            list(&root["features"]).ok_or_else(|| Fault::damaged("a FeatureCollection without a list `features`"))?
        }
        (Some(_), _) => vec![root],
        // QuPath can write a bare list of features.
        (None, Value::Array(features)) => features.clone(),
        (None, Value::Object(table)) => {
            let keys: Vec<&str> = table.keys().take(4).map(String::as_str).collect();
            return Err(unknown_root(&format!("a table of {keys:?} without a `type`")));
        }
        (None, _) => return Err(unknown_root("neither a table nor a list")),
    };
    let (mut shapes, mut ignored) = (Vec::new(), 0);
    for (index, feature) in features.iter().enumerate() {
        let (geometry, properties) = match feature["type"].as_str() {
            Some("Feature") => (&feature["geometry"], &feature["properties"]),
            _ => (feature, &Value::Null),
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let name = text(&properties["name"]);
        let class = match &properties["classification"] {
            Value::Null => text(&properties["class"]),
            Value::String(class) => class.clone(),
            table => text(&table["name"]),
        };
        let of = title(index, if name.is_empty() { &class } else { &name });
        let mut rings = Vec::new();
        match gather(geometry, &of, &mut rings)? {
            0 => ignored += 1,
            _ => shapes.push(Shape { name, class, rings }),
        }
    }
    Ok((shapes, ignored))
}

fn unknown_root(what: &str) -> Fault {
    Fault::unsupported(format!("{what}; expected GeoJSON: a FeatureCollection, a Feature, or a list of features"))
}

/// Adds the rings of a geometry; returns their number.
fn gather(geometry: &Value, of: &str, rings: &mut Vec<Vec<Point>>) -> Result<usize, Fault> {
    let before = rings.len();
    let kind = geometry["type"].as_str().unwrap_or_default();
    let coordinates = &geometry["coordinates"];
    let parts = |value: &Value| {
        value
            .as_array()
            .cloned()
            .ok_or_else(|| Fault::damaged(format!("annotation {of}: a {kind} without coordinates")))
    };
    match kind {
        "Polygon" => {
            for part in parts(coordinates)? {
                rings.push(ring(&part, of)?);
            }
        }
        "MultiPolygon" => {
            for polygon in parts(coordinates)? {
                for part in parts(&polygon)? {
                    rings.push(ring(&part, of)?);
                }
            }
        }
        "GeometryCollection" => {
            for part in parts(&geometry["geometries"])? {
                gather(&part, of, rings)?;
            }
        }
        kind if FLAT.contains(&kind) => {}
        _ if geometry.is_null() => {}
        other => {
            let what = format!("annotation {of}: a geometry of the type {other:?}, expected Polygon or MultiPolygon");
            return Err(Fault::unsupported(what));
        }
    }
    Ok(rings.len() - before)
}

/// A ring, which must end with its first point.
fn ring(value: &Value, of: &str) -> Result<Vec<Point>, Fault> {
    let point = |value: &Value| {
        let number = |index: usize| value.get(index).and_then(Value::as_f64);
        match (number(0), number(1)) {
            (Some(x), Some(y)) => Ok([x, y]),
            _ => Err(Fault::damaged(format!("annotation {of}: {value} is not a point [x, y]"))),
        }
    };
    let points = value.as_array().ok_or_else(|| Fault::damaged(format!("annotation {of}: a ring is not a list")))?;
    let mut points = points.iter().map(point).collect::<Result<Vec<Point>, Fault>>()?;
    if let (Some(first), Some(last)) = (points.first(), points.last()) {
        if first != last {
            let (first, last) = (format!("{first:?}"), format!("{last:?}"));
            return Err(Fault::damaged(format!(
                "annotation {of}: a ring is not closed: it begins at {first} and ends at {last}; GeoJSON repeats the first point"
            )));
        }
        points.pop();
    }
    checked(points, of)
}
