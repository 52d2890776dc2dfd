//! Reading tiles and regions.

fn main() {}
