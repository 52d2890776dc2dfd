//! Writing GeoJSON for QuPath.

use serde_json::{Value, json};

use super::{Point, Shape};

/// An object to write.
#[derive(Clone, Debug, PartialEq)]
pub struct Feature {
    /// The geometry.
    pub geometry: Geometry,
    /// The name; may be empty.
    pub name: String,
    /// The class; may be empty.
    pub class: String,
    /// Named numbers.
    pub measurements: Vec<(String, f64)>,
}

/// The geometry of an object, in pixels of level 0.
#[derive(Clone, Debug, PartialEq)]
pub enum Geometry {
    /// A point.
    Point(Point),
    /// An outline and its holes, without repeated points.
    Polygon(Vec<Vec<Point>>),
}

impl From<Shape> for Feature {
    fn from(shape: Shape) -> Self {
        let Shape { name, class, rings } = shape;
        Feature { geometry: Geometry::Polygon(rings), name, class, measurements: Vec::new() }
    }
}

impl Feature {
    fn to_json(&self) -> Value {
        let closed = |ring: &Vec<Point>| ring.iter().chain(ring.first()).copied().collect::<Vec<Point>>();
        let (geometry, kind) = match &self.geometry {
            Geometry::Point(at) => (json!({ "type": "Point", "coordinates": at }), "detection"),
            Geometry::Polygon(rings) => {
                let rings: Vec<Vec<Point>> = rings.iter().map(closed).collect();
                (json!({ "type": "Polygon", "coordinates": rings }), "annotation")
            }
        };
        let mut properties = json!({ "objectType": kind });
        if !self.name.is_empty() {
            properties["name"] = json!(self.name);
        }
        if !self.class.is_empty() {
            properties["classification"] = json!({ "name": self.class });
        }
        if !self.measurements.is_empty() {
            let numbers = self.measurements.iter().map(|(name, value)| (name.clone(), json!(value)));
            properties["measurements"] = Value::Object(numbers.collect());
        }
        json!({ "type": "Feature", "geometry": geometry, "properties": properties })
    }
}

/// A FeatureCollection.
pub fn geojson(features: &[Feature]) -> String {
    let features: Vec<Value> = features.iter().map(Feature::to_json).collect();
    json!({ "type": "FeatureCollection", "features": features }).to_string() + "\n"
}
