//! Everything that can be named can be used: each network, loss, metric, optimizer, schedule and
//! inferer of the registry trains a step, or measures a case, through a recipe.

mod networks;
mod parts;
mod small;
