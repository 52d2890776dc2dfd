//! [`Volume`]: the channels of a volume as a plain array.

use rayon::prelude::*;

/// A number per axis, z y x.
pub type Axes3<T = usize> = [T; 3];

/// A volume `[channel, z, y, x]`, the last axis fastest.
#[derive(Clone, Debug, PartialEq)]
pub struct Volume<T = f32> {
    /// The number of channels.
    pub channels: usize,
    /// The shape z, y, x.
    pub shape: Axes3,
    /// The values.
    pub data: Vec<T>,
}

impl<T: Copy + Send + Sync + Default> Volume<T> {
    /// Creates a volume from values; `None` unless their number matches the shape.
    pub fn new(channels: usize, shape: Axes3, data: Vec<T>) -> Option<Self> {
        (channels * shape.iter().product::<usize>() == data.len()).then_some(Volume { channels, shape, data })
    }

    /// Creates a volume of default values.
    pub fn zeros(channels: usize, shape: Axes3) -> Self {
        Volume { channels, shape, data: vec![T::default(); channels * shape.iter().product::<usize>()] }
    }

    /// The number of voxels of one channel.
    pub fn voxels(&self) -> usize {
        self.shape.iter().product()
    }

    /// The values of one channel.
    pub fn channel(&self, index: usize) -> &[T] {
        let n = self.voxels();
        &self.data[index * n..][..n]
    }

    /// Reorders the axes: axis `a` of the result is axis `order[a]` of this volume.
    #[must_use]
    pub fn transposed(self, order: Axes3) -> Self {
        if order == [0, 1, 2] {
            return self;
        }
        let strides = [self.shape[1] * self.shape[2], self.shape[2], 1];
        let (shape, steps) = (order.map(|axis| self.shape[axis]), order.map(|axis| strides[axis]));
        let mut data = vec![T::default(); self.data.len()];
        let plane = shape[1] * shape[2];
        if plane > 0 {
            data.par_chunks_mut(plane).enumerate().for_each(|(index, out)| {
                let (channel, first) = (index / shape[0], index % shape[0]);
                let source = self.channel(channel);
                for (b, row) in out.chunks_mut(shape[2]).enumerate() {
                    let from = first * steps[0] + b * steps[1];
                    for (c, value) in row.iter_mut().enumerate() {
                        *value = source[from + c * steps[2]];
                    }
                }
            });
        }
        Volume { channels: self.channels, shape, data }
    }

    /// The part from `start` to `end` (exclusive).
    #[must_use]
    pub fn cropped(&self, start: Axes3, end: Axes3) -> Self {
        let shape: Axes3 = std::array::from_fn(|axis| end[axis] - start[axis]);
        let mut data = Vec::with_capacity(self.channels * shape.iter().product::<usize>());
        for channel in 0..self.channels {
            let source = self.channel(channel);
            for z in start[0]..end[0] {
                for y in start[1]..end[1] {
                    let row = (z * self.shape[1] + y) * self.shape[2];
                    data.extend_from_slice(&source[row + start[2]..row + end[2]]);
                }
            }
        }
        Volume { channels: self.channels, shape, data }
    }

    /// Places this volume at `start` in a larger volume filled with `fill`.
    #[must_use]
    pub fn placed(&self, shape: Axes3, start: Axes3, fill: T) -> Self {
        let voxels = shape.iter().product::<usize>();
        let mut data = vec![fill; self.channels * voxels];
        for channel in 0..self.channels {
            let (source, target) = (self.channel(channel), &mut data[channel * voxels..][..voxels]);
            for z in 0..self.shape[0] {
                for y in 0..self.shape[1] {
                    let from = (z * self.shape[1] + y) * self.shape[2];
                    let to = ((z + start[0]) * shape[1] + y + start[1]) * shape[2] + start[2];
                    target[to..to + self.shape[2]].copy_from_slice(&source[from..from + self.shape[2]]);
                }
            }
        }
        Volume { channels: self.channels, shape, data }
    }
}

#[cfg(test)]
mod tests {
    use super::Volume;

    #[test]
    fn axes_change_places_and_parts_come_back() {
        let volume = Volume::new(2, [2, 3, 4], (0..48).collect()).expect("48 values");
        let turned = volume.clone().transposed([2, 0, 1]);
        assert_eq!(turned.shape, [4, 2, 3]);
        assert_eq!(turned.channel(1)[6 + 2], 24 + 8 + 1);
        assert_eq!(turned.transposed([1, 2, 0]), volume);
        let part = volume.cropped([0, 1, 2], [2, 3, 4]);
        assert_eq!((part.shape, &part.channel(0)[..4]), ([2, 2, 2], &[6, 7, 10, 11][..]));
        assert_eq!(part.placed([2, 3, 4], [0, 1, 2], 0).cropped([0, 1, 2], [2, 3, 4]), part);
        assert!(Volume::new(1, [2, 2, 2], vec![0.0; 7]).is_none());
    }
}
