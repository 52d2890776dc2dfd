//! All workgroups of a launch, one after the other.

use crate::machine::{Group, State, Unit};
use crate::matrices::{PLANE, together};
use crate::parse::Kernel;

/// A kernel with all that it is started with.
pub struct Launch<'a> {
    /// The kernel.
    pub kernel: &'a Kernel,
    /// Workgroups along each axis.
    pub groups: [u32; 3],
    /// Units of a workgroup along each axis.
    pub units: [u32; 3],
    /// Bytes of shared memory.
    pub shared: usize,
    /// The parameters, each at its offset.
    pub parameters: &'a [u8],
}

impl Launch<'_> {
    /// Runs it, and counts the instructions of all units.
    ///
    /// Shared memory is full of ones at first, so that what reads it before anything was written is no number.
    ///
    /// # Errors
    /// What a card would refuse: addresses beyond shared memory or not aligned, units of a plane that do not
    /// come to a product of matrices together; and what is not known here.
    pub fn run(&self) -> Result<u64, String> {
        let [x, y, z] = self.groups;
        let units: u32 = self.units.iter().product();
        let mut count = 0;
        for place in (0..z).flat_map(|c| (0..y).flat_map(move |b| (0..x).map(move |a| [a, b, c]))) {
            let mut group = Group {
                kernel: self.kernel,
                parameters: self.parameters,
                shared: vec![0xff; self.shared],
                place,
                groups: self.groups,
                units: self.units,
            };
            let mut units: Vec<_> = (0..units).map(|place| Unit::new(place, self.kernel.registers)).collect();
            workgroup(&mut units, &mut group).map_err(|e| format!("{}, workgroup {place:?}: {e}", self.kernel.name))?;
            count += units.iter().map(|unit| unit.count).sum::<u64>();
        }
        Ok(count)
    }
}

fn workgroup(units: &mut [Unit], group: &mut Group<'_>) -> Result<(), String> {
    loop {
        for plane in units.chunks_mut(PLANE) {
            loop {
                for unit in plane.iter_mut() {
                    unit.run(group).map_err(|e| format!("unit {}: {e}", unit.place))?;
                }
                if plane.iter().all(|unit| unit.state != State::Meets) {
                    break;
                }
                together(plane, group)?;
            }
        }
        if units.iter().all(|unit| unit.state == State::Ended) {
            return Ok(());
        }
        // A card does not wait for units that have ended, either.
        for unit in units.iter_mut().filter(|unit| unit.state == State::Waits) {
            unit.state = State::Runs;
        }
    }
}
