//! Generates images from random numbers.

use hearth_data::Image;
use hearth_data::affine::IDENTITY;
use hearth_nn::networks::Network;
use hearth_train::Post;

use crate::run::trained::Trained;
use hearth_recipe::{Outcome, RecipeError};

impl Trained {
    /// Generates image number `index` of a seed, after the chain of `[post] prediction`. It does
    /// not depend on the number of images. Its voxels have a size of 1 mm.
    ///
    /// # Errors
    /// A run whose task does not generate images.
    pub fn generate(&self, seed: u64, index: u64) -> Outcome<Image> {
        if !self.plan.recipe.learns().generates() {
            return Err(RecipeError::new("this run makes predictions of images; it generates none from nothing"));
        }
        let latents = self.plan.latents()?.draw(seed, &[index], 1, &self.plan.device);
        self.network.check_input(latents.dims())?;
        let made = self.network.forward(latents).cast(burn::tensor::DType::F32);
        let image = Image::new(made.squeeze_dim(0), IDENTITY).with_spatial_dims(self.network.spatial_dims());
        let steps = self.plan.post_prediction()?;
        let made = Post::finish(&steps, image, &format!("image {index}"));
        made.map_err(|error| RecipeError::new(error.to_string()))
    }
}
