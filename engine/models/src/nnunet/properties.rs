//! The properties that nnU-Net stores next to an image's probabilities (`NAME.pkl`), which its
//! ensembles use to write labels.

use hearth_data::Affine;
use hearth_data::nifti::{Header, LabelAffine};
use hearth_data::orientation;
use hearth_nnunet::Axes3;
use hearth_nnunet::export::Origin;
use serde_json::{Map, Value, json};

use hearth_recipe::nnunet::Grid;

/// The axes in the order of the file.
const IN_ORDER: [(usize, bool); 3] = [(0, false), (1, false), (2, false)];

/// The properties of an image whose axes were reordered by `forward`.
pub(crate) fn properties(grid: &Grid, origin: &Origin, forward: Axes3) -> Value {
    let mut spacing = [0.0; 3];
    forward.iter().zip(origin.spacing).for_each(|(axis, size)| spacing[*axis] = size);
    let bounds = &origin.bounds;
    let boxed: Vec<[usize; 2]> = (0..3).map(|axis| [bounds.start[axis], bounds.end[axis]]).collect();
    let mut found = Map::from_iter([
        ("spacing".to_owned(), json!(spacing)),
        ("shape_before_cropping".to_owned(), json!(origin.shape_before_cropping)),
        ("bbox_used_for_cropping".to_owned(), json!(boxed)),
        ("shape_after_cropping_and_before_resampling".to_owned(), json!(bounds.shape())),
    ]);
    match grid {
        Grid::Picture => {}
        Grid::Nifti { header, affine: LabelAffine::Both, turned } => {
            found.insert("sitk_stuff".to_owned(), of_simple_itk(header, *turned));
        }
        Grid::Nifti { header, affine: LabelAffine::Matrix, turned } => {
            let reoriented = turned_affine(header, turned.unwrap_or(IN_ORDER)).0;
            let kept = json!({ "original_affine": header.affine(), "reoriented_affine": reoriented });
            found.insert("nibabel_stuff".to_owned(), kept);
        }
    }
    Value::Object(found)
}

/// SimpleITK's spacing, origin and direction (x y z, LPS), and the letters of the file's axes,
/// which are used to undo a reordering of labels.
fn of_simple_itk(header: &Header, turned: Option<[(usize, bool); 3]>) -> Value {
    let dims = if header.dim.len() < 3 { 2 } else { 3 };
    let (affine, columns) = turned_affine(header, turned.unwrap_or(IN_ORDER));
    let length = |axis: usize| (0..3).map(|row| affine[row][axis].powi(2)).sum::<f64>().sqrt();
    let lps = |row: usize, value: f64| if row < 2 { -value } else { value };
    let spacing: Vec<f64> = columns[..dims].iter().map(|column| header.pixdim[column + 1]).collect();
    let origin: Vec<f64> = (0..dims).map(|row| lps(row, affine[row][3])).collect();
    let direction = |row: usize, axis: usize| lps(row, affine[row][axis]) / length(axis);
    let direction: Vec<f64> = (0..dims).flat_map(|row| (0..dims).map(move |axis| direction(row, axis))).collect();
    let letters = orientation::codes(&header.affine(), 3, &orientation::RAS_LABELS);
    json!({ "spacing": spacing, "origin": origin, "direction": direction, "original_orientation": letters })
}

/// The affine of an image whose axes (z y x) are these axes of its file, some of them reversed; and
/// for each of its axes x, y and z the file's axis, counted from x.
fn turned_affine(header: &Header, turned: [(usize, bool); 3]) -> (Affine, Axes3) {
    let (file, mut affine) = (header.affine(), header.affine());
    let columns = std::array::from_fn(|axis| 2 - turned[2 - axis].0);
    for (axis, column) in columns.into_iter().enumerate() {
        let length = header.dim.get(column).copied().unwrap_or(1);
        let flipped = turned[2 - axis].1;
        for (to, from) in affine.iter_mut().zip(&file).take(3) {
            to[axis] = if flipped { -from[column] } else { from[column] };
            if flipped {
                to[3] += from[column] * (length.max(1) - 1) as f64;
            }
        }
    }
    (affine, columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An image of 4 x 3 x 2 voxels: x points to the front, y to the left, z up.
    fn header() -> Header {
        let mut header = Header::default();
        header.dim = vec![4, 3, 2];
        header.pixdim[1..4].copy_from_slice(&[1.0, 2.0, 3.0]);
        header.sform_code = 1;
        header.srow = [[0.0, -2.0, 0.0, 10.0], [1.0, 0.0, 0.0, 20.0], [0.0, 0.0, 3.0, 30.0]];
        header
    }

    #[test]
    fn geometry_is_that_of_simple_itk() {
        let kept = of_simple_itk(&header(), None);
        assert_eq!(kept["spacing"], json!([1.0, 2.0, 3.0]));
        assert_eq!(kept["origin"], json!([-10.0, -20.0, 30.0]));
        // The first axis points to the front, -1 in LPS; the second to the left, 1.
        let direction: Vec<f64> = serde_json::from_value(kept["direction"].clone()).expect("numbers");
        assert_eq!(direction, [0.0, 1.0, 0.0, -1.0, 0.0, 0.0, 0.0, 0.0, 1.0]);
        assert_eq!(kept["original_orientation"], json!("ALS"));
    }

    #[test]
    fn a_turned_image_has_the_place_of_its_file() {
        // z stays; y is the file's x; x is the file's y, reversed.
        let turned = [(0, false), (2, false), (1, true)];
        let (affine, columns) = turned_affine(&header(), turned);
        assert_eq!(columns, [1, 0, 2]);
        let expected = [[2.0, 0.0, 0.0, 6.0], [0.0, 1.0, 0.0, 20.0], [0.0, 0.0, 3.0, 30.0], [0.0, 0.0, 0.0, 1.0]];
        assert_eq!(affine, expected);
        let kept = of_simple_itk(&header(), Some(turned));
        assert_eq!((&kept["spacing"], &kept["original_orientation"]), (&json!([2.0, 1.0, 3.0]), &json!("ALS")));
    }
}
