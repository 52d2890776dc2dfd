//! What the pages of a TIFF are: slices, or also channels and frames, as ImageJ and OME-XML describe them
//! ([`TiffStack`]).

/// The order of pages. Channels of a volume are the samples of a page, the channels of the stack, and its frames.
#[derive(Debug, PartialEq)]
pub(super) struct TiffStack {
    pub slices: usize,
    /// The number of pages from a slice to the next.
    pub step_of_slices: usize,
    /// The same of channels, and of frames.
    channels: [usize; 2],
    frames: [usize; 2],
}

impl TiffStack {
    /// The stack of this number of pages, each with some samples for a pixel. Without a description, pages are
    /// slices.
    ///
    /// # Errors
    /// Channels, slices and frames whose number is not that of the pages.
    pub fn of(description: &str, pages: usize, samples: usize) -> Result<Self, String> {
        let plain = TiffStack { slices: pages, step_of_slices: 1, channels: [1, 0], frames: [1, 0] };
        let Some(([channels, slices, frames], order)) = described(description, samples) else { return Ok(plain) };
        let product = channels.checked_mul(slices).and_then(|count| count.checked_mul(frames));
        match product {
            _ if channels <= 1 && frames <= 1 => return Ok(plain),
            Some(product) if product == pages && pages > 0 => {}
            _ => {
                return Err(format!(
                    "it is described as {channels} channels, {slices} slices and {frames} frames, and has {pages} \
                     pages; save it as one file for each channel and frame"
                ));
            }
        }
        let mut found = plain;
        found.slices = slices;
        let mut step = 1;
        for axis in order {
            match axis {
                'C' => (found.channels, step) = ([channels, step], step * channels),
                'T' => (found.frames, step) = ([frames, step], step * frames),
                _ => (found.step_of_slices, step) = (step, step * slices),
            }
        }
        Ok(found)
    }

    /// The page of the first slice of each channel of each frame.
    pub fn channels(&self) -> impl Iterator<Item = usize> {
        let ([channels, next_channel], [frames, next_frame]) = (self.channels, self.frames);
        let of_frame =
            move |frame: usize| (0..channels).map(move |channel| frame * next_frame + channel * next_channel);
        (0..frames).flat_map(of_frame)
    }
}

/// The numbers of channels, slices and frames, and their axes in the order of pages.
fn described(description: &str, samples: usize) -> Option<([usize; 3], [char; 3])> {
    if description.starts_with("ImageJ=") {
        let count = |key: &str| imagej(description, key).unwrap_or(1);
        return Some((["channels", "slices", "frames"].map(count), ['C', 'Z', 'T']));
    }
    let (_, pixels) = description.split_once("<Pixels").filter(|_| description.contains("<OME"))?;
    let pixels = &pixels[..pixels.find('>')?];
    let value = |key: &str| {
        let (_, after) = pixels.split_once(&format!(" {key}=\""))?;
        after.split_once('"').map(|(value, _)| value)
    };
    let [channels, slices, frames] =
        ["SizeC", "SizeZ", "SizeT"].map(|key| value(key).and_then(|text| text.parse().ok()));
    let channels: usize = channels.unwrap_or(1);
    let order: Vec<char> = value("DimensionOrder")?.strip_prefix("XY")?.chars().collect();
    // Colours of a page count as channels.
    let channels = if channels.is_multiple_of(samples) { channels / samples } else { channels };
    Some(([channels, slices.unwrap_or(1), frames.unwrap_or(1)], order.try_into().ok()?))
}

/// A number in a description of ImageJ, a line for each.
pub(super) fn imagej(description: &str, key: &str) -> Option<usize> {
    let lines = description.starts_with("ImageJ=").then(|| description.lines())?;
    lines.filter_map(|line| line.split_once('=')).find(|(name, _)| *name == key)?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::TiffStack;

    fn pages(description: &str, count: usize, samples: usize) -> Result<Vec<Vec<usize>>, String> {
        let stack = TiffStack::of(description, count, samples)?;
        let slices = |first: usize| (0..stack.slices).map(|slice| first + slice * stack.step_of_slices).collect();
        Ok(stack.channels().map(slices).collect())
    }

    /// The descriptions are those of tifffile 2026.3.3, which reads these axes.
    #[test]
    fn pages_are_slices_of_channels_of_frames() {
        assert_eq!(pages("", 3, 1), Ok(vec![vec![0, 1, 2]]));
        assert_eq!(pages("ImageJ=1.11a\nimages=3\nslices=3\nloop=false\n", 3, 1), Ok(vec![vec![0, 1, 2]]));
        let both = "ImageJ=1.11a\nimages=12\nchannels=2\nslices=3\nframes=2\nhyperstack=true\nmode=grayscale\n";
        assert_eq!(pages(both, 12, 1), Ok(vec![vec![0, 2, 4], vec![1, 3, 5], vec![6, 8, 10], vec![7, 9, 11]]));
        assert_eq!(pages("ImageJ=1.11a\nimages=3\nframes=3\n", 3, 1), Ok(vec![vec![0], vec![1], vec![2]]));
        let ome = |order: &str, [c, z, t]: [usize; 3]| {
            format!(
                "<?xml version=\"1.0\"?><OME xmlns=\"x\"><Image ID=\"Image:0\"><Pixels ID=\"Pixels:0\" \
                 DimensionOrder=\"{order}\" Type=\"uint8\" SizeX=\"9\" SizeY=\"8\" SizeC=\"{c}\" SizeZ=\"{z}\" \
                 SizeT=\"{t}\"><Channel/></Pixels></Image></OME>"
            )
        };
        assert_eq!(pages(&ome("XYZCT", [2, 3, 1]), 6, 1), Ok(vec![vec![0, 1, 2], vec![3, 4, 5]]));
        assert_eq!(pages(&ome("XYCZT", [2, 3, 1]), 6, 1), Ok(vec![vec![0, 2, 4], vec![1, 3, 5]]));
        assert_eq!(pages(&ome("XYCZT", [3, 2, 1]), 2, 3), Ok(vec![vec![0, 1]]), "colours");
        let error = pages(&ome("XYCZT", [2, 3, 2]), 6, 1).expect_err("too few");
        assert!(error.contains("2 channels, 3 slices and 2 frames, and has 6 pages"), "{error}");
    }
}
