//! Layers of networks, and small ones with everything that is unusual.

use hearth_cudnn::{Axis, Convolution, Direction, Element, Layout};

pub const DIRECTIONS: [Direction; 3] = [Direction::Forward, Direction::DataGradient, Direction::FilterGradient];
pub const LAYOUTS: [Layout; 2] = [Layout::ChannelsLast, Layout::ChannelsFirst];
pub const ELEMENTS: [Element; 3] = [Element::F32, Element::Bf16, Element::F16];

/// A layer with equal axes: batch, channels of input and output, size, kernel, stride.
pub fn cube([batch, channels_in, channels_out, size, kernel, stride]: [usize; 6]) -> Convolution {
    Convolution {
        direction: Direction::Forward,
        batch,
        channels_in,
        channels_out,
        axes: vec![Axis { size, kernel, stride, padding: kernel / 2, dilation: 1 }; 3],
        groups: 1,
        layout: Layout::ChannelsLast,
        element: Element::F32,
        epilogue: None,
    }
}

/// A layer in all directions, layouts and types.
pub fn variants(layer: &Convolution) -> Vec<Convolution> {
    let mut all = Vec::new();
    for direction in DIRECTIONS {
        for layout in LAYOUTS {
            for element in ELEMENTS {
                all.push(Convolution { direction, layout, element, ..layer.clone() });
            }
        }
    }
    all
}

/// Layers that are small enough for plain loops.
pub fn small() -> Vec<Convolution> {
    let uneven = |size, kernel, stride, padding, dilation| Axis { size, kernel, stride, padding, dilation };
    let base = cube([2, 3, 4, 5, 3, 1]);
    vec![
        cube([1, 1, 1, 3, 1, 1]),
        base.clone(),
        cube([2, 3, 4, 5, 3, 2]),
        cube([1, 8, 3, 4, 1, 1]),
        cube([1, 2, 2, 4, 2, 2]),
        Convolution { groups: 2, channels_in: 4, channels_out: 6, ..base.clone() },
        Convolution { groups: 3, channels_in: 3, channels_out: 3, ..base.clone() },
        Convolution { axes: vec![uneven(6, 3, 2, 1, 1), uneven(5, 1, 1, 0, 1), uneven(7, 3, 1, 2, 2)], ..base.clone() },
        Convolution { axes: vec![uneven(6, 3, 1, 1, 1), uneven(7, 2, 3, 0, 2)], ..base },
    ]
}

/// Convolutions of UNet (16 to 256 channels at 96^3), nnU-Net (32 to 320 at 128^3), SegResNet and
/// SwinUNETR, those of the script that recorded what cuDNN 9.28.1 answers first.
pub const OF_NETWORKS: [[usize; 6]; 22] = [
    [4, 1, 16, 96, 3, 2],
    [4, 16, 16, 48, 3, 1],
    [4, 32, 32, 24, 3, 1],
    [4, 32, 64, 24, 3, 2],
    [4, 64, 64, 12, 3, 1],
    [4, 256, 256, 6, 3, 1],
    [2, 1, 32, 128, 3, 1],
    [2, 32, 32, 128, 3, 1],
    [2, 32, 64, 128, 3, 2],
    [2, 64, 64, 64, 3, 1],
    [2, 128, 128, 32, 3, 1],
    [2, 256, 256, 16, 3, 1],
    [2, 320, 320, 8, 3, 1],
    [2, 32, 3, 128, 1, 1],
    [1, 48, 48, 96, 3, 1],
    [1, 16, 16, 192, 3, 1],
    [1, 4, 8, 96, 3, 1],
    [1, 16, 32, 64, 3, 2],
    [1, 64, 128, 16, 1, 1],
    [1, 1, 48, 96, 2, 2],
    [1, 768, 768, 3, 3, 1],
    [1, 96, 14, 96, 1, 1],
];
