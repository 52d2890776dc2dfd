//! Finds the bounding box of the foreground.

use hearth_kernels::host;
use rayon::prelude::*;

use super::BoundingBox;
use crate::select::Select;
use crate::{Image, TransformError};

/// Returns the box around all voxels that `select` matches in any of the chosen channels, with a
/// margin per axis. Negative channels count from the end; `None` means all. The box is `0..0` if
/// there is no foreground.
///
/// # Errors
/// If a channel does not exist.
pub fn foreground_box(
    image: &Image,
    select: Select,
    channels: Option<&[i64]>,
    margin: [usize; 3],
    allow_smaller: bool,
) -> Result<BoundingBox, TransformError> {
    let shape = image.shape();
    let count = image.channels();
    let chosen: Vec<usize> = match channels {
        None => (0..count).collect(),
        Some(channels) => channels
            .iter()
            .map(|channel| {
                let index = if *channel < 0 { *channel + count as i64 } else { *channel };
                usize::try_from(index).ok().filter(|i| *i < count).ok_or_else(|| {
                    TransformError::new(format!("there is no channel {channel}"))
                        .expected(format!("an index within {count} channels"))
                })
            })
            .collect::<Result<_, _>>()?,
    };
    let found = match host::read(&image.data, |values| scan(values, shape, &chosen, select)) {
        Some(found) => found,
        None => scan_on_device(image, &chosen, select)?,
    };
    let Some((low, high)) = found else { return Ok(BoundingBox { start: [0; 3], end: [0; 3] }) };
    let mut region = BoundingBox { start: [0; 3], end: [0; 3] };
    for axis in 0..3 {
        let margin = i64::try_from(margin[axis]).unwrap_or(i64::MAX / 4).min(i64::MAX / 4);
        region.start[axis] = low[axis] as i64 - margin;
        region.end[axis] = high[axis] as i64 + 1 + margin;
        if allow_smaller {
            region.start[axis] = region.start[axis].max(0);
            region.end[axis] = region.end[axis].min(shape[axis] as i64);
        }
    }
    Ok(region)
}

type Corners = Option<([usize; 3], [usize; 3])>;

fn merge(a: Corners, b: Corners) -> Corners {
    match (a, b) {
        (Some((al, ah)), Some((bl, bh))) => {
            Some((std::array::from_fn(|i| al[i].min(bl[i])), std::array::from_fn(|i| ah[i].max(bh[i]))))
        }
        (found, None) | (None, found) => found,
    }
}

/// Finds the first and last foreground voxel per axis, with threads over planes.
fn scan(values: &[f32], [nx, ny, nz]: [usize; 3], channels: &[usize], select: Select) -> Corners {
    channels
        .par_iter()
        .flat_map(|c| (0..nx).into_par_iter().map(move |x| (*c, x)))
        .map(|(c, x)| {
            let plane = &values[(c * nx + x) * ny * nz..][..ny * nz];
            let mut found = None;
            for (y, row) in plane.chunks_exact(nz.max(1)).enumerate() {
                // Most rows either have no foreground, or begin and end with it: search from both
                // ends.
                if let Some((first, last)) = select.ends(row) {
                    found = merge(found, Some(([x, y, first], [x, y, last])));
                }
            }
            found
        })
        .reduce(|| None, merge)
}

/// The same by reductions on the device; only three short vectors are read back.
fn scan_on_device(image: &Image, channels: &[usize], select: Select) -> Result<Corners, TransformError> {
    let [_, nx, ny, nz] = image.data.dims();
    let mut any: Option<burn::tensor::Tensor<3>> = None;
    for c in channels {
        let one = image.data.clone().slice([*c..*c + 1, 0..nx, 0..ny, 0..nz]);
        let mask = select.mask(one).float().reshape([nx, ny, nz]);
        any = Some(match any {
            Some(any) => any + mask,
            None => mask,
        });
    }
    let Some(any) = any else { return Ok(None) };
    let mut low = [0; 3];
    let mut high = [0; 3];
    for axis in 0..3 {
        let others = [0, 1, 2].into_iter().filter(|a| *a != axis);
        let line = others.fold(any.clone(), |t, a| t.max_dim(a));
        let line: Vec<f32> = line.try_into_vec_as().map_err(|error| TransformError::of_device(&error))?;
        let Some(first) = line.iter().position(|v| *v > 0.0) else { return Ok(None) };
        low[axis] = first;
        high[axis] = line.iter().rposition(|v| *v > 0.0).unwrap_or(first);
    }
    Ok(Some((low, high)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::affine;
    use proptest::prelude::*;

    proptest! {
        /// The GPU's operations and the CPU's loop both find the true box.
        #[test]
        fn the_box_holds_the_foreground(marks in prop::collection::vec((0usize..2, 0usize..6, 0usize..5, 0usize..7), 0..4)) {
            let mut values = vec![0.0_f32; 2 * 6 * 5 * 7];
            for (c, x, y, z) in &marks {
                values[((c * 6 + x) * 5 + y) * 7 + z] = 1.5;
            }
            let image = Image::from_values(values.clone(), [2, 6, 5, 7], affine::IDENTITY, &crate::host_device());
            let expected = marks.iter().fold(None, |all, (_, x, y, z)| merge(all, Some(([*x, *y, *z], [*x, *y, *z]))));
            let select = Select::above(1.0);
            prop_assert_eq!(scan(&values, [6, 5, 7], &[0, 1], select), expected);
            prop_assert_eq!(scan_on_device(&image, &[0, 1], select).expect("an answer"), expected);
        }
    }

    #[test]
    fn channels_must_exist() {
        let image = Image::from_values(vec![0.0; 16], [2, 2, 2, 2], affine::IDENTITY, &crate::host_device());
        let found = |channel| foreground_box(&image, Select::default(), Some(&[channel]), [0; 3], false);
        assert!(found(-2).is_ok() && found(1).is_ok());
        assert!(found(-3).is_err() && found(2).is_err());
    }
}
