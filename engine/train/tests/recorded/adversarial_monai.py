"""Records MONAI's AdversarialTrainer: the three losses of every iteration, from given weights.

    python adversarial_monai.py > adversarial_monai.json

MONAI 1.6.1, PyTorch 2.15, CPU. The generator is a UNet that denoises 8 x 8 images, the discriminator
a PatchDiscriminator; both take steps of SGD. In MONAI's trainer what is real is the image, so the
image is its label here. The discriminator's outputs before the last are features.
"""

import json

import torch
from monai.engines import AdversarialTrainer
from monai.losses import PatchAdversarialLoss
from monai.networks.nets import PatchDiscriminator, UNet

torch.manual_seed(0)
generator = UNet(2, 1, 1, channels=(4, 8), strides=(2,), num_res_units=0)
discriminator = PatchDiscriminator(2, channels=4, in_channels=1, num_layers_d=1)
weights = {
    name: {k: {"shape": list(v.shape), "values": v.flatten().tolist()} for k, v in net.state_dict().items()}
    for name, net in (("generator", generator), ("discriminator", discriminator))
}
batches = [torch.rand(2, 1, 8, 8) for _ in range(3)]
loss = PatchAdversarialLoss(criterion="least_squares")
losses, events = [], []

trainer = AdversarialTrainer(
    device="cpu",
    max_epochs=2,
    train_data_loader=[{"image": b, "label": b} for b in batches],
    g_network=generator,
    g_optimizer=torch.optim.SGD(generator.parameters(), lr=0.05, momentum=0.9),
    g_loss_function=lambda logits: 0.5 * loss(logits[-1], True, False),
    recon_loss_function=torch.nn.MSELoss(),
    d_network=discriminator,
    d_optimizer=torch.optim.SGD(discriminator.parameters(), lr=0.1, momentum=0.9),
    d_loss_function=lambda reals, fakes: (loss(reals[-1], True, True) + loss(fakes[-1], False, True)) / 2,
    decollate=False,
)


def note(engine):
    out = engine.state.output
    losses.append([float(out[k]) for k in ("reconstruction_loss", "generator_loss", "discriminator_loss")])


from ignite.engine import Events
from monai.utils.enums import AdversarialIterationEvents as A

trainer.add_event_handler(Events.ITERATION_COMPLETED, note)
for event in A:
    trainer.add_event_handler(event, lambda _, name=event.value: events.append(name))
trainer.run()
print(
    json.dumps(
        {
            "weights": weights,
            "batches": [b.flatten().tolist() for b in batches],
            # generator_loss has the factor 0.5
            "losses": losses,
            "events": events[: len(events) // 6],
        }
    )
)
