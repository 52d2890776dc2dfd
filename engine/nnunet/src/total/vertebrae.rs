//! Renumbers the bodies of touching vertebrae, as TotalSegmentator's task `vertebrae_pp` does.

use hearth_kernels::label::components;

use super::blobs::voxels_of;
use crate::error::{NnunetError, Result};
use crate::volume::{Axes3, Volume};

/// The labels of C1 and of L5: the first and the last.
const C1: u16 = 1;
const L5: u16 = 24;

/// Bodies below this size in mm³ are removed if vertebrae touch.
const SMALLEST: f64 = 100.0;

/// The dilation in mm that undoes the erosion of the training labels.
const DILATION: f64 = 3.0;

/// Gives each body one label if labels of several vertebrae touch, from bottom to top or, in images
/// of the head, from top to bottom; then dilates each body by 3 mm into background. `voxels` is the
/// voxel size in mm, z y x.
///
/// # Errors
/// A volume beyond the size limits for components.
pub fn separate_vertebrae(labels: &mut Volume<u16>, voxels: Axes3<f64>) -> Result<()> {
    if touch(labels) {
        renumber(labels, voxels)?;
    }
    dilate(labels, voxels);
    Ok(())
}

/// Whether two different labels share a face.
fn touch(labels: &Volume<u16>) -> bool {
    let [nz, ny, nx] = labels.shape;
    let at = |z: usize, y: usize, x: usize| labels.data[(z * ny + y) * nx + x];
    let differ = |a: u16, b: u16| a > 0 && b > 0 && a != b;
    (0..nz).any(|z| {
        (0..ny).any(|y| {
            (0..nx).any(|x| {
                let one = at(z, y, x);
                (z + 1 < nz && differ(one, at(z + 1, y, x)))
                    || (y + 1 < ny && differ(one, at(z, y + 1, x)))
                    || (x + 1 < nx && differ(one, at(z, y, x + 1)))
            })
        })
    })
}

fn renumber(labels: &mut Volume<u16>, voxels: Axes3<f64>) -> Result<()> {
    let found = components(&labels.data, &labels.shape, 1).map_err(|error| NnunetError::case(error.to_string()))?;
    let of = found.labels();
    let least = voxels_of(SMALLEST, voxels);
    let kept: Vec<bool> = found.regions().iter().map(|region| region.size as f64 >= least).collect();
    // The height of each body's centre: the sum of its voxels' positions, and their number.
    let mut heights = vec![(0_u64, 0_u64); kept.len()];
    let plane = labels.shape[1] * labels.shape[2];
    let mut present: Vec<u16> = Vec::new();
    for (index, (component, label)) in of.iter().zip(&labels.data).enumerate().filter(|(_, (of, _))| **of > 0) {
        let component = *component as usize - 1;
        if kept[component] {
            heights[component].0 += (index / plane) as u64;
            heights[component].1 += 1;
            if !present.contains(label) {
                present.push(*label);
            }
        }
    }
    let from_top = present.contains(&C1) && !present.contains(&L5);
    let first = if from_top { C1 } else { present.iter().copied().max().unwrap_or(0) };
    let height = |body: usize| heights[body].0 as f64 / heights[body].1.max(1) as f64;
    let mut order: Vec<usize> = (0..kept.len()).filter(|body| kept[*body]).collect();
    order.sort_by(|a, b| if from_top { height(*b).total_cmp(&height(*a)) } else { height(*a).total_cmp(&height(*b)) });
    let mut numbers = vec![0_u16; kept.len()];
    for (place, body) in order.into_iter().enumerate() {
        let place = place as u16;
        let number = if from_top { Some(first + place).filter(|label| *label <= L5) } else { first.checked_sub(place) };
        numbers[body] = number.unwrap_or(0);
    }
    found.paint(&mut labels.data, |body| Some(numbers[body]));
    Ok(())
}

/// Adds to each label, in order, the background within [`DILATION`] of it.
fn dilate(labels: &mut Volume<u16>, voxels: Axes3<f64>) {
    let radii = voxels.map(|size| DILATION / f64::from(size as f32));
    let steps: [Vec<isize>; 3] = radii.map(|radius| (-(radius as isize)..=radius as isize).collect());
    let mut ball = Vec::new();
    for z in &steps[0] {
        for y in &steps[1] {
            for x in &steps[2] {
                let at = [*z, *y, *x];
                if at.iter().zip(&radii).map(|(step, radius)| (*step as f64 / radius).powi(2)).sum::<f64>() <= 1.0 {
                    ball.push(at);
                }
            }
        }
    }
    let shape @ [_, ny, nx] = labels.shape;
    let mut added = vec![0_u16; labels.data.len()];
    for (index, label) in labels.data.iter().enumerate().filter(|(_, label)| **label > 0) {
        let at = [index / (ny * nx), index / nx % ny, index % nx];
        for step in &ball {
            let moved: [Option<usize>; 3] = std::array::from_fn(|axis| {
                at[axis].checked_add_signed(step[axis]).filter(|moved| *moved < shape[axis])
            });
            let [Some(z), Some(y), Some(x)] = moved else { continue };
            let target = (z * ny + y) * nx + x;
            // The lowest label that reaches a voxel gets it.
            if labels.data[target] == 0 && (added[target] == 0 || added[target] > *label) {
                added[target] = *label;
            }
        }
    }
    labels.data.iter_mut().zip(added).filter(|(_, added)| *added > 0).for_each(|(label, added)| *label = added);
}
