//! Export to STL and OBJ.

use std::fmt::Write as _;

use crate::Mesh;
use crate::mesh::{cross, minus, norm};

/// The coordinate system of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Space {
    /// X to the left, Y to the back, Z up: the system of DICOM, and of 3D Slicer for mesh files.
    #[default]
    Lps,
    /// X to the right, Y to the front, Z up: the system of NIfTI.
    Ras,
}

impl Space {
    fn name(self) -> &'static str {
        match self {
            Space::Lps => "LPS",
            Space::Ras => "RAS",
        }
    }

    fn of(self, [x, y, z]: [f64; 3]) -> [f64; 3] {
        match self {
            // Subtraction from 0 avoids minus zero.
            Space::Lps => [0.0 - x, 0.0 - y, z],
            Space::Ras => [x, y, z],
        }
    }
}

impl Mesh {
    /// Encodes a binary STL file in mm. The header contains `SPACE=LPS` or `SPACE=RAS`, which 3D
    /// Slicer reads.
    pub fn to_stl(&self, space: Space) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(84 + 50 * self.faces.len());
        let mut header = format!("Surface written by Hearth. Units are mm. SPACE={}", space.name()).into_bytes();
        header.resize(80, b' ');
        bytes.extend(header);
        bytes.extend((self.faces.len() as u32).to_le_bytes());
        for face in &self.faces {
            let corners = self.corners(*face).map(|corner| space.of(corner));
            let [a, b, c] = corners;
            let normal = cross(minus(b, a), minus(c, a));
            let length = norm(normal);
            let unit = if length > 0.0 { normal.map(|v| v / length) } else { [0.0; 3] };
            for vector in [unit, a, b, c] {
                vector.iter().for_each(|v| bytes.extend((*v as f32).to_le_bytes()));
            }
            bytes.extend([0, 0]);
        }
        bytes
    }

    /// Encodes an OBJ file in mm, with the name of the object. The first line contains `SPACE=LPS`
    /// or `SPACE=RAS`, which 3D Slicer reads.
    pub fn to_obj(&self, name: &str, space: Space) -> String {
        let name: String = name.chars().map(|c| if c.is_whitespace() || c.is_control() { '_' } else { c }).collect();
        let mut text = format!("# Surface written by Hearth. Units are mm. SPACE={}\no {name}\n", space.name());
        for vertex in &self.vertices {
            let [x, y, z] = space.of(*vertex);
            let _ = writeln!(text, "v {x:.6} {y:.6} {z:.6}");
        }
        for [a, b, c] in &self.faces {
            let _ = writeln!(text, "f {} {} {}", a + 1, b + 1, c + 1);
        }
        text
    }
}
