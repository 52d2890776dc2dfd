//! Segments that may overlap, in layers: a voxel has one label in each layer, and segments of different
//! layers may share voxels.

use std::collections::BTreeSet;

use hearth_image::{Image, host_device};

use super::{Segment, surfaces};

/// An image with a channel for each layer, and its segments, each with a layer.
#[derive(Debug)]
pub(crate) struct Layers {
    pub image: Image,
    pub segments: Vec<Segment>,
}

impl Layers {
    /// The layers of an image.
    ///
    /// A label map is one layer. The channels of an image whose segments name layers, or that has no
    /// segments, are its layers. Otherwise each channel is the segment of its place, and has values from 0 to
    /// 1, of which those from 0.5 on are within it; segments that do not overlap share a layer.
    /// Labels without a segment get one, named `Segment_1` and so on.
    ///
    /// # Errors
    /// Values that are not labels, and segments that do not suit the channels.
    pub fn of(image: &Image, segments: &[Segment]) -> Result<Self, String> {
        let channels = image.channels();
        let placed = segments.iter().any(|segment| segment.layer.is_some());
        if channels == 1 || placed || segments.is_empty() {
            Self::stored(image, segments)
        } else {
            Self::of_regions(image, segments)
        }
    }

    fn stored(image: &Image, segments: &[Segment]) -> Result<Self, String> {
        let channels = image.channels();
        let mut all = Vec::new();
        for segment in segments {
            let layer = segment.layer.unwrap_or(0);
            if layer >= channels {
                let (name, number) = (&segment.name, layer + 1);
                return Err(format!("{name:?} is in layer {number}, and the image has {channels} channels"));
            }
            all.push(Segment { layer: Some(layer), ..segment.clone() });
        }
        let values = image.to_vec();
        let size = values.len() / channels.max(1);
        for (layer, of_layer) in values.chunks(size.max(1)).enumerate() {
            for label in surfaces::labels(of_layer)? {
                let has = |segment: &Segment| segment.layer == Some(layer) && segment.label == label;
                if !all.iter().any(has) {
                    let number = if channels == 1 { label as usize } else { all.len() + 1 };
                    let segment = Segment::new(label, format!("Segment_{number}"));
                    all.push(Segment { layer: Some(layer), ..segment });
                }
            }
        }
        all.sort_by_key(|segment| (segment.layer, segment.label));
        let pair = all.windows(2).find(|pair| (pair[0].layer, pair[0].label) == (pair[1].layer, pair[1].label));
        if let Some([a, b]) = pair {
            return Err(format!("{:?} and {:?} are the label {} of one layer", a.name, b.name, a.label));
        }
        Ok(Self { image: image.clone(), segments: all })
    }

    fn of_regions(image: &Image, segments: &[Segment]) -> Result<Self, String> {
        let [channels, nx, ny, nz] = image.data.dims();
        if segments.len() != channels {
            let names: Vec<&str> = segments.iter().map(|segment| segment.name.as_str()).collect();
            return Err(format!(
                "the image has {channels} channels, and {} segments are named ({}); expected one for each channel",
                segments.len(),
                names.join(", ")
            ));
        }
        let values = image.to_vec();
        let mut layers: Vec<(Vec<f32>, BTreeSet<u32>)> = Vec::new();
        let mut all = Vec::new();
        for (channel, segment) in values.chunks((nx * ny * nz).max(1)).zip(segments) {
            if let Some(value) = channel.iter().find(|value| !(0.0..=1.0).contains(*value)) {
                let name = &segment.name;
                return Err(format!("a voxel of {name:?} has the value {value}; expected 0 (outside) to 1 (inside)"));
            }
            let channel: Vec<f32> = channel.iter().map(|value| f32::from(u8::from(*value >= 0.5))).collect();
            let label = segment.label.max(1);
            let free = |(layer, labels): &(Vec<f32>, BTreeSet<u32>)| {
                !labels.contains(&label) && !channel.iter().zip(layer).any(|(new, old)| *new != 0.0 && *old != 0.0)
            };
            let place = layers.iter().position(free).unwrap_or_else(|| {
                layers.push((vec![0.0; channel.len()], BTreeSet::new()));
                layers.len() - 1
            });
            let (layer, labels) = &mut layers[place];
            for (old, _) in layer.iter_mut().zip(&channel).filter(|(_, new)| **new != 0.0) {
                *old = label as f32;
            }
            labels.insert(label);
            all.push(Segment { label, layer: Some(place), ..segment.clone() });
        }
        let count = layers.len();
        let values = layers.into_iter().flat_map(|(layer, _)| layer).collect();
        let layers = Image::from_values(values, [count, nx, ny, nz], image.affine, &host_device());
        let image = Image { meta: image.meta.clone(), ..layers };
        Ok(Self { image, segments: all })
    }

    /// Names of segments in a file, which are unique: their own, unless another segment has it.
    pub fn ids(&self) -> Vec<String> {
        let mut taken = BTreeSet::new();
        let mut own = Vec::new();
        for segment in &self.segments {
            own.push(segment.id.clone().filter(|id| !id.is_empty() && taken.insert(id.clone())));
        }
        let mut id = |(segment, own): (&Segment, Option<String>)| {
            own.unwrap_or_else(|| {
                let label = segment.label;
                let mut id = format!("Segment_{label}");
                let mut number = 2;
                while !taken.insert(id.clone()) {
                    id = format!("Segment_{label}_{number}");
                    number += 1;
                }
                id
            })
        };
        self.segments.iter().zip(own).map(&mut id).collect()
    }

    /// Whether each voxel is within each segment, one channel of 0 and 1 for each.
    pub fn channels(&self) -> Vec<f32> {
        let values = self.image.to_vec();
        let size = values.len() / self.image.channels().max(1);
        let mut out = Vec::with_capacity(size * self.segments.len());
        for segment in &self.segments {
            let layer = &values[segment.layer.unwrap_or(0) * size..][..size];
            out.extend(layer.iter().map(|value| f32::from(u8::from(*value == segment.label as f32))));
        }
        out
    }
}

/// Converts layers, or a channel for each segment, to a label map with one channel.
///
/// # Errors
/// Segments that share a voxel or a label, by name, and the errors of an image whose segments do not suit
/// its channels.
///
/// ```
/// use hearth_image::{Image, affine, host_device};
/// use hearth_io::writers::{Segment, label_map};
///
/// let regions = Image::from_values(vec![1.0, 1.0, 0.0, 1.0], [2, 2, 1, 1], affine::IDENTITY, &host_device());
/// let segments = [Segment::new(1, "whole"), Segment::new(2, "core")];
/// let error = label_map(&regions, &segments).expect_err("they overlap");
/// assert!(error.contains("whole") && error.contains("core"));
/// ```
pub fn label_map(image: &Image, segments: &[Segment]) -> Result<Image, String> {
    if image.channels() == 1 {
        return Ok(image.clone());
    }
    let advice = "a label map has one label for each voxel; write a .seg.nrrd, which has layers";
    let layers = Layers::of(image, segments)?;
    let all = &layers.segments;
    let same = |at: usize| (0..at).find(|other| all[*other].label == all[at].label).map(|other| (other, at));
    if let Some((a, b)) = (0..all.len()).find_map(same) {
        let (a, b, label) = (&all[a].name, &all[b].name, all[a].label);
        return Err(format!("{a:?} and {b:?} both have the label {label}; {advice}"));
    }
    let channels = layers.channels();
    let size = channels.len() / all.len().max(1);
    let mut values = vec![0.0_f32; size];
    let mut shared: Vec<(u32, u32, usize)> = Vec::new();
    for (segment, channel) in all.iter().zip(channels.chunks(size.max(1))) {
        for (value, _) in values.iter_mut().zip(channel).filter(|(_, inside)| **inside != 0.0) {
            if *value != 0.0 {
                let pair = (*value as u32, segment.label);
                match shared.iter_mut().find(|(a, b, _)| (*a, *b) == pair) {
                    Some((.., count)) => *count += 1,
                    None => shared.push((pair.0, pair.1, 1)),
                }
            }
            *value = segment.label as f32;
        }
    }
    if !shared.is_empty() {
        let name = |label: u32| all.iter().find(|of| of.label == label).map_or("", |of| of.name.as_str());
        let pairs: Vec<String> =
            shared.iter().map(|(a, b, count)| format!("{:?} and {:?} ({count})", name(*a), name(*b))).collect();
        return Err(format!("segments share voxels: {}; {advice}", pairs.join(", ")));
    }
    let [_, nx, ny, nz] = image.data.dims();
    let map = Image::from_values(values, [1, nx, ny, nz], image.affine, &host_device());
    let mut meta = image.meta.clone();
    meta.original_channel_dim = None;
    Ok(Image { meta, ..map })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_image::affine::IDENTITY;

    fn image(values: &[f32], channels: usize) -> Image {
        let shape = [channels, values.len() / channels, 1, 1];
        Image::from_values(values.to_vec(), shape, IDENTITY, &host_device())
    }

    #[test]
    fn regions_share_a_layer_unless_they_overlap() {
        let regions = image(&[1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0], 3);
        let segments = [Segment::new(1, "whole"), Segment::new(2, "core"), Segment::new(4, "other")];
        let layers = Layers::of(&regions, &segments).expect("layers");
        assert_eq!(layers.image.to_vec(), [1.0, 1.0, 4.0, 0.0, 0.0, 2.0, 0.0, 0.0]);
        assert_eq!(layers.segments.iter().map(|of| of.layer).collect::<Vec<_>>(), [Some(0), Some(1), Some(0)]);
        assert_eq!(layers.channels(), regions.to_vec());
    }

    #[test]
    fn ids_never_repeat() {
        let layers = image(&[1.0, 2.0, 1.0, 0.0, 1.0, 1.0], 3);
        let layers = Layers::of(&layers, &[]).expect("layers");
        assert_eq!(layers.ids(), ["Segment_1", "Segment_2", "Segment_1_2", "Segment_1_3"]);
        assert_eq!(layers.segments.iter().map(|of| &of.name[..]).collect::<BTreeSet<_>>().len(), 4);
        // Those of a file are kept, and two that are the same become different.
        let mut of_file = layers;
        for (segment, id) in of_file.segments.iter_mut().zip(["liver", "Segment_1", "liver", ""]) {
            segment.id = Some(id.to_owned());
        }
        assert_eq!(of_file.ids(), ["liver", "Segment_1", "Segment_1_2", "Segment_1_3"]);
    }

    #[test]
    fn segments_that_do_not_suit_the_channels_are_refused() {
        let two = image(&[1.0, 0.0, 1.0, 1.0], 2);
        let error = |image: &Image, segments: &[Segment]| Layers::of(image, segments).expect_err("refused");
        let liver = Segment::new(1, "liver");
        assert!(error(&two, std::slice::from_ref(&liver)).contains("2 channels, and 1 segments"));
        let third = Segment { layer: Some(2), ..liver.clone() };
        assert!(error(&two, &[third]).contains("layer 3"));
        let first = Segment { layer: Some(0), ..liver.clone() };
        let twice = [first.clone(), Segment { name: "spleen".to_owned(), ..first }];
        assert!(error(&two, &twice).contains("spleen"));
        assert!(error(&image(&[1.5, 1.0, 0.0, 0.0], 2), &[liver.clone(), Segment::new(2, "b")]).contains("1.5"));
        assert!(error(&image(&[-1.0, 1.0], 1), &[liver]).contains("-1"));
    }

    #[test]
    fn a_label_map_has_no_overlap_and_no_label_twice() {
        let apart = image(&[1.0, 0.0, 0.0, 1.0], 2);
        let segments = [Segment::new(3, "liver"), Segment::new(7, "tumour")];
        assert_eq!(label_map(&apart, &segments).expect("a map").to_vec(), [3.0, 7.0]);
        let shared = image(&[1.0, 1.0, 0.0, 1.0], 2);
        let error = label_map(&shared, &segments).expect_err("they overlap");
        assert!(error.contains("\"liver\" and \"tumour\" (1)"), "{error}");
        let error = label_map(&apart, &[]).expect_err("one label");
        assert!(error.contains("Segment_1") && error.contains("Segment_2") && error.contains("label 1"), "{error}");
    }
}
