//! Checks that every registered network, loss, metric, optimizer, schedule and inferer can be used
//! through a recipe, for a training step or for measuring a case.

mod bounds;
mod networks;
mod parts;
mod small;
