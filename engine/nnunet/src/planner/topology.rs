//! Strides and kernels of a network for a patch.

/// The stages of a network for a patch.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Topology {
    /// Stride per stage and axis.
    pub strides: Vec<Vec<usize>>,
    /// Kernel per stage and axis.
    pub kernels: Vec<Vec<usize>>,
    /// The patch, enlarged to a multiple of the strides.
    pub patch: Vec<usize>,
    /// The product of the strides of each axis.
    pub divisor: Vec<usize>,
}

impl Topology {
    /// Halves the finest axes as long as they have at least eight voxels.
    pub fn new(spacing: &[f64], patch: &[f64]) -> Self {
        let dims = patch.len();
        let (mut sizes, mut spacing) = (patch.to_vec(), spacing.to_vec());
        let (mut kernel, mut divisor) = (vec![1; dims], vec![1; dims]);
        let (mut strides, mut kernels) = (vec![vec![1; dims]], Vec::new());
        loop {
            let large: Vec<usize> = (0..dims).filter(|axis| sizes[*axis] >= 8.0).collect();
            let finest = large.iter().map(|axis| spacing[*axis]).fold(f64::INFINITY, f64::min);
            let chosen: Vec<usize> = large.into_iter().filter(|axis| spacing[*axis] / finest < 2.0).collect();
            if chosen.is_empty() || (chosen.len() == 1 && sizes[chosen[0]] < 12.0) {
                break;
            }
            let least = spacing.iter().copied().fold(f64::INFINITY, f64::min);
            (0..dims).filter(|axis| spacing[*axis] / least < 2.0).for_each(|axis| kernel[axis] = 3);
            let mut stride = vec![1; dims];
            for axis in chosen {
                stride[axis] = 2;
                divisor[axis] *= 2;
                spacing[axis] *= 2.0;
                sizes[axis] = (sizes[axis] / 2.0).ceil();
            }
            strides.push(stride);
            kernels.push(kernel.clone());
        }
        kernels.push(vec![3; dims]);
        let padded =
            patch.iter().zip(&divisor).map(|(size, divisor)| (size.ceil() as usize).next_multiple_of(*divisor));
        Topology { strides, kernels, patch: padded.collect(), divisor }
    }
}
